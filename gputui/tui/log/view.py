"""A widget that shows a document line by line, with scrolling, wrapping, marks and highlights."""

from __future__ import annotations

import asyncio
import re
import textwrap
import time
from collections.abc import Generator
from functools import lru_cache
from itertools import pairwise
from re import Pattern
from typing import ClassVar, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from gputui.core.regex import lazy_regex
from gputui.logs.ansi import PLAIN, Colour, Line, Look, Run
from gputui.logs.document import Document, LineLayout, Needle, Top
from gputui.logs.plain import plain
from gputui.tui.theme import Palette, palette_of
from gputui.views.format import fitting

SLICE = 0.015
"""Seconds of work before keys are handled and the screen is painted again."""

Result = TypeVar("Result")


async def run_in_slices(work: Generator[None, None, Result]) -> Result:
    """Run long work to its end, handling keys and painting in between."""
    deadline = time.monotonic() + SLICE
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        if time.monotonic() > deadline:
            await asyncio.sleep(0)
            deadline = time.monotonic() + SLICE


# Lines as strips

CUT = "›"
"""The sign in the last column of a line that continues to the right."""
_MORE = Look(dim=True)


class HighlightedText(NamedTuple):
    """A range of characters with its own style."""

    start: int
    stop: int
    style: Style


def painted(line: Line) -> tuple[Run, ...]:
    """Return the runs of a line, followed by a note if some bytes are hidden."""
    return (*line.runs, Run(f" …+{line.hidden:,} bytes", _MORE)) if line.hidden else line.runs


def end_of_row(text: str, start: int, width: int) -> int:
    """Return the index after the last character that fits in the row. Every row has at least one character."""
    return max(fitting(text, max(1, width), start), min(len(text), start + 1))


def breaks(text: str, width: int) -> list[int]:
    """Return the index of the first character of each row of the wrapped text."""
    rows = [0]
    while (stop := end_of_row(text, rows[-1], width)) < len(text):
        rows.append(stop)
    return rows


def column_of(text: str, cells: int) -> int:
    """Return the index of the character at the given cell."""
    return 0 if cells <= 0 else min(len(text), cells) if text.isascii() else end_of_row(text, 0, cells)


def strip_of(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], width: int, base: Style
) -> Strip:
    """Return a row of the screen with the characters from `start` to `stop`. Plain text becomes a single segment."""
    segments = [Segment(text, style) for text, style in _pieces(runs, start, stop, marks, base)]
    return Strip(segments).adjust_cell_length(width, base).simplify()


def _pieces(
    runs: tuple[Run, ...], start: int, stop: int, marks: list[HighlightedText], base: Style
) -> list[tuple[str, Style]]:
    """Split the runs at the ends of the row and of the marked ranges."""
    edges = sorted({edge for mark in marks for edge in (mark.start, mark.stop)})
    pieces = []
    place = 0
    for text, look in runs:
        style = _style(base, look)
        begin, end = max(place, start), min(place + len(text), stop)
        cuts = [begin, *(edge for edge in edges if begin < edge < end), end]
        for left, right in pairwise(cuts):
            if left < right:
                over = [mark.style for mark in marks if mark.start <= left < mark.stop]
                pieces.append((text[left - place : right - place], Style.combine([style, *over]) if over else style))
        place += len(text)
    return pieces


@lru_cache(maxsize=512)
def _style(base: Style, look: Look) -> Style:
    if look == Look():
        return base
    own = Style(
        color=_colour(look.foreground),
        bgcolor=_colour(look.background),
        bold=look.bold or None,
        dim=look.dim or None,
        italic=look.italic or None,
        underline=look.underline or None,
        reverse=look.reverse or None,
        strike=look.strike or None,
    )
    return base + own


def _colour(colour: Colour | None) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


# Errors and numbers

LONGEST = 2000
"""Maximum number of characters of a line that are searched."""
_FAILURE = lazy_regex(
    r"""\s*(?:
        Traceback\ \(most\ recent\ call\ last\)
        | [\w.]{0,80}(?:Error|Exception|Interrupt|Exit|Failure)(?::\ |\s*$)
        | (?:\S+\s+){0,4}\[?(?:ERROR|FATAL|CRITICAL)\b
        | (?:Segmentation\ fault|Aborted|Bus\ error|Killed|Floating\ point\ exception)\b
        | (?:slurmstepd|srun):\ error
    )""",
    re.VERBOSE,
)
_FRAME = lazy_regex(r'\s+File "[^"]+", line \d+')
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def highlighted(text: str, palette: Palette, number: Pattern[str] | None) -> list[HighlightedText]:
    """Return the ranges to highlight: errors, stack frames and the value of the metric."""
    searched = text[:LONGEST]
    if _FAILURE.match(searched) is not None:
        return [HighlightedText(0, len(text), _bold(palette.failure))]
    if _FRAME.match(searched) is not None:
        return [HighlightedText(0, len(text), _foreground(palette.failure))]
    if number is None:
        return []
    return [HighlightedText(*match.span(1), _bold(palette.best)) for match in number.finditer(searched)]


@lru_cache(maxsize=8)
def number_after(name: str) -> Pattern[str]:
    """Return a pattern that finds the number in `val_loss 0.41`, `val_loss=0.41` or `"val_loss": 0.41`."""
    return re.compile(rf"(?<![\w/.-]){re.escape(name)}[\"']?\s*[:=]?\s*({_NUMBER})(?![\w.])", re.IGNORECASE)


@lru_cache(maxsize=8)
def _bold(style: Style) -> Style:
    return _foreground(style) + Style(bold=True)


@lru_cache(maxsize=8)
def _foreground(style: Style) -> Style:
    """Return the style without its background."""
    return Style(color=style.color, bold=style.bold, dim=style.dim)


# The widget

MOST_COPIED = 5000
"""Maximum number of lines that are copied, because a selected gigabyte must not be joined into one text."""
SIDEWAYS = 8
WHEEL_ROWS = 3


class DocumentView(ScrollView, can_focus=True):
    """A widget that shows a document. A line has a key that stays the same while the document grows at both ends."""

    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("ctrl+u", "half_page(-1)", show=False),
        Binding("ctrl+d", "half_page(1)", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--heading", "log--note", "log--match"}
    DEFAULT_CSS = """
    DocumentView {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-background: $background; scrollbar-background-hover: $background; scrollbar-corner-color: $background;
        & > .log--heading { color: $text-muted; }
        & > .log--note { color: $text-muted; }
        & > .log--match { background: $warning; color: $background; text-style: none; }
    }
    """

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._document: Document | None = None
        self.following = True
        self._top_key = 0
        self._top_part = 0
        self._left = 0
        self.wrapped = False
        self._wraps_by_itself = True
        """Whether to start wrapping if the last line does not fit, because that line may be an error."""
        self._needle: Needle | None = None
        self.bold_number: Pattern[str] | None = None
        """A pattern whose first group is a number to show in bold because it is read as a result, or None."""
        self._instead = ""
        self._visible: list[tuple[int, int]] = []
        """The key of the line and the number of the part of that line, for each row of the screen."""
        self._visible_in = Size(0, 0)

    @property
    def width(self) -> int:
        """The visible width. Unlike `size`, it excludes the scroll bar."""
        return max(1, self.size.width - self.scrollbar_size_vertical)

    def open(self, document: Document | None) -> None:
        """Show another document at its end."""
        self._document = document
        self.following = True
        self._left = 0
        self.wrapped = self.wrapped and not self._wraps_by_itself
        if self.is_mounted and self.text_selection is not None:
            self.screen.clear_selection()
        self.repaint()

    def show_instead(self, text: str) -> None:
        """Set the text shown while the document has no lines."""
        if text != self._instead:
            self._instead = text
            self.refresh()

    def repaint(self) -> None:
        self._place()
        self.refresh()
        self.paint_band()

    def paint_band(self) -> None:
        """Show whether the end is followed. Subclasses override this."""

    def repaint_changed(self, unsettled: set[int]) -> None:
        """Repaint the rows that have changed and the rows of the `unsettled` lines, whose text may have changed."""
        old = self._visible
        self._place()
        rows = range(max(len(old), len(self._visible)))
        changed = [y for y in rows if (now := self._visible[y : y + 1]) != old[y : y + 1] or now[0][0] in unsettled]
        if changed:
            self.refresh(Region(0, changed[0], self.width, changed[-1] + 1 - changed[0]))

    def follow(self, following: bool) -> None:
        self.following = following
        self.repaint()

    def wrap(self, wrapped: bool) -> None:
        self.wrapped, self._wraps_by_itself = wrapped, False
        self._left = self._top_part = 0
        self.repaint()

    def mark(self, needle: Needle | None) -> None:
        """Highlight all occurrences of a text, or none if `needle` is None."""
        self._needle = needle
        self.refresh()

    def go_to(self, key: int) -> None:
        """Scroll to a line, unless it is already visible."""
        if self._document is None:
            return
        self.following = False
        if key not in [shown for shown, _ in self._visible]:
            self._set_top(self._layout().moved(Top(self._document.row(key)), -(self.size.height // 3)))
        self.repaint()

    def move(self, rows: int) -> None:
        """Scroll down by a number of rows, or up if it is negative. Following starts when the end is reached."""
        if self._document is None or not self._document.rows:
            return
        layout = self._layout()
        top = layout.moved(self._top(layout), rows)
        self._set_top(top)
        self.following = top == layout.last_top()
        self.repaint()

    def move_home(self) -> None:
        """Scroll to the first known line."""
        self._left = 0
        self._set_top(Top(0))
        self.following = self._layout().last_top() == Top(0)
        self.repaint()

    def move_sideways(self, cells: int) -> None:
        if self.wrapped:
            return
        widest = max((cell_len(self._text(key)) for key, _ in self._visible), default=0)
        first_column = max(0, min(self._left + cells, widest - self.width))
        if first_column != self._left:
            self._left = first_column
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """React to scrolling by the scroll bar or by a selection dragged past the edge."""
        self.vertical_scrollbar.position = new_value
        if self._visible_in != self.size:
            return  # the size has changed, and `_place` is about to be called
        if round(old_value) != round(new_value) and self._document is not None:
            layout = self._layout()
            self._set_top(Top(round(new_value)))
            self.following = round(new_value) >= layout.last_top().row
            self.repaint()

    def on_resize(self) -> None:
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if self._visible_in != self.size:
            self._place()
        base, width = self.rich_style, self.width
        if self._document is None or y >= len(self._visible):
            return self._instead_line(y, base, width)
        key, part = self._visible[y]
        runs = self._runs(key)
        text = "".join(run.text for run in runs)
        if self._document.heading(key) is not None:
            style = self.get_component_rich_style("log--heading")
            return strip_of(runs, 0, width, [], width, style).apply_offsets(0, key)
        start, stop = self._row(text, part, width)
        cut = not self.wrapped and stop < len(text)
        strip = strip_of(runs, start, stop, self._marks(text, key), width, base)
        if cut and strip.cell_length:
            strip = Strip([*strip.crop(0, width - 1), *strip_of((Run(CUT, PLAIN),), 0, 1, [], 1, base)]).simplify()
        return strip.apply_offsets(start, key)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if self._document is None:
            return None
        first = 0 if selection.start is None else self._document.row(selection.start.y)
        last = self._document.rows - 1 if selection.end is None else self._document.row(selection.end.y)
        lines = []
        for row in range(first, min(last, first + MOST_COPIED - 1) + 1):
            text = self._text(key := self._document.key(row))
            span = selection.get_span(key)
            lines.append("" if span is None else text[span[0] :] if span[1] == -1 else text[span[0] : span[1]])
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _runs(self, key: int) -> tuple[Run, ...]:
        """Return the whole text of a line as it is painted."""
        if self._document is None:
            return ()
        heading = self._document.heading(key)
        return (
            painted(self._document.line(key))
            if heading is None
            else (Run(f"── {heading} ".ljust(self.width, "─"), PLAIN),)
        )

    def _text(self, key: int) -> str:
        return "".join(run.text for run in self._runs(key))

    def _row(self, text: str, part: int, width: int) -> tuple[int, int]:
        """Return the range of characters shown in a row of the screen: the first index and the index after the last."""
        if self.wrapped:
            starts = breaks(text, width)
            return starts[min(part, len(starts) - 1)], [*starts[1:], len(text)][min(part, len(starts) - 1)]
        start = column_of(text, self._left)
        return start, end_of_row(text, start, width) if start < len(text) else start

    def _marks(self, text: str, key: int) -> list[HighlightedText]:
        marks = highlighted(text, palette_of(self.app.theme), self.bold_number)
        if self._needle is not None:
            style = self.get_component_rich_style("log--match")
            marks += [HighlightedText(start, stop, style) for start, stop in self._needle.spans(text)]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(key)) is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            marks.append(HighlightedText(span[0], len(text) if span[1] == -1 else span[1], style))
        return marks

    def _instead_line(self, y: int, base: Style, width: int) -> Strip:
        room, text_instead = max(1, width - 2), "" if self._visible else self._instead
        lines = [line for written in text_instead.split("\n") for line in textwrap.wrap(plain(written), room) or [""]]
        text = f" {lines[y]}" if y < len(lines) else ""
        style = self.get_component_rich_style("log--note")
        return strip_of((Run(text, PLAIN),), 0, width, [], width, style if text else base)

    def _layout(self) -> LineLayout:
        rows = self._document.rows if self._document is not None else 0
        return LineLayout(rows, self.size.height, self._parts)

    def _parts(self, row: int) -> int:
        if not self.wrapped or self._document is None:
            return 1
        return len(breaks(self._text(self._document.key(row)), self.width))

    def _top(self, layout: LineLayout) -> Top:
        last = layout.last_top()
        if self.following or self._document is None:
            return last
        return min(Top(self._document.row(self._top_key), self._top_part), last)

    def _set_top(self, top: Top) -> None:
        if self._document is not None:
            self._top_key, self._top_part = self._document.key(top.row), top.part

    def _place(self) -> None:
        """Compute the visible rows and move the scroll bar without a new layout of the whole screen."""
        if self._wraps_by_itself and not self.wrapped and self.following and self._document is not None:
            rows = self._document.rows
            self.wrapped = bool(rows) and cell_len(self._text(self._document.key(rows - 1))) > self.width > 1
        layout, height = self._layout(), self.size.height
        top, last = self._top(layout), layout.last_top()
        self._set_top(top)
        document = self._document
        self._visible = [] if document is None else [(document.key(row), part) for row, part in layout.visible(top)]
        self._visible_in = self.size
        if self.virtual_size.height != last.row + height:
            self.set_reactive(Widget.virtual_size, Size(0, last.row + height))
            self.vertical_scrollbar.window_virtual_size = last.row + height
        if round(self.scroll_y) != top.row:
            self.set_scroll(None, top.row)
            self.set_reactive(Widget.scroll_target_y, top.row)
            self.vertical_scrollbar.position = top.row

    # Keys and the wheel; arrows, pages, home and end are bound by the scroll view

    def action_scroll_up(self) -> None:
        self.move(-1)

    def action_scroll_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move(1 - max(2, self.size.height))

    def action_page_down(self) -> None:
        self.move(max(2, self.size.height) - 1)

    def action_half_page(self, direction: int) -> None:
        self.move(direction * max(1, self.size.height // 2))

    def action_scroll_left(self) -> None:
        self.move_sideways(-SIDEWAYS)

    def action_scroll_right(self) -> None:
        self.move_sideways(SIDEWAYS)

    def action_scroll_home(self) -> None:
        self.move_home()

    def action_scroll_end(self) -> None:
        self.follow(True)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        event.prevent_default().stop()
        if event.shift or event.ctrl:
            self.move_sideways(direction * SIDEWAYS)
        else:
            self.move(direction * WHEEL_ROWS)

    def on_scroll_to(self, message: ScrollTo) -> None:
        message.prevent_default().stop()
        if message.y is not None:
            self.scroll_y = message.y

    def on_scroll_up(self, event: ScrollUp) -> None:
        event.prevent_default().stop()
        self.action_page_up()

    def on_scroll_down(self, event: ScrollDown) -> None:
        event.prevent_default().stop()
        self.action_page_down()
