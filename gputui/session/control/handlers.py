"""The owner's desk: takes a request from the wire, has it carried out, and gives the reply when it is durable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from gputui import __version__
from gputui.core.amounts import counted
from gputui.core.events import Refusal
from gputui.core.job import FAILURES, Job, JobId, StateName, Waiting
from gputui.core.snapshot import Snapshot, crashed_jobs
from gputui.session.devices.samplers import held_by
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import OwnerGone, Ticket
from gputui.session.loading import reload_plan
from gputui.session.messages import (
    VERSION,
    Commands,
    Curves,
    Follow,
    Followed,
    HandOver,
    Lanes,
    LanesShown,
    LayoutShown,
    Leave,
    Listed,
    ListedRows,
    Listing,
    LookRequest,
    OwnerShown,
    PickedJob,
    PickedJobs,
    PickJobs,
    SessionStatus,
    Show,
    ShownJob,
)
from gputui.session.owner.requests import Begin, ChooseMetric, Forget, Load, OpenSession, Reload, Sources
from gputui.session.result_requests import ResultsQuestion, SummaryQuestion
from gputui.views.status import any_can_start, starts_jobs
from gputui.views.waiting import why

from . import server
from .answers import (
    attempt_results,
    job_results,
    listed_job,
    main_metric,
    outlook_shown,
    points_of,
    remark,
    row,
    scheduler_shown,
    shown_attempt,
    shown_job,
    shown_lanes,
    story_lines,
    told_results,
    told_summary,
)

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner
    from gputui.session.session_copy import SessionCopy


EXPLAINED = 300
"""So many waiting jobs are told in full why they wait; further back only how many are ahead."""

Reply = Callable[[bytes], None]


class Desk:
    """Works in the owner's thread; what takes long is done elsewhere, from a snapshot."""

    def __init__(self, owner: Owner | SessionCopy) -> None:
        self._owner = owner
        self._under_way: dict[str, list[Reply]] = {}
        """By request: who waits for it. One that is repeated before it is durable is not carried out again either."""

    def answer(self, body: bytes, reply: Reply) -> None:
        try:
            request = server.decode(body)
        except msgspec.MsgspecError as error:
            reply(server.no("bad_request", f"the request is not understood: {error}"))
            return
        self.answer_request(request, reply)

    def answer_request(self, request: server.SocketRequest, reply: Reply) -> None:
        if request.v != VERSION:
            reply(server.no("bad_request", f"the owner (gputui {__version__}) speaks another version"))
            return
        ask = request.ask
        match ask:
            case Commands() | Load() | Begin() | OpenSession() | Forget() | ChooseMetric():
                self._write(request.uuid, ask, reply)
            case Listing():
                self._list(ask, reply)
            case ResultsQuestion() | SummaryQuestion():
                self._tell_results(ask, reply)
            case HandOver() | Leave() | LookRequest():
                reply(server.no("bad_request", "that is asked over the socket only"))
            case _:
                self._read(ask, reply)

    # Requests that change something

    def _write(self, uuid: str, ask: server.Write, reply: Reply) -> None:
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

    def _read(self, ask: server.Read, reply: Reply) -> None:
        try:
            reply(server.ok(self._seen(ask)))
        except Refusal as refusal:
            reply(server.no("refused", str(refusal)))

    def _seen(self, ask: server.Read) -> Any:
        match ask:
            case Show():
                return self._show(ask)
            case PickJobs():
                return self._pick(ask)
            case Lanes():
                devices = self._owner.devices
                pids = devices.pids | devices.leftovers
                lanes, settings = shown_lanes(self._owner.snapshot), self._owner.scheduler.settings
                held = held_by(self._owner.scheduler)
                return LanesShown(lanes, devices.sample, pids, devices.leftovers, held, settings.partition)
            case Follow(jobs=jobs):
                return self._follow(jobs)
            case Reload(specs=specs, groups=groups):
                return reload_plan(self._owner.snapshot.jobs, specs, groups)
            case Curves(jobs=jobs, attempt=attempt, metric=metric):
                return {job: points_of(self._owner.curves(job, attempt), metric) for job in jobs}
            case Sources():
                return list(self._owner.sources.values())
        return SessionStatus(**self._status())

    def _follow(self, ids: list[JobId]) -> Followed:
        snapshot = self._owner.snapshot
        jobs = [snapshot[job] for job in ids if job in snapshot]
        waits = starts_jobs(snapshot) and any_can_start(snapshot, (job.id for job in jobs))
        return Followed(jobs=jobs, goes_on=bool(snapshot.active) or waits, **self._status())

    def _status(self) -> dict[str, Any]:
        owner, snapshot = self._owner, self._owner.snapshot
        return {
            **self._head(snapshot),
            "active": sorted(snapshot.active),
            "waiting": snapshot.waiting,
            "notices": owner.notices,
            "settings": owner.scheduler.settings,
            "layout": LayoutShown(owner.identity.prefix, owner.identity.job_dir),
            "cluster": owner.devices.cluster_name,
        }

    def _owner_shown(self) -> OwnerShown | None:
        owner = self._owner
        if not owner.places:
            return None  # a client that answers itself owns only for this moment
        return OwnerShown(os.getpid(), owner.kind, owner.since, __version__, **owner.presence())

    def _show(self, ask: Show) -> ShownJob:
        owner = self._owner
        job = owner.scheduler.job(ask.job)
        results_by_attempt = owner.results_of(job.id)
        return shown_job(
            job,
            owner.folders,
            job_results(owner.snapshot, job, time.time()),
            why(owner.scheduler, job, time.time()) or remark(owner, job, time.time()),
            environment=owner.environment(job.spec.environment) if ask.environment else None,
            attempts=[
                shown_attempt(job, attempt, owner.folders, attempt_results(results_by_attempt.get(attempt.number)))
                for attempt in job.attempts
            ],
            story=story_lines(job, owner.story(job.id)),
        )

    def _list(self, ask: Listing, reply: Reply) -> None:
        """Put together in another thread: a hundred thousand jobs take a while."""
        owner = self._owner
        snapshot, now = owner.snapshot, time.time()
        line = list(owner.scheduler.book.line)
        waiting = [*owner.scheduler.submitted, *(place.job for place in line)]
        whys = {job: remark(owner, snapshot[job], now) for job in snapshot.active}
        whys |= {job: why(owner.scheduler, owner.scheduler.book[job], now) for job in waiting[:EXPLAINED]}
        ahead = {place.job: number for number, place in enumerate(line)}

        def make() -> bytes:
            try:
                return listed()
            except Exception as error:
                return server.no("internal", f"the owner failed at this: {error!r}")

        def listed() -> bytes:
            jobs_with_why = ((job, whys.get(job.id) or _far_back(job, ahead)) for job in _wanted(snapshot, ask))
            head = self._head(snapshot)
            if ask.rows:
                rows = [row(job, job_results(snapshot, job, now), why) for job, why in jobs_with_why]
                return server.ok(ListedRows(session=owner.paths.root, jobs=rows, **head))
            jobs = [listed_job(job, owner.folders, job_results(snapshot, job, now), why) for job, why in jobs_with_why]
            return server.ok(Listed(session=owner.paths.root, jobs=jobs, **head))

        owner.loop.run_in_thread(make, reply)

    def _tell_results(self, ask: ResultsQuestion | SummaryQuestion, reply: Reply) -> None:
        owner, snapshot = self._owner, self._owner.snapshot
        spans = owner.spans() if isinstance(ask, SummaryQuestion) else []

        def make() -> bytes:
            try:
                if isinstance(ask, ResultsQuestion):
                    return server.ok(told_results(snapshot, ask.metric, ask.top))
                return server.ok(told_summary(snapshot, ask.metric, ask.left, spans))
            except Refusal as refusal:
                return server.no("refused", str(refusal))
            except Exception as error:
                return server.no("internal", f"the owner failed at this: {error!r}")

        owner.loop.run_in_thread(make, reply)

    def _head(self, snapshot: Snapshot) -> dict[str, Any]:
        return {
            "scheduler": scheduler_shown(snapshot, owned=self._owner.places),
            "owner": self._owner_shown(),
            "counts": snapshot.counts,
            "engine": self._owner.scheduler.board.engine,
            "eta": snapshot.eta,
            "outlook": outlook_shown(snapshot),
            "trouble": snapshot.trouble,
            "metric": main_metric(snapshot.metric),
            "best": snapshot.best,
        }

    def _pick(self, ask: PickJobs) -> PickedJobs:
        snapshot = self._owner.snapshot
        picked: dict[JobId, Job] = {}
        missing: list[str] = []
        book = self._owner.scheduler.book
        for low, high in ask.ids:
            there = range(max(low, book.first_id), min(high + 1, book.next_id))
            in_range = [snapshot[id] for id in there if not snapshot[id].archived]
            picked.update({job.id: job for job in in_range})
            missing += [] if in_range else [f"#{low}" if low == high else f"#{low}-{high}"]
        for name in ask.names:
            named = [snapshot[id] for id in book.named.get(name, ()) if not snapshot[id].archived]
            picked.update({job.id: job for job in named})
            missing += [] if named else [name]
        picked.update({job.id: job for job in self._by_state(ask, snapshot)})
        return PickedJobs([_picked(picked[id]) for id in sorted(picked)], missing)

    def _by_state(self, ask: PickJobs, snapshot: Snapshot) -> list[Job]:
        jobs: list[Job] = []
        crashed = crashed_jobs(snapshot)
        if ask.failed:
            jobs += [snapshot[id] for id in crashed if not snapshot[id].archived]
        all_failed = ask.all_failed or (ask.failed and not crashed)
        if all_failed or ask.succeeded or ask.all:
            wanted = set(FAILURES if all_failed else ())
            wanted |= {StateName.SUCCEEDED} if ask.succeeded else set()
            jobs += [job for job in snapshot if ask.all or job.state.name in wanted]
        return jobs


def _answer(ticket: Ticket[Any]) -> bytes:
    try:
        return server.ok(ticket.outcome())
    except CommitFailed as not_durable:
        return server.no("not_durable", str(not_durable))
    except Refusal as refusal:
        return server.no("refused", str(refusal))
    except OwnerGone as gone:
        return server.no("internal", str(gone))
    except Exception as error:
        return server.no("internal", f"the owner failed at this: {error!r}")


def _far_back(job: Job, ahead: dict[JobId, int]) -> str | None:
    if not isinstance(job.state, Waiting) or job.id not in ahead:
        return None
    return f"{counted(ahead[job.id], 'job is', 'jobs are')} ahead of it"


def _wanted(snapshot: Snapshot, ask: Listing) -> list[Job]:
    jobs = list(snapshot) if ask.jobs is None else [snapshot[id] for id in ask.jobs if id in snapshot]
    return [job for job in jobs if not job.archived and (ask.states is None or job.state.name in ask.states)]


def _picked(job: Job) -> PickedJob:
    return PickedJob(job.id, job.name, job.state.name, job.issued, job.priority)
