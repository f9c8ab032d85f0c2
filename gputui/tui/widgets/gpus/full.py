"""The whole screen for the cards: history of each by whose load it was, its memory and processes, users and machine.

Pure. Every card is a block of as many lines as there is room for, at least two.
"""

from __future__ import annotations

from msgspec import Struct

from gputui.core.views.amounts import counted
from gputui.gpus.history.columns import HistoryColumn
from gputui.gpus.history.shares import DeviceShare, LoadOwner
from gputui.gpus.history.tracks import HOST
from gputui.gpus.history.warnings import HOT
from gputui.gpus.picture import DevicePicture
from gputui.gpus.sample import DeviceSample, HostSample, Status

from . import figures, graphs, totals
from .listing import ListingFields, listed
from .names import device_name
from .occupants import View
from .page import Ink, InkPiece, Page, PageLine, Room, gap, left, right, spot
from .rows import GRAPH_SECONDS, DeviceNote, device_bar, entries, history_columns, load_ink

_MOST_LINES = 9
_FEW, _FEW_LINES = 2, 20
"""So few cards may be taller, or most of the screen would be empty."""
_WITH_MEMORY_HISTORY = 160
_NARROW = 100


class FullFields(Struct, frozen=True, kw_only=True):
    """Widths; the same for all blocks."""

    head: int
    """Number, name and the figures below them, with the gap after."""
    graph: int
    now: int
    """The newest figures, with the gap before."""
    memory_graph: int
    listing: ListingFields
    narrow: bool

    @classmethod
    def of(cls, width: int, number: int) -> FullFields:
        more = 1 if number > 1 else 0
        if width < _NARROW:
            head, graph, now, memory = 3 + more, 17 + max(0, width - 80) // 2, 11, 0
        elif width < _WITH_MEMORY_HISTORY:
            head, graph, now, memory = 14 + more, 34 + (width - 120) // 2, 11, 0
        else:
            head, graph, now, memory = 15 + more, 64 + (width - 200) // 2, 7, 33 + (width - 200) // 4
        memory_part = 4 + memory + 9 if memory else 0
        used = head + graph + now + memory_part + (1 if width < _NARROW else 2 + 2 * bool(memory))
        narrow = width < _NARROW
        return cls(head=head, graph=graph, now=now, memory_graph=memory,
                   listing=ListingFields.of(max(0, width - used), narrow=narrow), narrow=narrow)  # fmt: skip


def full(view: View, room: Room) -> Page:
    host = view.picture.host
    cards = (*([host_card(host)] if host is not None else []), *view.picture.devices)
    below = totals.below(view, room)
    notes: list[PageLine] = []
    for entry in entries(view):
        if isinstance(entry, DeviceNote):
            notes.append((spot([InkPiece(entry.text, entry.ink)], room.width),))
    number = max((len(str(card.sample.index)) for card in cards), default=1)
    fields = FullFields.of(room.width, number)
    lines = _lines_each(room.height - len(below) - len(notes) - 1, len(cards), narrow=fields.narrow)
    blocks = [line for card in cards for line in _block(card, view, fields, lines, room.width, number)]
    while blocks and not any(piece.text.strip() for piece in blocks[-1][0].pieces):
        blocks.pop()
    middle = [*notes, *blocks, *([_scale(fields, room.width)] if cards else [])]
    filling = room.height - len(middle) - len(below)
    blank: PageLine = (spot([], room.width),)
    lines_made = (*middle, *([blank] * max(0, min(1, filling) if not fields.narrow else 0)), *below)
    beside = fields.listing.heading() if _lists_processes(view) else "job" if view.picture.devices else ""
    return Page(tuple(lines_made), head=(InkPiece(_heading(fields, room.title, beside), Ink.PAST),), barred=True)


def _lists_processes(view: View) -> bool:
    """Of lanes on processors and of simulated cards none are known."""
    return any(not device.sample.uuid.startswith(("CPU-", "SIM-")) for device in view.picture.devices)


def host_card(host: HostSample) -> DevicePicture:
    """The machine itself in the shape of a card, for those whose lanes are its processors."""
    load = None if host.utilization is None else round(host.utilization)
    cores = counted(host.cores, "core", "cores")
    sample = DeviceSample(index=0, uuid=HOST, name=cores, utilization=load, memory_shared=True,
                          memory_used=host.memory_used, memory_total=host.memory_total)  # fmt: skip
    return DevicePicture(sample=sample, share=DeviceShare(LoadOwner.OURS, host.memory_used or 0, 0))


def _lines_each(room: int, cards: int, *, narrow: bool) -> int:
    most = _FEW_LINES if cards <= _FEW else 5 if narrow else _MOST_LINES
    return max(2, min(most, room // max(1, cards)))


def _block(card: DevicePicture, view: View, fields: FullFields, lines: int, width: int, number: int) -> list[PageLine]:
    """The last line stays empty where there are more than three: cards are seen apart."""
    drawn = lines if lines <= 3 else lines - 1
    graph_lines = drawn - 1 if fields.narrow else drawn
    dead = card.sample.status is Status.LOST
    dots = history_columns(view, card.sample.key, 2 * fields.graph)
    graph = graphs.load_graph(dots, max(1, graph_lines), dead=dead)
    about = (
        _narrow_parts(card, fields, graph, drawn, number)
        if fields.narrow
        else _parts(card, view, fields, graph, drawn, number, dots)
    )
    said = listed(view, card, fields.listing, drawn)
    key = card.sample.key if card.sample.key != HOST else None
    block: list[PageLine] = [(spot([*about[row], *said[row]], width, key),) for row in range(drawn)]
    return block + [(spot([], width),)] * (lines - drawn)


def _narrow_parts(
    card: DevicePicture, fields: FullFields, graph: list[list[InkPiece]], lines: int, number: int
) -> list[list[InkPiece]]:
    sample = card.sample
    ok = sample.status is Status.OK
    heads = [_number(card, number)] + [[gap(fields.head)]] * (lines - 1)
    bar = device_bar(card, sample, fields.graph) if ok else [gap(fields.graph)]
    middle = [*graph, bar]
    load = load_ink(sample.utilization, card)
    now = [[gap(fields.now)] for _ in range(lines)]
    if ok:
        now[0] = [right(figures.percent(sample.utilization), 5, load, bold=load is not Ink.PAST), gap(1),
                  _degrees(sample, 4, brief=True), gap(fields.now - 10)]  # fmt: skip
        now[-1] = [right(figures.memory(sample.memory_used, sample.memory_total), fields.now - 1), gap(1)]
    else:
        now[0] = [right(sample.status.value, 5, Ink.FAILURE, bold=True), gap(fields.now - 5)]
    return [[*head, *mid, *figure] for head, mid, figure in zip(heads, middle, now, strict=True)]


def _parts(
    card: DevicePicture,
    view: View,
    fields: FullFields,
    graph: list[list[InkPiece]],
    lines: int,
    number: int,
    dots: list[HistoryColumn],
) -> list[list[InkPiece]]:
    sample = card.sample
    heads = _heads(card, fields, number, lines)
    now = _now(card, fields, lines)
    memory: list[list[InkPiece]] = [[] for _ in range(lines)]
    if fields.memory_graph:
        drawn = graphs.memory_graph(
            history_columns(view, sample.key, 2 * fields.memory_graph), lines, dead=sample.status is Status.LOST
        )
        used = figures.memory(sample.memory_used, sample.memory_total) if sample.status is Status.OK else ""
        memory = [[gap(4), *row, right(used if not at else "", 9)] for at, row in enumerate(drawn)]
    after = gap(2 + 2 * bool(fields.memory_graph))
    return [[*heads[row], *graph[row], *now[row], *memory[row], after] for row in range(lines)]


def _heads(card: DevicePicture, fields: FullFields, number: int, lines: int) -> list[list[InkPiece]]:
    sample, room = card.sample, fields.head - 2
    lost = sample.status is not Status.OK
    name = left(device_name(sample), fields.head - number - 2, Ink.FAILURE if lost else Ink.PAST)
    heads = [[*_number(card, number), name]]
    if lost:
        heads.append([gap(number + 2), left(sample.status.value, fields.head - number - 2, Ink.FAILURE, bold=True)])
    else:
        watts = figures.watts(sample.power, sample.power_limit)
        heads.append([_degrees(sample, room - 1), gap(fields.head - room + 1)])
        if watts != figures.UNKNOWN:
            heads.append([right(watts, room - 1), InkPiece(" W", Ink.PAST), gap(fields.head - room - 1)])
    return [*heads, *([[gap(fields.head)]] * lines)][:lines]


def _degrees(sample: DeviceSample, cells: int, *, brief: bool = False) -> InkPiece:
    if sample.temperature is None:
        return gap(cells)
    hot = sample.temperature >= HOT
    text = f"{sample.temperature}°{'' if brief else 'C'}{('!' if brief else ' !') if hot else '' if brief else '  '}"
    return InkPiece(f"{text:>{cells}}" if not brief else f"{text:<{cells}}", Ink.FAILURE if hot else Ink.TEXT, hot)


def _now(card: DevicePicture, fields: FullFields, lines: int) -> list[list[InkPiece]]:
    sample = card.sample
    if sample.status is not Status.OK:
        return [[gap(fields.now)]] * lines
    ink = load_ink(sample.utilization, card)
    figure_lines = [[right(figures.percent(sample.utilization), fields.now, ink, bold=ink is not Ink.PAST)]]
    if not fields.memory_graph:
        figure_lines.append([right(figures.memory(sample.memory_used, sample.memory_total), fields.now)])
        figure_lines.append([gap(2), *device_bar(card, sample, fields.now - 2)])
    return [*figure_lines, *([[gap(fields.now)]] * lines)][:lines]


def _number(card: DevicePicture, number: int) -> list[InkPiece]:
    text = "" if card.sample.mig is not None or card.sample.key == HOST else str(card.sample.index)
    return [gap(1), right(text, number, bold=True), gap(1)]


def _scale(fields: FullFields, width: int) -> PageLine:
    minutes = GRAPH_SECONDS // 60
    pieces = [gap(fields.head), InkPiece(graphs.scale(minutes, fields.graph), Ink.PAST)]
    if fields.memory_graph:
        pieces += [gap(fields.now + 4), InkPiece(graphs.scale(minutes, fields.memory_graph), Ink.PAST)]
    return (spot(pieces, width),)


def _heading(fields: FullFields, title: int, beside: str) -> str:
    """The names of the columns, from where the title ends."""
    after = fields.head + fields.graph + fields.now
    text = " " * (fields.head - title) + "util, last 30 min" if not fields.narrow else ""
    if fields.memory_graph:
        text = text.ljust(after + 4 - title) + "memory G"
        after += 4 + fields.memory_graph + 9 + 4
    elif not fields.narrow:
        text = text.ljust(after - 3 - title) + "now"
        after += 2
    return text.ljust(max(0, after - title)) + beside
