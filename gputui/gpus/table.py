"""A sample as text that fits a terminal's width, and in the shape of `gputui gpus --json`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gputui.core.job import JobId
from gputui.core.views.amounts import memory, memory_of
from gputui.core.views.cells import cut, width

from .sample import DeviceSample, ProcessSample, Sample, Status
from .words import plain

_GAP = "  "
_NARROWEST_NAME = 8
_NAMELESS = ("NVIDIA ", "GeForce ")


class ProcessRow(Struct, frozen=True):
    """A process in `gputui gpus --json`."""

    pid: int
    user: str | None
    memory: int | None
    command: str | None
    job: JobId | None
    compute: bool
    started: float | None


class DeviceRow(Struct, frozen=True):
    """A device in `gputui gpus --json`: bytes, °C, watts, percent; null where the driver cannot say."""

    index: int
    uuid: str | None
    name: str
    status: Status
    message: str | None
    utilization: int | None
    memory_used: int | None
    memory_total: int | None
    temperature: int | None
    power: float | None
    power_limit: float | None
    fan: int | None
    processes: tuple[ProcessRow, ...]
    age: float
    memory_shared: bool
    parent: str | None
    visible: bool


def json_rows(sample: Sample, jobs: Mapping[int, JobId] | None = None) -> list[DeviceRow]:
    """`jobs` tells which pids are ours, and whose."""
    return [_json_row(device, jobs or {}) for device in sample.devices]


def _json_row(device: DeviceSample, jobs: Mapping[int, JobId]) -> DeviceRow:
    return DeviceRow(
        index=device.index,
        uuid=device.uuid or None,
        name=device.name,
        status=device.status,
        message=device.message or None,
        utilization=device.utilization,
        memory_used=device.memory_used,
        memory_total=device.memory_total,
        temperature=device.temperature,
        power=device.power,
        power_limit=device.power_limit,
        fan=device.fan,
        processes=tuple(_json_process(process, jobs) for process in device.processes),
        age=device.age,
        memory_shared=device.memory_shared,
        parent=device.parent,
        visible=device.visible,
    )


def _json_process(process: ProcessSample, jobs: Mapping[int, JobId]) -> ProcessRow:
    return ProcessRow(
        process.pid,
        process.user,
        process.memory,
        process.command,
        jobs.get(process.pid),
        process.compute,
        process.started,
    )


def text_table(sample: Sample, columns: int = 80, jobs: Mapping[int, JobId] | None = None) -> str:
    """One line per device and one per process, none wider than `columns`."""
    lines = [f"{sample.trouble.message}: {sample.trouble.advice}"] if sample.trouble else []
    lines += _devices(sample.devices, columns, jobs or {})
    lines += sample.notes
    return "\n".join(cut(plain(line), columns) for line in lines)


def _devices(devices: tuple[DeviceSample, ...], columns: int, jobs: Mapping[int, JobId]) -> list[str]:
    cells = [_cells(device) for device in devices]
    names = [_name(device) for device in devices]
    widths = [max(width(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    shown = _fitting(widths, columns - 4 - _NARROWEST_NAME)
    room = columns - 4 - sum(widths[column] + len(_GAP) for column in shown)
    name_width = max(_NARROWEST_NAME, min(room, max(map(width, names), default=0)))
    lines = []
    for device, name, row in zip(devices, names, cells, strict=True):
        lines.append(_line(device, _padded(cut(name, name_width), name_width), row, widths, shown))
        lines += [f"      {_process(process, jobs)}" for process in device.processes]
    return lines


def _line(device: DeviceSample, name: str, row: list[str], widths: list[int], shown: list[int]) -> str:
    number = "   " if device.mig else f"{device.index:>3}"
    if device.status is not Status.OK:
        return f"{number} {name}{_GAP}{device.status.value}: {device.message}"
    cells = [row[column].rjust(widths[column]) for column in shown]
    hidden = "" if device.visible else f"{_GAP}not in CUDA_VISIBLE_DEVICES"
    return f"{number} {_GAP.join([name, *cells])}{hidden}".rstrip()


def _cells(device: DeviceSample) -> list[str]:
    """The most important first: on a narrow terminal the last ones go."""
    utilization = "n/a" if device.utilization is None else f"{device.utilization}%"
    shared = " shared" if device.memory_shared else ""
    return [
        utilization,
        f"{memory_of(device.memory_used, device.memory_total)}{shared}",
        "" if device.temperature is None else f"{device.temperature}°C",
        "" if device.power is None else f"{device.power:.0f}/{_watts(device.power_limit)}W",
        "" if device.fan is None else f"fan {device.fan}%",
    ]


def _watts(limit: float | None) -> str:
    return "?" if limit is None else f"{limit:.0f}"


def _name(device: DeviceSample) -> str:
    name = device.name
    for noise in _NAMELESS:
        name = name.replace(noise, "")
    return f"└ {name[name.find('MIG') :]}" if device.mig else name


def _process(process: ProcessSample, jobs: Mapping[int, JobId]) -> str:
    job = jobs.get(process.pid)
    owner = f"#{job}" if job is not None else (process.user or "?")
    kind = "" if process.compute else " graphics"
    what = process.command or ("not visible here" if process.alive else "no such process here")
    return f"{owner} {process.pid}{kind} {memory(process.memory)} {what}"


def _fitting(widths: list[int], room: int) -> list[int]:
    shown = []
    for column, cell_width in enumerate(widths):
        room -= cell_width + len(_GAP)
        if cell_width and room >= 0:
            shown.append(column)
    return shown


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
