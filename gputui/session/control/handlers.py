"""The owner's desk: takes a request from the wire, has it carried out, and gives the reply when it is durable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gputui import __version__
from gputui.core.events import Refusal
from gputui.core.job import Job, JobId, StateName, Waiting
from gputui.core.mode import Mode
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES
from gputui.core.views.outlook import any_can_start
from gputui.core.views.why import why
from gputui.session.owner.reload_plan import reload_plan
from gputui.session.owner.requests import Begin, ChooseMetric, Commands, Forget, Load, OpenSession
from gputui.session.owner.ticket import CommitFailed, OwnerGone, Ticket

from . import wire
from .json_shapes import attempt_json, job_json, lanes_json, row_json, scheduler_json, story_json
from .result_json import attempt_results_json, curves_json, metric_json, results_json

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner

EXPLAINED = 300
"""So many waiting jobs are told in full why they wait; further back only how many are ahead."""

Reply = Callable[[bytes], None]


class Desk:
    """Works in the owner's thread; what takes long is done elsewhere, from a snapshot."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._under_way: dict[str, list[Reply]] = {}
        """By request: who waits for it. One that is repeated before it is durable is not carried out again either."""

    def answer(self, body: bytes, reply: Reply) -> None:
        try:
            request = wire.decode(body)
        except msgspec.MsgspecError as error:
            reply(wire.no("bad_request", f"the request is not understood: {error}"))
            return
        self.answer_request(request, reply)

    def answer_request(self, request: wire.SocketRequest, reply: Reply) -> None:
        if request.v != wire.VERSION:
            reply(wire.no("bad_request", f"the owner (gputui {__version__}) speaks another version"))
            return
        ask = request.ask
        match ask:
            case Commands() | Load() | Begin() | OpenSession() | Forget() | ChooseMetric():
                self._write(request.uuid, ask, reply)
            case wire.Listing():
                self._list(ask, reply)
            case wire.HandOver() | wire.Leave():
                reply(wire.no("bad_request", "that is asked over the socket only"))
            case _:
                self._read(ask, reply)

    # Requests that change something

    def _write(self, uuid: str, ask: wire.Write, reply: Reply) -> None:
        before = self._owner.reply_to(uuid)
        if before is not None:
            reply(before)
            return
        if uuid in self._under_way:
            self._under_way[uuid].append(reply)
            return
        self._under_way[uuid] = [reply]
        ticket: Ticket[Any] = Ticket(ask, uuid)
        ticket.reply = _answer
        ticket.when_done(self._answered)
        self._owner.take(ticket)

    def _answered(self, ticket: Ticket[Any]) -> None:
        answer = _answer(ticket)
        for reply in self._under_way.pop(ticket.uuid or "", ()):
            reply(answer)

    # Requests that only look

    def _read(self, ask: wire.Read, reply: Reply) -> None:
        try:
            reply(wire.ok(self._seen(ask)))
        except Refusal as refusal:
            reply(wire.no("refused", str(refusal)))

    def _seen(self, ask: wire.Read) -> Any:
        match ask:
            case wire.Show():
                return self._show(ask)
            case wire.PickJobs():
                return self._pick(ask)
            case wire.Lanes():
                devices = self._owner.devices
                return {
                    "lanes": lanes_json(self._owner.snapshot),
                    "sample": devices.sample,
                    "pids": devices.pids | devices.leftovers,
                    "leftovers": devices.leftovers,
                }
            case wire.Follow(jobs=jobs):
                snapshot = self._owner.snapshot
                seen = [snapshot[job] for job in jobs if job in snapshot]
                waits = snapshot.mode is Mode.RUNNING and any_can_start(snapshot, (job.id for job in seen))
                return {"jobs": seen, "goes_on": bool(snapshot.active) or waits, **self._status()}
            case wire.Reload(specs=specs, groups=groups):
                return reload_plan(self._owner.snapshot.jobs, specs, groups)
            case wire.Curves(jobs=jobs, attempt=attempt, metric=metric):
                found = {job: self._owner.curves(job, attempt) for job in jobs}
                return {job: curves_json(curves, metric) for job, curves in found.items()}
            case wire.Sources():
                return list(self._owner.sources.values())
        return self._status()

    def _status(self) -> dict[str, Any]:
        snapshot = self._owner.snapshot
        return {
            "scheduler": scheduler_json(snapshot, owned=self._owner.places),
            "owner": self._owner_json(),
            "counts": snapshot.counts,
            "active": sorted(snapshot.active),
            "waiting": snapshot.waiting,
            "eta": snapshot.eta,
            "trouble": snapshot.trouble,
            "notices": self._owner.notices,
            "settings": self._owner.scheduler.settings,
            "layout": {"prefix": self._owner.identity.prefix, "job_dir": self._owner.identity.job_dir},
        }

    def _owner_json(self) -> dict[str, Any] | None:
        owner = self._owner
        if not owner.places:
            return None  # a client that answers itself owns only for this moment
        who = {"pid": os.getpid(), "kind": owner.kind, "since": owner.since, "version": __version__}
        return who | owner.presence()

    def _show(self, ask: wire.Show) -> dict[str, Any]:
        owner = self._owner
        job = owner.scheduler.job(ask.job)
        known = owner.results_of(job.id)
        return {
            **job_json(job, owner.folders, why(owner.scheduler, job, time.time()) or owner.devices.remark(job)),
            **results_json(owner.snapshot, job),
            "spec": job.spec,
            "archived": job.archived,
            "folder": owner.folders.folder(job),
            "environment": owner.environment(job.spec.environment) if ask.environment else None,
            "attempts": [
                attempt_json(job, attempt, owner.folders) | attempt_results_json(known.get(attempt.number))
                for attempt in job.attempts
            ],
            "story": story_json(job, owner.story(job.id)),
        }

    def _list(self, ask: wire.Listing, reply: Reply) -> None:
        """Put together in another thread: a hundred thousand jobs take a while."""
        owner = self._owner
        snapshot, now = owner.snapshot, time.time()
        line = list(owner.scheduler.book.line)
        whys = {place.job: why(owner.scheduler, owner.scheduler.book[place.job], now) for place in line[:EXPLAINED]}
        whys |= {job: owner.devices.remark(snapshot[job]) for job in snapshot.active}
        ahead = {place.job: number for number, place in enumerate(line)}

        def make() -> bytes:
            try:
                return listed()
            except Exception as error:
                return wire.no("internal", f"the owner failed at this: {error!r}")

        def listed() -> bytes:
            told = ((job, whys.get(job.id) or _far_back(job, ahead)) for job in _wanted(snapshot, ask))
            jobs = [
                (row_json(job, why) if ask.rows else job_json(job, owner.folders, why)) | results_json(snapshot, job)
                for job, why in told
            ]
            return wire.ok({"session": owner.paths.root, **self._head(snapshot), "jobs": jobs})

        owner.loop.run_in_thread(make, reply)

    def _head(self, snapshot: Snapshot) -> dict[str, Any]:
        return {
            "scheduler": scheduler_json(snapshot, owned=self._owner.places),
            "owner": self._owner_json(),
            "counts": snapshot.counts,
            "eta": snapshot.eta,
            "trouble": snapshot.trouble,
            "metric": metric_json(snapshot.metric),
            "best": snapshot.best,
        }

    def _pick(self, ask: wire.PickJobs) -> dict[str, Any]:
        snapshot = self._owner.snapshot
        picked: dict[JobId, Job] = {}
        missing: list[str] = []
        book = self._owner.scheduler.book
        for low, high in ask.ids:
            there = range(max(low, book.first_id), min(high + 1, book.next_id))
            found = [snapshot[id] for id in there if not snapshot[id].archived]
            picked.update({job.id: job for job in found})
            missing += [] if found else [f"#{low}" if low == high else f"#{low}-{high}"]
        for name in ask.names:
            named = [snapshot[id] for id in book.named.get(name, ()) if not snapshot[id].archived]
            picked.update({job.id: job for job in named})
            missing += [] if named else [name]
        picked.update({job.id: job for job in self._by_state(ask, snapshot)})
        return {"jobs": [_brief(picked[id]) for id in sorted(picked)], "missing": missing}

    def _by_state(self, ask: wire.PickJobs, snapshot: Snapshot) -> list[Job]:
        found: list[Job] = []
        crashed = snapshot.cause.jobs if snapshot.cause is not None else ()
        if ask.failed:
            found += [snapshot[id] for id in crashed if not snapshot[id].archived]
        all_failed = ask.all_failed or (ask.failed and not crashed)
        if all_failed or ask.succeeded or ask.all:
            wanted = set(FAILURES if all_failed else ())
            wanted |= {StateName.SUCCEEDED} if ask.succeeded else set()
            found += [job for job in snapshot if ask.all or job.state.name in wanted]
        return found


def _answer(ticket: Ticket[Any]) -> bytes:
    try:
        return wire.ok(ticket.outcome())
    except CommitFailed as not_durable:
        return wire.no("not_durable", str(not_durable))
    except Refusal as refusal:
        return wire.no("refused", str(refusal))
    except OwnerGone as gone:
        return wire.no("internal", str(gone))
    except Exception as error:
        return wire.no("internal", f"the owner failed at this: {error!r}")


def _far_back(job: Job, ahead: dict[JobId, int]) -> str | None:
    return f"{ahead[job.id]} jobs are ahead of it" if isinstance(job.state, Waiting) and job.id in ahead else None


def _wanted(snapshot: Snapshot, ask: wire.Listing) -> list[Job]:
    jobs = list(snapshot) if ask.jobs is None else [snapshot[id] for id in ask.jobs if id in snapshot]
    return [job for job in jobs if not job.archived and (ask.states is None or job.state.name in ask.states)]


def _brief(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state.name,
        "attempt": job.issued,
        "priority": job.priority,
    }
