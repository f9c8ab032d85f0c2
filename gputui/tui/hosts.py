"""The screen of `gputui hosts --live`, with the GPUs and sessions of several machines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from gputui.core.amounts import counted, duration_words, memory_of
from gputui.hosts.machine import CardStatus, MachineStatus, SessionSummary
from gputui.hosts.ssh import HostPlace
from gputui.hosts.survey import PATIENCE, Answer, Survey
from gputui.logs.plain import plain
from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.tty import Colours, colours

from .chrome import BandPart, band_line
from .text import ljust
from .theme import BY_COLOURS, OWN, Palette, palette_of

NAME, BAR, MEMORY = 18, 20, 11
NARROW = 100
"""Minimum width in cells for showing a bar."""


def machine_lines(answer: Answer, now: float, columns: int, palette: Palette, *, selected: bool) -> list[Strip]:
    """Render a machine with its GPUs and sessions."""
    parts = [_band(answer, now, columns, palette, selected=selected)]
    if answer.status is not None:
        parts += [_card(card, answer.status, columns, palette) for card in answer.status.cards]
        parts += [_session(session, columns, palette) for session in answer.status.sessions]
    return parts


def _band(answer: Answer, now: float, columns: int, palette: Palette, *, selected: bool) -> Strip:
    name_style = (palette.focus if selected else palette.text) + Style(bold=True, underline=selected)
    left: list[BandPart] = [(" ▌" if selected else "  ", palette.focus), (answer.place.alias, name_style)]
    look = answer.status
    if look is not None:
        kind = ("GPU", "GPUs") if look.gpus else ("CPU slot", "CPU slots")
        free = (f"{look.free_cards} free", palette.running if look.free_cards else palette.past)
        left += [(f"   {counted(len(look.cards), *kind)}   ", palette.text), free]
    trouble = _trouble(answer, now)
    if trouble:
        style = palette.failure if answer.trouble else palette.warning
        left.append((f"   {plain(trouble)}", style))
    right = [(f"CPU load {look.load:.0%}", palette.past)] if look is not None else []
    return band_line(left, right, columns, palette)


def _trouble(answer: Answer, now: float) -> str:
    if answer.trouble:
        return answer.trouble
    silent = now - answer.at
    if silent <= PATIENCE:
        return "" if answer.status is not None else "connecting …"
    return f"! no answer for {duration_words(silent)}"


def _card(card: CardStatus, look: MachineStatus, columns: int, palette: Palette) -> Strip:
    name = f"{card.index} {card.name.removeprefix('NVIDIA ')}" if look.gpus else f"cpu {card.index}"
    load = "n/a" if card.utilization is None else f"{card.utilization} %"
    cells = [
        ("    ", palette.text),
        (ljust(name, NAME) + " ", palette.text),
        (f"{load:>6}  ", palette.text if card.utilization else palette.past),
    ]
    if columns >= NARROW:
        cells += _bar(card, palette)
    cells.append((f"{memory_of(card.memory_used, card.memory_total):>{MEMORY}}   ", palette.memory))
    cells.append(_whose(card, palette))
    return _strip(cells, columns, palette)


def _bar(card: CardStatus, palette: Palette) -> list[BandPart]:
    if not card.memory_total or card.memory_used is None:
        return [(" " * (BAR + 1), palette.text)]
    used = round(BAR * card.memory_used / card.memory_total)
    return [("━" * used, palette.memory), ("─" * (BAR - used), palette.line), (" ", palette.text)]


def _whose(card: CardStatus, palette: Palette) -> BandPart:
    if card.trouble:
        return f"✗ {plain(card.trouble)}", palette.failure
    if card.holders:
        ours = any(holder.startswith("#") for holder in card.holders)
        return plain(", ".join(card.holders)), palette.running if ours else palette.external
    return ("● your job", palette.running) if card.taken else ("free", palette.running)


def _session(session: SessionSummary, columns: int, palette: Palette) -> Strip:
    counts = session.counts_text or ("" if session.standing else "no scheduler")
    cells = [
        ("    ", palette.text),
        (ljust(plain(session.name), NAME) + " ", palette.text),
        (f"{session.standing.upper() or '–':<9} ", palette.running if session.standing == "running" else palette.past),
        (f"{counts}   ", palette.text),
        (plain(session.directory), palette.past),
    ]
    return _strip(cells, columns, palette)


def _strip(cells: Iterable[BandPart], columns: int, palette: Palette) -> Strip:
    return Strip([Segment(text, style) for text, style in cells]).adjust_cell_length(columns, palette.text)


EVERY = 2.0
KEYS = " Enter Open session   j k Move   q Quit"


class Answered(Message):
    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class MachineList(ScrollView, can_focus=True):
    """A list of all machines with the cursor on one of them."""

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
        self._survey = Survey(self._places, self._ssh, EVERY, self._post_answer)
        self.set_interval(1.0, self._tick)

    def _post_answer(self, answer: Answer) -> None:  # called by other threads
        self.post_message(Answered(answer))

    def on_answered(self, event: Answered) -> None:
        self.machines.take(event.answer)
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
