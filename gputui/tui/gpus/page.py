"""The lines of the GPU pane, with graphs and bars as styled text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from gputui.gpus.history import HistoryColumn, LoadOwner
from gputui.tui.text import Line, Piece, Pieces, blank, fit, merged
from gputui.tui.theme import LOADS, OTHERS_LOADS, STEPS, Ground, Look

# The page


PageLine = tuple[Line, ...]
"""Sections side by side. The value of a section is the key of the device that the cursor can select there."""


class Page(Struct, frozen=True):
    lines: tuple[PageLine, ...]
    head: Pieces = ()
    """The text after the title in the pane's band: the column headings."""
    tail: Pieces = ()
    """The text at the right end of the pane's band."""
    barred: bool = False
    """Whether the selected device is marked by a bar at the left instead of by its background."""

    def keys(self) -> list[str]:
        """Return the keys of the devices in the order in which the cursor visits them."""
        spots = sorted(
            ((column, row, str(section.value)) for row, line in enumerate(self.lines)
             for column, section in enumerate(line) if section.value is not None), key=lambda place: place[:2]
        )  # fmt: skip
        return list(dict.fromkeys(key for _, _, key in spots))


class Room(Struct, frozen=True):
    """The space available for a page."""

    width: int
    height: int
    full: bool = False
    """Whether the pane fills the screen and shows history, processes, users and the machine."""
    screen_height: int = 0
    """The height of the terminal. The layout depends on it so that nothing jumps when panes change."""
    title: int = 0
    """Width of the number and title in the band."""


def section(pieces: Pieces, columns: int, key: str | None = None, *, band: bool = False) -> Line:
    """Return a section with its text cut or padded to the given number of columns."""
    return Line(tuple(fit(pieces, columns)), Ground.BAND if band else Ground.PAGE, value=key)


# Graphs and bars

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""The braille bits of half a cell (left or right) filled to a height of 0 to 4 dots from the bottom."""
_DOWN = 4


def sparkline(columns: Sequence[HistoryColumn]) -> list[Piece]:
    """Return a sparkline with one cell for each column."""
    return merged([_spark(column) for column in columns])


def _spark(column: HistoryColumn) -> Piece:
    if column.load is None:
        return " ", Look.LINE
    if column.load <= 0.005:
        return STEPS[0], Look.LINE
    step = STEPS[min(len(STEPS) - 1, int(column.load * len(STEPS)))]
    shades = OTHERS_LOADS if column.owner is LoadOwner.OTHERS else LOADS
    return step, shades[min(3, int(column.load * 4))]


def load_graph(columns: Sequence[HistoryColumn], rows: int, *, dead: bool = False) -> list[list[Piece]]:
    """Return the rows of a load graph from the top down, coloured by who caused the load, or gray if `dead`."""

    def look(pair: Sequence[HistoryColumn], row: int) -> Look:
        if dead:
            return Look.PAST
        if not any(column.load for column in pair):
            return Look.LINE
        shade = 3 if rows == 1 else min(3, round((row + 1) * 3 / rows))
        strongest = max(pair, key=lambda column: column.load or 0.0)
        return (OTHERS_LOADS if strongest.owner is LoadOwner.OTHERS else LOADS)[shade]

    return _graph([_dots(column.load, rows) for column in columns], columns, rows, look)


def memory_graph(columns: Sequence[HistoryColumn], rows: int, *, dead: bool = False) -> list[list[Piece]]:
    """Return the rows of a memory graph from the top down, with our memory below the memory of others."""
    heights = [None if column.load is None else _dots(column.ours + column.others, rows) for column in columns]

    def look(pair: Sequence[HistoryColumn], row: int) -> Look:
        if dead:
            return Look.PAST
        fullest = max(pair, key=lambda column: column.ours + column.others)
        if fullest.ours + fullest.others <= 0.005:
            return Look.LINE
        own = fullest.ours * (rows * _DOWN - 1)
        return Look.EXTERNAL if row * _DOWN + 1 > own and fullest.others > 0.005 else Look.MEMORY

    return _graph(heights, columns, rows, look)


def _dots(share: float | None, rows: int) -> int | None:
    """Return the height in dots, or None if the share is unknown. A known share of zero is one dot high."""
    return None if share is None else max(1, round(min(1.0, share) * (rows * _DOWN - 1)))


def _graph(
    heights: Sequence[int | None],
    columns: Sequence[HistoryColumn],
    rows: int,
    look: Callable[[Sequence[HistoryColumn], int], Look],
) -> list[list[Piece]]:
    drawn = []
    for row in reversed(range(rows)):
        cells: list[Piece] = []
        for at in range(0, len(heights) - 1, 2):
            one, two = (min(_DOWN, max(0, (height or 0) - row * _DOWN)) for height in heights[at : at + 2])
            dots = _LEFT[one] | _RIGHT[two]
            cells.append((chr(0x2800 + dots), look(columns[at : at + 2], row)) if dots else (" ", Look.LINE))
        drawn.append(merged(cells))
    return drawn


def memory_bar(ours: int, others: int, used: int | None, total: int | None, cells: int) -> list[Piece]:
    """Return a bar of our memory, the memory of others, the driver's memory, and the rest. Our memory and that of
    others have at least one cell if they are not zero.
    """
    if used is None or not total:
        return [blank(cells)]
    own = _cells(ours, total, cells)
    theirs = min(cells - own, _cells(others, total, cells))
    rest = min(cells - own - theirs, max(0, round(cells * used / total) - own - theirs))
    pieces = [("━" * own, Look.MEMORY), ("━" * theirs, Look.EXTERNAL), ("━" * rest, Look.PAST),
            ("─" * (cells - own - theirs - rest), Look.LINE)]  # fmt: skip
    return [piece for piece in pieces if piece[0]]


def _cells(part: int, total: int, cells: int) -> int:
    return min(cells, max(part * 50 > total, round(cells * part / total)))


def scale(minutes: int, cells: int) -> str:
    """Return a time scale such as `-30 min -20 -10 now`, with each label at its position."""
    first, last = f"-{minutes} min", "now"
    text = list(first.ljust(cells))
    for back in (minutes * 2 // 3, minutes // 3):
        label, at = f"-{back}", round(cells * (1 - back / minutes))
        if at > len(first) + 1 and at + len(label) < cells - len(last):
            text[at : at + len(label)] = label
    if cells > len(first) + len(last):
        text[cells - len(last) :] = last
    return "".join(text)[:cells]
