"""Choosing the column to sort by and the metric to compare by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.core.amounts import counted
from gputui.core.results import Direction, direction_of
from gputui.logs.plain import plain
from gputui.tui.chrome import BandPart, band_line
from gputui.tui.queue.columns import QueueColumn
from gputui.tui.queue.rows import QUEUE_ORDER
from gputui.tui.theme import palette_of

from .ask import Dialog

# ---- The line that asks by which column to sort ----


QUEUE = "s"


@dataclass(frozen=True)
class SortLetter:
    key: str
    title: str
    sort: str


def sort_letters(columns: Sequence[QueueColumn]) -> list[SortLetter]:
    """Fixed ones for the columns that are always there; parameters get the first letter of theirs that is free."""
    used_letters = {QUEUE, *(column.letter for column in columns if column.letter)}
    letters = [SortLetter(QUEUE, "queue", QUEUE_ORDER)]
    for column in columns:
        if column.sort is None or not column.title:
            continue
        key = column.letter or next((letter for letter in _spare(column.title) if letter not in used_letters), "")
        if key:
            used_letters.add(key)
            letters.append(SortLetter(key, column.title, column.sort))
    return letters


def _spare(title: str) -> str:
    return "".join(letter for letter in title.lower() if letter.isalnum()) + "0123456789"


class _Letters(Widget):
    DEFAULT_CSS = "_Letters { height: 1; dock: bottom; }"

    def __init__(self, letters: Sequence[SortLetter]) -> None:
        super().__init__()
        self._letters = letters

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        parts: list[BandPart] = [(" Sort by", palette.text + Style(bold=True))]
        for letter in self._letters:
            parts += [("  ", palette.text), (letter.key, palette.best), (f" {letter.title}", palette.past)]
        return band_line(parts, [("again: reversed", palette.past)], self.size.width, palette, palette.header)


class SortPrompt(Dialog[str | None]):
    """Answers with the order; any other key goes back."""

    DEFAULT_CSS = "SortPrompt { background: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "give_up", show=False)]

    def __init__(self, letters: Sequence[SortLetter]) -> None:
        super().__init__()
        self._letters = letters

    def compose(self) -> ComposeResult:
        yield _Letters(self._letters)

    def action_give_up(self) -> None:
        self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c"):
            return
        event.stop()
        self.dismiss(next((letter.sort for letter in self._letters if letter.key == event.character), None))


# ---- `m` ----


CURVES = "\0curves"
WAYS = {Direction.DOWN: "down is good", Direction.UP: "up is good", Direction.UNKNOWN: ""}


class MetricChooser(Dialog[str | None]):
    """Answers with a metric's name, or `CURVES`."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", show=False),
        Binding("m", "curves", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, names: Sequence[tuple[str, int]], chosen: str | None) -> None:
        """Names with how many jobs printed each."""
        super().__init__()
        self._names = [name for name, _ in names]
        longest = max((len(plain(name)) for name, _ in names), default=0)
        self._list = OptionList(*(Option(_told(name, count, longest)) for name, count in names), compact=True)
        self._list.highlighted = self._names.index(chosen) if chosen in self._names else 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text("Metric")
            yield Static(Text("Jobs are compared and sorted by it."), markup=False, classes="body")
            yield self._list
            yield Static(Text("enter takes it · m shows curves · esc goes back"), markup=False, classes="hint")

    @on(OptionList.OptionSelected)
    def _taken(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])

    def action_curves(self) -> None:
        self.dismiss(CURVES)

    def action_move(self, by: int) -> None:
        if by > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()

    def action_cancel(self) -> None:
        self.dismiss(None)


def _told(name: str, count: int, longest: int) -> Text:
    jobs = counted(count, "job", "jobs")
    return Text(f" {plain(name):<{longest}}   {jobs:>10}   {WAYS[direction_of(name)]}")
