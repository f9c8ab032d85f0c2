"""The GPU pane: a page with a cursor. Only changed lines are repainted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputui.core.job import JobId
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.gpus.machine import MachineFacts
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample
from gputui.tui.chrome import Band
from gputui.tui.text import Line, width_of, with_bar
from gputui.tui.theme import Ground, Palette, palette_of

from . import nodes, rows
from .full import full
from .occupants import View
from .page import Page, PageLine, Room


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool = False) -> int:
    """Return how many lines the pane should get on a screen of this size. `unfolded` means that it has the focus."""
    of_kind = nodes.rows_wanted if picture.kind is DeviceKind.SLURM else rows.rows_wanted
    return of_kind(picture, width, height, unfolded=unfolded)


def draw(view: View, room: Room) -> Page:
    if view.picture.kind is DeviceKind.SLURM:
        return nodes.page(view, room)
    return full(view, room) if room.full else rows.compact(view, room)


class GpuPane(ScrollView, can_focus=True):
    """The widget that draws the data passed to `show`, without timers or a clock. The cursor stays on its device."""

    DEFAULT_CSS = """
    GpuPane { height: auto; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("home,g", "go(0)", "First", show=False),
        Binding("end,G", "go(-1)", "Last", show=False),
        Binding("enter", "open", "Device", show=False),
    ]

    class DeviceOpened(Message):
        """The message sent when the user has opened a device."""

        def __init__(self, device: DevicePicture) -> None:
            super().__init__()
            self.device = device

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.full = False
        """Whether the pane fills the screen."""
        self.title = "GPUs"
        self.band = Band(1, self.title)
        """The band above the pane, with the column headings."""
        self._view: View | None = None
        self._page = Page(())
        self._room = Room(0, 0)
        self._cursor: str | None = None
        """The key of the device under the cursor."""

    # Contents

    def show(
        self,
        picture: DevicesPicture,
        snapshot: Snapshot | None,
        name_of: Callable[[JobId], str],
        now: float,
        machine: MachineFacts | None = None,
    ) -> None:
        """Repaint the lines that have changed. Calling this again with the same data within a second costs nothing."""
        before, self._view = self._view, View(picture, snapshot, name_of, now, machine)
        if (
            before is not None
            and (before.picture is picture and before.snapshot is snapshot and before.machine is machine)
            and (int(before.now) == int(now) and self._room.full is self.full)
        ):
            return
        self._draw()

    def paint_band(self) -> None:
        self.band.show(self._page.head, self._page.tail, title=self.title)

    @property
    def device(self) -> DevicePicture | None:
        """The device under the cursor."""
        if self._view is None:
            return None
        devices = self._view.picture.devices
        return next((each for each in devices if each.sample.key == self._cursor), devices[0] if devices else None)

    @property
    def selected(self) -> DeviceSample | None:
        device = self.device
        return device.sample if device is not None else None

    def _draw(self) -> None:
        width, height = self.scrollable_content_region.size
        if self._view is None or width <= 0:
            return
        self._room = Room(width, height, self.full, self.screen.size.height, len(f" 1 {self.title}"))
        before = self._page
        self._page = draw(self._view, self._room)
        if (before.head, before.tail) != (self._page.head, self._page.tail):
            self.paint_band()
        if len(before.lines) != len(self._page.lines):
            self.virtual_size = Size(width, len(self._page.lines))
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before.lines, self._page.lines, strict=True)):
            if old != new:
                self._repaint(y)

    def _repaint(self, y: int) -> None:
        self.refresh(Region(0, y - self.scroll_offset.y, self.size.width, 1))

    # Painting

    def on_resize(self) -> None:
        self._draw()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        width, row = self.scrollable_content_region.width, y + self.scroll_offset.y
        line: PageLine = self._page.lines[row] if row < len(self._page.lines) else ()
        segments = [segment for section in line for segment in self._segments(section, palette)]
        return Strip(segments).extend_cell_length(width, palette.text).crop(0, width)

    def _segments(self, section: Line, palette: Palette) -> list[Segment]:
        pieces, ground = section.pieces, section.ground
        if section.value is not None and self.has_focus and section.value == self._key():
            pieces, ground = (with_bar(pieces), Ground.BAND) if self._page.barred else (pieces, Ground.CURSOR)
        return [Segment(text, palette.on(ground, look)) for text, look in pieces]

    def _key(self) -> str | None:
        device = self.device
        return device.sample.key if device is not None else None

    # The cursor

    def action_move(self, step: int) -> None:
        keys = self._page.keys()
        current = self._key()
        if current in keys:
            self._put_cursor(keys[max(0, min(len(keys) - 1, keys.index(current) + step))])

    def action_go(self, index: int) -> None:
        keys = self._page.keys()
        if keys:
            self._put_cursor(keys[index])

    def action_open(self) -> None:
        if self.device is not None:
            self.post_message(self.DeviceOpened(self.device))

    def _put_cursor(self, key: str) -> None:
        if key == self._key():
            return
        before = self._rows_of_cursor()
        self._cursor = key
        after = self._rows_of_cursor()
        for y in {*before, *after}:
            self._repaint(y)
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if after[0] < top or after[-1] >= top + height:
            self.scroll_to(y=after[0] if after[0] < top else after[-1] - height + 1, animate=False)

    def _rows_of_cursor(self) -> list[int]:
        key = self._key()
        return [row for row, line in enumerate(self._page.lines) if any(section.value == key for section in line)] or [
            0
        ]

    def on_focus(self) -> None:
        for y in self._rows_of_cursor():
            self._repaint(y)

    def on_blur(self) -> None:
        self.on_focus()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row, start = offset.y + self.scroll_offset.y if offset is not None else -1, 0
        if offset is None or not 0 <= row < len(self._page.lines):
            return
        for section in self._page.lines[row]:
            if section.value is not None and start <= offset.x < start + width_of(section.pieces):
                self._put_cursor(str(section.value))
                if event.chain == 2:
                    self.action_open()
            start += width_of(section.pieces)
