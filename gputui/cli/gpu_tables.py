"""What gputui gpus prints: devices of this machine and nodes of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import counted, memory, memory_of, moment
from gputui.core.job import JobId
from gputui.core.lanes import DeviceKind
from gputui.engines.slurm.client import SlurmError
from gputui.gpus.hardware import driver_present
from gputui.gpus.picture import printable
from gputui.gpus.sample import ClusterSample, DeviceSample, NodeSample, ProcessSample, Sample, Sampler, Status, node_of
from gputui.gpus.sampler_process import ProcessSampler, sample_once
from gputui.logs.plain import plain
from gputui.session.devices.cluster import sampled_once
from gputui.session.messages import LaneShown, LanesShown
from gputui.views.format import cut, width

from .command import print_json
from .output import out, say
from .tables import Column, Paper, table

# ---- A sample as text that fits a terminal's width, and in the shape of `gputui gpus --json` ----


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
    return "\n".join(cut(printable(line), columns) for line in lines)


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


# ---- What is on the GPUs, for `gputui gpus` ----


PATIENCE = 0.9
"""A driver that hangs delays nobody: what has answered by then is shown."""


class LookAtDevices(msgspec.Struct, frozen=True):
    sample: Sample | None
    pids: dict[int, JobId]

    def rows(self) -> list[Any]:
        rows = json_rows(self.sample, self.pids) if self.sample is not None else []
        return list(msgspec.to_builtins(rows))

    def text(self, width: int) -> str:
        return text_table(self.sample, width, self.pids) if self.sample is not None else ""


def seen(reply: LanesShown | None, lanes: Sequence[LaneShown]) -> LookAtDevices:
    """`reply`: what a session's owner said; None where there is no session."""
    if reply is not None and reply.sample is not None:
        return LookAtDevices(msgspec.convert(reply.sample, Sample), reply.pids)
    sampler = _sampler(lanes)
    try:
        return LookAtDevices(sample_once(sampler, PATIENCE), {})
    finally:
        sampler.close()


def _sampler(lanes: Sequence[LaneShown]) -> Sampler:
    if lanes and all(lane.kind == DeviceKind.SIMULATED for lane in lanes):
        from gputui.gpus.simulated import SimulatedSampler

        return SimulatedSampler(len({device for lane in lanes for device in lane.devices}))
    if driver_present():
        return ProcessSampler()
    from gputui.gpus.cpu import CpuSampler

    return CpuSampler(max(1, len(lanes)))


# ---- What is on the GPUs of a cluster, for `gputui gpus` ----


SLURM_PATIENCE = 10.0
NODE_COLUMNS = (Column("node"), Column("state"), Column("gpus", least=30))


def nodes_shown(reply: LanesShown, paper: Paper, change: str, *, as_json: bool) -> int:
    """`change`: the command that gives the session another number of lanes."""
    measured = msgspec.convert(reply.sample, Sample) if reply.sample is not None else None
    sample, silent = measured, None
    try:
        sample = with_figures(sampled_once(reply.partition, SLURM_PATIENCE), measured)
    except SlurmError as error:
        silent = str(error)
    if as_json:
        print_json({"lanes": reply.lanes, "devices": _rows(sample, reply.held), "cluster": _cluster(sample, silent)})
        return 0
    if silent is not None:
        say(f"{plain(silent)}; what is below was known before")
    if sample is not None:
        out("\n".join(draw_nodes(sample, reply.held, paper)))
    waiting = sum(lane.job is not None for lane in reply.lanes) - len(set(reply.held.values()))
    busy = f"{len(set(reply.held.values()))} running, {waiting} submitted"
    out(f"{counted(len(reply.lanes), 'lane', 'lanes')}: {busy}; {change} changes how many")
    return 0


def with_figures(sample: Sample, measured_before: Sample | None) -> Sample:
    """What the owner measured on the GPUs of our jobs."""
    measured = {device.key: device for device in measured_before.devices} if measured_before is not None else {}
    return replace(sample, devices=tuple(_figured(device, measured.get(device.key)) for device in sample.devices))


def _figured(device: DeviceSample, measured: DeviceSample | None) -> DeviceSample:
    if measured is None or measured.utilization is None:
        return device
    return replace(
        device, utilization=measured.utilization, memory_used=measured.memory_used, memory_total=measured.memory_total,
        temperature=measured.temperature, power=measured.power,
    )  # fmt: skip


def _rows(sample: Sample | None, held: dict[str, JobId]) -> list[dict[str, Any]]:
    if sample is None:
        return []
    rows: list[dict[str, Any]] = []
    for device, row in zip(sample.devices, json_rows(sample), strict=True):
        job = held.get(device.key)
        rows.append({**msgspec.to_builtins(row), "node": node_of(device.key), "jobs": [] if job is None else [job]})
    return rows


def _cluster(sample: Sample | None, silent: str | None) -> dict[str, Any]:
    cluster = sample.cluster if sample is not None and sample.cluster is not None else ClusterSample()
    return {
        "name": cluster.name or None,
        "partition": cluster.partition,
        "asked": cluster.asked,
        "silent": silent,
        "nodes": [
            {
                "name": node.name, "state": node.standing, "gpus": node.gpus, "used": node.used, "reason": node.reason,
                "closed_by": node.closed_by, "closed_at": node.closed_at,
            }
            for node in cluster.nodes
        ],
    }  # fmt: skip


def draw_nodes(sample: Sample, held: dict[str, JobId], paper: Paper) -> list[str]:
    """A node a line, with the words of whoever closed it below."""
    gpus: dict[str, list[DeviceSample]] = {}
    for device in sample.devices:
        gpus.setdefault(node_of(device.key), []).append(device)
    nodes = {node.name: node for node in (sample.cluster.nodes if sample.cluster is not None else ())}
    rows = []
    for name, devices in gpus.items():
        node = nodes.get(name) or NodeSample(name=name)
        rows.append([plain(name), node.standing.value, " · ".join(_told(each, held, node) for each in devices)])
        if node.reason:
            rows.append(["", "", _reason(node, sample.taken)])
    return table(NODE_COLUMNS, rows, paper, [""] * len(rows))


def _told(device: DeviceSample, held: dict[str, JobId], node: NodeSample) -> str:
    return f"{device.index} {_who(device, held.get(device.key), node)}"


def _who(device: DeviceSample, job: JobId | None, node: NodeSample) -> str:
    if job is not None:
        figures = "" if device.utilization is None else f" {device.utilization}% {memory(device.memory_used)}"
        return f"#{job}{figures}"
    if device.processes:
        return f"{plain(device.processes[0].user or 'somebody')} ({device.processes[0].pid})"
    return "closed" if node.standing.closed else "free" if not node.unplaced else "free or taken"


def _reason(node: NodeSample, now: float) -> str:
    when = f", {moment(node.closed_at, now)}" if node.closed_at is not None else ""
    return f"closed by {plain(node.closed_by or 'the admin')}{when}: {plain(node.reason or '')}"
