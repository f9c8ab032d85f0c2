"""Devices as pieces of styled text, each cell exactly as wide as it is told. Pure; knows looks by name, not colours."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from gputui.core.views.amounts import duration_words as duration
from gputui.core.views.cells import cut as clipped
from gputui.core.views.cells import width
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.gpus.sample import DeviceSample, HostSample, ProcessSample, Status
from gputui.logs.plain import plain

from . import figures
from .history import HOST, History
from .layout import Fields
from .names import device_name, short
from .occupants import IDLE, Occupant, View, occupant
from .processes import owner_of, padded, process_line

HOT = 85
"""Degrees from which a device is too hot."""
BUSY = 50
"""Percent from which it works in earnest."""
_ROOM_BESIDE_TIME = 15
"""Cells that a job's name must have before its time is shown."""


class CellLook(StrEnum):
    """How a piece is shown; the pane has a style for each."""

    PLAIN = "plain"
    BUSY = "busy"
    QUIET = "quiet"
    TROUBLE = "trouble"


Piece = tuple[str, CellLook]
Cell = tuple[Piece, ...]


class Device(Struct, frozen=True):
    picture: DevicePicture


class Host(Struct, frozen=True):
    host: HostSample


class DeviceNote(Struct, frozen=True):
    text: str
    look: CellLook = CellLook.PLAIN


class Process(Struct, frozen=True):
    """Below its device, where there is room."""

    process: ProcessSample
    owner: str


Entry = Device | Host | DeviceNote | Process


def entries(view: View, *, processes: bool = False) -> Iterator[Entry]:
    """All there is to show, in order."""
    sample = view.picture.sample
    if sample is not None and sample.trouble is not None:
        yield DeviceNote(f"! {plain(sample.trouble.message)}", CellLook.TROUBLE)
        yield DeviceNote(f"  {plain(sample.trouble.advice)}")
    if view.picture.host is not None:
        yield Host(view.picture.host)
    for device in view.picture.devices:
        yield Device(device)
        if processes:
            yield from (Process(each, owner_of(view, device, each)) for each in device.sample.processes)
    if not view.picture.devices and (sample is None or (sample.trouble is None and sample.host is None)):
        yield DeviceNote("looking at the GPUs …" if view.picture.looking else "no devices", CellLook.QUIET)


def cell(entry: Entry, view: View, history: History, fields: Fields, columns: int) -> Cell:
    match entry:
        case Device(picture=device):
            drawn = _device(device, view, history, fields)
        case Host(host=host):
            drawn = _host(host, history, fields)
        case DeviceNote(text=text, look=look):
            drawn = [(text, look)]
        case Process(process=process, owner=owner):
            drawn = [(f"    {process_line(process, owner, view.now)}", CellLook.QUIET)]
    return _fitted(drawn, columns)


def _device(device: DevicePicture, view: View, history: History, fields: Fields) -> list[Piece]:
    sample = device.sample
    who = occupant(view, device)
    off = device.state is LaneState.OFF and not device.strangers
    head = (_head(_number(sample), device_name(sample), fields), CellLook.QUIET if off else CellLook.PLAIN)
    if sample.status is not Status.OK:
        return [head, *_trouble(sample, who, fields)]
    return [head, *_figures(sample, history.of(sample.key), fields), *_tail(who, fields)]


def _head(number: str, name: str, fields: Fields) -> str:
    if not fields.name:
        return f"{number:>{fields.number}} "
    return f"{number:>{fields.number}} {padded(name, fields.name)}{fields.gap}"


def _number(sample: DeviceSample) -> str:
    return "" if sample.mig is not None else str(sample.index)


def _figures(sample: DeviceSample, values: list[int | None], fields: Fields) -> list[Piece]:
    load = sample.utilization
    look = CellLook.QUIET if load is None or load < IDLE else CellLook.BUSY if load >= BUSY else CellLook.PLAIN
    pieces = [(_load(load, values, fields), look), (_memory(sample, fields), CellLook.PLAIN)]
    if fields.temperature:
        hot = sample.temperature is not None and sample.temperature >= HOT
        text = figures.temperature(sample.temperature, brief=fields.brief, hot=hot)
        pieces.append((f"{fields.gap}{text:>{fields.temperature}}", CellLook.TROUBLE if hot else CellLook.PLAIN))
    if fields.power:
        watts = figures.power(sample.power, sample.power_limit)
        pieces.append((f"{fields.gap}{watts:>{fields.power}}", CellLook.PLAIN))
    return pieces


def _load(percent: float | None, values: list[int | None], fields: Fields) -> str:
    spark = f"{figures.sparkline(values, fields.spark)} " if fields.spark else ""
    return spark + figures.percent(percent)


def _memory(sample: DeviceSample | HostSample, fields: Fields) -> str:
    if not fields.memory:
        return ""
    used, total = sample.memory_used, sample.memory_total
    bar = f"{figures.bar(used, total, fields.bar)} " if fields.bar else ""
    shared = " shared" if isinstance(sample, DeviceSample) and sample.memory_shared else ""
    text = figures.memory(used, total, brief=fields.coarse)
    said = text + shared if len(text + shared) <= fields.memory else text
    return f"{fields.gap}{bar}{said:>{fields.memory}}"


def _tail(who: Occupant, fields: Fields) -> list[Piece]:
    look = CellLook.QUIET if who.quiet else CellLook.PLAIN
    room = fields.occupant - len(who.time) - 1
    if not who.time or room < _ROOM_BESIDE_TIME:
        return [(f"{fields.gap}{clipped(who.what, fields.occupant)}", look)]
    return [(f"{fields.gap}{padded(who.what, room)} {who.time}", look)]


def _trouble(sample: DeviceSample, who: Occupant, fields: Fields) -> list[Piece]:
    """The message stands where the figures would, and goes on where nobody is on the device."""
    age = f" · {duration(sample.age)}" if sample.age >= 1 and sample.status is not Status.STALE else ""
    text = f"! {sample.status.value}: {plain(sample.message)}{age}"
    if who.quiet:
        return [(text, CellLook.TROUBLE)]
    return [(padded(text, fields.figures), CellLook.TROUBLE), *_tail(who, fields)]


def _host(host: HostSample, history: History, fields: Fields) -> list[Piece]:
    load = None if host.utilization is None else round(host.utilization)
    look = CellLook.BUSY if load is not None and load >= BUSY else CellLook.PLAIN
    what = f"{host.cores} cores{f', {short(host.name)}' if host.name else ''}"
    head = len(_head("", "", fields))
    return [
        (padded("CPU", head), CellLook.PLAIN),
        (_load(load, history.of(HOST), fields), look),
        (_memory(host, fields), CellLook.PLAIN),
        *_tail(Occupant(what, quiet=True), fields),
    ]


def _fitted(pieces: list[Piece], columns: int) -> Cell:
    """Joined where the look is the same, cut and filled to exactly so many columns."""
    fitted: list[Piece] = []
    room = columns
    for text, look in pieces:
        text = clipped(text, room)
        room -= width(text)
        if fitted and (fitted[-1][1] is look or not text.strip()):
            fitted[-1] = (fitted[-1][0] + text, fitted[-1][1])
        elif text:
            fitted.append((text, look))
    if room > 0 and fitted:
        fitted[-1] = (fitted[-1][0] + " " * room, fitted[-1][1])
    return tuple(fitted) or ((" " * columns, CellLook.PLAIN),)
