"""A document on the screen, line by line: its cost is the visible rows, never the file's length.

Owns where the screen stands in the document, whether it follows the document's end, and what is selected. Must not
know jobs, streams or keys with a meaning beyond moving.
"""

from __future__ import annotations

import textwrap
from re import Pattern
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from gputui.logs.ansi import Run
from gputui.logs.document import Document
from gputui.logs.layout import LineLayout, Top
from gputui.logs.plain import plain
from gputui.logs.search import Needle
from gputui.logs.sgr import PLAIN
from gputui.tui.looks.palette import palette_of

from .highlights import highlighted
from .strips import CUT, HighlightedText, breaks, column_of, fitting, painted, strip_of

__all__ = ["DocumentView"]

MOST_COPIED = 5000
"""Lines; a selection of a whole GB must not be joined."""
SIDEWAYS = 8


class DocumentView(ScrollView, can_focus=True):
    """Lines are known by their keys, which stay theirs while the document grows at both ends."""

    ALLOW_SELECT = True
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
        self._following = True
        self._top_key = 0
        self._top_part = 0
        self._left = 0
        self._wrapped = False
        self._wraps_by_itself = True
        """When the last line does not fit: it is the one that tells what went wrong."""
        self._needle: Needle | None = None
        self.bold_number: Pattern[str] | None = None
        """Finds the number that is read as a result, as its first group."""
        self._instead = ""
        self._visible: list[tuple[int, int]] = []
        """Key and part of the line in each row of the screen, as painted or about to be."""
        self._visible_in = Size(0, 0)

    @property
    def following(self) -> bool:
        return self._following

    @property
    def width(self) -> int:
        """Of what can be seen; the size of a scroll view has the scroll bar in it."""
        return max(1, self.size.width - self.scrollbar_size_vertical)

    @property
    def wrapped(self) -> bool:
        return self._wrapped

    def open(self, document: Document | None) -> None:
        """Shows another document at its end."""
        self._document = document
        self._following = True
        self._left = 0
        self._wrapped = self._wrapped and not self._wraps_by_itself
        if self.is_mounted and self.text_selection is not None:
            self.screen.clear_selection()
        self.repaint()

    def say_instead(self, text: str) -> None:
        """What is shown while there are no lines."""
        if text != self._instead:
            self._instead = text
            self.refresh()

    def repaint(self) -> None:
        self._place()
        self.refresh()

    def take_in(self, unsettled: set[int]) -> None:
        """Has those rows painted that are others than before, or whose line may read otherwise now."""
        old = self._visible
        self._place()
        changed = [
            y
            for y in range(max(len(old), len(self._visible)))
            if self._visible[y : y + 1] != old[y : y + 1] or self._visible[y][0] in unsettled
        ]
        if changed:
            self.refresh(Region(0, changed[0], self.width, changed[-1] + 1 - changed[0]))

    def follow(self, following: bool) -> None:
        self._following = following
        self.repaint()
        self.followed()

    def followed(self) -> None:
        """Called when following may have begun or ended."""

    def wrap(self, wrapped: bool) -> None:
        self._wrapped, self._wraps_by_itself = wrapped, False
        self._left = self._top_part = 0
        self.repaint()

    def mark(self, needle: Needle | None) -> None:
        """Has a text stand out wherever it is seen."""
        self._needle = needle
        self.refresh()

    def go_to(self, key: int) -> None:
        """Shows a line in the upper part of the screen, if it is not on the screen already."""
        if self._document is None:
            return
        self._following = False
        if key not in [shown for shown, _ in self._visible]:
            self._stand(self._layout().moved(Top(self._document.row(key)), -(self.size.height // 3)))
        self.repaint()
        self.followed()

    def move(self, rows: int) -> None:
        """Down, or up; reaching the end is following."""
        if self._document is None or not self._document.rows:
            return
        layout = self._layout()
        top = layout.moved(self._top(layout), rows)
        self._stand(top)
        self._following = top == layout.last_top()
        self.repaint()
        self.followed()

    def move_home(self) -> None:
        """To the first line that is known, however far it is."""
        self._left = 0
        self._stand(Top(0))
        self._following = self._layout().last_top() == Top(0)
        self.repaint()
        self.followed()

    def move_sideways(self, cells: int) -> None:
        if self._wrapped:
            return
        widest = max((cell_len(self._text(key)) for key, _ in self._visible), default=0)
        first_column = max(0, min(self._left + cells, widest - self.width))
        if first_column != self._left:
            self._left = first_column
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Somebody else moved: the scroll bar, or a selection past the edge."""
        self.vertical_scrollbar.position = new_value
        if self._visible_in != self.size:
            return  # nobody did: the screen has another size, and what stands where is worked out next
        if round(old_value) != round(new_value) and self._document is not None:
            layout = self._layout()
            self._stand(Top(round(new_value)))
            self._following = round(new_value) >= layout.last_top().row
            self.repaint()
            self.followed()

    def on_resize(self) -> None:
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if self._visible_in != self.size:
            self._place()
        base, width = self.rich_style, self.width
        if self._document is None or y >= len(self._visible):
            return self._instead_line(y, base, width)
        key, part = self._visible[y]
        heading = self._document.heading(key)
        if heading is not None:
            runs: tuple[Run, ...] = (Run(self._heading(heading, width), PLAIN),)
            style = self.get_component_rich_style("log--heading")
            return strip_of(runs, 0, width, [], width, style).apply_offsets(0, key)
        runs = painted(self._document.line(key))
        text = "".join(run.text for run in runs)
        start, stop = self._row(text, part, width)
        cut = not self._wrapped and stop < len(text)
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

    def _text(self, key: int) -> str:
        """A line as it is painted, whole."""
        if self._document is None:
            return ""
        if (heading := self._document.heading(key)) is not None:
            return self._heading(heading, self.width)
        return "".join(run.text for run in painted(self._document.line(key)))

    def _row(self, text: str, part: int, width: int) -> tuple[int, int]:
        """Which characters of a line stand in a row of the screen."""
        if self._wrapped:
            starts = breaks(text, width)
            return starts[min(part, len(starts) - 1)], [*starts[1:], len(text)][min(part, len(starts) - 1)]
        start = column_of(text, self._left)
        return start, fitting(text, start, width) if start < len(text) else start

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

    def _heading(self, stream: str, width: int) -> str:
        return f"── {stream} ".ljust(width, "─")

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
        if not self._wrapped or self._document is None:
            return 1
        return len(breaks(self._text(self._document.key(row)), self.width))

    def _top(self, layout: LineLayout) -> Top:
        last = layout.last_top()
        if self._following or self._document is None:
            return last
        return min(Top(self._document.row(self._top_key), self._top_part), last)

    def _stand(self, top: Top) -> None:
        if self._document is not None:
            self._top_key, self._top_part = self._document.key(top.row), top.part

    def _place(self) -> None:
        """Works out what stands where, and tells the scroll bar without a layout of the whole screen."""
        if self._wraps_by_itself and not self._wrapped and self._following and self._document is not None:
            rows = self._document.rows
            self._wrapped = bool(rows) and cell_len(self._text(self._document.key(rows - 1))) > self.width > 1
        layout, height = self._layout(), self.size.height
        top, last = self._top(layout), layout.last_top()
        self._stand(top)
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
