"""The full-screen GPU pane: history, processes, users and totals."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import GIB, counted, duration_exact, duration_words
from gputui.gpus.history import HOST, HOT, DeviceShare, LoadOwner
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample, HostSample, ProcessSample, Status
from gputui.logs.plain import plain
from gputui.tui.text import Piece, blank, fit, ljust, rjust
from gputui.tui.theme import Look, bold

from . import occupants, page
from .occupants import UNKNOWN, View, command_of, device_name, leftover_of, occupant, short
from .page import Page, PageLine, Room, section
from .rows import GRAPH_SECONDS, device_bar, entries, history_columns, load_look, occupant_pieces

# Processes

Line = list[Piece]
Column = Sequence[Line]
_WITH_COMMANDS = 60
"""Minimum width in cells for showing a process's command on its own line, if there is room."""


class ListingFields(Struct, frozen=True, kw_only=True):
    """The widths of the fields in the list of processes. A width of 0 omits the field."""

    width: int
    user: int
    pid: int = 7
    time: int = 0
    gpu: int = 0
    host: int = 0
    gap: int = 1

    @classmethod
    def of(cls, width: int, *, narrow: bool) -> ListingFields:
        """Choose the field widths. If there is too little room, host memory is omitted first, then the time."""
        if narrow or width < 40:
            return cls(width=width, user=7 if narrow else 6)
        if width < 50:
            return cls(width=width, user=7, gpu=7, gap=2)
        return cls(width=width, user=7, time=9, gpu=7, host=8, gap=2)

    def heading(self) -> str:
        fields = ((self.pid, "pid"), (self.time, "time"), (self.gpu, "gpu G"), (self.host, "host G"))
        text = "user".ljust(self.user) + "".join(f"{name:>{cells}}" for cells, name in fields if cells)
        return f"{text}{' ' * self.gap}command"


def listed(view: View, card: DevicePicture, fields: ListingFields, lines: int) -> list[list[Piece]]:
    """Return exactly `lines` lines. Warnings take precedence over processes."""
    if card.sample.key == HOST:
        return _filled([[(_machine(view), Look.PAST)]], lines)
    wrong = _warnings(card)
    if card.sample.status is Status.LOST:
        return _filled(wrong, lines)
    on_it = sorted(card.sample.processes, key=lambda each: (not each.compute, -(each.memory or 0)))
    room = max(1, lines - len(wrong))
    listed_lines: list[list[Piece]] = []
    for at, process in enumerate(on_it):
        rest = len(on_it) - at
        if rest > 1 and len(listed_lines) == room - 1:
            listed_lines.append([(f"+{counted(rest, 'process', 'processes')}: Enter for all", Look.PAST)])
            break
        listed_lines.append(_process(view, card, process, fields))
        if fields.width >= _WITH_COMMANDS and len(listed_lines) + 2 * (rest - 1) + 1 <= room and process.command:
            listed_lines.append([blank(6), (plain(process.command), Look.PAST)])
    if not on_it:
        listed_lines = [occupant_pieces(view, replace(card, warnings=()))]
        time = occupant(view, card).time
        listed_lines[0] += [(f"   {time}", Look.PAST)] if time else []
    listed_lines += wrong
    if counters(card.sample) and len(listed_lines) < lines:
        listed_lines.append([(counters(card.sample), Look.PAST)])
    return _filled(listed_lines, lines)


def _machine(view: View) -> str:
    host = view.picture.host
    name = short(host.name) if host is not None else ""
    return name if view.picture.devices else f"{name}; no NVIDIA GPU found".removeprefix("; ")


def _filled(lines: list[list[Piece]], count: int) -> list[list[Piece]]:
    return [*lines, *([[]] * count)][:count]


def _warnings(card: DevicePicture) -> list[list[Piece]]:
    warning_lines: list[list[Piece]] = []
    for warning in card.warnings:
        sign = "✗" if card.sample.status is Status.LOST else "!"
        warning_lines.append(
            [(f"{sign} {plain(warning.words)}", Look.FAILURE_BOLD if warning.grave else Look.WARNING_BOLD)]
        )
        if warning.advice:
            warning_lines.append([(plain(warning.advice[0].upper() + warning.advice[1:] + "."), Look.TEXT)])
    return warning_lines


def counters(sample: DeviceSample) -> str:
    """Return the error counts of the GPU (ECC and PCIe), or an empty text if there were no errors."""
    parts = []
    if sample.ecc_corrected or sample.ecc_uncorrected:
        parts.append(f"ECC: {sample.ecc_corrected or 0:,} corrected, {sample.ecc_uncorrected or 0:,} not")
    if sample.pcie_replays:
        parts.append(f"PCIe: {counted(sample.pcie_replays, 'packet', 'packets')} replays")
    return " · ".join(parts)


def _process(view: View, card: DevicePicture, process: ProcessSample, fields: ListingFields) -> list[Piece]:
    job = view.picture.pids.get(process.pid)
    look = Look.EXTERNAL if _is_external(view, card, process) else Look.TEXT
    age = UNKNOWN if process.started is None else duration_exact(view.now - process.started)
    cells = ((fields.pid, str(process.pid)), (fields.time, age), (fields.gpu, _gigabytes(process.memory)),
             (fields.host, _gigabytes(process.host_memory)))  # fmt: skip
    user = ljust(plain(process.user or "?"), fields.user - 1)
    figures = "".join(rjust(text, width) for width, text in cells if width)
    line = [(f"{user} {figures}{' ' * fields.gap}", look)]
    if job is not None:
        return [*line, (f"#{job}", Look.RUNNING_BOLD), (f" {plain(view.name_of(job))}", Look.TEXT)]
    return [*line, (_command(card, process), look)]


def _is_external(view: View, card: DevicePicture, process: ProcessSample) -> bool:
    if card.state is None:
        return bool(card.share.others) and not card.share.ours
    return process.pid not in view.picture.pids and leftover_of(card, process) is None


def _command(card: DevicePicture, process: ProcessSample) -> str:
    command = _short(command_of(process))
    if (left_by := leftover_of(card, process)) is not None:
        return f"left over from #{left_by}: {command}"
    return command if process.compute else f"(graphics) {command}"


def _short(command: str) -> str:
    """Return the command without its interpreter: `train.py --lr 0.1` instead of `python3 train.py --lr 0.1`."""
    words = command.split(" ")
    if words[0].rpartition("/")[2].startswith("python") and len(words) > 1:
        module = words[1] == "-m" and len(words) > 2
        words = words[2:] if module else words[1:] if not words[1].startswith("-") else words
    return " ".join([words[0].rpartition("/")[2], *words[1:]])


def _gigabytes(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / GIB:.1f}"


# Totals of users and the machine

_TIB = 1024 * GIB
_YOU = "you"


class UserTotal(Struct, frozen=True):
    name: str
    gpus: int
    memory: int
    ours: bool


class Totals(Struct, frozen=True):
    users: tuple[UserTotal, ...]
    """The users: first the users of this session, then the others, each sorted by memory, largest first."""
    free: int
    lost: int
    memory: int
    """The memory of all devices in bytes. Memory shared with the host is not counted."""


def totals(picture: DevicesPicture) -> Totals:
    """Return the totals of all users, counting computing processes. A job without visible processes counts as the
    current user's.

    A user with processes inside and outside this session has one row.
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
    """Return the shares of a device's memory: the user, whether a job uses the memory, and the bytes. An empty user
    name means the current user.
    """
    on_it = [each for each in device.sample.processes if each.compute]
    if not on_it and device.jobs:
        return [("", True, device.sample.memory_used or 0)]
    strange = {external_process.pid for external_process in device.external_processes}
    ours = device.state is not None or device.share.ours
    return [
        (plain(each.user or "?"), bool(ours) and each.pid not in strange and _is_ours(device, picture, each.pid),
         each.memory or 0) for each in on_it
    ]  # fmt: skip


def _is_ours(device: DevicePicture, picture: DevicesPicture, pid: int) -> bool:
    """Return whether a process is ours. With a session, its pid decides. Without one, all processes of a device are
    either ours or not.
    """
    return pid in picture.pids or (device.state is None and not device.share.others)


def lines_below(view: View, room: Room) -> list[PageLine]:
    """Return the totals as two lines, or as tables of users and of the machine if there is enough room."""
    if room.width < 100 or room.height < 30:
        return [_users_line(view, room.width), _machine_line(view, room.width)]
    half = room.width // 2
    users, machine = _users_table(view, half), _machine_table(view, room.width - half)
    rows = max(len(users), len(machine))
    page_lines: list[PageLine] = []
    for row in range(rows):
        users_row = users[row] if row < len(users) else []
        two = machine[row] if row < len(machine) else []
        page_lines.append((section(users_row, half, band=not row), section(two, room.width - half, band=not row)))
    return page_lines


def _users_line(view: View, width: int) -> PageLine:
    all_totals = totals(view.picture)
    pieces = [(" Users  ", Look.TEXT)]
    for user in all_totals.users:
        look = Look.TEXT if user.ours else Look.EXTERNAL
        pieces += [
            (f"{user.name} ", bold(look)),
            (f"{_cards(user.gpus, view)} {user.memory / GIB:.0f} G   ", Look.TEXT),
        ]
    if view.picture.devices:
        pieces.append((f"{all_totals.free} free   ", Look.PAST))
    if all_totals.lost:
        pieces.append((f"{all_totals.lost} lost", Look.FAILURE_BOLD))
    return (section(pieces, width, band=True),)


def _cards(count: int, view: View) -> str:
    if view.picture.host is not None:
        return counted(count, "slot", "slots")
    return counted(count, "GPU", "GPUs")


def _users_table(view: View, width: int) -> list[list[Piece]]:
    all_totals = totals(view.picture)
    bar = max(8, min(24, width - 34))
    lines = [[(" Users", Look.TEXT)]]
    for user in all_totals.users[:3]:
        look = Look.TEXT if user.ours else Look.EXTERNAL
        lines.append([
            blank(3), (ljust(user.name, 10), look), blank(1), (ljust(_cards(user.gpus, view), 8), Look.TEXT), blank(1),
            *_part(user.memory, all_totals.memory, bar, Look.MEMORY if user.ours else Look.EXTERNAL),
            (rjust(f"{user.memory / GIB:.1f} G", 11), Look.TEXT),
        ])  # fmt: skip
    if len(all_totals.users) > 3:
        rest = all_totals.users[3:]
        lines[-1].append((f"  +{counted(len(rest), 'user', 'users')}", Look.PAST))
    last = [blank(3), (ljust("free", 10), Look.PAST), blank(1), (ljust(_cards(all_totals.free, view), 8), Look.PAST)]
    if all_totals.lost:
        last += [blank(1), (f"{all_totals.lost} lost", Look.FAILURE_BOLD)]
    return [*lines, last] if view.picture.devices else [*lines, [blank(3), ("no GPUs", Look.PAST)]]


def _part(used: float, total: float, cells: int, look: Look) -> list[Piece]:
    filled = min(cells, max(used > 0, round(cells * used / total))) if total else 0
    return [("━" * filled, look), ("─" * (cells - filled), Look.LINE)]


def _machine_line(view: View, width: int) -> PageLine:
    machine = view.machine
    pieces = [(" Host   ", Look.TEXT)]
    if machine is None:
        return (section([*pieces, ("loading …", Look.PAST)], width, band=True),)
    busy = "–" if machine.busy is None else f"{machine.busy:.0f} %"
    for name, text in (("CPU", busy), ("RAM", _of(machine.memory_used, machine.memory_total, "/")),
                       ("disk", _of(machine.disk_used, machine.disk_total, "/")), ("load", _load(view))):  # fmt: skip
        pieces += [(f"{name} ", Look.PAST), (f"{text}   ", Look.TEXT)]
    return (section(pieces, width, band=True),)


def _machine_table(view: View, width: int) -> list[list[Piece]]:
    host, sample = view.machine, view.picture.sample
    driver = f"driver {plain(sample.driver)}" if sample is not None and sample.driver else ""
    if host is None:
        return [[(" Host  ", Look.TEXT), ("loading …", Look.PAST)]]
    up = f"up {duration_words(host.up)}" if host.up is not None else ""
    about = ", ".join(word for word in (counted(host.cores, "core", "cores"), up, driver) if word)
    bar = max(8, min(14, width - 40))
    busy = "–" if host.busy is None else f"{host.busy:.0f}% of {counted(host.cores, 'core', 'cores')}"
    swap = f"swap {_size(host.swap_used)}" if host.swap_used is not None else ""
    lines = [
        ("CPU", host.busy or 0.0, 100.0, busy, f"load {_load(view)}"),
        ("RAM", host.memory_used or 0, host.memory_total or 0, _of(host.memory_used, host.memory_total), swap),
        ("disk", host.disk_used or 0, host.disk_total or 0, _of(host.disk_used, host.disk_total),
         plain(host.disk_directory)),
    ]  # fmt: skip
    table = [[(" Host  ", Look.TEXT), (about, Look.PAST)]]
    for name, used, total, text, more in lines:
        table.append([blank(1), (ljust(name, 6), Look.PAST), *_part(used, total, bar, Look.MEMORY), blank(2),
                      (ljust(text, 18), Look.TEXT), blank(1), (more, Look.PAST)])  # fmt: skip
    return table


def _load(view: View) -> str:
    load = view.machine.load if view.machine is not None else None
    return "–" if load is None else f"{load:.1f}"


def _of(used: int | None, total: int | None, joined: str = " of ") -> str:
    if used is None or not total:
        return "–"
    unit, letter, form = (_TIB, "T", ".1f") if total >= 1000 * GIB else (GIB, "G", ".0f")
    return f"{used / unit:{form}}{joined}{total / unit:{form}} {letter}"


def _size(count: int) -> str:
    return "0" if count < GIB / 20 else f"{count / GIB:.1f} G"


# The page

_MOST_LINES = 9
_FEW, _FEW_LINES = 2, 20
"""Maximum number of GPUs that counts as few, and maximum number of lines for each GPU in this case. The many lines fill
a screen that would otherwise be empty.
"""
_WITH_MEMORY_HISTORY = 160
_MEMORY_NOW = 9
"""Width of the figure for the memory in use, which is to the right of the memory's history."""
_NARROW = 100


class FullFields(Struct, frozen=True, kw_only=True):
    """The widths of the columns. They are the same for all GPUs."""

    number: int
    """Number of digits of the largest GPU number."""
    head: int
    """Width of the number, the name and the figures below them, including the gap after them."""
    graph: int
    now: int
    """Width of the newest figures, including the gap before them."""
    memory_graph: int
    gap: int
    """Number of cells before the list of processes."""
    listing: ListingFields
    narrow: bool

    @classmethod
    def of(cls, width: int, number: int) -> FullFields:
        narrow = width < _NARROW
        if narrow:
            head, graph, now, memory, gap = 2, 17 + max(0, width - 80) // 2, 11, 0, 0
        elif width < _WITH_MEMORY_HISTORY:
            head, graph, now, memory, gap = 13, 34 + (width - 120) // 2, 11, 0, 2
        else:
            head, graph, now, memory, gap = 14, 64 + (width - 200) // 2, 7, 33 + (width - 200) // 4, 4
        head += min(number, 2)
        used = head + graph + now + (4 + memory + _MEMORY_NOW if memory else 0) + gap
        return cls(number=number, head=head, graph=graph, now=now, memory_graph=memory, gap=gap,
                   listing=ListingFields.of(max(0, width - used), narrow=narrow), narrow=narrow)  # fmt: skip

    def row(self, head: Column, graph: Column, now: Column, memory: Column, used: Column, rest: Column) -> list[Line]:
        """Place columns of text side by side, in as many lines as the longest of them has."""
        columns = [(self.head, head), (self.graph, graph), (self.now, now)]
        if self.memory_graph:
            columns += [(4, ()), (self.memory_graph, memory), (_MEMORY_NOW, used)]
        columns += [(self.gap, ()), (self.listing.width, rest)]
        height = max(len(column) for _, column in columns)
        return [
            [piece for cells, column in columns for piece in fit(column[row] if row < len(column) else (), cells)]
            for row in range(height)
        ]


def full(view: View, room: Room) -> Page:
    host = view.picture.host
    cards = (*([host_card(host)] if host is not None else []), *view.picture.devices)
    below = lines_below(view, room)
    notes: list[PageLine] = [(section([entry], room.width),) for entry in entries(view) if isinstance(entry, tuple)]
    number = max((len(str(card.sample.index)) for card in cards), default=1)
    fields = FullFields.of(room.width, number)
    lines = _lines_each(room.height - len(below) - len(notes) - 1, len(cards), narrow=fields.narrow)
    blocks = [line for card in cards for line in _block(card, view, fields, lines, room.width)]
    while blocks and not any(text.strip() for text, _ in blocks[-1][0].pieces):
        blocks.pop()
    middle = [*notes, *blocks, *([(section(_scale(fields), room.width),)] if cards else [])]
    blank_line: PageLine = (section([], room.width),)
    if len(middle) + len(below) < room.height and not fields.narrow:
        middle.append(blank_line)
    beside = fields.listing.heading() if _lists_processes(view) else "job" if view.picture.devices else ""
    heading = "".join(text for text, _ in _heading(fields, beside))[room.title :]
    return Page((*middle, *below), head=((heading.rstrip(), Look.PAST),), barred=True)


def _lists_processes(view: View) -> bool:
    """Return whether processes can be listed. For CPU slots and simulated GPUs they are unknown."""
    return any(not device.sample.uuid.startswith(("CPU-", "SIM-")) for device in view.picture.devices)


def host_card(host: HostSample) -> DevicePicture:
    """Return a device picture of the machine itself, shown for CPU slots."""
    load = None if host.utilization is None else round(host.utilization)
    cores = counted(host.cores, "core", "cores")
    sample = DeviceSample(index=0, uuid=HOST, name=cores, utilization=load, memory_shared=True,
                          memory_used=host.memory_used, memory_total=host.memory_total)  # fmt: skip
    return DevicePicture(sample=sample, share=DeviceShare(LoadOwner.OURS, host.memory_used or 0, 0))


def _lines_each(room: int, cards: int, *, narrow: bool) -> int:
    most = _FEW_LINES if cards <= _FEW else 5 if narrow else _MOST_LINES
    return max(2, min(most, room // max(1, cards)))


def _block(card: DevicePicture, view: View, fields: FullFields, lines: int, width: int) -> list[PageLine]:
    """Return the lines of a GPU. If there are more than three, the last one is blank to separate the GPUs."""
    sample, drawn = card.sample, lines if lines <= 3 else lines - 1
    dead = sample.status is Status.LOST
    dots = history_columns(view, sample.key, 2 * fields.graph)
    graph = page.load_graph(dots, max(1, drawn - fields.narrow), dead=dead)
    if fields.narrow:
        graph.append(device_bar(card, sample, fields.graph) if sample.status is Status.OK else [])
    memory: list[Line] = []
    if fields.memory_graph:
        dots = history_columns(view, sample.key, 2 * fields.memory_graph)
        memory = page.memory_graph(dots, drawn, dead=dead)
    now, used = _now(card, fields, drawn)
    rows = fields.row(_head(card, fields)[:drawn], graph, now, memory, used, listed(view, card, fields.listing, drawn))
    key = sample.key if sample.key != HOST else None
    block: list[PageLine] = [(section(row, width, key),) for row in rows]
    return block + [(section([], width),)] * (lines - drawn)


def _head(card: DevicePicture, fields: FullFields) -> list[Line]:
    """Return the number and, unless the screen is narrow, the name and its temperature and power or its status."""
    sample, room = card.sample, fields.head - 3
    ok = sample.status is Status.OK
    text = "" if sample.mig is not None or sample.key == HOST else str(sample.index)
    number = [blank(1), (rjust(text, fields.number), Look.BOLD), blank(1)]
    if fields.narrow:
        return [number]
    first = [*number, (device_name(sample), Look.PAST if ok else Look.FAILURE)]
    if not ok:
        return [first, [blank(fields.number + 2), (sample.status.value, Look.FAILURE_BOLD)]]
    watts, (degrees, look) = occupants.watts(sample.power, sample.power_limit), _degrees(sample)
    power = [(rjust(watts, room), Look.TEXT), (" W", Look.PAST)] if watts != occupants.UNKNOWN else []
    return [first, [(rjust(degrees, room), look)], power]


def _now(card: DevicePicture, fields: FullFields, lines: int) -> tuple[list[Line], list[Line]]:
    """Return the newest figures right of the load, and those right of the memory's history."""
    sample, load = card.sample, load_look(card.sample.utilization, card)
    if sample.status is not Status.OK:
        return ([[(rjust(sample.status.value, 5), Look.FAILURE_BOLD)]] if fields.narrow else []), []
    percent, memory = (
        occupants.percent(sample.utilization), occupants.memory(sample.memory_used, sample.memory_total)
    )  # fmt: skip
    if fields.narrow:
        last: Line = [(rjust(memory, fields.now - 1), Look.TEXT)]
        return [[(rjust(percent, 5), load), blank(1), _degrees(sample, brief=True)], *[[]] * (lines - 2), last], []
    figures: list[Line] = [[(rjust(percent, fields.now), load)]]
    if fields.memory_graph:
        return figures, [[(rjust(memory, _MEMORY_NOW), Look.TEXT)]]
    memory_bar = [blank(2), *device_bar(card, sample, fields.now - 2)]
    return [*figures, [(rjust(memory, fields.now), Look.TEXT)], memory_bar][:lines], []


def _degrees(sample: DeviceSample, *, brief: bool = False) -> Piece:
    if sample.temperature is None:
        return blank(0)
    hot = sample.temperature >= HOT
    sign = "!" if brief else " !"
    text = f"{sample.temperature}{'°' if brief else '°C'}{sign if hot else '' if brief else '  '}"
    return text, Look.FAILURE_BOLD if hot else Look.TEXT


def _scale(fields: FullFields) -> Line:
    load, memory = (
        [[(page.scale(GRAPH_SECONDS // 60, cells), Look.PAST)]] for cells in (fields.graph, fields.memory_graph)
    )
    return fields.row((), load, (), memory, (), ())[0]


def _heading(fields: FullFields, beside: str) -> Line:
    """Return the column headings."""
    load = "" if fields.narrow else "util, last 30 min"
    now = "" if fields.narrow or fields.memory_graph else rjust("now", fields.now)
    return fields.row((), *([[(text, Look.PAST)]] for text in (load, now, "memory G", "", beside)))[0]
