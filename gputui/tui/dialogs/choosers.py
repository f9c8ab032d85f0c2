"""Choosing the column to sort by and the metric to compare by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.core.amounts import counted
from gputui.core.results import Direction, direction_of
from gputui.logs.plain import plain
from gputui.tui.queue.columns import QueueColumn
from gputui.tui.queue.rows import QUEUE_ORDER
from gputui.tui.text import Line, Piece, blank, width_of
from gputui.tui.theme import Ground, Look, palette_of

from .ask import LIST_KEYS, Dialog

QUEUE = "s"


@dataclass(frozen=True)
class SortLetter:
    key: str
    title: str
    sort: str


def sort_letters(columns: Sequence[QueueColumn]) -> list[SortLetter]:
    """Return the sort letter of each column: its own, or else the first unused character of its title."""
    used_letters = {QUEUE, *(column.letter for column in columns if column.letter)}
    letters = [SortLetter(QUEUE, "queue", QUEUE_ORDER)]
    for column in columns:
        if column.sort is None or not column.title:
            continue
        candidates = "".join(filter(str.isalnum, column.title.lower())) + "0123456789"
        key = column.letter or next((letter for letter in candidates if letter not in used_letters), "")
        if key:
            used_letters.add(key)
            letters.append(SortLetter(key, column.title, column.sort))
    return letters


class _Letters(Widget):
    DEFAULT_CSS = "_Letters { height: auto; dock: bottom; }"

    def __init__(self, letters: Sequence[SortLetter]) -> None:
        super().__init__()
        self._letters = letters

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def _lines(self, width: int) -> list[Line]:
        """Return as many lines as the letters need."""
        rows: list[list[Piece]] = [[(" Sort by", Look.BOLD)]]
        for letter in self._letters:
            entry = [blank(2), (letter.key, Look.BEST), (f" {plain(letter.title)}", Look.PAST)]
            if width_of([*rows[-1], *entry]) >= width:
                rows.append([])
            rows[-1] += entry
        reverse: list[Piece] = [("again: reverse", Look.PAST)]
        if width_of([*rows[-1], blank(2), *reverse]) >= width:
            rows.append([])
        return [*(Line(row, Ground.HEADER) for row in rows[:-1]), Line(rows[-1], Ground.HEADER, reverse)]

    def render_line(self, y: int) -> Strip:
        return self._lines(self.size.width)[y].strip(self.size.width, palette_of(self.app.theme))


class SortPrompt(Dialog[str | None]):
    """A line that lists the columns to sort by. The result is the sort order, or None for any other key."""

    DEFAULT_CSS = "SortPrompt { background: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "cancel", show=False)]

    def __init__(self, letters: Sequence[SortLetter]) -> None:
        super().__init__()
        self._letters = letters

    def compose(self) -> ComposeResult:
        yield _Letters(self._letters)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c"):
            return
        event.stop()
        self.dismiss(next((letter.sort for letter in self._letters if letter.key == event.character), None))


CURVES = "\0curves"
DIRECTIONS = {Direction.DOWN: "lower is better", Direction.UP: "higher is better", Direction.UNKNOWN: ""}


class MetricList(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = LIST_KEYS


class MetricChooser(Dialog[str | None]):
    """A list of metrics. The result is the name of a metric, `CURVES` or None."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "cancel", show=False),
        Binding("m", "curves", show=False),
    ]

    def __init__(self, names: Sequence[tuple[str, int]], chosen: str | None, remark: str = "") -> None:
        """Create a list of the metrics in `names`, each with the number of jobs that printed it. `remark` is a text
        about the job under the cursor.
        """
        super().__init__("Metric")
        self._remark = remark
        self._names = [name for name, _ in names]
        longest = max((len(plain(name)) for name, _ in names), default=0)
        options = []
        for name, count in names:
            jobs = counted(count, "job", "jobs")
            options.append(Option(Text(f" {plain(name):<{longest}}   {jobs:>10}   {DIRECTIONS[direction_of(name)]}")))
        self._list = MetricList(*options, compact=True)
        self._list.highlighted = self._names.index(chosen) if chosen in self._names else 0

    def body(self) -> ComposeResult:
        if self._remark:
            yield Static(Text(plain(self._remark)), classes="body")
        yield Static("Used to compare and sort jobs.", classes="body")
        yield self._list
        yield Static("Enter: select · m: curves · Esc: cancel", classes="hint")

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])

    def action_curves(self) -> None:
        self.dismiss(CURVES)
