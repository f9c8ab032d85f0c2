"""The compact GPU pane: its size, its columns, and one or two lines for each device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import counted, moment
from gputui.core.amounts import duration_words as duration
from gputui.core.eta import progress_of
from gputui.gpus.history import HOST, HOT, HistoryColumn, columns
from gputui.gpus.picture import DevicePicture, DevicesPicture, SlotState
from gputui.gpus.sample import DeviceSample, HostSample, Status
from gputui.logs.plain import plain
from gputui.tui.text import Line, Piece, bar, blank, ljust, rjust, width_of
from gputui.tui.theme import Look

from . import occupants, page
from .occupants import IDLE, Occupant, View, device_name, memory_width, occupant, short, watts
from .page import Page, PageLine, Room, section

# Size and columns

NARROWEST = 36
"""Minimum width of a device in cells."""
GAP = 2
"""Number of cells between two columns of devices."""
TALL_SCREEN = 56
"""Minimum screen height in rows for two lines per device."""
_LONGEST_GRAPH = 64
_LOW_SCREEN = 30
_WIDE_SCREEN = 160
_MOST_COLUMNS = 4


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool = False) -> int:
    """Return how many lines the pane should get. `width` is the width of the pane, and `height` is the height of the
    screen.
    """
    count = entry_count(picture)
    most = max(3, height // (2 if unfolded else 3))
    if height >= TALL_SCREEN and 2 * count <= most:
        return 2 * count
    columns = 1 if unfolded else _columns_wanted(count, width, height)
    return max(1, min(most, _rows(count, columns)))


def _columns_wanted(count: int, width: int, height: int) -> int:
    if count <= 2:
        return 1
    folds = height < _LOW_SCREEN or count >= 16 or (count > 4 and width >= _WIDE_SCREEN)
    columns = 2 if folds else 1
    while _rows(count, columns) > max(3, height // 3) and columns < _most_columns(width):
        columns += 1
    return min(columns, _most_columns(width))


def columns_for(count: int, width: int, rows: int) -> int:
    """Return the smallest number of columns that shows everything, or the maximum number of columns if none does."""
    most = _most_columns(width)
    return next((columns for columns in range(1, most) if _rows(count, columns) <= rows), most)


def _most_columns(width: int) -> int:
    return max(1, min(_MOST_COLUMNS, (width + GAP) // (NARROWEST + GAP)))


def _rows(count: int, columns: int) -> int:
    return -(-count // columns)


def entry_count(picture: DevicesPicture) -> int:
    trouble = 2 if picture.sample is not None and picture.sample.trouble is not None else 0
    return max(1, trouble + (picture.host is not None) + len(picture.devices))


class Fields(Struct, frozen=True, kw_only=True):
    """The widths of a device's fields in order, with gaps before them. A width of 0 omits the field."""

    number: int = 1
    name: int = 0
    spark: int = 0
    bar: int = 0
    memory: int = 99
    temperature: int = 3
    power: int = 0
    occupant: int = 0
    room: int = 0
    """Minimum width of the occupant. If less remains, narrower fields are chosen."""
    brief: bool = True
    """Whether to put one blank between fields and write `°` instead of `°C`."""
    coarse: bool = False
    """Whether to show memory in whole gigabytes."""

    @property
    def gap(self) -> str:
        return " " if self.brief else "  "

    @property
    def wide_gap(self) -> str:
        """The gap before a new group of fields: between load and memory, and between the figures and the occupant."""
        return " " if self.brief else "   "

    @property
    def head(self) -> int:
        """Width of the number and name, including the gap after them."""
        return 1 + self.number + 1 + (self.name + len(self.gap) if self.name else 0)

    @property
    def load(self) -> int:
        return self.spark + bool(self.spark) + 4

    @property
    def figures(self) -> int:
        """Width from the graph to the power, including the gaps between them."""
        memory = len(self.wide_gap) + self.bar + bool(self.bar) + self.memory if self.memory else 0
        rest = [field for field in (self.temperature, self.power) if field]
        return self.load + memory + sum(len(self.gap) + field for field in rest)

    def labels(self) -> list[tuple[int, str]]:
        """Return the column headings and the positions where they start."""
        memory_at = self.head + self.load + len(self.wide_gap)
        temperature_at = memory_at + self.bar + bool(self.bar) + self.memory + len(self.gap)
        power_at = temperature_at + self.temperature + len(self.gap)
        labels = [(self.head, "util, 30 min" if self.spark >= 12 else "util")]
        labels += [(memory_at, "memory")] if self.memory else []
        labels += [(temperature_at, "temp")] if self.temperature >= 4 else []
        labels += [(power_at, f"{'power W':>{self.power}}")] if self.power else []
        return [*labels, (self.head + self.figures + len(self.wide_gap), "job")]


_CHOICES = (
    Fields(name=16, spark=20, bar=16, temperature=4, power=99, room=60, brief=False),
    Fields(name=12, spark=20, bar=12, temperature=4, power=99, room=30, brief=False),
    Fields(name=10, spark=12, bar=8, temperature=4, power=99, room=22, brief=False),
    Fields(name=8, spark=9, bar=6, power=99, room=20),
    Fields(name=8, spark=9, bar=6, room=16),
    Fields(spark=9, room=5),
    Fields(spark=6, room=4, coarse=True),
    Fields(temperature=0, room=6, coarse=True),
    Fields(temperature=0, memory=0),
)
"""The maximum widths of the fields, most detailed first. The last one fits everywhere."""


def fields_for(picture: DevicesPicture, width: int, *, tall: bool = False) -> Fields:
    """Return the most detailed fields that fit. They do not depend on changing values, so nothing jumps."""
    devices, host = [device.sample for device in picture.devices], picture.host
    totals = [*(device.memory_total for device in devices), *([host.memory_total] if host is not None else [])]
    limits = [device.power_limit for device in devices if device.power_limit is not None]
    hot = host is None or any(device.temperature is not None for device in devices)
    number = len("CPU") if host is not None else _widest(str(device.index) for device in devices)
    name = max(4, _widest(device_name(device) for device in devices))
    power = max(7, _widest(watts(limit, limit) for limit in limits)) if hot else 0
    shared = len(" shared") if host is None and any(device.memory_shared for device in devices) else 0
    memory = max(map(memory_width, totals), default=1) + shared
    coarse = max((memory_width(total, brief=True) for total in totals), default=1)
    fields = _CHOICES[-1]
    for choice in _CHOICES:
        fields = replace(
            choice,
            number=max(1, number),
            name=min(choice.name, name),
            memory=min(choice.memory, coarse if choice.coarse else memory),
            temperature=choice.temperature if hot else 0,
            power=min(choice.power, power),
        )
        fields = replace(fields, occupant=max(0, width - fields.head - fields.figures - len(fields.wide_gap)))
        if fields.occupant >= fields.room:
            break
    if not tall:
        return fields
    more = min(_LONGEST_GRAPH - fields.spark, max(0, fields.occupant - 52))  # room that a job's name does not need
    return replace(fields, spark=fields.spark + more, occupant=fields.occupant - more)


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


# Lines

_PROGRESS = 20
"""Width of a job's progress bar in cells."""
GRAPH_SECONDS = 1800
"""Seconds of history that a graph shows."""


Entry = DevicePicture | HostSample | Piece
"""An entry of the pane: a device, the machine, or a note."""


def entries(view: View) -> Iterator[Entry]:
    """Yield all entries of the pane in order."""
    sample = view.picture.sample
    if sample is not None and sample.trouble is not None:
        yield f" ! {plain(sample.trouble.message)}", Look.FAILURE_BOLD
        yield f"   {plain(sample.trouble.advice)}", Look.TEXT
    if view.picture.host is not None:
        yield view.picture.host
    yield from view.picture.devices
    if not view.picture.devices and (sample is None or (sample.trouble is None and sample.host is None)):
        yield " detecting GPUs …" if view.picture.looking else " no devices", Look.PAST


def compact(view: View, room: Room) -> Page:
    """Return the page for a pane that shares the screen with others."""
    count = entry_count(view.picture)
    tall = room.screen_height >= TALL_SCREEN and room.height >= 2 * count
    many = 1 if tall else columns_for(count, room.width, max(1, room.height))
    wide = (room.width - GAP * (many - 1)) // many
    fields = fields_for(view.picture, wide, tall=tall)
    blocks = [block(entry, view, fields, wide, lines=2 if tall else 1) for entry in entries(view)]
    lines = _beside(blocks, many)
    if many > 1:
        return Page(lines, tail=(("util 30 min · memory · temp · job", Look.PAST),))
    return Page(lines, head=((_placed(fields.labels(), room.title), Look.PAST),))


def _beside(blocks: list[list[Line]], many: int) -> tuple[PageLine, ...]:
    rows = -(-len(blocks) // many) if blocks else 0
    page_lines: list[PageLine] = []
    for row in range(rows):
        group = blocks[row::rows]
        for line in range(len(group[0])):
            sections = [part for block in group for part in (section([], GAP), block[line])]
            page_lines.append(tuple(sections[1:]))
    return tuple(page_lines)


def _placed(labels: list[tuple[int, str]], title: int) -> str:
    """Return the labels at their columns. The returned text begins where the title ends."""
    text = ""
    for at, label in labels:
        text = text.ljust(max(0, at - title) if text else max(2, at - title)) + label
    return text


def block(entry: Entry, view: View, fields: Fields, wide: int, lines: int = 1) -> list[Line]:
    """Return the lines of an entry. Each one has the width `wide`."""
    if isinstance(entry, DevicePicture):
        return [section(line, wide, entry.sample.key) for line in _device(entry, view, fields, lines)]
    drawn = _host(entry, view, fields) if isinstance(entry, HostSample) else [entry]
    return [section(line, wide) for line in [drawn, *([[]] * (lines - 1))]]


def _device(device: DevicePicture, view: View, fields: Fields, lines: int) -> list[list[Piece]]:
    sample = device.sample
    off = device.state is SlotState.OFF and not device.external_processes
    head = [blank(1), (rjust(_number(sample), fields.number), Look.PAST if off else Look.BOLD)]
    if sample.status is not Status.OK:
        look = Look.FAILURE if sample.status is Status.LOST else Look.PAST
        first = [*head, *_name(sample, fields, look), *_trouble(device, view, fields)]
        return [first, *([[]] * (lines - 1))]
    dots = history_columns(view, sample.key, fields.spark * lines) if fields.spark else []
    graph = [page.sparkline(dots)] if lines == 1 else page.load_graph(dots, lines)
    first = [*head, *_name(sample, fields, Look.PAST), *_loaded(graph[0], sample.utilization, fields, device)]
    first += [*_rest(sample, device, fields), (fields.wide_gap, Look.TEXT), *occupant_pieces(view, device)]
    if lines == 1:
        return [first]
    below = fields.load - fields.spark + len(fields.wide_gap)
    room = fields.figures - fields.load - len(fields.wide_gap)
    second = [
        blank(fields.head),
        *graph[1],
        blank(below),
        (ljust(_who(device), room), Look.PAST),
        (fields.wide_gap, Look.TEXT),
    ]
    return [first, [*second, *_below(view, device)]]


def history_columns(view: View, key: str, count: int) -> list[HistoryColumn]:
    return columns(view.picture.history, key, GRAPH_SECONDS / count, count, view.now)


def _name(sample: DeviceSample, fields: Fields, look: Look) -> list[Piece]:
    return (
        [blank(1), (ljust(device_name(sample), fields.name), look), (fields.gap, Look.TEXT)]
        if fields.name
        else [blank(1)]
    )


def _number(sample: DeviceSample) -> str:
    return "" if sample.mig is not None else str(sample.index)


def _loaded(graph: list[Piece], percent: float | None, fields: Fields, device: DevicePicture | None) -> list[Piece]:
    look = load_look(percent, device)
    return [*graph, blank(bool(fields.spark)), (occupants.percent(percent), look)]


def load_look(percent: float | None, device: DevicePicture | None) -> Look:
    if percent is None or percent < IDLE:
        return Look.PAST
    others = device is not None and device.share.others > device.share.ours
    return Look.EXTERNAL_BOLD if others else Look.RUNNING_BOLD


def _rest(sample: DeviceSample, device: DevicePicture, fields: Fields) -> list[Piece]:
    pieces = _memory(sample, fields, device)
    if fields.temperature:
        pieces += [(fields.gap, Look.TEXT), temperature(sample, fields.temperature, brief=fields.brief)]
    if fields.power:
        pieces += [
            (fields.gap, Look.TEXT),
            (rjust(occupants.watts(sample.power, sample.power_limit), fields.power), Look.TEXT),
        ]
    return pieces


def temperature(sample: DeviceSample, cells: int, *, brief: bool) -> Piece:
    hot = sample.temperature is not None and sample.temperature >= HOT
    text = occupants.temperature(sample.temperature, brief=brief, hot=hot)
    return (rjust(text, cells), Look.FAILURE_BOLD if hot else Look.TEXT)


def _memory(sample: DeviceSample | HostSample, fields: Fields, device: DevicePicture | None) -> list[Piece]:
    if not fields.memory:
        return []
    used, total = sample.memory_used, sample.memory_total
    memory_bar = [*device_bar(device, sample, fields.bar), blank(1)] if fields.bar else []
    shared = " shared" if isinstance(sample, DeviceSample) and sample.memory_shared else ""
    text = occupants.memory(used, total, brief=fields.coarse)
    text += shared if len(text + shared) <= fields.memory else ""
    return [(fields.wide_gap, Look.TEXT), *memory_bar, (rjust(text, fields.memory), Look.TEXT)]


def device_bar(device: DevicePicture | None, sample: DeviceSample | HostSample, cells: int) -> list[Piece]:
    """Return a memory bar. If no process is visible and a job is on the device, all used memory counts as ours."""
    used = sample.memory_used
    ours, others = (device.share.ours, device.share.others) if device is not None else (used or 0, 0)
    if not ours and not others and device is not None and device.jobs:
        ours = used or 0
    return page.memory_bar(ours, others, used, sample.memory_total, cells)


def occupant_pieces(view: View, device: DevicePicture) -> list[Piece]:
    """Return the text about who uses the device: our jobs, other users, or warnings."""
    who = occupant(view, device)
    pieces = _who_pieces(who, device)
    for warning in device.warnings:
        pieces += [blank(2), (f"! {plain(warning.words)}", Look.FAILURE_BOLD if warning.grave else Look.WARNING_BOLD)]
    return pieces


def _who_pieces(who: Occupant, device: DevicePicture) -> list[Piece]:
    if device.jobs and who.what.startswith("#"):
        number, _, rest = who.what.partition(" ")
        return [(number, Look.RUNNING_BOLD), (f" {rest}", Look.TEXT)]
    look = (
        Look.PAST if who.quiet else Look.EXTERNAL if device.external_processes or device.state is None else Look.WARNING
    )
    return [(who.what, Look.TEXT if device.jobs else look)]


def _who(device: DevicePicture) -> str:
    """Describe the largest process."""
    on_it = sorted(device.sample.processes, key=lambda each: -(each.memory or 0))
    if not on_it:
        return ""
    more = f" +{len(on_it) - 1}" if len(on_it) > 1 else ""
    return f"{plain(on_it[0].user or '?')}  pid {on_it[0].pid}{more}"


def _below(view: View, device: DevicePicture) -> list[Piece]:
    """Return the job's progress, its elapsed time and its expected end."""
    time = occupant(view, device).time
    job = device.jobs[0] if device.jobs else None
    if not time or job is None or view.snapshot is None or job not in view.snapshot:
        return []
    progress = progress_of(view.snapshot[job], view.snapshot.results.get(job))
    ends = view.snapshot.job_eta(view.snapshot[job], view.now)
    end = f", ETA {moment(ends, view.now)}" if ends is not None else ""
    if progress is None:
        return [(f"{time} elapsed{end}", Look.PAST)]
    figures = [(rjust(f"{progress:.0%}", 6), Look.RUNNING), (f"  {time} elapsed{end}", Look.PAST)]
    return [*bar(progress, _PROGRESS, Look.RUNNING), *figures]


def _trouble(device: DevicePicture, view: View, fields: Fields) -> list[Piece]:
    """Describe the problem of a device. The text replaces the figures, and also the occupant if there is none."""
    sample, who = device.sample, occupant(view, device)
    if device.warnings:
        sign = "✗" if sample.status is Status.LOST else "!"
        text = f"{sign} {plain(device.warnings[0].words)}"
    else:
        age = f" · {duration(sample.age)}" if sample.age >= 1 and sample.status is not Status.STALE else ""
        text = f"! {sample.status.value}: {plain(sample.message)}{age}"
    if who.quiet:
        return [(text, Look.FAILURE_BOLD)]
    return [(ljust(text, fields.figures), Look.FAILURE_BOLD), (fields.wide_gap, Look.TEXT), *_who_pieces(who, device)]


def _host(host: HostSample, view: View, fields: Fields) -> list[Piece]:
    load = None if host.utilization is None else round(host.utilization)
    what = f"{counted(host.cores, 'core', 'cores')}{f', {short(host.name)}' if host.name else ''}"
    graph = page.sparkline(history_columns(view, HOST, fields.spark)) if fields.spark else []
    rest = fields.figures - fields.load - width_of(_memory(host, fields, None))
    return [blank(1), (ljust("CPU", fields.head - 1), Look.TEXT), *_loaded(graph, load, fields, None),
            *_memory(host, fields, None), blank(rest), (fields.wide_gap, Look.TEXT), (what, Look.PAST)]  # fmt: skip
