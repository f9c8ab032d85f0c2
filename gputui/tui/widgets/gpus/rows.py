"""Devices beside the queue: a line or two for each, or half a line on a low screen. Pure; inks, no colours."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gputui.core.views.amounts import counted, moment
from gputui.core.views.amounts import duration_words as duration
from gputui.core.views.eta import job_eta
from gputui.gpus.history.columns import HistoryColumn, columns
from gputui.gpus.history.tracks import HOST
from gputui.gpus.history.warnings import HOT
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.gpus.sample import DeviceSample, HostSample, Status
from gputui.logs.plain import plain

from . import figures, graphs
from .layout import GAP, TALL_SCREEN, Fields, columns_for, entry_count, fields_for
from .names import device_name, short
from .occupants import IDLE, Occupant, View, occupant
from .page import Ink, InkPiece, Page, PageLine, Room, Spot, gap, left, right, spot

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
    graph = [graphs.sparkline(dots)] if lines == 1 else graphs.load_graph(dots, lines)
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
    return [*graph, gap(bool(fields.spark)), InkPiece(figures.percent(percent), ink, ink is not Ink.PAST)]


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
        pieces += [InkPiece(fields.gap), right(figures.watts(sample.power, sample.power_limit), fields.power)]
    return pieces


def temperature(sample: DeviceSample, cells: int, *, brief: bool) -> InkPiece:
    hot = sample.temperature is not None and sample.temperature >= HOT
    text = figures.temperature(sample.temperature, brief=brief, hot=hot)
    return right(text, cells, Ink.FAILURE if hot else Ink.TEXT, bold=hot)


def _memory(sample: DeviceSample | HostSample, fields: Fields, device: DevicePicture | None) -> list[InkPiece]:
    if not fields.memory:
        return []
    used, total = sample.memory_used, sample.memory_total
    bar: list[InkPiece] = []
    if fields.bar:
        bar = [*device_bar(device, sample, fields.bar), gap(1)]
    shared = " shared" if isinstance(sample, DeviceSample) and sample.memory_shared else ""
    text = figures.memory(used, total, brief=fields.coarse)
    said = text + shared if len(text + shared) <= fields.memory else text
    return [InkPiece(fields.wide_gap), *bar, right(said, fields.memory)]


def device_bar(device: DevicePicture | None, sample: DeviceSample | HostSample, cells: int) -> list[InkPiece]:
    """Whose it is where that is known; what is used without a process to be seen counts as ours if a job is there."""
    used = sample.memory_used
    ours, others = (device.share.ours, device.share.others) if device is not None else (used or 0, 0)
    if not ours and not others and device is not None and device.jobs:
        ours = used or 0
    return graphs.memory_bar(ours, others, used, sample.memory_total, cells)


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
    results = view.snapshot.results.get(job)
    progress, ends = results.progress if results is not None else None, job_eta(view.snapshot[job], results)
    end = f", ends ≈ {moment(ends, view.now)}" if ends is not None else ""
    if progress is None:
        return [InkPiece(f"{time} gone{end}", Ink.PAST)]
    done = round(min(1.0, max(0.0, progress)) * _PROGRESS)
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
    graph = graphs.sparkline(history_columns(view, HOST, fields.spark)) if fields.spark else []
    rest = fields.figures - fields.load - sum(len(piece.text) for piece in _memory(host, fields, None))
    return [gap(1), left("CPU", fields.head - 1), *_loaded(graph, load, fields, None), *_memory(host, fields, None),
            gap(rest), InkPiece(fields.wide_gap), InkPiece(what, Ink.PAST)]  # fmt: skip
