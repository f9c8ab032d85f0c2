"""What happened in a stretch of time, one line each: jobs came, crashed, somebody came or went, a pause. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import counted, duration_words

from .rows import Bar, LanePlace, Timeline
from .spans import RecordedSpan, SpanKind

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
    return place.slot if place.slot.startswith("lane ") else f"GPU {place.slot}"
