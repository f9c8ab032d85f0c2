"""The app: connects the bridge, the main screen and the terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from textual import on
from textual.app import SystemCommand
from textual.command import CommandPalette
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList

from gputui.session.errors import SessionError
from gputui.session.event_loop import LOOK_AT_OWNER
from gputui.session.owner.requests import Begin
from gputui.session.ownership.acquisition import AlreadyOwned, OwnedSession
from gputui.tui.actions.scheduler import leaving_events
from gputui.tui.actions.table import ACTIONS
from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.tty import Colours, terminal_name
from gputui.tui.views.base import FullView

from .bridge import Bridge, Way
from .chrome import Where, terminal_title
from .main_screen import MainScreen
from .theme import OWN, AsciiSigns, theme_names

Hold = Callable[[Callable[[], None]], OwnedSession]


@dataclass(frozen=True)
class NewSession:
    """Everything needed to create a session."""

    hold: Hold
    where: Where
    begin: Begin
    notice: str | None = None
    """A message about the slots of the session."""


@dataclass(frozen=True)
class Setup:
    """The configuration of the app, made from the command line."""

    where: Where
    environment: Mapping[str, str]
    begin_session: Callable[[], NewSession] | None = None
    """A function that prepares a session on the displayed devices when a job is added, or None if a session exists."""
    first: Callable[[MainScreen], None] = lambda main: None
    """A function called when the screen is mounted, to load jobs and show messages."""
    keys: Mapping[str, str] = field(default_factory=dict)
    theme: str | None = None
    read_only: bool = False
    colours: Colours = Colours.RGB
    ascii_signs: bool = False
    """Whether the terminal can display only ASCII."""
    cell_diff: bool = True
    bell: bool = True
    """Whether to ring the bell when errors pause the scheduler, when all jobs have ended, and when a job ends about
    which the user asked to be notified.
    """


class RunOnUiThread(Message):
    """A function that another thread asks the UI thread to call."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


class Palette(CommandPalette):
    """The command palette."""

    @on(OptionList.OptionSelected)
    def _ignore_second_click(self, event: OptionList.OptionSelected) -> None:
        """Ignore a click if another click has just closed the palette, because it would close the screen below."""
        if not self.is_current:
            event.prevent_default().stop()


class GputuiApp(TerminalApp[Way]):
    TITLE = "gputui"
    CSS_PATH = "gputui.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "f1"

    def __init__(self, bridge: Bridge, setup: Setup) -> None:
        super().__init__(colours=setup.colours, cell_diff=setup.cell_diff)
        self.bridge = bridge
        self.setup = setup
        self.exit_message = ""
        """The message printed in the shell if the app ended without the user quitting it."""
        self.main = MainScreen(self)
        self._leaving: Way | None = None
        self._signs = [AsciiSigns()] if setup.ascii_signs else []  # a single object, since Textual caches by filter
        for theme in OWN:
            self.register_theme(theme)
        names = theme_names(setup.colours)
        self.theme = names[setup.theme or next(iter(names))]

    def on_mount(self) -> None:  # Textual calls those of the base classes as well
        self.bridge.on_dismissed = lambda: self.leave(Way.STOP)
        self.set_keymap(dict(self.setup.keys))
        self.bridge.connect(lambda call: self.post_message(RunOnUiThread(call)), self._update)
        self.bridge.presence = self._presence
        self.push_screen(self.main)
        self.set_interval(LOOK_AT_OWNER, self._quit_if_gone)
        self.call_after_refresh(lambda: self.setup.first(self.main))

    @on(RunOnUiThread)
    def _call(self, event: RunOnUiThread) -> None:
        event.call()

    def _quit_if_gone(self) -> bool:
        """Quit if the scheduler has died. Also called from time to time because it may die silently."""
        why_gone = self.bridge.why_gone()
        if why_gone is not None:
            self._quit_with(why_gone)
        return why_gone is not None

    def _update(self) -> None:
        if self._quit_if_gone():
            return
        self.main.news()
        if self.terminal is not None:
            self.terminal.title(terminal_title(self.bridge.snapshot))
        if self._leaving is Way.STOP:
            self._continue_stop()

    # Quitting

    def leave(self, way: Way) -> None:
        """Commit the commands that the chosen way to quit requires, then exit."""
        if self._leaving is not None:  # the second time: the commands are committed, so do not wait any longer
            self.exit(self._leaving)
            return
        events = leaving_events(way)
        if not events or not self.bridge.has_session:
            self.exit(way)
            return
        self._leaving = way
        self.bridge.command(events, lambda _: self._committed(way))

    def _committed(self, way: Way) -> None:
        if way is Way.STOP:
            self.main.say("stopping: running jobs are requeued gracefully; q quits at once")
            self._continue_stop()
        else:
            self.exit(way)

    def _continue_stop(self) -> None:
        """Exit when no jobs are running."""
        if not self.bridge.snapshot.active:
            self.exit(Way.STOP)

    def _quit_with(self, message: str) -> None:
        self.exit_message = message
        self.exit(Way.DETACH, return_code=1)

    # The terminal

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._signs]

    def _presence(self) -> dict[str, Any]:
        """Describe this terminal for a process that wants to take over the session."""
        silent = self.terminal.silent_for if self.terminal is not None else 0.0
        return {"terminal": terminal_name(), "silent_for": silent}

    def alert(self, message: str) -> None:
        """Get the attention of the user, who may be working in another window."""
        if self.setup.bell:
            self.call_user(message)

    def terminal_lost(self) -> None:
        self.exit(Way.DETACH, return_code=128 + signal.SIGHUP)

    def asked_to_leave(self, signum: int) -> None:
        if signum == signal.SIGUSR1:
            self.leave(Way.DRAIN)
        elif signum != signal.SIGINT:
            self.exit(Way.DETACH, return_code=128 + signum)
        elif self._leaving is not None:
            self.exit(Way.DETACH)
        elif self.screen is self.main:
            self.main.action_act("leave")
        else:
            self.screen.dismiss(None)  # a dialog or a view

    def before_stop(self) -> None:
        self.bridge.let_go()

    def after_continue(self) -> None:
        try:
            self.bridge.take()
        except AlreadyOwned as owned:
            self._quit_with(f"the session is now open in gputui {owned.kind} (pid {owned.pid})")
        except SessionError as error:
            self._quit_with(str(error))
        else:
            self.main.reset()

    # The session

    def begin_session(self, then: Callable[[], None]) -> None:
        """Create a session for the devices on display, then call a function."""
        assert self.setup.begin_session is not None
        try:
            beginning = self.setup.begin_session()
            notices = self.bridge.begin(beginning.hold)
        except (SessionError, AlreadyOwned) as error:
            self.main.say(str(error), grave=True)
            return
        self.main.status.where = beginning.where
        self.main.reset()
        self.main.table.focus()
        for notice in [*notices, *([beginning.notice] if beginning.notice else [])]:
            self.main.say(notice)
        self.bridge.do(beginning.begin, lambda _: then(), lambda why: self.main.say(why, grave=True))

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(Palette())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Add the actions and themes to the command palette."""
        if isinstance(screen, MainScreen | FullView):
            classes = type(screen).__mro__
            bound = {getattr(binding, "id", None) for cls in classes for binding in vars(cls).get("BINDINGS", ())}
            for action in ACTIONS:
                if action.name in bound and not (action.acts and self.main.read_only):
                    key = self.main.shown_keys[action.name]
                    act = partial(screen.action_act, action.name)
                    yield SystemCommand(f"{action.label:<16} {key:<6} {action.help}", "", act)
        for written, name in theme_names(self.setup.colours).items():
            yield SystemCommand(f"{f'Theme {written}':<23} color theme", "", partial(setattr, self, "theme", name))
