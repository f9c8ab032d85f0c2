"""The base of the full views, and their rows of styled text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.tui.action_table import BY_NAME, view_bindings
from gputui.tui.actions.offered import allowed
from gputui.tui.chrome import Band, BandPart, Footer, OfferedKeys, StatusLine, band_line
from gputui.tui.theme import Palette, palette_of

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- The base of what fills the screen beside the panes ----


ALWAYS = ("back", "help")
"""What every view offers; `OfferedKeys(…, always=ALWAYS)`."""


class FullView(Screen[None]):
    """A subclass composes `body`, and says in `renew` what is new.

    Its keys are rows of the one table: `BINDINGS = view_bindings("timeline", "rerun", "kill")` has those whose `view`
    is its own and the named ones of the main screen. An action is done by the view's method `act_NAME`, or else as on
    the main screen, for the jobs that `chosen` names.
    """

    BINDINGS: ClassVar[list[BindingType]] = view_bindings("every view", "back", "leave", "help", "palette", "interrupt")

    def __init__(self, main: MainScreen, key: str, title: str) -> None:
        """`key` and `title` stand at the left end of the band."""
        super().__init__()
        self.main = main
        self.status = StatusLine(main.status.where)
        self.band = Band(key, title)
        self.band.focused_pane = True
        self.footer = Footer()

    # What a subclass says

    def body(self) -> ComposeResult:
        """The widgets between the band and the footer; one of them may say `height: 1fr`."""
        yield from ()

    def renew(self) -> None:
        """Shows the newest of `self.snapshot`: called when it is there, at news, once a second, and after a resize."""

    def offers(self) -> OfferedKeys:
        """What the footer says."""
        return OfferedKeys(always=ALWAYS)

    def chosen(self) -> list[Job]:
        """The jobs that an action of the main screen applies to."""
        return []

    # What it can use

    @property
    def snapshot(self) -> Snapshot:
        """As the main screen has it."""
        return self.main.snapshot

    def paint(self) -> None:
        """All of it: header, body, footer."""
        main = self.main
        self.status.show(main.snapshot, main.now(), monitor=not main.bridge.has_session, read_only=main.read_only)
        self.renew()
        self.paint_footer()

    def paint_footer(self) -> None:
        self.footer.show(allowed(self.offers(), read_only=self.main.read_only), self.main.changed_keys)

    def go_back(self) -> None:
        """Not when something else is on top: `dismiss` closes the uppermost screen, whichever that is."""
        if self.app.screen is self:
            self.dismiss(None)

    # What Textual calls

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.band
        yield from self.body()
        yield self.footer

    def on_mount(self) -> None:
        """Textual calls this besides a subclass's own `on_mount`, which must not call it too."""
        self.call_after_refresh(self.paint)

    @on(Resize)
    def _resized(self) -> None:
        self.call_after_refresh(self.paint)

    @on(Footer.Clicked)
    def _clicked(self, event: Footer.Clicked) -> None:
        self.action_act(event.action)

    def action_act(self, name: str) -> None:
        if self.main.read_only and BY_NAME[name].acts:
            self.main.say("this screen is read-only")
        elif (own := getattr(self, f"act_{name}", None)) is not None:
            own()
        else:
            self.main.acts[name](self.main)

    def act_back(self) -> None:
        self.go_back()

    def act_leave(self) -> None:
        """`q` goes back one step at a time; from the main screen it leaves."""
        self.go_back()

    def act_interrupt(self) -> None:
        """Ctrl-C copies what the mouse selected; without a selection it goes back."""
        selected = self.get_selected_text()
        if selected:
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
        else:
            self.go_back()


# ---- Rows of styled text, painted line by line ----


BAR = "▌"
"""At the left end of what is selected, and of what is marked."""


@dataclass(frozen=True)
class ViewRow:
    left: Sequence[BandPart] = ()
    right: Sequence[BandPart] = ()
    """Stands at the right end."""
    selected: bool = False
    """On the cursor's ground."""
    marked: bool = False
    """Has a bar at its left end, in the place of a blank."""
    band: bool = False
    ground: Style | None = field(default=None, compare=True)
    """Another ground than the page's."""
    value: object = None
    """What a click on it means."""


def blank_row() -> ViewRow:
    return ViewRow()


class ViewRows(Widget):
    """Its own height says how many are seen; `top` is the first of them."""

    class RowClicked(Message):
        def __init__(self, rows: ViewRows, value: object) -> None:
            super().__init__()
            self.rows = rows
            self.value = value

    class Wheel(Message):
        def __init__(self, rows: ViewRows, by: int) -> None:
            super().__init__()
            self.rows = rows
            self.by = by

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.rows: list[ViewRow] = []
        self.top = 0

    def show(self, rows: Sequence[ViewRow], seen: tuple[int, int] | None = None) -> None:
        """`seen`: the first and the last row that must be in sight."""
        before, top = self.rows, self.top
        self.rows = list(rows)
        self._scroll(seen)
        if self.top != top or len(before) != len(rows):
            self.refresh()
            return
        changed = [number for number, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
        for number in changed:
            self.refresh(Region(0, number - self.top, self.size.width, 1))

    def scroll_by(self, lines: int) -> None:
        top = self.top
        self.top = max(0, min(self.top + lines, len(self.rows) - max(1, self.size.height)))
        if self.top != top:
            self.refresh()

    def _scroll(self, seen: tuple[int, int] | None) -> None:
        height = max(1, self.size.height)
        if seen is not None:
            first, last = seen
            if last >= self.top + height:
                self.top = last - height + 1
            self.top = min(self.top, first)
        self.top = max(0, min(self.top, len(self.rows) - height))

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        number = self.top + y
        row = self.rows[number] if number < len(self.rows) else ViewRow()
        return row_strip(row, self.size.width, palette)

    def on_click(self, event: events.Click) -> None:
        number = self.top + event.y
        if number < len(self.rows) and self.rows[number].value is not None:
            self.post_message(self.RowClicked(self, self.rows[number].value))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Wheel(self, 3))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Wheel(self, -3))


def row_strip(row: ViewRow, width: int, palette: Palette) -> Strip:
    """Exactly so wide; what does not fit is cut from the left part."""
    if row.band:
        return band_line(row.left, row.right, width, palette)
    left = _with_bar(row.left, palette) if row.marked else row.left
    room = width - sum(cell_len(text) for text, _ in row.right) - bool(row.right)
    apart = [(" ", palette.text)] if row.right else []
    parts = [*_fitted(left, max(0, room), palette.text), *apart, *row.right]
    segments = [Segment(text, _laid(style, row, palette)) for text, style in parts if text]
    return Strip(segments).simplify().adjust_cell_length(width, _laid(palette.text, row, palette))


def _with_bar(parts: Sequence[BandPart], palette: Palette) -> list[BandPart]:
    """In the place of the blank that rows begin with."""
    (text, style), *rest = parts
    return [(BAR, palette.focus + Style(underline=False)), (text.removeprefix(" "), style), *rest]


def _laid(style: Style, row: ViewRow, palette: Palette) -> Style:
    if row.selected:
        return palette.on_cursor(style)
    return style + row.ground if row.ground is not None else style


def _fitted(parts: Sequence[BandPart], room: int, blank: Style) -> list[BandPart]:
    fitted: list[BandPart] = []
    for text, style in parts:
        cells = cell_len(text)
        if cells > room:
            if room > 0:
                fitted.append((set_cell_size(text, room - 1) + "…", style))
            return fitted
        fitted.append((text, style))
        room -= cells
    return [*fitted, (" " * room, blank)]


def cells_of(parts: Sequence[BandPart]) -> int:
    return sum(cell_len(text) for text, _ in parts)
