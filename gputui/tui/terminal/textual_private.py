"""Everything that relies on private names of Textual. Look here first if a new Textual release breaks the display.

The private parts are `App._display`, `_batch_count`, `_closed` and `_set_pointer_shape`, the compositor's updates, and
the parser. If the installed release lacks one of them or uses it differently, the app uses Textual's own display or
driver.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from textual.app import App, ReturnType
from textual.events import Key
from textual.geometry import Region
from textual.strip import Strip

from .screen_diff import Shadow, cells_of

if TYPE_CHECKING:
    from .driver import SafeDriver


def _find(module: str, name: str) -> Any:
    try:
        return getattr(import_module(f"textual.{module}"), name, None)
    except ImportError:
        return None


LayoutUpdate = _find("_compositor", "LayoutUpdate")
ChopsUpdate = _find("_compositor", "ChopsUpdate")
XTermParser = _find("_xterm_parser", "XTermParser")


def parser_works() -> bool:
    """Return whether the parser turns bytes into keys as the driver expects."""
    try:
        parser = XTermParser()
        keys = [message.key for message in parser.feed("\x1a\x1b[A") if isinstance(message, Key)]
        return keys == ["ctrl+z", "up"] and not [*parser.tick()]
    except Exception:
        return False


class CellDiffApp(App[ReturnType]):
    """An app that sends only changed cells, and no frames to a lagging terminal. Other drivers get Textual's
    display.
    """

    terminal: SafeDriver | None = None
    """The driver, which sets this attribute itself. None if the app runs on another driver, as in tests."""

    def __init__(self, *, ansi_color: bool | None = None, cell_diff: bool = True) -> None:
        """Create the app. Without `cell_diff`, Textual's own display is used."""
        self._cell_diff = cell_diff
        self._shadow = Shadow()
        self._frame_skipped = False
        self._display_works = False
        super().__init__(ansi_color=ansi_color)
        self._display_works = self._check_display()

    def _check_display(self) -> bool:
        """Return whether this Textual release calls `_display` with updates that the method below can read."""
        strip = Strip([Segment("ab")])
        try:
            return (
                [*inspect.signature(App._display).parameters] == ["self", "screen", "renderable"]
                and (self._batch_count, self._closed) == (0, False)
                and [*_strips(LayoutUpdate([[strip]], Region(1, 2, 2, 1)))] == [(2, 1, strip)]
                and [*_strips(ChopsUpdate([{0: strip, 2: None}], [(0, 0, 4)], [[2, 4]]))] == [(0, 0, strip)]
            )
        except Exception:
            return False

    def forget_screen(self) -> None:
        """Redraw the whole next frame."""
        self._shadow.forget()
        if self.is_running:
            self.refresh()

    def terminal_has_room(self) -> None:
        if self._frame_skipped:
            self._frame_skipped = False
            self.refresh()

    def _display(self, *arguments: Any) -> None:
        driver = self.terminal
        if driver is None or not self._display_works or self._batch_count or not self.is_running or self._closed:
            super()._display(*arguments)
        elif driver.crowded:
            self._frame_skipped = True
            self.post_display_hook()
        elif self._cell_diff and isinstance(arguments[1], (LayoutUpdate, ChopsUpdate)):
            driver.write_frame(self._changes(arguments[1]))
            self.post_display_hook()
        else:
            super()._display(*arguments)

    def _set_pointer_shape(self, shape: str) -> None:
        """Do nothing, because terminals that do not know the escape sequence print it."""

    def _changes(self, update: Any) -> str:
        shadow = self._shadow
        shadow.resize(*self.size)
        colours = COLOR_SYSTEMS[self.console.color_system or "truecolor"]
        frame = shadow.paint((x, y, cells_of(strip, colours)) for y, x, strip in _strips(update))
        if hasattr(self.focused, "cursor_blink"):  # input methods look at the cursor of an input field
            frame += shadow.go(*self.screen.outer_size.clamp_offset(self.cursor_position))
        return frame


def _strips(update: Any) -> Iterator[tuple[int, int, Strip]]:
    """Yield the row, the first column and the content of each strip that may have changed."""
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
