"""The places inside Textual that the terminal contract hangs on: a Textual that moved them is noticed here first."""

from __future__ import annotations

import asyncio
import inspect
import signal
from typing import Any

import pytest
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.events import Key
from textual.widgets import Static

from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.tty import Colours


class Small(TerminalApp[None]):
    signals: list[int]

    def compose(self) -> ComposeResult:
        yield Static("hello", markup=False)

    def asked_to_leave(self, signum: int) -> None:
        self.signals = [signum]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_what_the_cell_diff_hangs_on_is_where_it_was() -> None:
    assert parameters(App._display) == ["self", "screen", "renderable"]
    assert parameters(LayoutUpdate.__init__) == ["self", "strips", "region"]
    assert parameters(ChopsUpdate.__init__) == ["self", "chops", "spans", "chop_ends"]
    assert parameters(App._set_pointer_shape) == ["self", "shape"]
    app = Small()
    assert (app._batch_count, app._running, app._closed) == (0, False, False)
    assert callable(app._begin_update)
    assert callable(app._end_update)


def test_what_the_driver_hangs_on_is_where_it_was() -> None:
    abstract = {"write", "start_application_mode", "disable_input", "stop_application_mode"}
    assert set(Driver.__abstractmethods__) == abstract
    assert parameters(Driver.__init__) == ["self", "app", "debug", "mouse", "size"]
    for name in ("_loop", "_mouse", "_size", "_down_buttons"):
        assert f"self.{name}" in inspect.getsource(Driver.__init__)


def test_the_parser_makes_keys_of_bytes() -> None:
    keys = [message for message in XTermParser().feed("\x1a\x1b[A") if isinstance(message, Key)]
    assert [key.key for key in keys] == ["ctrl+z", "up"]


def test_in_a_pilot_test_it_is_an_ordinary_app_without_terminal_and_signals() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT)]

    async def story() -> None:
        app = Small()
        async with app.run_test() as pilot:
            await pilot.press("ctrl+l", "ctrl+z", "ctrl+c")
            assert app.signals == [signal.SIGINT]
            assert app.animation_level == "none"
            during = [signal.getsignal(n) for n in (signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT)]
            assert during == before

    asyncio.run(story())


@pytest.mark.parametrize(("colours", "theme"), [(Colours.SIXTEEN, "ansi-dark"), (Colours.NONE, "ansi-dark")])
def test_few_colours_choose_a_theme_of_the_terminals_own(colours: Colours, theme: str) -> None:
    assert Small(colours=colours).theme == theme
    assert Small().theme != theme
