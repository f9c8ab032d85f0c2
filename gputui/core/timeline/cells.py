"""A stretch of time in columns: ticks, and what stands in each cell of a row. Pure; knows no colours."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from .rows import Bar, PlaceRow

TICK_COLUMNS = 12
"""Between two ticks, always: labels never drift."""
TICKS = (12, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 2 * 86400, 7 * 86400, 28 * 86400)
"""Seconds between two ticks, by how far one is zoomed out."""
_AHEAD_OF_PAST = 1.0
"""How long what is expected may be, beside what was, to be shown whole."""


class Window(Struct, frozen=True):
    """Columns of equal length from a start on."""

    start: float
    tick: int
    """Index into TICKS."""
    columns: int

    @property
    def step(self) -> float:
        """Seconds of a column."""
        return TICKS[self.tick] / TICK_COLUMNS

    @property
    def end(self) -> float:
        return self.start + self.columns * self.step

    def column(self, at: float) -> int:
        """Which one a moment falls into; outside it may be below 0 or beyond the last."""
        return int((at - self.start) // self.step)

    def cell(self, column: int) -> tuple[float, float]:
        return self.start + column * self.step, self.start + (column + 1) * self.step


def whole(began: float, now: float, ends: float | None, columns: int) -> Window:
    """All that was, and what is expected as far as there is room: the finest ticks that do."""
    fitting = (tick for tick in range(len(TICKS)) if _fits(began, now, tick, columns))
    tick = next(fitting, len(TICKS) - 1)
    step = TICKS[tick] / TICK_COLUMNS
    start = floored(began, step) - step
    if not _fits(began, now, tick, columns):
        start = floored(now, step) - (columns - 2) * step
    return _with_room_ahead(Window(start, tick, columns), began, now, ends)


def _with_room_ahead(window: Window, began: float, now: float, ends: float | None) -> Window:
    """Coarser, where what is expected would be cut off though it is not long beside what was."""
    ahead = min(max(0.0, (ends or now) - now), (now - began) * _AHEAD_OF_PAST)
    while now + ahead > window.end - window.step and window.tick < len(TICKS) - 1:
        tick = window.tick + 1
        step = TICKS[tick] / TICK_COLUMNS
        window = Window(floored(began, step) - step, tick, window.columns)
    return window


def _fits(began: float, now: float, tick: int, columns: int) -> bool:
    return now - began <= (columns - 2) * TICKS[tick] / TICK_COLUMNS


def floored(at: float, seconds: float) -> float:
    """To whole ticks of the clock on the wall."""
    offset = datetime.fromtimestamp(at).astimezone().utcoffset()
    shift = offset.total_seconds() if offset is not None else 0.0
    return (at + shift) // seconds * seconds - shift


def zoomed(window: Window, by: int, about: float) -> Window:
    """Finer (-1) or coarser (+1), with a moment kept where it is on the screen."""
    tick = min(len(TICKS) - 1, max(0, window.tick + by))
    step = TICKS[tick] / TICK_COLUMNS
    place = min(1.0, max(0.0, (about - window.start) / (window.end - window.start)))
    return Window(floored(about - place * window.columns * step, step), tick, window.columns)


def panned(window: Window, columns: int) -> Window:
    return Window(window.start + columns * window.step, window.tick, window.columns)


def moved_to_show(window: Window, since: float, until: float) -> Window:
    """With this stretch in sight; its beginning, if it is longer than the window."""
    if since < window.start:
        return Window(floored(since, window.step) - 2 * window.step, window.tick, window.columns)
    if until > window.end:
        start = min(since, until - window.columns * window.step) + 2 * window.step
        return Window(floored(min(start, since), window.step), window.tick, window.columns)
    return window


class TimeTick(Struct, frozen=True):
    column: int
    label: str
    new_day: bool = False


def ticks(window: Window) -> list[TimeTick]:
    """Labels of moments; the day is told where it begins, and with the first label of another day than today's."""
    seconds = TICKS[window.tick]
    at, day = floored(window.start, seconds), ""
    labels: list[TimeTick] = []
    while at < window.end:
        if at >= window.start - window.step / 2:
            then = datetime.fromtimestamp(at)
            fresh = then.strftime("%a") != day and (seconds >= 4 * 3600 or bool(labels))
            labels.append(TimeTick(window.column(at + window.step / 4), _label(then, seconds, fresh), fresh))
            day = then.strftime("%a")
        at += seconds
    return labels


def _label(then: datetime, seconds: int, fresh: bool) -> str:
    if seconds >= 7 * 86400:
        return then.strftime("%d %b")
    if seconds < 60:
        return then.strftime("%H:%M:%S")
    return then.strftime("%a %H:%M" if fresh else "%H:%M")


class Cell(Struct, frozen=True):
    """One cell of a row; without a bar nothing ran in it."""

    bar: Bar | None = None
    first: bool = False
    """The bar begins here, as far as it is seen."""
    share: float = 0.0
    """How much of the cell was busy."""
    many: bool = False
    """Attempts are shorter than the cell."""
    shade: int = 0
    """0 or 1: neighbours differ."""


NOTHING = Cell()


def cells(row: PlaceRow, window: Window, now: float, active: Bar | None = None) -> list[Cell]:
    """A crash in a cell always wins; else the attempt that begins there, or the one that goes on."""
    line: list[Cell] = []
    before: tuple[int, int] | None = None
    for column in range(window.columns):
        since, until = window.cell(column)
        cell = _cell(row, since, until, now, active)
        bar = cell.bar
        identity = (bar.job, bar.attempt) if bar is not None else None
        line.append(Cell(bar, identity != before, cell.share, cell.many, cell.shade))
        before = identity
    return line


def _cell(row: PlaceRow, since: float, until: float, now: float, active: Bar | None) -> Cell:
    inside = row.within(since, until)
    runs = active is not None and active.start < until and since <= now
    if not inside:
        return Cell(active, share=1.0, shade=len(row) % 2) if runs else NOTHING
    seconds = row.busy_seconds(since, until)
    if runs and active is not None:
        seconds += max(0.0, min(until, now) - max(since, active.start))
    share = min(1.0, seconds / (until - since))
    bad = row.first_bad(since, until)
    if bad is not None:
        return Cell(row.bar(bad), share=share, shade=bad % 2)
    if runs and active is not None and active.start < until - (until - since) / 2:
        return Cell(active, share=share, shade=len(row) % 2)
    index = _chosen(row, inside, since, until)
    return Cell(row.bar(index), share=share, many=len(inside) > 2, shade=index % 2)


def _chosen(row: PlaceRow, inside: range, since: float, until: float) -> int:
    """Of two that meet in a cell, the one that has more of it."""
    if len(inside) == 1:
        return inside.start
    first, last = inside.start, inside.stop - 1
    return first if row.ends[first] - since > until - row.starts[last] else last
