"""The log of events: what happened in a session, derived from what a commit changes, and read with cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gputui.core import job as states
from gputui.core.breaker import Probe, Scope
from gputui.core.events import Cause, Mode, Refusal
from gputui.core.job import ENDS, Attempt, Job, JobId, by_word
from gputui.core.scheduler import Scheduler
from gputui.core.slots import Slot
from gputui.core.snapshot import Snapshot
from gputui.session.event_loop import Loop, Timer
from gputui.session.messages import NOW, EventKind, EventPage, Events, LoggedEvent

from .store import EventLogId, Store

MOST_IN_PAGE = 1000
LONGEST_WAIT = 20.0
"""Maximum number of seconds for which a request waits for an event. A client gives up only later."""


class _Known(Struct, frozen=True):
    """The state of the scheduler when the log was last saved."""

    mode: Mode
    cause: Cause | None
    scopes: Mapping[str | None, Scope]
    slots: tuple[Slot, ...]
    has_work: bool
    """Whether a job had not ended."""


def _known(scheduler: Scheduler) -> _Known:
    scopes = {scope.group: scope for scope in scheduler.breaker.paused_scopes}
    has_work = any(count and name not in ENDS for name, count in scheduler.book.counts.items())
    return _Known(scheduler.mode, scheduler.cause, scopes, scheduler.board.slots, has_work)


class EventRecorder:
    """The writer of the log. It finds the events of a turn by comparing the scheduler with its last saved state."""

    def __init__(self, scheduler: Scheduler, newest: int) -> None:
        self._saved = _known(scheduler)
        self.newest = newest
        """The number of the newest event in the store."""
        self.on_saved: Callable[[Iterable[LoggedEvent]], None] = lambda events: None
        """Callback for events that are durable now."""

    def collect(self, scheduler: Scheduler, now: float) -> list[tuple[int, LoggedEvent]]:
        """Return the events since the last call of `mark_saved`, with their numbers."""
        book, added, found = scheduler.book, list[JobId](), list[LoggedEvent]()
        for job_id, before in book.unsaved.items():
            job = book[job_id]
            if before is None:
                if job.archived:
                    continue  # its addition was taken back
                added.append(job_id)
            if job.issued or not isinstance(job.state, states.Waiting) or before is not None:
                found += _job_events(before, job, now)
        found += _scheduler_events(self._saved, _known(scheduler), scheduler, now)
        found.sort(key=lambda event: event.time)
        if added:
            found.insert(0, LoggedEvent(event=EventKind.ADDED, time=now, job=min(added), last=max(added)))
        return list(enumerate(found, self.newest + 1))

    def mark_saved(self, scheduler: Scheduler, events: list[tuple[int, LoggedEvent]]) -> None:
        self._saved = _known(scheduler)
        if events:
            self.newest = events[-1][0]
            self.on_saved(event for _, event in events)


def _job_events(before: Job | None, job: Job, now: float) -> Iterator[LoggedEvent]:
    begun, known = _begun(before), len(before.attempts) if before is not None else 0
    for attempt in job.attempts[known:]:
        if attempt.number != begun and not isinstance(attempt.end, states.Refused):
            yield _started(job, attempt.number, attempt.gpus, attempt.started)
        yield _ended(job, attempt)
    newest = _begun(job)
    if newest not in (0, begun) and job.active is not None:
        yield _started(job, newest, job.active.gpus, job.active.since)
    had_ended = before is not None and isinstance(before.state, states.Ended)
    if len(job.attempts) == known and isinstance(job.state, states.Ended) and not had_ended:
        yield LoggedEvent(
            event=EventKind.ENDED,
            time=now,
            job=job.id,
            name=job.name,
            state=job.state.name,
            message=states.describe_end(job.state),
            final=True,
        )
    if _is_silent(job) and not _is_silent(before):
        message = "the job prints nothing and does no work"
        yield LoggedEvent(event=EventKind.ALERT, time=now, job=job.id, name=job.name, message=message)


def _begun(job: Job | None) -> int:
    """Return the active attempt of the job if its command was started, otherwise 0."""
    if job is None or job.active is None or job.submitted or isinstance(job.state, states.Starting):
        return 0
    return job.active.attempt


def _is_silent(job: Job | None) -> bool:
    return job is not None and isinstance(job.state, states.Running) and job.state.silent_since is not None


def _started(job: Job, attempt: int, gpus: tuple[str, ...], at: float) -> LoggedEvent:
    return LoggedEvent(event=EventKind.STARTED, time=at, job=job.id, name=job.name, attempt=attempt, gpus=gpus)


def _ended(job: Job, attempt: Attempt) -> LoggedEvent:
    return LoggedEvent(
        event=EventKind.ENDED,
        time=attempt.ended,
        job=job.id,
        name=job.name,
        attempt=attempt.number,
        state=attempt.end.name,
        exit_code=attempt.exit_code,
        signal=attempt.end.signal if isinstance(attempt.end, states.Failed) else None,
        kind=attempt.kind,
        message=attempt.reason,
        final=attempt is job.attempts[-1] and isinstance(job.state, states.Ended),
    )


def _scheduler_events(before: _Known, now: _Known, scheduler: Scheduler, at: float) -> Iterator[LoggedEvent]:
    if now.mode is Mode.RUNNING and before.mode is not Mode.RUNNING:
        yield LoggedEvent(event=EventKind.RESUMED, time=at)
    elif now.mode is not Mode.RUNNING and (now.mode, _kind(now.cause)) != (before.mode, _kind(before.cause)):
        yield _paused(now.cause, at, None, now.mode)
    for group, scope in now.scopes.items():
        earlier = before.scopes.get(group)
        if group is not None and earlier is None:
            yield _paused(scope.cause, at, group, now.mode)
        if (probe := scope.probe) is not None and probe != _probe(earlier):
            yield LoggedEvent(event=EventKind.PROBE, time=at, job=probe.job, attempt=probe.attempt, group=group)
    for group in before.scopes.keys() - now.scopes.keys() - {None}:
        yield LoggedEvent(event=EventKind.RESUMED, time=at, group=group)
    if now.slots != before.slots:
        yield LoggedEvent(event=EventKind.SLOTS, time=at, slots=tuple(slot.devices for slot in now.slots))
    if before.has_work and not now.has_work:
        counts = ", ".join(f"{count} {word}" for word, count in by_word(scheduler.book.counts).items())
        yield LoggedEvent(event=EventKind.ALERT, time=at, message=f"all jobs have ended: {counts}")


def _kind(cause: Cause | None) -> str | None:
    return cause.kind if cause is not None else None


def _probe(scope: Scope | None) -> Probe | None:
    return scope.probe if scope is not None else None


def _paused(cause: Cause | None, at: float, group: str | None, mode: Mode) -> LoggedEvent:
    if cause is None:
        return LoggedEvent(event=EventKind.PAUSED, time=at, kind=mode, group=group)
    return LoggedEvent(
        event=EventKind.PAUSED, time=at, kind=cause.kind, message=cause.message, jobs=cause.jobs, group=group
    )


# Reading


def read_events(store: Store, logs: tuple[EventLogId, ...], ask: Events, *, now: float, owned: bool) -> EventPage:
    """Return the events after the cursor. Raise Refusal if the cursor is not one of this session."""
    oldest, newest = store.event_numbers()
    if ask.since == NOW:
        return EventPage([], _cursor(logs, newest), owned)
    after, is_known = (oldest - 1, True) if ask.since is None else _number(logs, ask.since, newest)
    gap = not is_known or after < oldest - 1
    events = [replace(event, cursor=_cursor(logs, number)) for number, event in store.events(after, MOST_IN_PAGE)]
    if gap:
        start = max(after, oldest - 1)
        message = "some events before this one are no longer known"
        events.insert(0, LoggedEvent(cursor=_cursor(logs, start), event=EventKind.GAP, time=now, message=message))
    return EventPage(events, events[-1].cursor if events else _cursor(logs, after), owned)


def _cursor(logs: tuple[EventLogId, ...], number: int) -> str:
    log = next((log for log in reversed(logs) if log.first <= number), logs[0])
    return f"{log.id}-{number}"


def _number(logs: tuple[EventLogId, ...], cursor: str, newest: int) -> tuple[int, bool]:
    """Return the number of a cursor, and whether all events up to it are still in the log as they were read."""
    name, _, digits = cursor.partition("-")
    place = next((place for place, log in enumerate(logs) if log.id == name), None)
    if place is None or not digits.isdecimal():
        raise Refusal(f"invalid cursor {cursor!r}: use one that gputui add, wait or events printed for this session")
    number = int(digits)
    if place == len(logs) - 1:
        if number > newest:
            raise Refusal(
                f"invalid cursor {cursor!r}: after the newest event; use one that gputui add, wait or events printed"
            )
        return number, True
    last = logs[place + 1].first - 1
    return min(number, last), number <= last


class EventWaiters:
    """The requests that wait for the next event."""

    def __init__(self, loop: Loop, recorder: EventRecorder) -> None:
        self._loop, self._recorder = loop, recorder
        self._seen = recorder.newest
        self._waiting: dict[Timer, Callable[[], None]] = {}

    def add(self, seconds: float, answer: Callable[[], None]) -> None:
        """Call `answer` at the next event or after this time."""
        timer = self._loop.call_later(max(0.0, min(seconds, LONGEST_WAIT)), lambda: self._answer(timer))
        self._waiting[timer] = answer

    def look(self, snapshot: Snapshot) -> None:
        """Answer all requests if there is a new event. Called with each new snapshot."""
        if self._recorder.newest != self._seen:
            self._seen = self._recorder.newest
            for timer in list(self._waiting):
                timer.cancel()
                self._answer(timer)

    def _answer(self, timer: Timer) -> None:
        self._waiting.pop(timer)()
