"""Devices beside the queue: how many rows they take, and a line or two for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import counted, moment
from gputui.core.amounts import duration_words as duration
from gputui.core.eta import progress_of
from gputui.gpus.history import HOST, HOT, HistoryColumn, columns
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState
from gputui.gpus.sample import DeviceSample, HostSample, Status
from gputui.logs.plain import plain

from . import occupants, page
from .occupants import IDLE, Occupant, View, device_name, memory_width, occupant, short, watts
from .page import Ink, InkPiece, Page, PageLine, Room, Spot, gap, left, right, spot

# ---- How many rows and columns the devices take beside the queue, and which figures fit a cell ----


NARROWEST = 36
"""Cells that a device needs at the least."""
GAP = 2
"""Cells between two columns of devices."""
TALL_SCREEN = 56
"""Rows from which a device has two lines."""
_LONGEST_GRAPH = 64
_LOW_SCREEN = 30
_WIDE_SCREEN = 160
_MOST_COLUMNS = 4


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool = False) -> int:
    """How many lines the pane should get on a screen of this size; `width` is the pane's own, without its border."""
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
    """The fewest columns with which everything is in sight, or as many as can be."""
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
    """The width of every field of a cell; 0: left out. Fields stand in this order, with their gaps before them."""

    number: int
    name: int
    spark: int
    bar: int
    memory: int
    temperature: int
    power: int
    occupant: int
    brief: bool = False
    """One space between fields, and `°` instead of `°C`."""
    coarse: bool = False
    """Memory in whole gigabytes."""

    @property
    def gap(self) -> str:
        return " " if self.brief else "  "

    @property
    def wide_gap(self) -> str:
        """Before what is of another kind: memory after load, who after figures."""
        return " " if self.brief else "   "

    @property
    def head(self) -> int:
        """Number and name, with the gap after them."""
        return 1 + self.number + 1 + (self.name + len(self.gap) if self.name else 0)

    @property
    def load(self) -> int:
        return self.spark + bool(self.spark) + 4

    @property
    def figures(self) -> int:
        """From the graph to the power, with the gaps between them."""
        memory = len(self.wide_gap) + self.bar + bool(self.bar) + self.memory if self.memory else 0
        rest = [field for field in (self.temperature, self.power) if field]
        return self.load + memory + sum(len(self.gap) + field for field in rest)

    def labels(self) -> list[tuple[int, str]]:
        """The names of the columns and where they begin."""
        memory_at = self.head + self.load + len(self.wide_gap)
        temperature_at = memory_at + self.bar + bool(self.bar) + self.memory + len(self.gap)
        power_at = temperature_at + self.temperature + len(self.gap)
        labels = [(self.head, "util, 30 min" if self.spark >= 12 else "util")]
        labels += [(memory_at, "memory")] if self.memory else []
        labels += [(temperature_at, "temp")] if self.temperature >= 4 else []
        labels += [(power_at, f"{'power W':>{self.power}}")] if self.power else []
        return [*labels, (self.head + self.figures + len(self.wide_gap), "job")]


class _Plan(Struct, frozen=True):
    """One way to fill a cell, and how much room must be left for the occupant to choose it."""

    name: int
    spark: int
    bar: int
    power: bool
    room: int
    brief: bool = False
    memory: bool = True
    temperature: bool = True
    coarse: bool = False


_PLANS = (
    _Plan(16, 20, 16, True, 60),
    _Plan(12, 20, 12, True, 30),
    _Plan(10, 12, 8, True, 22),
    _Plan(8, 9, 6, True, 20, brief=True),
    _Plan(8, 9, 6, False, 16, brief=True),
    _Plan(0, 9, 0, False, 12, brief=True),
    _Plan(0, 9, 0, False, 5, brief=True),
    _Plan(0, 6, 0, False, 4, brief=True, coarse=True),
    _Plan(0, 0, 0, False, 6, brief=True, coarse=True, temperature=False),
    _Plan(0, 0, 0, False, 0, brief=True, temperature=False, memory=False),
)


def fields_for(picture: DevicesPicture, width: int, *, tall: bool = False) -> Fields:
    """The richest cell that fits. Depends only on what does not change from sample to sample, so nothing jumps."""
    shapes = _Shapes.of(picture)
    candidates = (_fields(plan, shapes, width) for plan in _PLANS)
    *others, last = zip(_PLANS, candidates, strict=True)
    chosen = next((fields for plan, fields in others if fields.occupant >= plan.room), last[1])
    return _widened(chosen) if tall else chosen


def _widened(fields: Fields) -> Fields:
    """A graph of two lines takes what a job's name does not need."""
    more = min(_LONGEST_GRAPH - fields.spark, max(0, fields.occupant - 52))
    return replace(fields, spark=fields.spark + more, occupant=fields.occupant - more)


class _Shapes(Struct, frozen=True):
    """The widest texts of a picture's devices."""

    number: int
    name: int
    memory: int
    coarse_memory: int
    power: int
    hot: bool
    """They have temperatures."""

    @classmethod
    def of(cls, picture: DevicesPicture) -> _Shapes:
        devices = [device.sample for device in picture.devices]
        totals = [device.memory_total for device in devices]
        if picture.host is not None:
            totals.append(picture.host.memory_total)
        limits = [device.power_limit for device in devices]
        shared = len(" shared") if picture.host is None and any(device.memory_shared for device in devices) else 0
        return cls(
            number=len("CPU") if picture.host is not None else _widest([str(device.index) for device in devices]),
            name=_widest([device_name(device) for device in devices]),
            memory=max(map(memory_width, totals), default=1) + shared,
            coarse_memory=max((memory_width(total, brief=True) for total in totals), default=1),
            power=_widest([watts(limit, limit) for limit in limits if limit is not None]),
            hot=any(device.temperature is not None for device in devices) or picture.host is None,
        )


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def _fields(plan: _Plan, shapes: _Shapes, width: int) -> Fields:
    shaped = Fields(
        number=max(1, shapes.number),
        name=min(plan.name, max(4, shapes.name)) if plan.name else 0,
        spark=plan.spark,
        bar=plan.bar,
        memory=0 if not plan.memory else shapes.coarse_memory if plan.coarse else shapes.memory,
        temperature=(3 if plan.brief else 4) if plan.temperature and shapes.hot else 0,
        power=max(7, shapes.power) if plan.power and shapes.hot else 0,
        occupant=0,
        brief=plan.brief,
        coarse=plan.coarse,
    )
    used = shaped.head + shaped.figures + len(shaped.wide_gap)
    return replace(shaped, occupant=max(0, width - used))


# ---- Devices beside the queue ----


_PROGRESS = 20
"""Cells of a job's progress."""
GRAPH_SECONDS = 1800
"""What a graph shows."""


class Device(Struct, frozen=True):
    picture: DevicePicture


class Host(Struct, frozen=True):
    host: HostSample


class DeviceNote(Struct, frozen=True):
    text: str
    ink: Ink = Ink.TEXT


Entry = Device | Host | DeviceNote


def entries(view: View) -> Iterator[Entry]:
    """All there is to show, in order."""
    sample = view.picture.sample
    if sample is not None and sample.trouble is not None:
        yield DeviceNote(f" ! {plain(sample.trouble.message)}", Ink.FAILURE)
        yield DeviceNote(f"   {plain(sample.trouble.advice)}")
    if view.picture.host is not None:
        yield Host(view.picture.host)
    for device in view.picture.devices:
        yield Device(device)
    if not view.picture.devices and (sample is None or (sample.trouble is None and sample.host is None)):
        yield DeviceNote(" looking at the GPUs …" if view.picture.looking else " no devices", Ink.PAST)


def compact(view: View, room: Room) -> Page:
    """The pane beside others."""
    count = entry_count(view.picture)
    tall = room.screen_height >= TALL_SCREEN and room.height >= 2 * count
    many = 1 if tall else columns_for(count, room.width, max(1, room.height))
    wide = (room.width - GAP * (many - 1)) // many
    fields = fields_for(view.picture, wide, tall=tall)
    blocks = [block(entry, view, fields, wide, lines=2 if tall else 1) for entry in entries(view)]
    lines = _beside(blocks, many)
    if many > 1:
        return Page(lines, tail=(InkPiece("util 30 min · memory · temp · job", Ink.PAST),))
    return Page(lines, head=(InkPiece(_placed(fields.labels(), room.title), Ink.PAST),))


def _beside(blocks: list[list[Spot]], many: int) -> tuple[PageLine, ...]:
    rows = -(-len(blocks) // many) if blocks else 0
    page_lines: list[PageLine] = []
    for row in range(rows):
        group = blocks[row::rows]
        for line in range(len(group[0])):
            page_lines.append(tuple(part for at, each in enumerate(group) for part in _parted(each[line], at)))
    return tuple(page_lines)


def _parted(part: Spot, at: int) -> list[Spot]:
    return [spot([], GAP), part] if at else [part]


def _placed(labels: list[tuple[int, str]], title: int) -> str:
    """Texts at their columns, from where the title ends."""
    text = ""
    for at, label in labels:
        text = text.ljust(max(0, at - title) if text else max(2, at - title)) + label
    return text


def block(entry: Entry, view: View, fields: Fields, wide: int, lines: int = 1) -> list[Spot]:
    match entry:
        case Device(picture=device):
            drawn = _device(device, view, fields, lines)
            return [spot(line, wide, device.sample.key) for line in drawn]
        case Host(host=host):
            drawn = [_host(host, view, fields)]
        case DeviceNote(text=text, ink=ink):
            drawn = [[InkPiece(text, ink, ink is Ink.FAILURE)]]
    return [spot(line, wide) for line in [*drawn, *([[]] * (lines - len(drawn)))]]


def _device(device: DevicePicture, view: View, fields: Fields, lines: int) -> list[list[InkPiece]]:
    sample = device.sample
    off = device.state is LaneState.OFF and not device.strangers
    head = [gap(1), right(_number(sample), fields.number, Ink.PAST if off else Ink.TEXT, bold=not off)]
    if sample.status is not Status.OK:
        ink = Ink.FAILURE if sample.status is Status.LOST else Ink.PAST
        first = [*head, *_name(sample, fields, ink), *_trouble(device, view, fields)]
        return [first, *([[]] * (lines - 1))]
    dots = history_columns(view, sample.key, fields.spark * lines) if fields.spark else []
    graph = [page.sparkline(dots)] if lines == 1 else page.load_graph(dots, lines)
    first = [*head, *_name(sample, fields, Ink.PAST), *_loaded(graph[0], sample.utilization, fields, device)]
    first += [*_rest(sample, device, fields), InkPiece(fields.wide_gap), *occupant_pieces(view, device)]
    if lines == 1:
        return [first]
    below = fields.load - fields.spark + len(fields.wide_gap)
    room = fields.figures - fields.load - len(fields.wide_gap)
    second = [gap(fields.head), *graph[1], gap(below), left(_who(device), room, Ink.PAST), InkPiece(fields.wide_gap)]
    return [first, [*second, *_below(view, device)]]


def history_columns(view: View, key: str, count: int) -> list[HistoryColumn]:
    return columns(view.picture.history, key, GRAPH_SECONDS / count, count, view.now)


def _name(sample: DeviceSample, fields: Fields, ink: Ink) -> list[InkPiece]:
    return [gap(1), left(device_name(sample), fields.name, ink), InkPiece(fields.gap)] if fields.name else [gap(1)]


def _number(sample: DeviceSample) -> str:
    return "" if sample.mig is not None else str(sample.index)


def _loaded(
    graph: list[InkPiece], percent: float | None, fields: Fields, device: DevicePicture | None
) -> list[InkPiece]:
    ink = load_ink(percent, device)
    return [*graph, gap(bool(fields.spark)), InkPiece(occupants.percent(percent), ink, ink is not Ink.PAST)]


def load_ink(percent: float | None, device: DevicePicture | None) -> Ink:
    if percent is None or percent < IDLE:
        return Ink.PAST
    others = device is not None and device.share.others > device.share.ours
    return Ink.STRANGER if others else Ink.RUNNING


def _rest(sample: DeviceSample, device: DevicePicture, fields: Fields) -> list[InkPiece]:
    pieces = _memory(sample, fields, device)
    if fields.temperature:
        pieces += [InkPiece(fields.gap), temperature(sample, fields.temperature, brief=fields.brief)]
    if fields.power:
        pieces += [InkPiece(fields.gap), right(occupants.watts(sample.power, sample.power_limit), fields.power)]
    return pieces


def temperature(sample: DeviceSample, cells: int, *, brief: bool) -> InkPiece:
    hot = sample.temperature is not None and sample.temperature >= HOT
    text = occupants.temperature(sample.temperature, brief=brief, hot=hot)
    return right(text, cells, Ink.FAILURE if hot else Ink.TEXT, bold=hot)


def _memory(sample: DeviceSample | HostSample, fields: Fields, device: DevicePicture | None) -> list[InkPiece]:
    if not fields.memory:
        return []
    used, total = sample.memory_used, sample.memory_total
    bar: list[InkPiece] = []
    if fields.bar:
        bar = [*device_bar(device, sample, fields.bar), gap(1)]
    shared = " shared" if isinstance(sample, DeviceSample) and sample.memory_shared else ""
    text = occupants.memory(used, total, brief=fields.coarse)
    said = text + shared if len(text + shared) <= fields.memory else text
    return [InkPiece(fields.wide_gap), *bar, right(said, fields.memory)]


def device_bar(device: DevicePicture | None, sample: DeviceSample | HostSample, cells: int) -> list[InkPiece]:
    """Whose it is where that is known; what is used without a process to be seen counts as ours if a job is there."""
    used = sample.memory_used
    ours, others = (device.share.ours, device.share.others) if device is not None else (used or 0, 0)
    if not ours and not others and device is not None and device.jobs:
        ours = used or 0
    return page.memory_bar(ours, others, used, sample.memory_total, cells)


def occupant_pieces(view: View, device: DevicePicture) -> list[InkPiece]:
    """Our jobs by their number, others in their colour, then what is wrong with the card."""
    who = occupant(view, device)
    pieces = _who_pieces(who, device)
    for warning in device.warnings:
        pieces += [gap(2), InkPiece(f"! {plain(warning.words)}", Ink.FAILURE if warning.grave else Ink.WARNING, True)]
    return pieces


def _who_pieces(who: Occupant, device: DevicePicture) -> list[InkPiece]:
    if device.jobs and who.what.startswith("#"):
        number, _, rest = who.what.partition(" ")
        return [InkPiece(number, Ink.RUNNING, True), InkPiece(f" {rest}")]
    ink = Ink.PAST if who.quiet else Ink.STRANGER if device.strangers or device.state is None else Ink.WARNING
    return [InkPiece(who.what, Ink.TEXT if device.jobs else ink)]


def _who(device: DevicePicture) -> str:
    """The largest process on it."""
    on_it = sorted(device.sample.processes, key=lambda each: -(each.memory or 0))
    if not on_it:
        return ""
    more = f" +{len(on_it) - 1}" if len(on_it) > 1 else ""
    return f"{plain(on_it[0].user or '?')}  pid {on_it[0].pid}{more}"


def _below(view: View, device: DevicePicture) -> list[InkPiece]:
    """How far the job is, how long it has been there, and when it probably ends."""
    time = occupant(view, device).time
    job = device.jobs[0] if device.jobs else None
    if not time or job is None or view.snapshot is None or job not in view.snapshot:
        return []
    progress = progress_of(view.snapshot[job], view.snapshot.results.get(job))
    ends = view.snapshot.job_eta(view.snapshot[job], view.now)
    end = f", ends ≈ {moment(ends, view.now)}" if ends is not None else ""
    if progress is None:
        return [InkPiece(f"{time} gone{end}", Ink.PAST)]
    done = round(progress * _PROGRESS)
    return [InkPiece("━" * done, Ink.RUNNING), InkPiece("─" * (_PROGRESS - done), Ink.LINE),
            right(f"{progress:.0%}", 6, Ink.RUNNING), InkPiece(f"  {time} gone{end}", Ink.PAST)]  # fmt: skip


def _trouble(device: DevicePicture, view: View, fields: Fields) -> list[InkPiece]:
    """The message stands where the figures would, and goes on where nobody is on the device."""
    sample, who = device.sample, occupant(view, device)
    if device.warnings:
        sign = "✗" if sample.status is Status.LOST else "!"
        text = f"{sign} {plain(device.warnings[0].words)}"
    else:
        age = f" · {duration(sample.age)}" if sample.age >= 1 and sample.status is not Status.STALE else ""
        text = f"! {sample.status.value}: {plain(sample.message)}{age}"
    if who.quiet:
        return [InkPiece(text, Ink.FAILURE, True)]
    return [left(text, fields.figures, Ink.FAILURE, bold=True), InkPiece(fields.wide_gap), *_who_pieces(who, device)]


def _host(host: HostSample, view: View, fields: Fields) -> list[InkPiece]:
    load = None if host.utilization is None else round(host.utilization)
    what = f"{counted(host.cores, 'core', 'cores')}{f', {short(host.name)}' if host.name else ''}"
    graph = page.sparkline(history_columns(view, HOST, fields.spark)) if fields.spark else []
    rest = fields.figures - fields.load - sum(len(piece.text) for piece in _memory(host, fields, None))
    return [gap(1), left("CPU", fields.head - 1), *_loaded(graph, load, fields, None), *_memory(host, fields, None),
            gap(rest), InkPiece(fields.wide_gap), InkPiece(what, Ink.PAST)]  # fmt: skip
