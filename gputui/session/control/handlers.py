"""Handling of requests in the owner's thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gputui import __version__
from gputui.core.amounts import counted
from gputui.core.events import Refusal
from gputui.core.job import FAILURES, Job, JobId, StateName, Waiting
from gputui.core.snapshot import Snapshot
from gputui.session.devices.samplers import held_cluster_gpus
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import OwnerGone, Ticket
from gputui.session.loading import reload_plan
from gputui.session.messages import (
    Curves,
    Follow,
    Followed,
    Layout,
    Listed,
    ListedRows,
    Listing,
    OwnerShown,
    PickedJob,
    PickedJobs,
    PickJobs,
    ScreenRequest,
    SessionStatus,
    Show,
    ShownJob,
    Slots,
    SlotsShown,
    StatusQuestion,
)
from gputui.session.owner.requests import Reload, ResultsQuestion, Sources, SummaryQuestion
from gputui.views.results_table import results_table
from gputui.views.status import any_can_start, starts_jobs
from gputui.views.summary import summarize
from gputui.views.waiting import failed_jobs

from . import answers, server
from .watch import Watchers

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner
    from gputui.session.session_copy import SessionCopy


EXPLAINED = 300
"""Maximum number of waiting jobs that are listed with a full explanation. Jobs further back only get their position."""

Reply = Callable[[bytes], None]


class RequestHandler:
    """The handler of all requests to an owner. A write is answered once it is durable. A slow read is computed in the
    loop's worker thread.
    """

    def __init__(self, owner: Owner | SessionCopy, watchers: Watchers | None = None) -> None:
        """Answer requests for `owner`. Without `watchers`, requests of read-only screens are refused."""
        self._owner = owner
        self._watchers = watchers
        self._pending: dict[str, list[Reply]] = {}
        """Callbacks that wait for a write, by request uuid. If a write is repeated before it is durable, it is not
        carried out again.
        """

    def answer(self, request: server.SocketRequest, reply: Reply) -> None:
        ask = request.ask
        try:
            if isinstance(ask, server.Write):
                self._write(request.uuid, ask, reply)
                return
            value = self._read(ask)
        except Refusal as refusal:
            reply(server.no("refused", str(refusal)))
            return
        if callable(value):
            self._owner.loop.run_in_thread(lambda: _encode_outcome(value), reply)
        else:
            reply(server.ok(value))

    def _write(self, uuid: str, ask: server.Write, reply: Reply) -> None:
        earlier_reply = self._owner.store.reply_to(uuid)
        if earlier_reply is not None:
            reply(earlier_reply)
            return
        if uuid in self._pending:
            self._pending[uuid].append(reply)
            return
        self._pending[uuid] = [reply]
        ticket: Ticket[Any] = Ticket(ask, uuid)
        ticket.reply = lambda ticket: _encode_outcome(ticket.outcome)
        ticket.when_done(self._on_done)
        self._owner.submit(ticket)

    def _on_done(self, ticket: Ticket[Any]) -> None:
        answer = _encode_outcome(ticket.outcome)
        for reply in self._pending.pop(ticket.uuid or "", ()):
            reply(answer)

    def _read(self, ask: server.Read) -> Any:
        """Return the reply or, if it takes long to compute, a function that computes it from the current snapshot and
        can run outside the owner's thread.
        """
        owner, snapshot = self._owner, self._owner.snapshot
        match ask:
            case Show():
                return self._show(ask)
            case PickJobs():
                return self._pick(ask)
            case StatusQuestion():
                return SessionStatus(**self._status())
            case Slots():
                devices = owner.devices
                return SlotsShown(
                    slots=answers.shown_slots(snapshot),
                    sample=devices.sample,
                    pids=devices.pids | devices.leftovers,
                    leftovers=devices.leftovers,
                    held=held_cluster_gpus(owner.scheduler),
                    partition=owner.scheduler.settings.partition,
                )
            case Follow(jobs=ids):
                jobs = [snapshot[job] for job in ids if job in snapshot]
                can_start = starts_jobs(snapshot) and any_can_start(snapshot, (job.id for job in jobs))
                return Followed(jobs=jobs, has_work=bool(snapshot.active) or can_start, **self._status())
            case Reload(specs=specs, groups=groups):
                return reload_plan(snapshot.jobs, specs, groups)
            case Curves(jobs=ids, attempt=attempt, metric=name):
                return {job: answers.points_of(owner.results.curves(job, attempt), name) for job in ids}
            case Sources():
                return list(owner.sources.values())
            case Listing():
                return self._prepare_listing(ask)
            case ResultsQuestion(metric=metric, top=top):

                def best_results() -> Any:
                    table = results_table(snapshot, answers.find_metric(snapshot, metric))
                    return replace(table, rows=table.rows[:top])

                return best_results
            case SummaryQuestion(metric=metric, left=left):
                spans = owner.store.spans()
                return lambda: summarize(snapshot, time.time(), spans, left, answers.find_metric(snapshot, metric))
        if isinstance(ask, ScreenRequest) and self._watchers is not None:
            return self._watchers.read(ask)
        raise Refusal("only available over the socket")

    def _status(self) -> dict[str, Any]:
        owner, snapshot = self._owner, self._owner.snapshot
        return {
            **self._head(snapshot),
            "active": sorted(snapshot.active),
            "waiting": snapshot.waiting,
            "notices": owner.notices,
            "settings": owner.scheduler.settings,
            "layout": Layout(owner.identity.prefix, owner.identity.job_dir),
            "cluster": owner.devices.cluster_name,
        }

    def _head(self, snapshot: Snapshot) -> dict[str, Any]:
        owner = self._owner
        # A client that answers its own request owns the session only until it has the answer.
        shown = OwnerShown(os.getpid(), owner.kind, owner.since, __version__, **owner.presence())
        return {
            "scheduler": answers.scheduler_shown(snapshot, owned=owner.places),
            "process": shown if owner.places else None,
            "counts": snapshot.counts,
            "engine": owner.scheduler.board.engine,
            "eta": snapshot.eta,
            "outlook": answers.outlook_shown(snapshot),
            "trouble": snapshot.trouble,
            "metric": answers.main_metric(snapshot.metric),
            "best": snapshot.best,
        }

    def _show(self, ask: Show) -> ShownJob:
        owner, now = self._owner, time.time()
        job = owner.scheduler.job(ask.job)
        results_by_attempt = owner.results.attempts(job.id)
        return answers.shown_job(
            job,
            owner.directories,
            answers.job_results(owner.snapshot, job, now),
            answers.why_or_remark(owner, job, now),
            environment=owner.environment(job.spec.environment) if ask.environment else None,
            attempts=[
                answers.shown_attempt(
                    job, attempt, owner.directories, answers.attempt_results(results_by_attempt.get(attempt.number))
                )
                for attempt in job.attempts
            ],
            history=answers.history_lines(job, owner.store.history(job.id)),
        )

    def _prepare_listing(self, ask: Listing) -> Callable[[], Listed | ListedRows]:
        owner = self._owner
        snapshot, now = owner.snapshot, time.time()
        line = list(owner.scheduler.book.line)
        waiting = [*owner.scheduler.submitted, *(place.job for place in line)]
        whys = {job: answers.remark(owner, snapshot[job], now) for job in snapshot.active}
        whys |= {job: answers.why_or_remark(owner, owner.scheduler.book[job], now) for job in waiting[:EXPLAINED]}
        ahead = {place.job: number for number, place in enumerate(line)}

        def make() -> Listed | ListedRows:
            jobs = list(snapshot) if ask.jobs is None else [snapshot[id] for id in ask.jobs if id in snapshot]
            rows = [
                (job, answers.job_results(snapshot, job, now), whys.get(job.id) or _position(job, ahead))
                for job in jobs
                if not job.archived and (ask.states is None or job.state.name in ask.states)
            ]
            head = self._head(snapshot)
            if ask.rows:
                return ListedRows(session=owner.paths.root, jobs=[answers.row(*fields) for fields in rows], **head)
            listed = [answers.listed_job(job, owner.directories, results, why) for job, results, why in rows]
            return Listed(session=owner.paths.root, jobs=listed, **head)

        return make

    def _pick(self, ask: PickJobs) -> PickedJobs:
        snapshot = self._owner.snapshot
        picked: dict[JobId, Job] = {}
        missing: list[str] = []
        book = self._owner.scheduler.book
        for low, high in ask.ids:
            ids = range(max(low, book.first_id), min(high + 1, book.next_id))
            in_range = [snapshot[id] for id in ids if not snapshot[id].archived]
            picked.update({job.id: job for job in in_range})
            missing += [] if in_range else [f"#{low}" if low == high else f"#{low}-{high}"]
        for name in ask.names:
            named = [snapshot[id] for id in book.named.get(name, ()) if not snapshot[id].archived]
            picked.update({job.id: job for job in named})
            missing += [] if named else [name]
        picked.update({job.id: job for job in _pick_by_state(ask, snapshot)})
        jobs = (picked[id] for id in sorted(picked))
        return PickedJobs(
            [PickedJob(job.id, job.name, job.state.name, job.issued, job.priority) for job in jobs], missing
        )


def _pick_by_state(ask: PickJobs, snapshot: Snapshot) -> list[Job]:
    jobs: list[Job] = []
    crashed = failed_jobs(snapshot)
    if ask.failed:
        jobs += [snapshot[id] for id in crashed if not snapshot[id].archived]
    all_failed = ask.all_failed or (ask.failed and not crashed)
    if all_failed or ask.succeeded or ask.all:
        states = set(FAILURES if all_failed else ()) | ({StateName.SUCCEEDED} if ask.succeeded else set())
        jobs += [job for job in snapshot if ask.all or job.state.name in states]
    return jobs


def _position(job: Job, ahead: dict[JobId, int]) -> str | None:
    if not isinstance(job.state, Waiting) or job.id not in ahead:
        return None
    return f"{counted(ahead[job.id], 'job', 'jobs')} ahead of it"


def _encode_outcome(work: Callable[[], Any]) -> bytes:
    """Return an encoded reply with the result of `work` or the error that it raises."""
    try:
        return server.ok(work())
    except CommitFailed as error:
        return server.no("not_durable", str(error))
    except Refusal as refusal:
        return server.no("refused", str(refusal))
    except OwnerGone as gone:
        return server.no("internal", str(gone))
    except Exception as error:
        return server.no("internal", f"scheduler error: {error!r}")
