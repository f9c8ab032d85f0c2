"""The screen of `gputui hosts --live`, with the GPUs and sessions of several machines."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from gputui.core.amounts import counted, duration_words, memory_of
from gputui.hosts.machine import CardStatus, MachineStatus, SessionSummary
from gputui.hosts.ssh import HostPlace
from gputui.hosts.survey import PATIENCE, Answer, Survey
from gputui.logs.plain import plain
from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.tty import Colours, colours

from .chrome import LinesView
from .text import Line, Piece, bar, blank, ljust
from .theme import OWN, Ground, Look, theme_names

NAME, BAR, MEMORY = 18, 20, 11
NARROW = 100
"""Minimum width in cells for showing a bar."""


def machine_lines(answer: Answer, now: float, columns: int, *, selected: bool) -> list[Line]:
    """Render a machine with its GPUs and sessions."""
    lines = [_band(answer, now, selected=selected)]
    if answer.status is not None:
        lines += [_card(card, answer.status, columns) for card in answer.status.cards]
        lines += [_session(session) for session in answer.status.sessions]
    return lines


def _band(answer: Answer, now: float, *, selected: bool) -> Line:
    left: list[Piece] = [blank(2), (answer.place.alias, Look.FOCUS_BOLD if selected else Look.BOLD)]
    look = answer.status
    if look is not None:
        kind = ("GPU", "GPUs") if look.gpus else ("CPU slot", "CPU slots")
        free = (f"{look.free_cards} free", Look.RUNNING if look.free_cards else Look.PAST)
        left += [(f"   {counted(len(look.cards), *kind)}   ", Look.TEXT), free]
    if trouble := _trouble(answer, now):
        left.append((f"   {plain(trouble)}", Look.FAILURE if answer.trouble else Look.WARNING))
    right = [(f"CPU load {look.load:.0%}", Look.PAST)] if look is not None else []
    return Line(left, Ground.BAND, right, marked=selected)


def _trouble(answer: Answer, now: float) -> str:
    if answer.trouble:
        return answer.trouble
    silent = now - answer.at
    if silent <= PATIENCE:
        return "" if answer.status is not None else "connecting …"
    return f"! no answer for {duration_words(silent)}"


def _card(card: CardStatus, look: MachineStatus, columns: int) -> Line:
    name = f"{card.index} {card.name.removeprefix('NVIDIA ')}" if look.gpus else f"cpu {card.index}"
    load = "n/a" if card.utilization is None else f"{card.utilization} %"
    pieces = [(f"    {ljust(name, NAME)} ", Look.TEXT), (f"{load:>6}  ", Look.TEXT if card.utilization else Look.PAST)]
    if columns >= NARROW:
        known = card.memory_total and card.memory_used is not None
        share = (card.memory_used or 0) / (card.memory_total or 1)
        pieces += [*(bar(share, BAR, Look.MEMORY) if known else [blank(BAR)]), blank(1)]
    memory = memory_of(card.memory_used, card.memory_total)
    return Line([*pieces, (f"{memory:>{MEMORY}}   ", Look.MEMORY), _whose(card)])


def _whose(card: CardStatus) -> Piece:
    if card.trouble:
        return f"✗ {plain(card.trouble)}", Look.FAILURE
    if card.holders:
        ours = any(holder.startswith("#") for holder in card.holders)
        return plain(", ".join(card.holders)), Look.RUNNING if ours else Look.EXTERNAL
    return ("● your job", Look.RUNNING) if card.taken else ("free", Look.RUNNING)


def _session(session: SessionSummary) -> Line:
    counts = session.counts_text or ("" if session.status else "no scheduler")
    state = f"{session.status.upper() or '–':<9} "
    return Line([
        (f"    {ljust(plain(session.name), NAME)} ", Look.TEXT),
        (state, Look.RUNNING if session.status == "running" else Look.PAST),
        (f"{counts}   ", Look.TEXT),
        (plain(session.directory), Look.PAST),
    ])  # fmt: skip


EVERY = 2.0
KEYS = " Enter Open session   j k Move   q Quit"


class Answered(Message):
    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class MachineList(LinesView, can_focus=True):
    """A list of all machines with the cursor on one of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("g,home", "move(-1000)", show=False),
        Binding("G,end", "move(1000)", show=False),
    ]
    DEFAULT_CSS = "MachineList { height: 1fr; width: 100%; }"

    def __init__(self, places: list[HostPlace], now: float) -> None:
        super().__init__()
        self.answers = {place.alias: Answer(place, at=now) for place in places}
        self.cursor = 0

    @property
    def chosen(self) -> HostPlace:
        return list(self.answers.values())[self.cursor].place

    def draw(self) -> None:
        lines: list[Line] = []
        visible = (0, 0)
        for number, answer in enumerate(self.answers.values()):
            machine = machine_lines(answer, time.time(), self.size.width, selected=number == self.cursor)
            if number == self.cursor:
                visible = (len(lines), len(lines) + len(machine) - 1)
            lines += machine
        self.show(lines, visible)

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(len(self.answers) - 1, self.cursor + by))
        self.draw()

    def on_resize(self) -> None:
        self.draw()


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

    def __init__(self, places: list[HostPlace], ssh: str, *, shown: Colours = Colours.RGB) -> None:
        super().__init__(colours=shown)
        for theme in OWN:
            self.register_theme(theme)
        self.theme = next(iter(theme_names(shown).values()))
        self._places, self._ssh = places, ssh
        self._survey: Survey | None = None
        self.machines = MachineList(places, time.time())

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        yield self.machines
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        self.machines.focus()
        self._survey = Survey(self._places, self._ssh, EVERY, self._post_answer)
        self.set_interval(1.0, self._tick)

    def _post_answer(self, answer: Answer) -> None:  # called by other threads
        self.post_message(Answered(answer))

    def on_answered(self, event: Answered) -> None:
        self.machines.answers[event.answer.place.alias] = event.answer
        self._tick()

    def _tick(self) -> None:
        self.machines.draw()
        statuses = [answer.status for answer in self.machines.answers.values()]
        answered = [status for status in statuses if status is not None]
        free = sum(status.free_cards for status in answered if status.gpus)
        cards = sum(len(status.cards) for status in answered if status.gpus)
        gpus = counted(cards, "GPU", "GPUs")
        head = f" gputui hosts   {len(answered)} of {len(statuses)} reachable   {gpus}, {free} free"
        self.query_one("#head", Static).update(head, layout=False)

    def action_open(self) -> None:
        self.exit(self.machines.chosen)

    def action_leave(self) -> None:
        self.exit(None)

    def on_unmount(self) -> None:
        if self._survey is not None:
            self._survey.close()


def show_hosts(places: list[HostPlace], ssh: str, *, mouse: bool) -> HostPlace | None:
    """Show the screen. Return the machine whose session the user opened, or None."""
    return HostsApp(places, ssh, shown=colours()).run(mouse=mouse)
