"""Handling of requests in the owner's thread, and the replies made from snapshots, jobs and results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from gputui import __version__
from gputui.core import job as states
from gputui.core.amounts import counted
from gputui.core.eta import progress_of
from gputui.core.events import PauseKind, Refusal
from gputui.core.job import FAILURES, WORDS, Attempt, Job, JobId, StateName, describe_end
from gputui.core.parameters import parameters_of
from gputui.core.results import JobResults, MainMetric, direction_of, parse_wanted_metric
from gputui.core.scheduler import HistoryEntry
from gputui.core.snapshot import Snapshot
from gputui.process.processes import command_of
from gputui.session import messages
from gputui.session.devices.samplers import held_cluster_gpus
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import OwnerGone, Ticket
from gputui.session.job_directories import Directories
from gputui.session.loading import reload_plan
from gputui.session.owner.requests import Reload, ResultsQuestion, Sources, SummaryQuestion
from gputui.session.store.event_log import EventWaiters, read_events
from gputui.views.consumption import consumption, use_of
from gputui.views.format import silence
from gputui.views.results_table import results_table
from gputui.views.status import all_paused, any_can_start, can_ever_start, queue_status, starts_jobs
from gputui.views.summary import summarize
from gputui.views.waiting import Reason, failed_jobs, needs, requeued_words, waiting_reason, why

from . import server

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner
    from gputui.session.session_copy import SessionCopy

    from .watch import Watchers


EXPLAINED = 300
"""Maximum number of waiting jobs that are listed with a full explanation. Jobs further back only get their position."""

Reply = Callable[[bytes], None]


class RequestHandler:
    """The handler of all requests to an owner. A write is answered once it is durable. A slow read is computed in the
    loop's worker thread.
    """

    def __init__(
        self, owner: Owner | SessionCopy, watchers: Watchers | None = None, waiters: EventWaiters | None = None
    ) -> None:
        """Answer requests for `owner`. Without `watchers`, requests of read-only screens are refused. Without
        `waiters`, no request waits for an event.
        """
        self._owner = owner
        self._watchers = watchers
        self._waiters = waiters
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
            if isinstance(ask, messages.Listing) and ask.read_logs and self._waiters is not None:
                self._read_logs(lambda: self.answer(replace(request, ask=replace(ask, read_logs=False)), reply))
                return
            value = self._read(ask)
            if isinstance(ask, messages.Events) and not value.events and self._waiters is not None:
                again = replace(ask, since=value.cursor)
                self._waiters.add(ask.wait, lambda: reply(_encode_outcome(lambda: self._read(again))))
                return
        except Refusal as refusal:
            reply(server.no("refused", str(refusal), refusal.hint))
            return
        if callable(value):
            self._owner.loop.run_in_thread(lambda: _encode_outcome(value), reply)
        else:
            reply(server.ok(value))

    def _read_logs(self, then: Callable[[], None]) -> None:
        """Read new results from the logs in another thread, and call `then` when the snapshot has them."""

        def take_in(_: None) -> None:
            ticket: Ticket[None] = Ticket(lambda act: None)
            ticket.when_done(lambda _: then())
            self._owner.submit(ticket)

        self._owner.loop.run_in_thread(self._owner.results.reader.catch_up, take_in)

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
            case messages.Show():
                return self._show(ask)
            case messages.PickJobs():
                return self._pick(ask)
            case messages.StatusQuestion():
                return messages.SessionStatus(**self._status())
            case messages.Slots():
                devices = owner.devices
                return messages.SlotsShown(
                    slots=shown_slots(snapshot),
                    sample=devices.sample,
                    pids=devices.pids | devices.leftovers,
                    leftovers=devices.leftovers,
                    held=held_cluster_gpus(owner.scheduler),
                    partition=owner.scheduler.settings.partition,
                )
            case messages.Follow(jobs=ids):
                jobs = [snapshot[job] for job in ids if job in snapshot]
                can_start = starts_jobs(snapshot) and any_can_start(snapshot, (job.id for job in jobs))
                return messages.Followed(jobs=jobs, has_work=bool(snapshot.active) or can_start, **self._status())
            case Reload(specs=specs, groups=groups):
                return reload_plan(snapshot.jobs, specs, groups)
            case messages.Curves(jobs=ids, attempt=attempt, metric=name):
                curves = ((job, owner.results.curves(job, attempt)) for job in ids)
                return {job: {c.name: c.points for c in found if name in (None, c.name)} for job, found in curves}
            case Sources():
                return list(owner.sources.values())
            case messages.Events():
                logs = owner.identity.event_logs
                return read_events(owner.store, logs, ask, now=time.time(), owned=owner.places)
            case messages.Listing():
                return self._prepare_listing(ask)
            case ResultsQuestion(metric=metric, top=top):

                def best_results() -> Any:
                    table = results_table(snapshot, find_metric(snapshot, metric))
                    return replace(table, rows=table.rows[:top])

                return best_results
            case SummaryQuestion(metric=metric, left=left):
                spans = owner.store.spans()
                return lambda: summarize(snapshot, time.time(), spans, left, find_metric(snapshot, metric))
        if isinstance(ask, messages.ScreenRequest) and self._watchers is not None:
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
            "layout": messages.Layout(owner.identity.prefix, owner.identity.job_dir),
            "cluster": owner.devices.cluster_name,
        }

    def _head(self, snapshot: Snapshot) -> dict[str, Any]:
        owner = self._owner
        # A client that answers its own request owns the session only until it has the answer.
        shown = messages.OwnerShown(os.getpid(), owner.kind, owner.since, __version__, **owner.presence())
        return {
            "scheduler": scheduler_shown(snapshot, owned=owner.places),
            "process": shown if owner.places else None,
            "counts": snapshot.counts,
            "engine": owner.scheduler.board.engine,
            "eta": snapshot.eta,
            "outlook": outlook_shown(snapshot),
            "trouble": snapshot.trouble,
            "metric": main_metric(snapshot.metric),
            "best": snapshot.best,
        }

    def _show(self, ask: messages.Show) -> messages.ShownJob:
        owner, now = self._owner, time.time()
        job = owner.scheduler.job(ask.job)
        results_by_attempt = owner.results.attempts(job.id)
        return shown_job(
            job,
            owner.directories,
            job_results(owner.snapshot, job, now),
            why_or_remark(owner, job, now),
            environment=owner.environment(job.spec.environment) if ask.environment else None,
            attempts=[
                shown_attempt(job, attempt, owner.directories, attempt_results(results_by_attempt.get(attempt.number)))
                for attempt in job.attempts
            ],
            history=history_lines(job, owner.store.history(job.id)),
        )

    def _prepare_listing(self, ask: messages.Listing) -> Callable[[], messages.Listed | messages.ListedRows]:
        owner = self._owner
        snapshot, now = owner.snapshot, time.time()
        line = list(owner.scheduler.book.line)
        waiting = [*owner.scheduler.submitted, *(place.job for place in line)]
        whys = {job: remark(owner, snapshot[job], now) for job in snapshot.active}
        whys |= {job: why_or_remark(owner, owner.scheduler.book[job], now) for job in waiting[:EXPLAINED]}
        ahead = {place.job: number for number, place in enumerate(line)}

        def make() -> messages.Listed | messages.ListedRows:
            jobs = list(snapshot) if ask.jobs is None else [snapshot[id] for id in ask.jobs if id in snapshot]
            rows = [
                (job, job_results(snapshot, job, now), whys.get(job.id) or _position(job, ahead))
                for job in jobs
                if not job.archived and (ask.states is None or job.state.name in ask.states)
            ]
            head = self._head(snapshot)
            if ask.rows:
                return messages.ListedRows(session=owner.paths.root, jobs=[row(*fields) for fields in rows], **head)
            listed = [listed_job(job, owner.directories, results, why) for job, results, why in rows]
            return messages.Listed(session=owner.paths.root, jobs=listed, **head)

        return make

    def _pick(self, ask: messages.PickJobs) -> messages.PickedJobs:
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
        for group in ask.groups:
            members = {job.id: job for job in snapshot if job.spec.group == group}
            picked.update(members)
            missing += [] if members else [f"in group {group}"]
        picked.update({job.id: job for job in _pick_by_state(ask, snapshot)})
        jobs = [picked[id] for id in sorted(picked)]
        reply = messages.PickedJobs(
            [messages.PickedJob(job.id, job.name, job.state.name, job.issued, job.priority) for job in jobs], missing
        )
        return replace(reply, **self._obstacle(jobs)) if ask.obstacle else reply

    def _obstacle(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """Return the fields of a reply that say why none of these jobs runs or starts by itself."""
        owner, snapshot = self._owner, self._owner.snapshot
        unfinished = [job for job in jobs if not isinstance(job.state, states.Ended)]
        ids = [job.id for job in unfinished]
        if not ids or not snapshot.active.isdisjoint(ids):
            return {}
        if not can_ever_start(snapshot, ids):
            first = next((job for job in unfinished if not isinstance(job.state, states.Blocked)), unfinished[0])
            reason = why(owner.scheduler, owner.scheduler.book[first.id], time.time()) or ""
            return {"cannot_start": messages.CannotStart(ids, reason)}
        return {"paused": jobs_paused(snapshot, unfinished)} if all_paused(snapshot, ids) else {}


def _pick_by_state(ask: messages.PickJobs, snapshot: Snapshot) -> list[Job]:
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
    if not isinstance(job.state, states.Waiting) or job.id not in ahead:
        return None
    return f"{counted(ahead[job.id], 'job', 'jobs')} ahead of it"


def _encode_outcome(work: Callable[[], Any]) -> bytes:
    """Return an encoded reply with the result of `work` or the error that it raises."""
    try:
        return server.ok(work())
    except CommitFailed as error:
        return server.no("not_durable", str(error))
    except Refusal as refusal:
        return server.no("refused", str(refusal), refusal.hint)
    except OwnerGone as gone:
        return server.no("internal", str(gone))
    except Exception as error:
        return server.no("internal", f"scheduler error: {error!r}")


# Sessions and jobs


ENDED, DONE, STARTED = range(3)
"""Sort order of history lines with the same time: first ends, then actions taken after them, then starts."""


def scheduler_shown(snapshot: Snapshot, *, owned: bool) -> messages.SchedulerShown:
    status, cause_shown = queue_status(snapshot, owned=owned), None
    if (cause := snapshot.cause) is not None:
        cause_shown = messages.CauseShown(
            cause.kind, cause.message, cause.jobs, cause.signature, cause.since, cause.count
        )
    paused_scopes = tuple(
        messages.PausedShown(
            group=paused.group,
            message="; ".join(filter(None, (paused.cause.message, requeued_words(snapshot, paused)))),
            jobs=paused.cause.jobs,
            count=paused.cause.count,
            signature=paused.cause.signature,
            since=paused.cause.since,
            common=paused.common,
            job=paused.job,
            probing=paused.probing,
            at=paused.at,
            alive_after=paused.life,
        )
        for paused in snapshot.paused_scopes
    )
    return messages.SchedulerShown(snapshot.mode, status.word, status.awaits or None, cause_shown, paused_scopes)


def jobs_paused(snapshot: Snapshot, jobs: Iterable[Job]) -> messages.JobsPaused:
    """Return the pause that keeps these jobs from starting."""
    cause, groups = snapshot.cause, {job.spec.group for job in jobs}
    scopes = (paused for paused in snapshot.paused_scopes if any(paused.covers(group) for group in groups))
    if (cause is None or cause.kind is PauseKind.CRASHES) and (scope := next(scopes, None)) is not None:
        return messages.JobsPaused(scope.cause.message, scope.cause.jobs, scope.group, scope.job, scope.at)
    if cause is None:
        return messages.JobsPaused(str(snapshot.mode), (), None, None, None)
    return messages.JobsPaused(cause.message, cause.jobs, None, None, None)


def outlook_shown(snapshot: Snapshot) -> messages.OutlookShown:
    outlook = snapshot.outlook
    never = tuple(messages.NeverShown(job.job, needs(job.request)) for job in outlook.never)
    return messages.OutlookShown(outlook.at, outlook.jobs, outlook.unknown, never)


def row(job: Job, results: dict[str, Any], why: str | None) -> messages.JobRow:
    if not job.issued and job.state.name is not StateName.SKIPPED:
        return messages.JobRow(**_row_fields(job, why))  # fewer fields, because very many jobs may never have run
    return messages.JobRow(**_row_fields(job, why), **_run_fields(job, _ended_attempt(job)), **results)


def _row_fields(job: Job, why: str | None) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "group": job.spec.group,
        "command": job.spec.command,
        "state": job.state.name,
        "priority": job.priority,
        "why": why,
    }


def _ended_attempt(job: Job) -> Attempt | None:
    """Return the newest attempt if it has ended. Return None if an attempt is active or there has been none."""
    return job.attempts[-1] if job.active is None and job.attempts else None


def _run_fields(job: Job, ended: Attempt | None) -> dict[str, Any]:
    """Return the reply fields about the newest attempt."""
    if job.active is not None:
        return {"gpus": job.active.gpus, "started": job.active.since}
    if ended is None:
        return {"end": _end_reason(job, None)}
    return {
        "exit_code": ended.exit_code,
        "signal": ended.end.signal if isinstance(ended.end, states.Failed) else None,
        "gpus": ended.gpus,
        "started": ended.started,
        "ended": ended.ended,
        "end": _end_reason(job, ended),
    }


def listed_job(job: Job, directories: Directories, results: dict[str, Any], why: str | None) -> messages.ListedJob:
    return messages.ListedJob(**_listed_fields(job, directories, why), **results)


def shown_job(
    job: Job, directories: Directories, results: dict[str, Any], why: str | None, **more: Any
) -> messages.ShownJob:
    """Return the reply to `Show`. `more` contains the fields that only the owner can provide."""
    fields = _listed_fields(job, directories, why) | results
    return messages.ShownJob(
        **fields, spec=job.spec, archived=job.archived, directory=directories.directory(job), **more
    )


def _listed_fields(job: Job, directories: Directories, why: str | None) -> dict[str, Any]:
    placed, ended = job.active, _ended_attempt(job)
    number = placed.attempt if placed is not None else ended.number if ended is not None else 0
    files = directories.current_files(job, number) if number else None
    return {
        **_row_fields(job, why),
        **_run_fields(job, ended),
        "key": job.spec.key,
        "params": parameters_of(job.spec),
        "cwd": job.spec.cwd,
        "attempt": job.issued,
        "pid": pid_of(job),
        "wrapper": _wrapper_of(job),
        "kill_at": job.state.deadline if isinstance(job.state, states.Stopping) else None,
        "added": job.added,
        "out": files.out if files is not None else None,
        "err": files.err if files is not None else None,
        "leftovers": job.attempts[-1].left if job.attempts else (),
    }


def _end_reason(job: Job, ended: Attempt | None) -> str | None:
    if job.state.name is StateName.SKIPPED:
        return describe_end(job.state)  # type: ignore[arg-type]  # a skipped state is an end
    return ended.reason if ended is not None and job.state.name in FAILURES else None


def shown_attempt(
    job: Job, attempt: Attempt, directories: Directories, results: dict[str, messages.MetricShown]
) -> messages.ShownAttempt:
    files, usage = directories.current_files(job, attempt.number), attempt.usage
    used = consumption([use_of(attempt)])
    return messages.ShownAttempt(
        number=attempt.number,
        state=attempt.end.name,
        exit_code=attempt.exit_code,
        signal=attempt.end.signal if isinstance(attempt.end, states.Failed) else None,
        gpus=attempt.gpus,
        started=attempt.started,
        ended=attempt.ended,
        out=files.out,
        err=files.err,
        gpu_mean=usage.gpu_mean if usage is not None else None,
        gpu_peak_memory=usage.gpu_peak_memory if usage is not None else None,
        gpu_seconds=usage.gpu_seconds if usage is not None else None,
        kwh=used.kwh,
        kwh_estimated=used.is_estimated,
        signature=attempt.signature,
        message=attempt.reason,
        kind=attempt.kind,
        environment=attempt.environment,
        wrapper=attempt.pid,
        leftovers=attempt.left,
        results=results,
    )


def pid_of(job: Job) -> int | None:
    """Return the pid of the command itself, or None if it is not running."""
    wrapper = _wrapper_of(job)
    return command_of(wrapper) if wrapper is not None else None


def _wrapper_of(job: Job) -> int | None:
    return job.state.pid if isinstance(job.state, states.Running | states.Suspended | states.Stopping) else None


def history_lines(job: Job, moments: Iterable[HistoryEntry]) -> list[messages.HistoryLine]:
    """Return the starts and ends of the job's attempts, together with what was done in between, in
    chronological order.
    """
    done = ((moment.at, DONE, moment.text) for moment in moments)
    lines = merge(_attempt_lines(job), done, key=lambda line: line[:2])
    return [messages.HistoryLine(at, text) for at, _, text in lines]


def _attempt_lines(job: Job) -> Iterator[tuple[float, int, str]]:
    yield job.added, ENDED, "added"
    for attempt in job.attempts:
        yield attempt.started, STARTED, f"attempt {attempt.number} started{_on_gpus(attempt.gpus)}"
        why = f": {attempt.reason}" if attempt.reason else ""
        yield attempt.ended, ENDED, f"attempt {attempt.number} {WORDS[attempt.end.name]}{why}"
    if job.active is not None:
        yield job.active.since, STARTED, f"attempt {job.active.attempt} started{_on_gpus(job.active.gpus)}"


def _on_gpus(gpus: tuple[str, ...]) -> str:
    return f" on GPU {', '.join(gpus)}" if gpus else ""


def shown_slots(snapshot: Snapshot) -> list[messages.SlotShown]:
    leaving, slots = {slot.id for slot in snapshot.leaving}, []
    for slot in (*snapshot.slots, *snapshot.leaving):
        job: JobId | None = snapshot.holders.get(slot.id)
        idle = "blocked" if slot.id in snapshot.blocked else "free"
        state = "draining" if slot.id in leaving else "busy" if job is not None else idle
        slots.append(messages.SlotShown(slot.id, slot.devices, slot.kind, job, state))
    return slots


# Results


def main_metric(metric: MainMetric | None) -> messages.MainMetricShown | None:
    return messages.MainMetricShown(metric.name, metric.direction, metric.is_chosen) if metric is not None else None


def job_results(snapshot: Snapshot, job: Job, now: float) -> dict[str, Any]:
    """Return the reply fields for the results of the newest attempt that printed any results."""
    results = snapshot.results.get(job.id)
    silent = {"silent_since": snapshot.silent_since(job, now)} if job.active is not None else {}
    if results is None:
        return silent
    eta, metrics = snapshot.job_eta(job, now), attempt_results(results)
    progress = progress_of(job, results) if job.active is not None else results.progress
    return {**silent, "progress": progress, "note": results.note, "eta": eta, "results": metrics}


def attempt_results(results: JobResults | None) -> dict[str, messages.MetricShown]:
    metrics = results.metrics if results is not None else ()
    return {
        metric.name: messages.MetricShown(
            metric.last, metric.best, metric.best_step, metric.low, metric.high, metric.count
        )
        for metric in metrics
    }


# Job details and why jobs wait


class Details(Struct, frozen=True):
    """Everything that the details view shows about a job."""

    job: Job
    directory: str
    why: str | None
    remark: str | None
    history: tuple[tuple[float, str], ...]
    environment: dict[str, str]
    pid: int | None = None
    """The pid of the command itself, or None if it is not running."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Environments of the job's attempts by digest. Empty if all attempts used the same environment."""
    results: dict[int, JobResults] = field(default_factory=dict)
    """Results by attempt number."""


def remark(owner: Owner | SessionCopy, job: Job, now: float) -> str | None:
    """Return what is unusual about a running job, or None."""
    return owner.scheduler.remarks.get(job.id) or silence(owner.snapshot, job, now) or owner.devices.remark(job)


def why_or_remark(owner: Owner | SessionCopy, job: Job, now: float) -> str | None:
    """Return why a job is waiting or what is unusual about a running job, or None."""
    return why(owner.scheduler, job, now) or remark(owner, job, now)


def reasons(owner: Owner, jobs: Sequence[JobId]) -> dict[JobId, Reason]:
    """Return why each of these jobs is waiting or what is unusual about it. Jobs without a reason are left out."""
    now = time.time()
    reasons: dict[JobId, Reason] = {}
    for job_id in jobs:
        job = owner.scheduler.book[job_id]
        if (reason := waiting_reason(owner.scheduler, job, now)) is not None:
            reasons[job_id] = reason
        elif text := remark(owner, job, now):
            reasons[job_id] = Reason(text)
    return reasons


def details(owner: Owner, job_id: JobId) -> Details:
    job = owner.scheduler.book[job_id]
    environment = owner.environment(job.spec.environment)
    used = {attempt.environment for attempt in job.attempts} | {job.active.environment if job.active else ""} - {""}
    return Details(
        job=job,
        directory=owner.directories.directory(job),
        why=why(owner.scheduler, job, time.time()),
        remark=remark(owner, job, time.time()),
        history=tuple((line.time, line.text) for line in history_lines(job, owner.store.history(job_id))),
        environment={**environment, **job.spec.variables},
        pid=pid_of(job),
        environments={name: owner.environment(name) for name in used} if len(used) > 1 else {},
        results=owner.results.attempts(job_id),
    )


def find_metric(snapshot: Snapshot, written: str) -> MainMetric | None:
    """Parse a metric such as `val_acc max`. Return None for an empty string, which stands for the session's metric.
    Raise Refusal if no job has printed the metric.
    """
    if not written:
        return None
    try:
        wanted = parse_wanted_metric(written)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if wanted.name is None:
        raise Refusal(f'{written!r} is not a metric name; set a regex per job: metric = "…"')
    metric_names = {metric.name for results in snapshot.results.values() for metric in results.metrics}
    if wanted.name not in metric_names:
        names = ", ".join(sorted(metric_names)[:20]) or "nothing"
        raise Refusal(f"no job has printed {wanted.name}; found: {names}")
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)
