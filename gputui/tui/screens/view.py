"""The base of what fills the screen beside the panes: failures, timeline, details, curves, summary.

The header is the main screen's, below it stand the view's band and its body, at the bottom its keys. It is pushed over
the main screen by `MainScreen.open_view`, which goes on painting below it, and goes back where it came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.screen import Screen

from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.tui.actions.offered_actions import allowed
from gputui.tui.actions.table import BY_NAME, view_bindings
from gputui.tui.widgets.band import Band
from gputui.tui.widgets.footer import Footer, OfferedKeys
from gputui.tui.widgets.status import StatusLine

if TYPE_CHECKING:
    from .main import MainScreen

__all__ = ["ALWAYS", "FullView"]

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

    def chosen(self) -> list[Job] | None:
        """The jobs that an action of the main screen applies to; None: those chosen there."""
        return None

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
        self.dismiss(None)

    # What Textual calls

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.band
        yield from self.body()
        yield self.footer

    def on_mount(self) -> None:
        self.main.views.append(self)
        self.call_after_refresh(self.paint)

    def on_unmount(self) -> None:
        self.main.views.remove(self)

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
