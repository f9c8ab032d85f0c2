"""When a device was idle and why, and what happened meanwhile."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from gputui.core.amounts import counted, duration_words, memory
from gputui.core.events import Mode
from gputui.core.job import JobId
from gputui.core.lanes import NO_GPU
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan, SpanKind

from .status import starts_after
from .timeline import Bar, LanePlace, PlaceRow, Timeline, places_of, still_waits

# ---- When a place stood idle and why, what is expected of it next, and what happened, in words ----


MOST_EXPECTED = 400
"""Waiting jobs that are played out."""
_ENOUGH = 0.3
"""Of a gap that a cause must cover to be its reason."""


class GapReason(StrEnum):
    PAUSE = "pause"
    STRANGER = "stranger"
    TROUBLE = "trouble"
    AWAY = "away"
    NOTHING = "nothing"
    """Nothing was left to run."""
    OTHER = "other"


class Gap(Struct, frozen=True):
    place: LanePlace
    since: float
    until: float
    reason: GapReason
    words: str
    open: bool = False
    """It goes on."""

    @property
    def seconds(self) -> float:
        return self.until - self.since


def gaps(
    timeline: Timeline,
    place: LanePlace,
    spans: Sequence[RecordedSpan],
    since: float,
    until: float,
    *,
    now: float,
    shortest: float,
    active: Bar | None,
) -> list[Gap]:
    """Idle stretches of a place within a time, those of at least so many seconds.

    A GPU of a cluster has none: between jobs of the session it is somebody else's to use.
    """
    if place.in_cluster:
        return []
    until = min(until, now)
    idle = []
    for start, end in _idle(timeline.row(place), since, until, active):
        if end - start >= shortest:
            reason, words = why_idle(timeline, spans, place, start, end, now)
            idle.append(Gap(place, start, end, reason, words, open=end >= now - 1.0 and active is None))
    return idle


def _idle(row: PlaceRow, since: float, until: float, active: Bar | None) -> Iterator[tuple[float, float]]:
    """Before the first attempt, between them, and after the last."""
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


def why_idle(
    timeline: Timeline, spans: Iterable[RecordedSpan], place: LanePlace, since: float, until: float, now: float
) -> tuple[GapReason, str]:
    """The cause that covers most of it; else whether there was anything to run."""
    best: tuple[float, RecordedSpan] | None = None
    for span in spans:
        if span.device and span.device != place.slot:
            continue
        covered = min(until, span.lasts_until(now)) - max(since, span.since)
        if covered > 0 and (best is None or covered > best[0]):
            best = covered, span
    if best is not None and best[0] >= _ENOUGH * (until - since):
        return REASONS[best[1].kind], span_words(best[1])
    if timeline.waited_at((since + until) / 2) <= 0:
        return GapReason.NOTHING, "nothing left to run"
    return GapReason.OTHER, "jobs waited for something else"


REASONS = {
    SpanKind.PAUSE: GapReason.PAUSE,
    SpanKind.DRAIN: GapReason.PAUSE,
    SpanKind.STRANGER: GapReason.STRANGER,
    SpanKind.TROUBLE: GapReason.TROUBLE,
    SpanKind.AWAY: GapReason.AWAY,
}


def span_words(span: RecordedSpan) -> str:
    match span.kind:
        case SpanKind.STRANGER:
            facts = (span.text, f"pid {span.pid}" if span.pid is not None else "", _size(span.memory))
            return f"{span.user}: {', '.join(fact for fact in facts if fact)}"
        case SpanKind.AWAY:
            return "no gputui was running"
    return span.text


def _size(count: int | None) -> str:
    return memory(count).replace("G", " G") if count else ""


class Expected(Struct, frozen=True):
    """What will probably run in a place, and when."""

    job: JobId
    start: float
    end: float


def expected(
    timeline: Timeline, snapshot: Snapshot, now: float, until: float, ends: dict[JobId, float]
) -> dict[LanePlace, list[Expected]]:
    """The queue in its order over the lanes, as far as it is to be seen. `ends`: of running jobs, where known.

    What a pause keeps back begins after its end, and is not expected while nobody can say when that will be. Nor is
    anything on a cluster, which chooses the GPUs itself. As in `Outlook`, lanes that others use and lanes of jobs
    whose end is unknown are not counted on.
    """
    if snapshot.on_cluster:
        return {}
    free: list[tuple[float, int]] = []
    for index, lane in enumerate(snapshot.lanes):
        holder = snapshot.holders.get(lane.id)
        if holder in snapshot.outlook.unknown or (holder is None and lane.id in snapshot.blocked):
            continue
        free.append((_free_at(timeline, snapshot, holder, now, ends), index))
    heapq.heapify(free)
    bars: dict[LanePlace, list[Expected]] = {}
    while timeline.waiting and not still_waits(snapshot, timeline.waiting[0]):
        timeline.waiting.pop(0)
    for earliest, job in _in_turn(timeline, snapshot, now):
        if not free or max(earliest, free[0][0]) >= until:
            break
        _play(timeline, snapshot, job, earliest, free, bars)
    return bars


def _in_turn(timeline: Timeline, snapshot: Snapshot, now: float) -> list[tuple[float, JobId]]:
    """The next waiting jobs with the earliest moment each may start at: by that, then as the queue has them."""
    pauses = snapshot.mode is not Mode.RUNNING or snapshot.cautions
    waiting = (entry[2] for entry in timeline.waiting if still_waits(snapshot, entry))
    jobs = [snapshot[job_id] for job_id in islice(waiting, MOST_EXPECTED)]
    if not pauses:
        return [(now, job.id) for job in jobs]
    starts = ((starts_after(snapshot, job, now), job.id) for job in jobs)
    return sorted(((at, job) for at, job in starts if at is not None), key=lambda start: start[0])


def _play(
    timeline: Timeline,
    snapshot: Snapshot,
    job_id: JobId,
    earliest: float,
    free: list[tuple[float, int]],
    bars: dict[LanePlace, list[Expected]],
) -> None:
    """On as many lanes as it needs, from when the last of them is free."""
    job = snapshot[job_id]
    length = timeline.typical(job.spec.group)
    wanted = 1 if job.request.gpus is None else job.request.gpus
    if length is None or wanted > len(free):
        return
    lanes = [heapq.heappop(free) for _ in range(max(1, wanted))]
    start = max(earliest, *(at for at, _ in lanes))
    for _, index in lanes:
        for place in places_of(snapshot.lanes[index]):
            bars.setdefault(place, []).append(Expected(job_id, start, start + length))
        heapq.heappush(free, (start + length, index))


def _free_at(
    timeline: Timeline, snapshot: Snapshot, job_id: JobId | None, now: float, ends: dict[JobId, float]
) -> float:
    if job_id is None or job_id not in snapshot:
        return now
    if job_id in ends:
        return max(now, ends[job_id])
    job = snapshot[job_id]
    length = timeline.typical(job.spec.group)
    since = job.active.since if job.active is not None else now
    return max(now, since + (length or 0.0))


# ---- What happened in a stretch of time, one line each ----


MOST_CRASHES = 40
"""Of a row; what is older than them is left to the list of failures."""


class HappenedKind(StrEnum):
    BEGAN = "began"
    CRASH = "crash"
    STRANGER = "stranger"
    TROUBLE = "trouble"
    PAUSE = "pause"
    DONE = "done"


class Happened(Struct, frozen=True):
    at: float
    kind: HappenedKind
    text: str


def happened(
    timeline: Timeline, snapshot: Snapshot, spans: Iterable[RecordedSpan], since: float, until: float, now: float
) -> list[Happened]:
    """The oldest first."""
    events = [*_arrivals(timeline, since, until), *_crashes(timeline, snapshot, since, until)]
    for span in spans:
        events += [each for each in _of_span(span, now) if since <= each.at < until]
    if not snapshot.waiting and not snapshot.active:
        last = max((row.ends[-1] for row in timeline.rows.values() if len(row)), default=None)
        if last is not None and since <= last < until:
            events.append(Happened(last, HappenedKind.DONE, "the last job ended"))
    return sorted(events, key=lambda each: each.at)


def _arrivals(timeline: Timeline, since: float, until: float) -> Iterator[Happened]:
    """Jobs that came at one moment are one line."""
    for at, count in timeline.arrivals.items():
        if since <= at < until:
            yield Happened(at, HappenedKind.BEGAN, f"{counted(count, 'job', 'jobs')} added")


def _crashes(timeline: Timeline, snapshot: Snapshot, since: float, until: float) -> Iterator[Happened]:
    told_attempts: set[tuple[int, int]] = set()
    for place, row in timeline.rows.items():
        first, last = bisect_left(row.bad, since), bisect_right(row.bad, until)
        for start in row.bad[max(first, last - MOST_CRASHES) : last]:
            bar = row.bar(bisect_left(row.starts, start))
            if (bar.job, bar.attempt) not in told_attempts and bar.job in snapshot:
                told_attempts.add((bar.job, bar.attempt))
                yield Happened(bar.end or start, HappenedKind.CRASH, _crash(snapshot, bar, place))


def _crash(snapshot: Snapshot, bar: Bar, place: LanePlace) -> str:
    attempts = (each for each in snapshot[bar.job].attempts if each.number == bar.attempt)
    attempt = next(attempts, None)
    said = (attempt.said or attempt.end.name.value) if attempt is not None else ""
    return f"#{bar.job}  {said}, {place_words(place)}"


def _of_span(span: RecordedSpan, now: float) -> Iterator[Happened]:
    lasted = duration_words((span.until or now) - span.since)
    over = span.until is not None
    match span.kind:
        case SpanKind.STRANGER:
            where = place_words(LanePlace(span.device))
            yield Happened(span.since, HappenedKind.STRANGER, f"{span.user} comes to {where}: it is left alone")
            if over and span.until is not None:
                yield Happened(span.until, HappenedKind.STRANGER, f"{span.user} leaves {where} after {lasted}")
        case SpanKind.TROUBLE:
            where = place_words(LanePlace(span.device))
            yield Happened(span.since, HappenedKind.TROUBLE, f"{where}: {span.text}")
            if over and span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"{where} works again after {lasted}")
        case SpanKind.AWAY:
            yield Happened(span.since, HappenedKind.PAUSE, "the last gputui ended")
            if span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"gputui is back after {lasted}")
        case _:
            yield Happened(span.since, HappenedKind.PAUSE, span.text)
            if over and span.until is not None:
                yield Happened(span.until, HappenedKind.BEGAN, f"resumed after {lasted}")


def place_words(place: LanePlace) -> str:
    """`GPU 3`, `lane 1`."""
    if place.slot == NO_GPU:
        return f"lane {place.lane}"
    return place.slot if place.slot.startswith("lane ") else f"GPU {place.slot}"
