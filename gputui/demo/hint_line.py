"""The line above the footer that only the demo has: it watches what the user does and says what to try next."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.widgets import Static

from gputui.tui.screens.ask import Ask, Choice
from gputui.tui.screens.main import MainScreen

from .tour import Tour

LOOK_EVERY = 0.3


class HintLine(Static):
    DEFAULT_CSS = "HintLine { height: 1; background: $primary 35%; color: $text; text-wrap: nowrap; }"

    def __init__(self, main: MainScreen, tour: Tour) -> None:
        super().__init__(markup=False)
        self._main = main
        self._tour = tour
        self._shown = ""

    def on_mount(self) -> None:
        self.look()
        self.set_interval(LOOK_EVERY, self.look)

    def look(self) -> None:
        hint = self._tour.look(self._main.snapshot, self._main.table.cursor)
        if hint != self._shown:
            self._shown = hint
            self.update(Text(f" demo {hint}", no_wrap=True, overflow="ellipsis"), layout=False)


def guide(main: MainScreen, tour: Tour, leave: Callable[[], None]) -> None:
    """Gives a screen the line, and has the tour see every key that does something."""
    for name, act in main.acts.items():
        main.acts[name] = _watched(name, act, tour)
    main.acts["leave"] = lambda _: _ask_to_leave(main, leave)
    main.places.lines += 1
    main.mount(HintLine(main, tour), before=main.footer)
    main.app.add_class("-guided")
    main.places.arrange()


def _watched(name: str, act: Callable[[MainScreen], None], tour: Tour) -> Callable[[MainScreen], None]:
    def watched(main: MainScreen) -> None:
        tour.seen.acts.add(name)
        act(main)

    return watched


def _ask_to_leave(main: MainScreen, leave: Callable[[], None]) -> None:
    """A real session would go on without its screen; the demo does not."""
    body = "Everything of it is ended and removed. Jobs of a real session go on when you leave."
    choices = [Choice("end", "q", "end the demo", also=("y", "ctrl+c"))]
    main.ask(Ask("Leave", body, choices, cancel="stay"), lambda answer: leave() if answer else None)
