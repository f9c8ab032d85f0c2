"""A history in columns of any length: what a graph draws. Pure.

Columns begin at whole multiples of their length, so that a graph steps by one column when its time has come and only
the last one lives.
"""

from __future__ import annotations

from typing import NamedTuple

from .shares import LoadOwner
from .tracks import FULL, LEVELS, UNKNOWN, DeviceHistories, Track


class HistoryColumn(NamedTuple):
    """Parts of 1; no load: nobody can say."""

    load: float | None = None
    owner: LoadOwner = LoadOwner.NOBODY
    ours: float = 0.0
    others: float = 0.0


NOT_KNOWN = HistoryColumn()


def columns(histories: DeviceHistories, key: str, seconds: float, count: int, now: float) -> list[HistoryColumn]:
    """The last `count` columns of so many seconds each, the one that `now` falls into last."""
    newest = int(now // seconds)
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    level = _level(seconds, seconds * count)
    return [_column(tracks[level], level, number, seconds) for number in range(newest - count + 1, newest + 1)]


def between(histories: DeviceHistories, key: str, start: float, seconds: float, count: int) -> list[HistoryColumn]:
    """Columns from any moment on; of what has not been yet nobody can say anything."""
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    reach = tracks[0].last * LEVELS[0].seconds - start
    level = _level(seconds, reach)
    return [_column(tracks[level], level, number, seconds, start) for number in range(count)]


def _level(seconds: float, reach: float) -> int:
    """The finest that goes back so far; a column finer than its slots would show steps that were not."""
    fitting = (index for index, level in enumerate(LEVELS) if level.reach >= 0.99 * reach)
    return next(fitting, len(LEVELS) - 1)


def _column(track: Track, level: int, number: int, seconds: float, start: float = 0.0) -> HistoryColumn:
    slot = LEVELS[level].seconds
    first = track.last - len(track.figures[0]) + 1
    since, until = start + number * seconds, start + (number + 1) * seconds
    low = max(0, int(since // slot) + (since % slot > 0) - first)
    high = max(0, int(until // slot) + (until % slot > 0) - first)
    if high <= low:  # finer than the slots: the one it falls into
        low = int(since // slot) - first
        high = low + 1
    if low < 0 or low >= len(track.figures[0]):
        return NOT_KNOWN
    return _mean(track, low, high)


def _mean(track: Track, low: int, high: int) -> HistoryColumn:
    load, owner, ours, others = (figure[low:high] for figure in track.figures)
    if UNKNOWN in load:
        measured = [at for at, value in enumerate(load) if value != UNKNOWN]
        if not measured:
            return NOT_KNOWN
        load, owner, ours, others = (bytes(figure[at] for at in measured) for figure in (load, owner, ours, others))
    count = len(load)
    weights = [0, 0, 0]
    for whose, value in zip(owner, load, strict=True):
        weights[min(2, whose)] += value + 1
    strongest = LoadOwner(max(range(3), key=weights.__getitem__))
    return HistoryColumn(sum(load) / count / 100, strongest, sum(ours) / count / FULL, sum(others) / count / FULL)
