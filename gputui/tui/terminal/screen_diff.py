"""Frames as cells: the changed cells, the bytes to change them, and the filter for hostile text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from rich.cells import get_character_cell_size, split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from gputui.logs.plain import FORBIDDEN

# Cells and styles

_ATTRIBUTES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "blink": "5",
    "blink2": "6",
    "reverse": "7",
    "conceal": "8",
    "strike": "9",
    "underline2": "21",
    "frame": "51",
    "encircle": "52",
    "overline": "53",
}
_UNSEEN_ON_BLANKS = {"", "1", "2", "3"}


class Pen(NamedTuple):
    """The SGR codes of a style. An empty colour is the terminal's default."""

    attributes: str
    background: str
    colour: str


PLAIN = Pen("", "", "")

Cell = tuple[str, Pen]
"""The content of one column. The right half of a wide character is an empty text."""


def cells_of(segments: Iterable[Segment], colours: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in segments:
        if not control:
            pen = PLAIN if style is None else _pen_of(style, colours)
            cells.extend(zip(text if text.isascii() else _columns(text), repeat(pen), strict=False))
    return cells


def pen_change(old: Pen | None, new: Pen, text: str) -> str:
    """Return the SGR sequence that changes the style, or an empty text if `text` looks the same without it."""
    if old is not None and text == " " and _alike_on_blanks(old, new):
        return ""
    if old is None or old.attributes not in ("", new.attributes):
        return "\x1b[" + ";".join(("0", *filter(None, new))) + "m"
    codes = [] if old.attributes == new.attributes else [new.attributes]
    if old.colour != new.colour:
        codes.append(new.colour or "39")
    if old.background != new.background:
        codes.append(new.background or "49")
    return f"\x1b[{';'.join(codes)}m" if codes else ""


def _alike_on_blanks(old: Pen, new: Pen) -> bool:
    return (
        old.background == new.background and old.attributes in _UNSEEN_ON_BLANKS and new.attributes in _UNSEEN_ON_BLANKS
    )


@lru_cache(4096)
def _pen_of(style: Style, colours: ColorSystem) -> Pen:
    attributes = ";".join(code for name, code in _ATTRIBUTES.items() if getattr(style, name))
    colour = "" if style.color is None else ";".join(style.color.downgrade(colours).get_ansi_codes())
    background = (
        "" if style.bgcolor is None else ";".join(style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False))
    )
    return Pen(attributes, "" if background == "49" else background, "" if colour == "39" else colour)


@lru_cache(4096)
def _columns(text: str) -> tuple[str, ...]:
    columns: list[str] = []
    for start, end, width in split_graphemes(text)[0]:
        if width:
            columns.append(text[start:end])
            columns.extend(repeat("", width - 1))
    return tuple(columns)


# The copy of the screen

_LONGEST_GAP = 4
"""Maximum number of unchanged cells to write again because that is cheaper than jumping over them."""


class Shadow:
    """A copy of what the terminal shows, used to send the fewest bytes for a new frame."""

    def __init__(self) -> None:
        self.size = (0, 0)
        self._rows: list[list[Cell | None]] = []
        self._pen: Pen | None = None
        self._place: tuple[int, int] | None = None

    def forget(self) -> None:
        """Treat the screen as unknown, so that every painted cell is sent."""
        self.size = (0, 0)

    def resize(self, width: int, height: int) -> None:
        """Set the size. If it changes, the screen is treated as unknown."""
        if self.size != (width, height):
            self.size = (width, height)
            self._rows = [[None] * width for _ in range(height)]
            self._pen = self._place = None

    def paint(self, strips: Iterable[tuple[int, int, list[Cell]]]) -> str:
        """Return the bytes that make the terminal show the given cells. Each list of cells starts at column x of row y.

        Cells of the same style are sent together because changing the style takes more bytes than moving the cursor.
        """
        groups: dict[Pen | None, list[tuple[int, int]]] = {}
        for x, y, cells in strips:
            pen: Pen | None = None
            after = -1
            columns, narrow = self._update(x, y, cells)
            for column in columns:
                text, own = cells[column - x]
                if narrow and (column != after or pen is None or pen_change(pen, own, text)):
                    pen = own
                groups.setdefault(pen, []).append((column, y))
                after = column + 1
        # Cells in the current style come early. The other styles are sorted, so that most only add attributes.
        order = sorted(groups, key=lambda pen: (pen is not None, pen != self._pen, pen or PLAIN))
        return "".join([self._cell(self._rows[y], x, y) for pen in order for x, y in groups[pen]])

    def _update(self, x: int, y: int, cells: list[Cell]) -> tuple[list[int], bool]:
        """Put cells into the copy. Return the columns that changed, and whether every character fills exactly one
        column.

        Other characters (wide ones and clusters) are sent first and in order because they affect the cells beside them.
        """
        if not 0 <= y < len(self._rows):
            return [], True
        row = self._rows[y]
        cells = cells[: len(row) - x]
        end = x + len(cells)
        before = row[x:end]
        if before == cells:
            return [], True
        changed = [x + i for i, (old, new) in enumerate(zip(before, cells, strict=True)) if old != new]
        _forget_halves(row, changed[0], changed[-1])
        row[x:end] = cells
        return changed, all(cell is None or len(cell[0]) == 1 for cell in (*before, *cells))

    def go(self, x: int, y: int) -> str:
        """Return the fewest bytes that move the cursor to a cell, or an empty text if the cursor is already there."""
        place, self._place = self._place, (x, y)
        anywhere = f"\x1b[{y + 1};{x + 1}H"
        if place is None:
            return anywhere
        right, down = x - place[0], y - place[1]
        sideways = "\b" * -right if down and -4 < right <= 0 else _steps(right, "C", "D")
        return min(_steps(down, "B", "A") + sideways, anywhere, key=len)

    def _cell(self, row: list[Cell | None], x: int, y: int) -> str:
        cell = row[x]
        if cell is None or not cell[0]:
            return ""  # the right half was sent with the left one
        text, pen = cell
        sequence = self._reach(row, x, y)
        change = pen_change(self._pen, pen, text)
        if change:
            self._pen = pen
        after = x + (2 if row[x + 1 : x + 2] == [("", pen)] else 1)
        certain = len(text) == 1 and after < len(row)  # terminals disagree on clusters, and on what follows the edge
        self._place = (after, y) if certain else None
        return sequence + change + text

    def _reach(self, row: list[Cell | None], x: int, y: int) -> str:
        """Return the bytes to reach a cell. Short gaps in the current style are written again, and longer gaps are
        jumped over.
        """
        if self._place is not None and self._place[1] == y and 0 < x - self._place[0] <= _LONGEST_GAP:
            gap = row[self._place[0] : x]
            if all(cell is not None and len(cell[0]) == 1 and self._matches_pen(cell) for cell in gap):
                return "".join([cell[0] for cell in gap if cell is not None])
        return self.go(x, y)

    def _matches_pen(self, cell: Cell) -> bool:
        text, pen = cell
        return pen == self._pen or not pen_change(self._pen, pen, text)


def _steps(count: int, forward: str, back: str) -> str:
    number = abs(count)
    return f"\x1b[{number if number > 1 else ''}{forward if count > 0 else back}" if count else ""


def _forget_halves(row: list[Cell | None], first: int, last: int) -> None:
    """Mark the cells beside a painted range as unknown if they are halves of overwritten wide characters."""
    if first > 0 and _is_right_half(row[first]):
        row[first - 1] = None
    if last + 1 < len(row) and _is_right_half(row[last + 1]):
        row[last + 1] = None


def _is_right_half(cell: Cell | None) -> bool:
    return cell is not None and cell[0] == ""


# Hostile text

# Columns must stay aligned, so characters with a width are replaced and characters without one are dropped.
_CODES = [*FORBIDDEN, *range(0xD800, 0xE000)]
_TABLE = {code: "\ufffd" * get_character_cell_size(chr(code)) or None for code in _CODES}


class Sanitize(LineFilter):
    """The last filter against hostile text. It removes control characters, surrogates, direction changes and links."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(map(_is_harmless, segments)):
            return segments
        return [_sanitized(segment) for segment in segments]


def _is_harmless(segment: Segment) -> bool:
    return segment.text.isprintable() and (segment.style is None or segment.style.link is None)


def _sanitized(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(segment.text.translate(_TABLE), style)
