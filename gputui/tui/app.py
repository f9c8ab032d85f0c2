"""The app: puts the bridge, the main screen and the terminal together. It composes; it decides next to nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from textual import on
from textual.app import SystemCommand
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen

from gputui.core.events import UserCommand
from gputui.session.errors import SessionError
from gputui.session.owner.requests import Begin
from gputui.session.ownership.acquisition import Holding, Owned
from gputui.tui.actions.scheduler import leaving_events, requeues
from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.driver import SafeDriver
from gputui.tui.terminal.tty import Colours, terminal_name
from gputui.tui.views.base import FullView

from .action_table import ACTIONS
from .bridge import Bridge, Way
from .chrome import Where, terminal_title
from .main_screen import MainScreen
from .theme import BY_COLOURS, NAMES, OWN, AsciiSigns

Hold = Callable[[Callable[[], None]], Holding]


@dataclass(frozen=True)
class Beginning:
    """A session to be made."""

    hold: Hold
    where: Where
    begin: Begin
    notice: str | None = None
    """What must be said of its lanes."""


@dataclass(frozen=True)
class Setup:
    """What the command line decided before there was a screen."""

    where: Where
    environment: Mapping[str, str]
    begin_session: Callable[[], Beginning] | None = None
    """For a screen without a session: where one would be made when a job is added, on the devices it shows."""
    first: Callable[[MainScreen], None] = lambda main: None
    """Done when the screen is there: loads the jobs, says what must be said."""
    keys: Mapping[str, str] = field(default_factory=dict)
    theme: str | None = None
    read_only: bool = False
    colours: Colours = Colours.MANY
    ascii_signs: bool = False
    """The terminal shows no others."""
    cell_diff: bool = True
    bell: bool = True
    """Calls the user at a pause after crashes, at the end, and at the ends of jobs marked for it."""


class Crossing(Message):
    """A call from another thread, made in the screen's."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


class GputuiApp(TerminalApp[Way]):
    TITLE = "gputui"
    CSS_PATH = "gputui.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "f1"

    def __init__(self, bridge: Bridge, setup: Setup) -> None:
        super().__init__(colours=setup.colours, cell_diff=setup.cell_diff)
        self.bridge = bridge
        self.setup = setup
        self.parting = ""
        """What the shell must say, when it was not the user who ended this."""
        self.main = MainScreen(bridge, setup.where, read_only=setup.read_only)
        self._leaving: Way | None = None
        self._signs = [AsciiSigns()] if setup.ascii_signs else []  # one object, as strips remember what it made
        for theme in OWN:
            self.register_theme(theme)
        # Without colours a theme is told apart by nothing: NO_COLOR wins over what the user called it.
        wanted = NAMES[setup.theme] if setup.theme is not None and setup.colours is not Colours.NONE else None
        self.theme = wanted or BY_COLOURS[setup.colours]

    def on_mount(self) -> None:  # Textual calls the one of every base class by itself
        self.main.on_leave = self.leave
        self.main.idle_for = lambda: self.idle_for
        if self.setup.bell:
            self.main.on_alert = self.call_user
        self.bridge.on_dismissed = lambda: self.leave(Way.STOP)
        self.main.on_add_without_session = self._begin_session
        self.main.environment = lambda: dict(self.setup.environment)
        self.main.changed_keys = dict(self.setup.keys)
        self.set_keymap(dict(self.setup.keys))
        self.bridge.connect(self._cross, self._news)
        self.bridge.presence = self._presence
        self.push_screen(self.main)
        self.call_after_refresh(lambda: self.setup.first(self.main))

    # The crossing

    def _cross(self, call: Callable[[], None]) -> None:
        self.post_message(Crossing(call))

    @on(Crossing)
    def _crossed(self, event: Crossing) -> None:
        event.call()

    def _news(self) -> None:
        why_gone = self.bridge.why_gone()
        if why_gone is not None:
            self._part(why_gone)
            return
        self.main.news()
        if isinstance(self._driver, SafeDriver):
            self._driver.title(terminal_title(self.bridge.snapshot))
        if self._leaving is Way.STOP:
            self._stop_on()

    # Leaving

    def leave(self, way: Way) -> None:
        """What must outlast this screen is durable before it goes."""
        if self._leaving is not None:  # asked again: what was ordered is durable, so nobody needs to wait
            self.exit(self._leaving)
            return
        events = leaving_events(self.main, way)
        if not events or not self.bridge.has_session:
            self.exit(way)
            return
        self._leaving = way
        self.bridge.command(events, lambda _: self._committed(way))

    def _committed(self, way: Way) -> None:
        if way is Way.STOP:
            self.main.say("stopping: running jobs are ended with grace and wait again; q leaves at once")
            self._stop_on()
        else:
            self.exit(way)

    def _stop_on(self) -> None:
        """Until nothing runs; a job that was just starting is told now."""
        if not self.bridge.snapshot.active:
            self.exit(Way.STOP)
            return
        more: list[UserCommand] = requeues(self.main)
        if more:
            self.bridge.command(more, lambda _: None)

    def _part(self, sentence: str) -> None:
        self.parting = sentence
        self.exit(Way.DETACH, return_code=1)

    # The terminal

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._signs]

    def _presence(self) -> dict[str, Any]:
        """For whoever wants to take the session over: is anybody there?"""
        driver = self._driver
        silent = driver.silent_for if isinstance(driver, SafeDriver) else 0.0
        return {"terminal": terminal_name(), "silent_for": silent}

    def terminal_lost(self) -> None:
        self.exit(Way.DETACH, return_code=128 + signal.SIGHUP)

    def asked_to_leave(self, signum: int) -> None:
        if signum == signal.SIGUSR1:
            self.leave(Way.DRAIN)
        elif signum == signal.SIGINT:
            self._ask_to_leave()
        else:
            self.exit(Way.DETACH, return_code=128 + signum)

    def _ask_to_leave(self) -> None:
        if self._leaving is not None:
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
        except Owned as owned:
            self._part(f"the session is open in gputui {owned.kind} (pid {owned.pid}) now")
        except SessionError as error:
            self._part(str(error))
        else:
            self.main.reset()

    # The session

    def _begin_session(self, then: Callable[[], None]) -> None:
        assert self.setup.begin_session is not None
        try:
            beginning = self.setup.begin_session()
            notices = self.bridge.begin(beginning.hold)
        except (SessionError, Owned) as error:
            self.main.say(str(error), grave=True)
            return
        self.main.begun(beginning.where)
        for notice in [*notices, *([beginning.notice] if beginning.notice else [])]:
            self.main.say(notice)
        self.bridge.do(beginning.begin, lambda _: then(), lambda why: self.main.say(why, grave=True))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: every action by name, and the looks."""
        if isinstance(screen, MainScreen | FullView):
            bound = {binding.id for _, binding in screen._bindings}
            for action in ACTIONS:
                if action.name in bound and not (action.acts and self.main.read_only):
                    act = partial(screen.action_act, action.name)
                    yield SystemCommand(f"{action.label} ({action.shown_key})", action.help, act)
        for written, name in NAMES.items():
            yield SystemCommand(f"Theme {written}", "how the screen looks", partial(setattr, self, "theme", name))
