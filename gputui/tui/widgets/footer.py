"""The line at the bottom: what the user may do next, here and now; each can be clicked."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from gputui.tui.actions.table import BY_NAME

ALWAYS = ("help", "leave")


class Footer(Static):
    class Clicked(Message):
        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._places: list[tuple[int, int, str]] = []
        self._shown: tuple[str, ...] = ()

    def show(self, actions: list[tuple[str, str]], keys: dict[str, str]) -> None:
        """`actions`: names with what they would do now; those that do not fit are left to the help."""
        entries = [(name, keys.get(name, BY_NAME[name].shown_key), label) for name, label in actions]
        always = [(name, keys.get(name, BY_NAME[name].shown_key), BY_NAME[name].label) for name in ALWAYS]
        room = self.size.width - sum(_width(entry) for entry in always)
        shown = []
        for entry in entries:
            if _width(entry) <= room:
                shown.append(entry)
                room -= _width(entry)
        self._paint([*shown, *always])

    def _paint(self, entries: list[tuple[str, str, str]]) -> None:
        key = tuple(f"{shown} {label}" for _, shown, label in entries)
        if key == self._shown:
            return
        self._shown, self._places = key, []
        text = Text(" ", no_wrap=True, overflow="crop")
        for name, shown, label in entries:
            start = text.cell_len
            text.append(shown, "bold").append(f" {label}")
            self._places.append((start, text.cell_len, name))
            text.append("  ")
        self.update(text, layout=False)

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))


def _width(entry: tuple[str, str, str]) -> int:
    return cell_len(entry[1]) + cell_len(entry[2]) + 3
