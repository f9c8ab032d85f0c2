"""Sends only changed cells to the terminal, sanitized."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from rich.cells import get_character_cell_size, split_graphemes
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ReturnType
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input, TextArea

from gputui.logs.plain import FORBIDDEN

from .driver import SafeDriver

# ---- A strip of styled text as terminal cells, and the shortest words for a change of style ----


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
    """How the terminal draws: SGR codes; an empty colour is the terminal's own."""

    attributes: str
    colour: str
    background: str


PLAIN = Pen("", "", "")

Cell = tuple[str, Pen]
"""What one column shows. The right half of a wide character is the empty text."""


def cells_of(segments: Iterable[Segment], colours: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in segments:
        if not control:
            pen = PLAIN if style is None else _pen_of(style, colours)
            cells.extend(zip(text if text.isascii() else _columns(text), repeat(pen), strict=False))
    return cells


def pen_change(old: Pen | None, new: Pen, text: str) -> str:
    """The SGR sequence after which the text looks as it should; empty when none is needed."""
    if old is None or old.attributes != new.attributes:
        if old is not None and text == " " and _alike_on_blanks(old, new):
            return ""
        return "\x1b[" + ";".join(("0", *filter(None, new))) + "m"
    codes = []
    if old.colour != new.colour and not (text == " " and _alike_on_blanks(old, new)):
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
    return Pen(attributes, "" if colour == "39" else colour, "" if background == "49" else background)


@lru_cache(4096)
def _columns(text: str) -> tuple[str, ...]:
    columns: list[str] = []
    for start, end, width in split_graphemes(text)[0]:
        if width:
            columns.append(text[start:end])
            columns.extend(repeat("", width - 1))
    return tuple(columns)


# ---- What the terminal shows, cell by cell, and the fewest bytes that turn it into a new picture ----


_LONGEST_GAP = 4
"""Cells that are cheaper to write again than to jump over."""


class Shadow:
    def __init__(self) -> None:
        self.size = (0, 0)
        self._rows: list[list[Cell | None]] = []
        self._pen: Pen | None = None
        self._place: tuple[int, int] | None = None

    def forget(self) -> None:
        """Nothing is known: every cell painted from now on is sent."""
        self.size = (0, 0)

    def resize(self, width: int, height: int) -> None:
        """Takes note of the screen's size; another one than before means that nothing is known."""
        if self.size != (width, height):
            self.size = (width, height)
            self._rows = [[None] * width for _ in range(height)]
            self._pen = self._place = None

    def paint(self, x: int, y: int, cells: list[Cell]) -> str:
        """The bytes that make the terminal show these cells from column x of row y on."""
        if not 0 <= y < len(self._rows):
            return ""
        row = self._rows[y]
        cells = cells[: len(row) - x]
        end = x + len(cells)
        if row[x:end] == cells:
            return ""
        changed = [x + i for i, (old, new) in enumerate(zip(row[x:end], cells, strict=True)) if old != new]
        self._unknow_halves(row, changed[0], changed[-1])
        row[x:end] = cells
        return "".join([self._cell(row, column, y) for column in changed])

    def go(self, x: int, y: int) -> str:
        """The bytes that bring the cursor there; none when it is there."""
        if self._place == (x, y):
            return ""
        steps = x - self._place[0] if self._place is not None and self._place[1] == y else 0
        self._place = (x, y)
        if steps > 0:
            return f"\x1b[{steps}C" if steps > 1 else "\x1b[C"
        return f"\x1b[{y + 1};{x + 1}H"

    def _cell(self, row: list[Cell | None], x: int, y: int) -> str:
        cell = row[x]
        if cell is None or not cell[0]:
            return ""  # the right half came with the left one
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
        """A short gap of unchanged cells in the present style is written again; else the cursor jumps."""
        if self._place is not None and self._place[1] == y and 0 < x - self._place[0] <= _LONGEST_GAP:
            gap = row[self._place[0] : x]
            if all(cell is not None and len(cell[0]) == 1 and self._looks_right(cell) for cell in gap):
                return "".join([cell[0] for cell in gap if cell is not None])
        return self.go(x, y)

    def _looks_right(self, cell: Cell) -> bool:
        """Written as the terminal draws now."""
        text, pen = cell
        return pen == self._pen or not pen_change(self._pen, pen, text)

    @staticmethod
    def _unknow_halves(row: list[Cell | None], first: int, last: int) -> None:
        """A wide character loses both halves when one is written over; the other half may lie outside the paint."""
        if first > 0 and _is_right_half(row[first]):
            row[first - 1] = None
        if last + 1 < len(row) and _is_right_half(row[last + 1]):
            row[last + 1] = None


def _is_right_half(cell: Cell | None) -> bool:
    return cell is not None and cell[0] == ""


# ---- Only changed cells reach the terminal, and no frame is drawn for a terminal that lags ----


_WORTH_SYNC = 512
"""Bytes; a smaller frame arrives in one piece anyway."""


class CellDiffApp(App[ReturnType]):
    """Part of `TerminalApp`. On any other driver than ours it is Textual's own App."""

    cell_diff = True
    """Set to False before the app runs to send what Textual sends."""

    _shadow: Shadow
    _frames_owed = False

    def forget_screen(self) -> None:
        """The next frame is drawn whole."""
        self._shadow.forget()
        if self._running:
            self.refresh()

    def terminal_has_room(self) -> None:
        if self._frames_owed:
            self._frames_owed = False
            self.refresh()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        driver = self._driver
        if not isinstance(driver, SafeDriver) or self._batch_count or not self._running or self._closed:
            super()._display(screen, renderable)
        elif driver.crowded:
            self._frames_owed = True
            self.post_display_hook()
        elif self.cell_diff and isinstance(renderable, LayoutUpdate | ChopsUpdate):
            self._draw(driver, renderable)
            self.post_display_hook()
        else:
            super()._display(screen, renderable)

    def _set_pointer_shape(self, shape: str) -> None:
        """Nothing follows the mouse here, and terminals that do not know the sequence print it."""

    def _draw(self, driver: SafeDriver, update: LayoutUpdate | ChopsUpdate) -> None:
        shadow = self._shadow
        shadow.resize(*self.size)
        colours = COLOR_SYSTEMS[self.console.color_system or "truecolor"]
        frame = "".join([shadow.paint(x, y, cells_of(strip, colours)) for y, x, strip in _pieces(update)])
        if isinstance(self.focused, Input | TextArea):  # input methods look where the field's cursor is
            frame += shadow.go(*self.screen.outer_size.clamp_offset(self.cursor_position))
        if len(frame) >= _WORTH_SYNC:
            self._begin_update()
            driver.write(frame)
            self._end_update()
        elif frame:
            driver.write(frame)


def _pieces(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Row, first column and content of what may have changed."""
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                yield y, x, strip
                x += strip.cell_length
        return
    for y, first, last in update.spans:
        for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if chop is not None and x <= last and end > first:
                yield y, x, chop


# ---- The last line of defence ----


# A column must stay a column: what has a width is replaced, what has none is dropped.
_CODES = [*FORBIDDEN, *range(0xD800, 0xE000)]
_TABLE = {code: "\ufffd" * get_character_cell_size(chr(code)) or None for code in _CODES}


class Sanitize(LineFilter):
    """No control character, no lone surrogate, no change of writing direction, no link."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(map(_is_harmless, segments)):
            return segments
        return [_harmless(segment) for segment in segments]


def _is_harmless(segment: Segment) -> bool:
    return segment.text.isprintable() and (segment.style is None or segment.style.link is None)


def _harmless(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link is not None:
        style = style.update_link(None)
    return Segment(segment.text.translate(_TABLE), style)
