"""The line at the bottom: what the user may do next, here and now; each can be clicked.

On the left what acts on the row under the cursor and what else is likely, on the right the views and the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.tui.actions.table import BY_NAME
from gputui.tui.looks.palette import palette_of

from .band import BandPart, band_line

__all__ = ["Footer", "Offer", "OfferedKeys", "offer"]

Offer = tuple[str, str]
"""The name of an action, and what it would do now."""
BETWEEN = "  "
LEAST_GAP = 3
"""Cells between the left and the right part."""


@dataclass(frozen=True)
class OfferedKeys:
    """Those that do not fit are left to the help: first `more` from its end, then `views`, then `row`."""

    row: Sequence[Offer] = ()
    more: Sequence[Offer] = ()
    views: Sequence[Offer] = ()
    always: Sequence[str] = ("help", "leave")

    def fitting(self, width: int, keys: Mapping[str, str]) -> tuple[list[Offer], list[Offer]]:
        """Left and right, as much as a line of this width has room for."""
        always = [offer(name) for name in self.always]
        room = width - LEAST_GAP - sum(_cells(each, keys) for each in always)
        fitting: list[Offer] = []
        for each in (*self.row, *self.views, *self.more):
            cells = _cells(each, keys)
            if cells <= room:
                fitting.append(each)
                room -= cells
        left = [each for each in (*self.row, *self.more) if each in fitting]
        return left, [*(each for each in self.views if each in fitting), *always]


class Footer(Widget):
    DEFAULT_CSS = "Footer { height: 1; width: 100%; dock: bottom; }"

    class Clicked(Message):
        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offered = OfferedKeys()
        self._keys: Mapping[str, str] = {}
        self._places: list[tuple[int, int, str]] = []

    def show(self, offered: OfferedKeys, keys: Mapping[str, str]) -> None:
        """`keys`: those that the user's own keymap changed."""
        if (offered, keys) != (self._offered, self._keys):
            self._offered, self._keys = offered, dict(keys)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, palette = self.size.width, palette_of(self.app.theme)
        left, right = self._offered.fitting(width, self._keys)
        self._places = [*_places(left, 1, self._keys), *_places(right, width - _length(right, self._keys), self._keys)]
        parts = [(" ", palette.text), *self._parts(left)]
        return band_line(parts, self._parts(right)[:-1], width, palette, palette.header)

    def _parts(self, offers: list[Offer]) -> list[BandPart]:
        palette, parts = palette_of(self.app.theme), []
        for name, label in offers:
            parts += [(_key(name, self._keys), palette.best), (f" {label}", palette.past), (BETWEEN, palette.past)]
        return parts

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))


def offer(name: str) -> Offer:
    """By what the table calls it."""
    return name, BY_NAME[name].label


def _key(name: str, keys: Mapping[str, str]) -> str:
    return keys.get(name, BY_NAME[name].shown_key)


def _cells(each: Offer, keys: Mapping[str, str]) -> int:
    return cell_len(_key(each[0], keys)) + 1 + cell_len(each[1]) + len(BETWEEN)


def _length(offers: list[Offer], keys: Mapping[str, str]) -> int:
    """With a blank at the line's end."""
    return sum(_cells(each, keys) for each in offers) - len(BETWEEN) + 1


def _places(offers: list[Offer], start: int, keys: Mapping[str, str]) -> list[tuple[int, int, str]]:
    places = []
    for each in offers:
        end = start + _cells(each, keys)
        places.append((start, end - len(BETWEEN), each[0]))
        start = end
    return places
