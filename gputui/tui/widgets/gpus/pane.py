"""The GPU pane: every device in a line or half a line; its cost is the lines that changed, not the devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample

from .history import History
from .layout import GAP, LONGEST_SPARK, columns_for, fields_for
from .occupants import View
from .rows import Cell, CellLook, Device, Entry, cell, entries


class GpuPane(ScrollView, can_focus=True):
    """Draws what it is shown and nothing by itself: no timers, no clock. The cursor stays on its device."""

    DEFAULT_CSS = """
    GpuPane {
        height: auto; background: $surface; color: $foreground;
        overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        & > .gpus--busy { color: $success; }
        & > .gpus--quiet { color: $foreground 60%; }
        & > .gpus--trouble { color: $error; text-style: bold; }
        & > .gpus--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"gpus--busy", "gpus--quiet", "gpus--trouble", "gpus--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("home,g", "go(0)", "First", show=False),
        Binding("end,G", "go(-1)", "Last", show=False),
        Binding("enter", "open", "Device", show=False),
    ]

    class DeviceHighlighted(Message):
        """The cursor came to this device."""

        def __init__(self, device: DevicePicture) -> None:
            super().__init__()
            self.device = device

    class DeviceOpened(Message):
        """The user wants to know more of this device, or do something about it."""

        def __init__(self, device: DevicePicture) -> None:
            super().__init__()
            self.device = device

    def __init__(self, *, processes: bool = False, id: str | None = None, classes: str | None = None) -> None:
        """`processes`: also those on each device, where there is room for all of them."""
        super().__init__(id=id, classes=classes)
        self._processes = processes
        self._history = History(LONGEST_SPARK)
        self._view: View | None = None
        self._entries: list[Entry] = []
        self._cells: list[Cell] = []
        self._columns, self._rows = 1, 0
        self._cursor: str | None = None
        """The key of a device."""
        self._styles: dict[CellLook | str, Style] | None = None

    # What is shown

    def show(
        self, picture: DevicesPicture, snapshot: Snapshot | None, name_of: Callable[[JobId], str], now: float
    ) -> None:
        """Repaints the lines that changed; the same again within a second costs nothing."""
        seen = self._view
        if seen is not None and seen.picture is picture and seen.snapshot is snapshot and int(seen.now) == int(now):
            return
        self._history.feed(picture)
        self._view = View(picture, snapshot, name_of, now)
        self._draw()

    @property
    def device(self) -> DevicePicture | None:
        """The device under the cursor."""
        devices = self._devices()
        return next((each for each in devices if each.sample.key == self._cursor), devices[0] if devices else None)

    @property
    def selected(self) -> DeviceSample | None:
        device = self.device
        return device.sample if device is not None else None

    def _devices(self) -> list[DevicePicture]:
        return [entry.picture for entry in self._entries if isinstance(entry, Device)]

    def _draw(self) -> None:
        width, height = self.scrollable_content_region.size
        if self._view is None or width <= 0:
            return
        shape = (len(self._entries), self._columns, self._rows)
        before = self._lines()
        self._entries = self._chosen_entries(self._view, height)
        self._columns = columns_for(len(self._entries), width, max(1, height))
        self._rows = -(-len(self._entries) // self._columns)
        wide = (width - GAP * (self._columns - 1)) // self._columns
        fields = fields_for(self._view.picture, wide)
        self._cells = [cell(entry, self._view, self._history, fields, wide) for entry in self._entries]
        if shape != (len(self._entries), self._columns, self._rows):
            self.virtual_size = Size(width, self._rows)
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, self._lines(), strict=True)):
            if old != new:
                self._repaint(y)

    def _chosen_entries(self, view: View, height: int) -> list[Entry]:
        if self._processes:
            full = list(entries(view, processes=True))
            if len(full) <= height:
                return full
        return list(entries(view))

    def _lines(self) -> list[list[Cell]]:
        return [self._cells[y :: self._rows] for y in range(self._rows)]

    def _repaint(self, y: int) -> None:
        self.refresh(Region(0, y - self.scroll_offset.y, self.size.width, 1))

    # Painting

    def on_resize(self) -> None:
        self._draw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles = None

    def render_line(self, y: int) -> Strip:
        styles = self._styles = self._styles or self._looks()
        width, row = self.scrollable_content_region.width, y + self.scroll_offset.y
        plain = styles[CellLook.PLAIN]
        segments: list[Segment] = []
        for index in range(row, len(self._cells), max(1, self._rows)) if row < self._rows else ():
            if segments:
                segments.append(Segment(" " * GAP, plain))
            if self.has_focus and self._under_cursor(index):
                segments.append(Segment("".join(text for text, _ in self._cells[index]), styles["cursor"]))
            else:
                segments += [Segment(text, styles[look]) for text, look in self._cells[index]]
        return Strip(segments).extend_cell_length(width, plain).crop(0, width)

    def _under_cursor(self, index: int) -> bool:
        entry, device = self._entries[index], self.device
        return isinstance(entry, Device) and device is not None and entry.picture.sample.key == device.sample.key

    def _looks(self) -> dict[CellLook | str, Style]:
        names: list[CellLook | str] = [CellLook.BUSY, CellLook.QUIET, CellLook.TROUBLE, "cursor"]
        return {CellLook.PLAIN: self.rich_style} | {
            name: self.get_component_rich_style(f"gpus--{name}") for name in names
        }

    # The cursor

    def action_move(self, step: int) -> None:
        keys = [device.sample.key for device in self._devices()]
        current = self.selected
        if current is not None:
            self._put_cursor(keys[max(0, min(len(keys) - 1, keys.index(current.key) + step))])

    def action_go(self, index: int) -> None:
        devices = self._devices()
        if devices:
            self._put_cursor(devices[index].sample.key)

    def action_open(self) -> None:
        if self.device is not None:
            self.post_message(self.DeviceOpened(self.device))

    def _put_cursor(self, key: str) -> None:
        if self.selected is not None and key == self.selected.key:
            return
        before = self._row_of_cursor()
        self._cursor = key
        after = self._row_of_cursor()
        for y in {before, after}:
            self._repaint(y)
        self._keep_in_sight(after)
        if self.device is not None:
            self.post_message(self.DeviceHighlighted(self.device))

    def _row_of_cursor(self) -> int:
        found = (index for index in range(len(self._entries)) if self._under_cursor(index))
        return next(found, 0) % max(1, self._rows)

    def _keep_in_sight(self, y: int) -> None:
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if y < top or y >= top + height:
            self.scroll_to(y=y if y < top else y - height + 1, animate=False)

    def on_focus(self) -> None:
        self._repaint(self._row_of_cursor())

    def on_blur(self) -> None:
        self._repaint(self._row_of_cursor())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self._entries:
            return
        width = self.scrollable_content_region.width
        column = min(self._columns - 1, offset.x * self._columns // max(1, width))
        index = column * self._rows + offset.y + self.scroll_offset.y
        entry = self._entries[index] if 0 <= index < len(self._entries) else None
        if isinstance(entry, Device):
            self._put_cursor(entry.picture.sample.key)
            if event.chain == 2:
                self.action_open()
