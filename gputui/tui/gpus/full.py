"""The whole screen for the cards: history, processes, users and totals."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import GIB, counted, duration_exact, duration_words
from gputui.gpus.history import HOST, HOT, DeviceShare, HistoryColumn, LoadOwner
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample, HostSample, ProcessSample, Status
from gputui.logs.plain import plain

from . import occupants, page
from .occupants import UNKNOWN, View, device_name, left_over, occupant, short
from .page import Ink, InkPiece, Page, PageLine, Room, gap, left, right, spot
from .rows import GRAPH_SECONDS, DeviceNote, device_bar, entries, history_columns, load_ink, occupant_pieces

# ---- What stands beside a card that has the whole screen ----


Line = list[InkPiece]
_WITH_COMMANDS = 60
"""Cells from which a process has its whole command below it, where there are lines for that."""


class ListingFields(Struct, frozen=True, kw_only=True):
    """Widths; 0: left out."""

    width: int
    user: int
    pid: int = 7
    time: int = 0
    gpu: int = 0
    host: int = 0
    gap: int = 1

    @classmethod
    def of(cls, width: int, *, narrow: bool) -> ListingFields:
        """Dropped first: the machine's memory, then the time."""
        if narrow or width < 40:
            return cls(width=width, user=7 if narrow else 6)
        if width < 50:
            return cls(width=width, user=7, gpu=7, gap=2)
        return cls(width=width, user=7, time=9, gpu=7, host=8, gap=2)

    def heading(self) -> str:
        fields = ((self.pid, "pid"), (self.time, "time"), (self.gpu, "gpu G"), (self.host, "host G"))
        text = "user".ljust(self.user) + "".join(f"{name:>{cells}}" for cells, name in fields if cells)
        return f"{text}{' ' * self.gap}command"


def listed(view: View, card: DevicePicture, fields: ListingFields, lines: int) -> list[Line]:
    """Exactly so many lines; warnings are never left out for processes."""
    if card.sample.key == HOST:
        return _filled([[InkPiece(_machine(view), Ink.PAST)]], lines)
    wrong = _warnings(card)
    if card.sample.status is Status.LOST:
        return _filled(wrong, lines)
    on_it = sorted(card.sample.processes, key=lambda each: (not each.compute, -(each.memory or 0)))
    room = max(1, lines - len(wrong))
    listed_lines: list[Line] = []
    for at, process in enumerate(on_it):
        rest = len(on_it) - at
        if rest > 1 and len(listed_lines) == room - 1:
            listed_lines.append([InkPiece(f"+{counted(rest, 'process', 'processes')}: Enter lists them", Ink.PAST)])
            break
        listed_lines.append(_process(view, card, process, fields))
        if fields.width >= _WITH_COMMANDS and len(listed_lines) + 2 * (rest - 1) + 1 <= room and process.command:
            listed_lines.append([gap(6), InkPiece(plain(process.command), Ink.PAST)])
    if not on_it:
        listed_lines = [occupant_pieces(view, _without_warnings(card))]
        time = occupant(view, card).time
        listed_lines[0] += [InkPiece(f"   {time}", Ink.PAST)] if time else []
    listed_lines += wrong
    if counters(card.sample) and len(listed_lines) < lines:
        listed_lines.append([InkPiece(counters(card.sample), Ink.PAST)])
    return _filled(listed_lines, lines)


def _machine(view: View) -> str:
    host = view.picture.host
    name = short(host.name) if host is not None else ""
    return name if view.picture.devices else f"{name}; no NVIDIA GPU was found".removeprefix("; ")


def _filled(lines: list[Line], count: int) -> list[Line]:
    return [*lines, *([[]] * count)][:count]


def _without_warnings(card: DevicePicture) -> DevicePicture:
    return replace(card, warnings=())


def _warnings(card: DevicePicture) -> list[Line]:
    warning_lines: list[Line] = []
    for warning in card.warnings:
        sign = "✗" if card.sample.status is Status.LOST else "!"
        warning_lines.append(
            [InkPiece(f"{sign} {plain(warning.words)}", Ink.FAILURE if warning.grave else Ink.WARNING, True)]
        )
        if warning.advice:
            warning_lines.append([InkPiece(plain(warning.advice[0].upper() + warning.advice[1:] + "."))])
    return warning_lines


def counters(sample: DeviceSample) -> str:
    """Errors that the card mended by itself; empty where there were none, or nobody can say."""
    parts = []
    if sample.ecc_corrected or sample.ecc_uncorrected:
        parts.append(f"ECC: {sample.ecc_corrected or 0:,} corrected, {sample.ecc_uncorrected or 0:,} not")
    if sample.pcie_replays:
        parts.append(f"PCIe: {counted(sample.pcie_replays, 'packet', 'packets')} sent again")
    return " · ".join(parts)


def _process(view: View, card: DevicePicture, process: ProcessSample, fields: ListingFields) -> Line:
    job = view.picture.pids.get(process.pid)
    strange = _is_strange(view, card, process)
    ink = Ink.STRANGER if strange else Ink.TEXT
    line = [left(plain(process.user or "?"), fields.user - 1, ink), gap(1), right(str(process.pid), fields.pid, ink)]
    if fields.time:
        age = UNKNOWN if process.started is None else duration_exact(view.now - process.started)
        line.append(right(age, fields.time, ink))
    if fields.gpu:
        line.append(right(_gigabytes(process.memory), fields.gpu, ink))
    if fields.host:
        line.append(right(_gigabytes(process.host_memory), fields.host, ink))
    line.append(gap(fields.gap))
    if job is not None:
        return [*line, InkPiece(f"#{job}", Ink.RUNNING, True), InkPiece(f" {plain(view.name_of(job))}")]
    return [*line, InkPiece(_command(card, process), ink)]


def _is_strange(view: View, card: DevicePicture, process: ProcessSample) -> bool:
    if card.state is None:
        return bool(card.share.others) and not card.share.ours
    return process.pid not in view.picture.pids and left_over(card, process) is None


def _command(card: DevicePicture, process: ProcessSample) -> str:
    left_by = left_over(card, process)
    said = plain(process.command or ("not visible here" if process.alive else "no such process here"))
    short = _short(said)
    kind = "" if process.compute else "(graphics) "
    return f"left by #{left_by}: {short}" if left_by is not None else f"{kind}{short}"


def _short(command: str) -> str:
    """What runs, not what runs it: `train.py --lr 0.1` of `/usr/bin/python3 train.py --lr 0.1`."""
    words = command.split(" ")
    if words[0].rpartition("/")[2].startswith("python") and len(words) > 1:
        module = words[1] == "-m" and len(words) > 2
        words = words[2:] if module else words[1:] if not words[1].startswith("-") else words
    return " ".join([words[0].rpartition("/")[2], *words[1:]])


def _gigabytes(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / GIB:.1f}"


# ---- What each user has of the machine, and the machine itself, below the cards ----


_GIB, _TIB = 1024**3, 1024**4
_YOU = "you"


class UserTotal(Struct, frozen=True):
    name: str
    gpus: int
    memory: int
    ours: bool


class Totals(Struct, frozen=True):
    users: tuple[UserTotal, ...]
    """Who has most first."""
    free: int
    lost: int
    memory: int
    """Of all devices."""


def totals(picture: DevicesPicture) -> Totals:
    """By the processes that compute; a job whose processes are not to be seen is yours.

    Each user is one row, also one with processes both in this session and outside it.
    """
    shares = [(device.sample.key, share) for device in picture.devices for share in _shares(device, picture)]
    own_name = next((name for _, (name, ours, _) in shares if ours and name), _YOU)
    mine = {name or own_name for _, (name, ours, _) in shares if ours}
    used: dict[str, tuple[set[str], int]] = {}
    for key, (name, _, memory) in shares:
        keys, sofar = used.get(name or own_name, (set(), 0))
        used[name or own_name] = keys | {key}, sofar + memory
    users = [UserTotal(name, len(keys), memory, name in mine) for name, (keys, memory) in used.items()]
    in_use = set().union(*(keys for keys, _ in used.values())) if used else set()
    cards = [device.sample for device in picture.devices if not device.sample.mig_enabled]
    return Totals(
        users=tuple(sorted(users, key=lambda user: (not user.ours, -user.memory))),
        free=sum(card.status is Status.OK and card.key not in in_use for card in cards),
        lost=sum(card.status is Status.LOST for card in cards),
        memory=sum(card.memory_total or 0 for card in cards if not card.memory_shared),
    )


def _shares(device: DevicePicture, picture: DevicesPicture) -> list[tuple[str, bool, int]]:
    """Whose, whether a job's, and how much memory; without a name: this user's."""
    on_it = [each for each in device.sample.processes if each.compute]
    if not on_it and device.jobs:
        return [("", True, device.sample.memory_used or 0)]
    strange = {stranger.pid for stranger in device.strangers}
    ours = device.state is not None or device.share.ours
    return [
        (plain(each.user or "?"), bool(ours) and each.pid not in strange and _is_ours(device, picture, each.pid),
         each.memory or 0) for each in on_it
    ]  # fmt: skip


def _is_ours(device: DevicePicture, picture: DevicesPicture, pid: int) -> bool:
    """In a session by its processes, in a monitor where the whole device is this user's."""
    return pid in picture.pids or (device.state is None and not device.share.others)


def lines_below(view: View, room: Room) -> list[PageLine]:
    """Two lines where there is little room, else a table of users beside one of the machine."""
    if room.width < 100 or room.height < 30:
        return [_users_line(view, room.width), _machine_line(view, room.width)]
    half = room.width // 2
    users, machine = _users_table(view, half), _machine_table(view, room.width - half)
    rows = max(len(users), len(machine))
    page_lines: list[PageLine] = []
    for row in range(rows):
        users_row = users[row] if row < len(users) else []
        two = machine[row] if row < len(machine) else []
        page_lines.append((spot(users_row, half, band=not row), spot(two, room.width - half, band=not row)))
    return page_lines


def _users_line(view: View, width: int) -> PageLine:
    all_totals = totals(view.picture)
    pieces = [InkPiece(" Users  ")]
    for user in all_totals.users:
        ink = Ink.TEXT if user.ours else Ink.STRANGER
        pieces += [
            InkPiece(f"{user.name} ", ink, True),
            InkPiece(f"{_cards(user.gpus, view)} {user.memory / _GIB:.0f} G   "),
        ]
    if view.picture.devices:
        pieces.append(InkPiece(f"{all_totals.free} free   ", Ink.PAST))
    if all_totals.lost:
        pieces.append(InkPiece(f"{all_totals.lost} lost", Ink.FAILURE, True))
    return (spot(pieces, width, band=True),)


def _cards(count: int, view: View) -> str:
    if view.picture.host is not None:
        return counted(count, "lane", "lanes")
    return counted(count, "GPU", "GPUs")


def _users_table(view: View, width: int) -> list[list[InkPiece]]:
    all_totals = totals(view.picture)
    bar = max(8, min(24, width - 34))
    lines = [[InkPiece(" Users")]]
    for user in all_totals.users[:3]:
        ink = Ink.TEXT if user.ours else Ink.STRANGER
        lines.append([gap(3), left(user.name, 10, ink), gap(1), left(_cards(user.gpus, view), 8), gap(1),
                      *_part(user.memory, all_totals.memory, bar, Ink.MEMORY if user.ours else Ink.STRANGER),
                      right(f"{user.memory / _GIB:.1f} G", 11)])  # fmt: skip
    if len(all_totals.users) > 3:
        rest = all_totals.users[3:]
        lines[-1].append(InkPiece(f"  +{counted(len(rest), 'user', 'users')}", Ink.PAST))
    last = [gap(3), left("free", 10, Ink.PAST), gap(1), left(_cards(all_totals.free, view), 8, Ink.PAST)]
    if all_totals.lost:
        last += [gap(1), InkPiece(f"{all_totals.lost} lost", Ink.FAILURE, True)]
    return (
        [*lines, last] if view.picture.devices else [*lines, [gap(3), InkPiece("there is no card to have", Ink.PAST)]]
    )


def _part(used: float, total: float, cells: int, ink: Ink) -> list[InkPiece]:
    filled = min(cells, max(used > 0, round(cells * used / total))) if total else 0
    return [InkPiece("━" * filled, ink), InkPiece("─" * (cells - filled), Ink.LINE)]


def _machine_line(view: View, width: int) -> PageLine:
    machine = view.machine
    pieces = [InkPiece(" Host   ")]
    if machine is None:
        return (spot([*pieces, InkPiece("being looked at", Ink.PAST)], width, band=True),)
    busy = "–" if machine.busy is None else f"{machine.busy:.0f} %"
    for name, text in (("CPU", busy), ("RAM", _of(machine.memory_used, machine.memory_total, "/")),
                       ("disk", _of(machine.disk_used, machine.disk_total, "/")), ("load", _load(view))):  # fmt: skip
        pieces += [InkPiece(f"{name} ", Ink.PAST), InkPiece(f"{text}   ")]
    return (spot(pieces, width, band=True),)


def _machine_table(view: View, width: int) -> list[list[InkPiece]]:
    host, sample = view.machine, view.picture.sample
    driver = f"driver {plain(sample.driver)}" if sample is not None and sample.driver else ""
    if host is None:
        return [[InkPiece(" Host  "), InkPiece("being looked at", Ink.PAST)]]
    up = f"up {duration_words(host.up)}" if host.up is not None else ""
    about = ", ".join(word for word in (counted(host.cores, "core", "cores"), up, driver) if word)
    bar = max(8, min(14, width - 40))
    busy = "–" if host.busy is None else f"{host.busy:.0f} % of {counted(host.cores, 'core', 'cores')}"
    swap = f"swap {_size(host.swap_used)}" if host.swap_used is not None else ""
    lines = [
        ("CPU", host.busy or 0.0, 100.0, busy, f"load {_load(view)}"),
        ("RAM", host.memory_used or 0, host.memory_total or 0, _of(host.memory_used, host.memory_total), swap),
        ("disk", host.disk_used or 0, host.disk_total or 0, _of(host.disk_used, host.disk_total),
         plain(host.disk_folder)),
    ]  # fmt: skip
    table = [[InkPiece(" Host  "), InkPiece(about, Ink.PAST)]]
    for name, used, total, text, more in lines:
        table.append([gap(1), left(name, 6, Ink.PAST), *_part(used, total, bar, Ink.MEMORY), gap(2), left(text, 18),
                     gap(1), InkPiece(more, Ink.PAST)])  # fmt: skip
    return table


def _load(view: View) -> str:
    load = view.machine.load if view.machine is not None else None
    return "–" if load is None else f"{load:.1f}"


def _of(used: int | None, total: int | None, joined: str = " of ") -> str:
    if used is None or not total:
        return "–"
    unit, letter, form = (_TIB, "T", ".1f") if total >= 1000 * _GIB else (_GIB, "G", ".0f")
    return f"{used / unit:{form}}{joined}{total / unit:{form}} {letter}"


def _size(count: int) -> str:
    return "0" if count < _GIB / 20 else f"{count / _GIB:.1f} G"


# ---- The whole screen for the cards ----


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
    below = lines_below(view, room)
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
    graph = page.load_graph(dots, max(1, graph_lines), dead=dead)
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
        now[0] = [right(occupants.percent(sample.utilization), 5, load, bold=load is not Ink.PAST), gap(1),
                  _degrees(sample, 4, brief=True), gap(fields.now - 10)]  # fmt: skip
        now[-1] = [right(occupants.memory(sample.memory_used, sample.memory_total), fields.now - 1), gap(1)]
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
        drawn = page.memory_graph(
            history_columns(view, sample.key, 2 * fields.memory_graph), lines, dead=sample.status is Status.LOST
        )
        used = occupants.memory(sample.memory_used, sample.memory_total) if sample.status is Status.OK else ""
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
        watts = occupants.watts(sample.power, sample.power_limit)
        heads.append([_degrees(sample, room - 1), gap(fields.head - room + 1)])
        if watts != occupants.UNKNOWN:
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
    figure_lines = [[right(occupants.percent(sample.utilization), fields.now, ink, bold=ink is not Ink.PAST)]]
    if not fields.memory_graph:
        figure_lines.append([right(occupants.memory(sample.memory_used, sample.memory_total), fields.now)])
        figure_lines.append([gap(2), *device_bar(card, sample, fields.now - 2)])
    return [*figure_lines, *([[gap(fields.now)]] * lines)][:lines]


def _number(card: DevicePicture, number: int) -> list[InkPiece]:
    text = "" if card.sample.mig is not None or card.sample.key == HOST else str(card.sample.index)
    return [gap(1), right(text, number, bold=True), gap(1)]


def _scale(fields: FullFields, width: int) -> PageLine:
    minutes = GRAPH_SECONDS // 60
    pieces = [gap(fields.head), InkPiece(page.scale(minutes, fields.graph), Ink.PAST)]
    if fields.memory_graph:
        pieces += [gap(fields.now + 4), InkPiece(page.scale(minutes, fields.memory_graph), Ink.PAST)]
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
