"""The line that asks by which column to sort: a letter for each, shown while one is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.looks.palette import palette_of
from gputui.tui.model.columns import QueueColumn
from gputui.tui.model.sorting import QUEUE_ORDER
from gputui.tui.widgets.band import BandPart, band_line

__all__ = ["SortLetter", "SortPrompt", "sort_letters"]

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


class SortPrompt(ModalScreen[str | None]):
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
