"""The help: all keys by topic, in as many columns as fit, with a search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Input, Static

from .ask import Paged

Topic = tuple[str, Sequence[tuple[str, str]]]
"""A title, and keys with descriptions of what they do."""
LEAST_COLUMN, GAP = 54, 2
"""Minimum width of a column, and the blanks between two columns."""
KEY = 6


def help_text(topics: Sequence[Topic], width: int, query: str = "") -> Text:
    """Render the topics in columns. If there is a query, show only the lines that contain all of its words."""
    count = max(1, (width + GAP) // (LEAST_COLUMN + GAP))
    cells = (width + GAP) // count - GAP
    words = query.lower().split()
    sections: list[list[Text]] = []
    for title, keys in topics:
        found = [(key, does) for key, does in keys if all(word in f"{key} {does} {title}".lower() for word in words)]
        if found:
            lines = [Text.assemble((f" {key:<{KEY}} ", "bold"), does) for key, does in found]
            sections.append([Text.assemble((title, "bold underline")), *lines, Text()])
    if not sections:
        return Text("nothing found")
    columns = _balanced(sections, count)
    rows = zip_longest(*columns, fillvalue=Text())
    return Text("\n").join(Text(" " * GAP).join(_fitted(line, cells) for line in row) for row in rows)


def _balanced(sections: list[list[Text]], count: int) -> list[list[Text]]:
    """Distribute the sections over columns of similar heights, in order and without splitting a section."""
    columns: list[list[Text]] = []
    for free in range(count, 0, -1):
        height = sum(map(len, sections)) / free
        column: list[Text] = []
        while sections and (free == 1 or not column or len(column) + len(sections[0]) / 2 <= height):
            column += sections.pop(0)
        columns.append(column)
    return columns


def _fitted(line: Text, cells: int) -> Text:
    line = line.copy()
    line.truncate(cells, overflow="ellipsis", pad=True)
    return line


class HelpScreen(Paged[None]):
    """The help. `/` searches it."""

    AUTO_FOCUS = "VerticalScroll"
    SHAPE = "reading help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter", "cancel", show=False),
        Binding("slash", "search", show=False),
    ]

    def __init__(self, notes: str, topics: Sequence[Topic]) -> None:
        super().__init__("Keys")
        self._notes, self._topics = notes, topics
        self._search = Input(placeholder="search", compact=True, id="search", select_on_focus=False)
        self._search.display = False
        self._text = Static(id="text")
        self.page = VerticalScroll(self._text, can_focus=True)

    def body(self) -> ComposeResult:
        yield Static(self._notes, markup=False, classes="body")
        yield self._search
        yield self.page
        yield Static("/: search · j k: scroll · Esc: close", classes="hint")

    def on_resize(self) -> None:
        self.call_after_refresh(self._update)

    @on(Input.Changed)
    def _update(self) -> None:
        width = self.page.scrollable_content_region.width
        self._text.update(help_text(self._topics, width, self._search.value))

    @on(Input.Submitted)
    def _leave_search(self) -> None:
        self.page.focus()

    def action_search(self) -> None:
        self._search.display = True
        self._search.focus()

    def action_cancel(self) -> None:
        """Close the help, or end the search first."""
        if not self._search.display:
            self.dismiss(None)
            return
        self._search.value = ""
        self._search.display = False
        self.page.focus()
