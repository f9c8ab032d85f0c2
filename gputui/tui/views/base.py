"""The base class of full-screen views."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen

from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.tui.actions.offered import allowed
from gputui.tui.actions.table import BY_NAME, view_bindings
from gputui.tui.chrome import Band, Footer, LinesView, OfferedKeys, StatusLine
from gputui.tui.log.view import run_in_slices

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen

ALWAYS = (("back", "Back"), ("help", "Help"))
"""Keys that every view offers, to pass as `OfferedKeys(…, always=ALWAYS)`."""


class FullView(Screen[None]):
    """A view that fills the screen.

    A subclass composes `body` and shows the newest snapshot in `renew`. Its keys are entries in the common table of
    actions: `BINDINGS = view_bindings("timeline", "rerun", "kill")` has the actions of the view and the named actions
    of the main screen. An action calls the view's method `act_NAME` if there is one. Otherwise it does the same as on
    the main screen, for the jobs returned by `chosen`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("every view", "undo", "back", "leave", "help", "palette", "interrupt"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+d,pagedown", "half_page(1)", show=False),
        Binding("ctrl+u,pageup", "half_page(-1)", show=False),
    ]

    def __init__(self, main: MainScreen, key: str, title: str) -> None:
        """Create a view. `key` and `title` are shown at the start of the band."""
        super().__init__()
        self.main = main
        self.status = StatusLine(main.status.where)
        self.band = Band(key, title)
        self.band.focused_pane = True
        self.footer = Footer()
        self.queue_is_read = False
        """Whether `read_queue` has passed on all jobs."""

    # To be overridden

    def body(self) -> ComposeResult:
        """Yield the widgets between the band and the footer. One of them may have `height: 1fr`."""
        yield from ()

    def renew(self) -> None:
        """Show the newest `self.snapshot`. Called on mount, for new snapshots, once a second, and after a resize."""

    def offers(self) -> OfferedKeys:
        """Return the keys for the footer."""
        return OfferedKeys(always=ALWAYS)

    def chosen(self) -> list[Job]:
        """Return the jobs that an action of the main screen applies to."""
        return []

    def scrolled(self) -> LinesView | None:
        """Return the widget that the paging keys scroll, or None."""
        return None

    # For subclasses

    @property
    def snapshot(self) -> Snapshot:
        return self.main.snapshot

    async def read_queue(self, learn: Callable[[Job], object], finish: Callable[[], None] = lambda: None) -> None:
        """Pass each job to `learn`, handling keys in between. Then call `finish` and paint."""

        def reading() -> Generator[None, None, None]:
            for job in self.snapshot.jobs:
                learn(job)
                yield

        await run_in_slices(reading())
        finish()
        self.queue_is_read = True
        self.paint()

    def paint(self) -> None:
        """Repaint the header, body and footer."""
        main = self.main
        self.status.show(main.snapshot, main.now(), monitor=not main.bridge.has_session, read_only=main.read_only)
        self.renew()
        self.paint_footer()

    def paint_footer(self) -> None:
        self.footer.show(allowed(self.offers(), read_only=self.main.read_only), self.main.shown_keys)

    def go_back(self) -> None:
        """Close the view. Do nothing if another screen is on top, because `dismiss` closes the topmost screen."""
        if self.app.screen is self:
            self.dismiss(None)

    # Called by Textual

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.band
        yield from self.body()
        yield self.footer

    def on_mount(self) -> None:
        """Paint the view. Textual calls this in addition to a subclass's own `on_mount`, which must not call it."""
        self.call_after_refresh(self.paint)

    @on(Resize)
    def _resized(self) -> None:
        self.call_after_refresh(self.paint)

    def action_act(self, name: str) -> None:
        if self.main.read_only and BY_NAME[name].acts:
            self.main.say("this view is read-only")
        elif (own := getattr(self, f"act_{name}", None)) is not None:
            own()
        else:
            self.main.acts[name](self.main)

    def action_move(self, by: int) -> None:
        """Move the cursor, or scroll if the view has no cursor."""
        if (lines := self.scrolled()) is not None:
            lines.scroll_by(by)

    def action_half_page(self, direction: int) -> None:
        if (lines := self.scrolled()) is not None:
            lines.scroll_by(direction * max(1, lines.size.height // 2))

    def act_back(self) -> None:
        self.go_back()

    def act_leave(self) -> None:
        """Go back one step. `q` calls this in a view; on the main screen, it quits."""
        self.go_back()

    def act_interrupt(self) -> None:
        """Copy the text selected with the mouse, or go back if none is selected."""
        selected = self.get_selected_text()
        if selected:
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
        else:
            self.go_back()
