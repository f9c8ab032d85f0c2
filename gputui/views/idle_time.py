"""Idle gaps in the timeline and their reasons, expected jobs, and the list of events."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from gputui.core.amounts import counted, duration_words, memory
from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.core.state import HistoryEntry

from .status import starts_after
from .timeline import Bar, PlaceRow, SlotPlace, Timeline, places_of, still_waits

MOST_PARTS = 20
"""Maximum number of parts into which an idle time is split by its causes."""
MOST_EXPECTED = 400
"""Maximum number of waiting jobs with a predicted start."""


class Gap(Struct, frozen=True):
    place: SlotPlace
    since: float
    until: float
    reason: SpanKind | None
    """What caused the gap, or None if no cause was recorded."""
    words: str
    open: bool = False
    """Whether the gap is still open."""

    @property
    def seconds(self) -> float:
        return self.until - self.since


def gaps(
    timeline: Timeline,
    place: SlotPlace,
    spans: Sequence[RecordedSpan],
    since: float,
    until: float,
    *,
    now: float,
    shortest: float,
    active: Bar | None,
) -> list[Gap]:
    """Return the idle gaps of a place, split where their reasons change.

    On a cluster there are none, because other users' jobs may run in between.
    """
    if place.in_cluster:
        return []
    until = min(until, now)
    idle = []
    for start, end in _idle_times(timeline.row(place), since, until, active):
        if end - start >= shortest:
            for since_then, until_then, span in _causes(
                spans, place, start, end, now, max(shortest, (end - start) / MOST_PARTS)
            ):
                is_open = until_then >= now - 1.0 and active is None
                reason, words = _why_idle(timeline, span, since_then, until_then)
                idle.append(Gap(place, since_then, until_then, reason, words, open=is_open))
    return idle


def _idle_times(row: PlaceRow, since: float, until: float, active: Bar | None) -> Iterator[tuple[float, float]]:
    """Yield the idle times before the first attempt, between attempts, and after the last attempt."""
    stop = max(since, min(until, active.start)) if active is not None else until
    if not len(row):
        yield since, stop
        return
    if row.starts[0] > since:
        yield since, min(row.starts[0], stop)
    between = row.idle()
    for start, end in between[bisect_right(between, since, key=lambda gap: gap[1]) :]:
        if start >= until:
            break
        yield max(start, since), min(end, until)
    if row.ends[-1] < stop:
        yield max(since, row.ends[-1]), stop


def _causes(
    spans: Sequence[RecordedSpan], place: SlotPlace, since: float, until: float, now: float, shortest: float
) -> list[tuple[float, float, RecordedSpan | None]]:
    """Split an idle time by its causes. Each part has the cause that covers it, or None if no cause was recorded.

    A part shorter than `shortest` is not split off.
    """
    covers = [
        (min(until, span.lasts_until(now)) - max(since, span.since), span)
        for span in spans
        if span.device in ("", place.device_key) and span.since < until and span.lasts_until(now) > since
    ]
    covered, span = max(covers, key=lambda cover: cover[0], default=(0.0, None))
    if span is None or covered < min(shortest, until - since):
        return [(since, until, None)]
    start, end = max(since, span.since), min(until, span.lasts_until(now))
    start, end = start if start - since >= shortest else since, end if until - end >= shortest else until
    before = _causes(spans, place, since, start, now, shortest) if start > since else []
    after = _causes(spans, place, end, until, now, shortest) if end < until else []
    return [*before, (start, end, span), *after]


def _why_idle(timeline: Timeline, span: RecordedSpan | None, since: float, until: float) -> tuple[SpanKind | None, str]:
    """Return the reason for a gap with this cause, and its text, which says without a cause whether jobs waited."""
    if span is not None:
        return span.kind, span_words(span)
    if timeline.waited_at((since + until) / 2) <= 0:
        return None, "nothing left to run"
    return None, "jobs waited for other reasons"


def span_words(span: RecordedSpan) -> str:
    match span.kind:
        case SpanKind.EXTERNAL:
            size = memory(span.memory).replace("G", " G") if span.memory else ""
            facts = (span.text, f"pid {span.pid}" if span.pid is not None else "", size)
            return f"{span.user}: {', '.join(fact for fact in facts if fact)}"
        case SpanKind.AWAY:
            return "gputui was not running"
    return span.text


class Expected(Struct, frozen=True):
    """A waiting job that will probably run in a place of the timeline."""

    job: JobId
    start: float
    end: float


def expected(
    timeline: Timeline, snapshot: Snapshot, now: float, until: float, ends: dict[JobId, float]
) -> dict[SlotPlace, list[Expected]]:
    """Predict where and when waiting jobs will run. `ends` are the estimated ends of running jobs.

    Jobs that start only after an action of the user are omitted. On a cluster nothing is predicted, because the
    cluster chooses the GPUs itself. As in `Outlook`, slots used by others and slots of jobs with an unknown end are
    not counted.
    """
    if snapshot.on_cluster:
        return {}
    free: list[tuple[float, int]] = []
    for index, slot in enumerate(snapshot.slots):
        holder = snapshot.holders.get(slot.id)
        if holder in snapshot.outlook.unknown or (holder is None and slot.id in snapshot.blocked):
            continue
        at = now
        if holder is not None and holder in snapshot and (placed := snapshot[holder].active) is not None:
            length = timeline.typical(snapshot[holder].spec.group) or 0.0
            at = max(now, ends.get(holder, placed.since + length))
        free.append((at, index))
    heapq.heapify(free)
    bars: dict[SlotPlace, list[Expected]] = {}
    while timeline.waiting and not still_waits(snapshot, timeline.waiting[0]):
        timeline.waiting.pop(0)
    for earliest, job in _next_waiting(timeline, snapshot, now):
        if not free or max(earliest, free[0][0]) >= until:
            break
        typical = timeline.typical(job.spec.group)
        wanted = 1 if job.request.gpus is None else job.request.gpus
        if typical is None or wanted > len(free):
            continue
        taken = [heapq.heappop(free) for _ in range(max(1, wanted))]
        start = max(earliest, *(at for at, _ in taken))
        for _, index in taken:
            for place in places_of(snapshot.slots[index]):
                bars.setdefault(place, []).append(Expected(job.id, start, start + typical))
            heapq.heappush(free, (start + typical, index))
    return bars


def _next_waiting(timeline: Timeline, snapshot: Snapshot, now: float) -> list[tuple[float, Job]]:
    """Return the next waiting jobs with their earliest start times, sorted by start time and then by queue order."""
    waiting = (entry.job for entry in timeline.waiting if still_waits(snapshot, entry))
    jobs = [snapshot[job_id] for job_id in islice(waiting, MOST_EXPECTED)]
    starts = ((starts_after(snapshot, job, now), job) for job in jobs)
    return sorted(((at, job) for at, job in starts if at is not None), key=lambda start: start[0])


# Events


MOST_CRASHES = 40
"""Maximum number of failures that are listed for one row. The newest ones are kept."""


class HappenedKind(StrEnum):
    BEGAN = "began"
    ACTION = "action"
    CRASH = "crash"
    EXTERNAL = "external_process"
    TROUBLE = "trouble"
    PAUSE = "pause"
    DONE = "done"


class Happened(Struct, frozen=True):
    at: float
    kind: HappenedKind
    text: str


def happened(
    timeline: Timeline,
    snapshot: Snapshot,
    spans: Iterable[RecordedSpan],
    since: float,
    until: float,
    now: float,
    actions: Iterable[HistoryEntry] = (),
) -> list[Happened]:
    """Return the events between `since` and `until`, oldest first. `actions` are what users did to jobs."""
    events = [
        Happened(
            at,
            HappenedKind.BEGAN,
            f"#{job} added" if count == 1 else f"{counted(count, 'job', 'jobs')} added, from #{job}",
        )
        for at, (job, count) in timeline.arrivals.items()
        if since <= at < until
    ]
    events += _crashes(timeline, snapshot, since, until)
    events += [
        Happened(action.at, HappenedKind.ACTION, f"#{action.job} {action.text}")
        for action in actions
        if since <= action.at < until
    ]
    for span in spans:
        events += [event for event in _span_events(span, now) if since <= event.at < until]
    if not snapshot.waiting and not snapshot.active:
        last = max((row.ends[-1] for row in timeline.rows.values() if len(row)), default=None)
        if last is not None and since <= last < until:
            events.append(Happened(last, HappenedKind.DONE, "the last job ended"))
    return sorted(events, key=lambda event: event.at)


def _crashes(timeline: Timeline, snapshot: Snapshot, since: float, until: float) -> Iterator[Happened]:
    listed: set[tuple[int, int]] = set()  # an attempt on two devices is in two rows
    for place, row in timeline.rows.items():
        first, last = bisect_left(row.bad, since), bisect_right(row.bad, until)
        for start in row.bad[max(first, last - MOST_CRASHES) : last]:
            bar = row.bar(bisect_left(row.starts, start))
            if (bar.job, bar.attempt) not in listed and bar.job in snapshot:
                listed.add((bar.job, bar.attempt))
                yield Happened(bar.end or start, HappenedKind.CRASH, _crash(snapshot, bar, place))


def _crash(snapshot: Snapshot, bar: Bar, place: SlotPlace) -> str:
    attempts = (each for each in snapshot[bar.job].attempts if each.number == bar.attempt)
    attempt = next(attempts, None)
    said = (attempt.reason or attempt.end.name.value) if attempt is not None else ""
    return f"#{bar.job}  {said}, {place.name}"


def _span_events(span: RecordedSpan, now: float) -> Iterator[Happened]:
    lasted = duration_words((span.until or now) - span.since)
    where = f"GPU {span.device}"
    match span.kind:
        case SpanKind.EXTERNAL:
            yield Happened(span.since, HappenedKind.EXTERNAL, f"{span.user} started using {where}")
            if span.until is not None:
                yield Happened(span.until, HappenedKind.EXTERNAL, f"{span.user} stopped using {where} after {lasted}")
        case SpanKind.TROUBLE:
            yield Happened(span.since, HappenedKind.TROUBLE, f"{where}: {span.text}")
            if span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"{where} works again after {lasted}")
        case SpanKind.AWAY:
            yield Happened(span.since, HappenedKind.PAUSE, "gputui exited")
            if span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"gputui restarted after {lasted}")
        case _:
            yield Happened(span.since, HappenedKind.PAUSE, span.text)
            if span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"resumed after {lasted}")
