"""A Textual app that keeps the contract with its terminal, and notifications."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar

from textual import events
from textual.app import ReturnType
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.types import CSSPathType

from gputui.logs.plain import plain

from .driver import SafeDriver, Turns
from .screen_diff import CellDiffApp, Sanitize, Shadow
from .signals import Signals
from .tty import Colours

# ---- A call to the user through their terminal ----


LONGEST = 200
BELL = "\a"
_NINE = ("iTerm.app", "WezTerm", "ghostty", "vscode", "WarpTerminal", "rio")
_SEVEN = ("rxvt", "foot")


def notification(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """What is written to the terminal; where it is not known which form it takes, both."""
    message = plain(text)[:LONGEST]
    nine, seven = f"\x1b]9;{message}\x07", f"\x1b]777;notify;gputui;{message.replace(';', ',')}\x07"
    term = environment.get("TERM", "")
    if environment.get("TERM_PROGRAM") in _NINE or term.startswith(("xterm-kitty", "xterm-ghostty")):
        return BELL + nine
    if environment.get("VTE_VERSION") or term.startswith(_SEVEN):
        return BELL + seven
    return BELL + nine + seven


# ---- `TerminalApp` ----


TMUX_COPY = ("tmux", "load-buffer", "-w", "-")
"""Puts what it reads into tmux's buffer and into the clipboard of the terminal around tmux."""
TMUX_PATIENCE = 5.0


class TerminalApp(CellDiffApp[ReturnType]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False),
        Binding("ctrl+l", "redraw", "Draw again", show=False),
        Binding("ctrl+z", "suspend_process", "Stop", show=False),
    ]

    def __init__(
        self,
        driver_class: type[Driver] | None = None,
        css_path: CSSPathType | None = None,
        watch_css: bool = False,
        ansi_color: bool | None = None,
        *,
        colours: Colours = Colours.MANY,
        cell_diff: bool = True,
    ) -> None:
        """As Textual's App; `colours` is what `checks.colours()` found, `cell_diff=False` sends what Textual sends."""
        self.colours = colours
        self.cell_diff = cell_diff
        self._shadow = Shadow()
        self._signals: Signals | None = None
        self._last_input = time.monotonic()
        self._last_line = Sanitize()  # one object, since strips remember what a filter made of them
        few = colours is not Colours.MANY
        super().__init__(driver_class, css_path, watch_css, True if few else ansi_color)
        self._keys = Turns(self, super().on_event)
        self.animation_level = "none"
        if few:
            self.theme = "ansi-dark"  # rounding a theme of many colours to 16 or to none makes it unreadable

    # What a subclass may do otherwise

    def terminal_lost(self) -> None:
        """The terminal hung up; called once. Nothing that is written now is seen."""
        self.exit(return_code=128 + signal.SIGHUP)

    def asked_to_leave(self, signum: int) -> None:
        """SIGTERM, SIGINT or SIGUSR1 came, or Ctrl-C was typed, which counts as SIGINT."""
        self.exit(return_code=128 + signum)

    def before_stop(self) -> None:
        """The terminal has been given back and the process is about to stop (Ctrl-Z)."""

    def after_continue(self) -> None:
        """The process goes on after `before_stop`, with its screen; not called when the terminal was lost meanwhile."""

    def nobody_to_continue(self) -> None:
        """Ctrl-Z was typed where there is no shell that could bring a stopped app back."""
        self.notify("no shell could bring a stopped gputui back: q leaves it", markup=False)

    def call_user(self, message: str) -> None:
        """The bell, and a notification where the terminal can show one."""
        if isinstance(self._driver, SafeDriver):
            self._driver.write(notification(message))

    def copy_to_clipboard(self, text: str) -> None:
        """By the terminal (OSC 52); inside tmux by tmux, whose default settings drop that from programs."""
        by_terminal = super().copy_to_clipboard
        if not os.environ.get("TMUX"):
            by_terminal(text)
            return

        def by_tmux() -> None:
            """In a thread: the tmux server may be slow, or gone."""
            try:
                subprocess.run(TMUX_COPY, input=text.encode("utf-8", "replace"), capture_output=True, check=True,
                               timeout=TMUX_PATIENCE)  # fmt: skip
            except (OSError, subprocess.SubprocessError):  # before tmux 3.2 it has no -w
                self.call_from_thread(by_terminal, text)

        self._clipboard = text  # what ctrl+v in a form inserts
        self.run_worker(by_tmux, thread=True, exit_on_error=False, group="clipboard")

    # Keys

    @property
    def idle_for(self) -> float:
        """Seconds since the user last pressed a key, pasted or used the mouse; at first, since the start."""
        return time.monotonic() - self._last_input

    def action_interrupt(self) -> None:
        self.asked_to_leave(signal.SIGINT)

    def action_redraw(self) -> None:
        self.forget_screen()

    def action_suspend_process(self) -> None:
        if self._signals is not None:
            self._signals.stop()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Lends the terminal to another program (a pager), in which Ctrl-Z works too."""
        with super().suspend(), self._signals.while_lent() if self._signals is not None else nullcontext():
            yield

    # What Textual asks for

    def get_driver_class(self) -> type[Driver]:
        return SafeDriver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._last_line]

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent | events.Paste):
            self._last_input = time.monotonic()
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._keys.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Textual calls this besides a subclass's own; a subclass that calls it too does no harm."""
        if self._signals is None and isinstance(self._driver, SafeDriver):
            self._signals = Signals(asyncio.get_running_loop(), self._driver, self)
