"""Only changed cells reach the terminal, and no frame is drawn for a terminal that lags.

The seam with Textual: `App._display` is called with a `LayoutUpdate` or a `ChopsUpdate` of `textual._compositor`; it
writes only if `_batch_count` is 0, `_running` and not `_closed`; `_begin_update` and `_end_update` bracket a frame;
`_set_pointer_shape` writes on its own. Only this module uses them. OSC 8 links are not drawn: nothing of ours has any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import COLOR_SYSTEMS, RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ReturnType
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input, TextArea

from .cells import cells_of
from .driver import SafeDriver
from .shadow import Shadow

__all__ = ["CellDiffApp"]

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
