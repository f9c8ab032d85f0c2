"""`gputui hosts --live`: the app around the machines' lines. It ends with the machine that was opened, or with none."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from gputui.core.views.amounts import counted
from gputui.hosts.places import HostPlace
from gputui.hosts.survey import Answer, Survey
from gputui.tui.looks.palette import palette_of
from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.checks import Colours, colours
from gputui.tui.themes import BY_COLOURS, OWN

from .lines import machine_lines

__all__ = ["HostsApp", "show_hosts"]

EVERY = 2.0
KEYS = " enter Open its session   j k Move   q Leave"


class Answered(Message):
    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class MachineList(ScrollView, can_focus=True):
    """Every machine with its cards and sessions; the cursor is on one machine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("g,home", "move(-1000)", show=False),
        Binding("G,end", "move(1000)", show=False),
    ]
    DEFAULT_CSS = "MachineList { height: 1fr; width: 100%; scrollbar-size-vertical: 1; overflow-x: hidden; }"

    def __init__(self, places: list[HostPlace], now: float) -> None:
        super().__init__()
        self.answers = {place.alias: Answer(place, at=now) for place in places}
        self.cursor = 0
        self._lines: list[Strip] = []

    @property
    def chosen(self) -> HostPlace:
        return list(self.answers.values())[self.cursor].place

    def take(self, answer: Answer) -> None:
        """A machine that fails keeps what it said last out of sight: it may be long untrue."""
        self.answers[answer.place.alias] = answer
        self.draw()

    def draw(self) -> None:
        palette, now, columns = palette_of(self.app.theme), time.time(), self.scrollable_content_region.width
        lines: list[Strip] = []
        top = (0, 0)
        for number, answer in enumerate(self.answers.values()):
            machine = machine_lines(answer, now, columns, palette, selected=number == self.cursor)
            if number == self.cursor:
                top = (len(lines), len(lines) + len(machine))
            lines += machine
        if lines == self._lines:
            return
        self._lines, self.virtual_size = lines, Size(columns, len(lines))
        self._show_rows(*top)
        self.refresh()

    def _show_rows(self, first: int, after: int) -> None:
        height = self.scrollable_content_region.height
        if first < self.scroll_offset.y:
            self.scroll_to(y=first, animate=False)
        elif after > self.scroll_offset.y + height:
            self.scroll_to(y=min(first, after - height), animate=False)

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(len(self.answers) - 1, self.cursor + by))
        self.draw()

    def on_resize(self) -> None:
        self.draw()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        text = palette_of(self.app.theme).text
        blank = Strip.blank(self.size.width, text)
        return self._lines[row] if row < len(self._lines) else blank


class HostsApp(TerminalApp[HostPlace]):
    TITLE = "gputui hosts"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    #head, #keys { height: 1; width: 100%; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", show=False, priority=True),
        Binding("q,escape", "leave", show=False),
    ]

    def __init__(self, places: list[HostPlace], ssh: str, *, shown: Colours = Colours.MANY) -> None:
        super().__init__(colours=shown)
        for theme in OWN:
            self.register_theme(theme)
        self.theme = BY_COLOURS[shown]
        self._places, self._ssh = places, ssh
        self._survey: Survey | None = None
        self.machines = MachineList(places, time.time())

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        yield self.machines
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self.machines.focus()
        self._survey = Survey(self._places, self._ssh, EVERY, self._cross)
        self.set_interval(1.0, self._tick)

    def _cross(self, answer: Answer) -> None:
        """Called by the threads that ask."""
        self.post_message(Answered(answer))

    def on_answered(self, event: Answered) -> None:
        self.machines.take(event.answer)
        self._tick()

    def _tick(self) -> None:
        self.machines.draw()
        looks = [answer.look for answer in self.machines.answers.values()]
        answered = [look for look in looks if look is not None]
        free = sum(look.free_cards for look in answered if look.gpus)
        cards = sum(len(look.cards) for look in answered if look.gpus)
        head = f" gputui hosts   {len(answered)} of {len(looks)} answer   {counted(cards, 'GPU', 'GPUs')}, {free} free"
        self.query_one("#head", Static).update(head, layout=False)

    def action_open(self) -> None:
        self.exit(self.machines.chosen)

    def action_leave(self) -> None:
        self.exit(None)

    def on_unmount(self) -> None:
        if self._survey is not None:
            self._survey.close()


def show_hosts(places: list[HostPlace], ssh: str) -> HostPlace | None:
    """The machine whose session is to be opened; None: the user has seen enough."""
    return HostsApp(places, ssh, shown=colours()).run()
