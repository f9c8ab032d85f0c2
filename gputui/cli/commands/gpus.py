"""`gputui gpus`: show and change a session's slots, and show what uses the GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.cli.command import confirm, find_session, seen, suggest
from gputui.cli.output import (
    JSON,
    NOT_FOUND,
    Column,
    Exit,
    OutputFormat,
    print_answer,
    print_json,
    refuse,
    say,
    table,
    without_empty,
)
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import counted, memory, memory_of, moment
from gputui.core.events import Mode, Requeue, SetSlots
from gputui.core.job import ACTIVE, JobId, StateName
from gputui.core.slots import DeviceKind, NodeState, Slot
from gputui.gpus.picture import printable
from gputui.gpus.sample import ClusterSample, DeviceSample, NodeSample, ProcessSample, Sample, Status, node_of
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.control.connection import NoSession
from gputui.session.messages import Commands, PickedJob, PickJobs, Slots, SlotShown, SlotsShown, StatusQuestion

from .scheduler import send

if TYPE_CHECKING:
    from gputui.gpus.sample import Sampler

COLUMNS = (Column("slot", right=True), Column("gpu"), Column("state"), Column("job", right=True))


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Show the slots, or change them: a list replaces them, + adds, - removes. A slot removed while its "
        "job runs goes away when the job ends; with --now the job is requeued.",
        usage="gpus [LIST | +LIST | -LIST [--now]] [--json]",
        examples="gputui gpus\ngputui gpus 0-3\ngputui gpus +6,7\ngputui gpus -6,7 --now\ngputui gpus cpu:4",
        signed=True,
    )
    parser.add_argument("words", nargs="*", metavar="LIST", help="0,1 · 0-3 · 0,0,1 · [0,1],[2,3] · cpu:4 · all")
    parser.switch("--now", help="requeue jobs on removed slots")
    parser.add_common("yes", "json", "session")
    return parser


def work(options: Options) -> int:
    if options.words:
        client = find_session(options)
        return change(client, options, client.ask(Slots()).slots)
    if options.now:
        refuse(f"--now only applies to removed slots: {suggest(options, 'gputui gpus -6,7 --now')}")
    reply = _fetch_slots(options)
    slots = reply.slots if reply is not None else []
    if reply is not None and any(slot.kind == DeviceKind.SLURM for slot in slots):
        return print_nodes(reply, options)
    sample, pids = _sample(reply, slots)
    return print_answer(
        lambda: GpusAnswer(slots, shown_devices(sample, pids)),
        lambda fmt: _lines(sample, pids, reply, fmt, options),
    )


def _lines(
    sample: Sample | None, pids: Mapping[int, JobId], reply: SlotsShown | None, fmt: OutputFormat, options: Options
) -> list[str]:
    lines = text_table(sample, fmt, pids) if sample is not None else []
    if reply is None:
        return [*lines, "no session here; start one with: gputui run FILE"]
    for pid, job in reply.leftovers.items():
        lines.append(f"pid {pid} is left over from #{job}, which has ended; to end it: kill {pid}")
    if not reply.slots:
        return [*lines, f"no slots; add some: {suggest(options, 'gputui gpus all')}"]
    rows = [
        [str(slot.id), device_names(slot), slot.state, "" if slot.job is None else f"#{slot.job}"]
        for slot in reply.slots
    ]
    return [*lines, *table(COLUMNS, rows, fmt, ["32" if slot.job is not None else "" for slot in reply.slots])]


def _fetch_slots(options: Options) -> SlotsShown | None:
    """Return the session's slots, or None if there is no session. In that case only the GPUs are shown."""
    try:
        return find_session(options).ask(Slots())
    except NoSession:
        if options.session:
            raise
        return None


def device_names(slot: Slot | SlotShown) -> str:
    return ",".join(slot.devices) or str(slot.kind)


def change(client: Client, options: Options, slots: list[SlotShown]) -> int:
    before = [slot for slot in slots if slot.state != "draining"]
    after, notice = _new_slots(options, before)
    removed = _removed(before, after)
    jobs = _jobs_on(client, removed) if options.now else []
    confirm(client, options, jobs, "requeue")
    send(client, SetSlots(tuple(replace(slot, id=number) for number, slot in enumerate(after))))
    if jobs:
        client.ask(Commands(tuple(Requeue(job=job.id, seen=seen(job)) for job in jobs)), work=True)
    if notice:
        say(notice)
    say(f"slots: {_all_names(after)}")
    busy = sorted(slot.job for slot in removed if slot.job is not None)
    if busy and not options.now:
        names = ", ".join(f"#{job}" for job in busy)
        say(f"{names} will finish first; --now requeues instead")
    # Waiting jobs may fit on the new slots, so start an owner if there is none.
    status = client.ask(StatusQuestion())
    if status.process is None and status.waiting and status.scheduler.state is Mode.RUNNING:
        client.ask(StatusQuestion(), work=True)
    if JSON.on:
        print_json(GpusAnswer(client.ask(Slots()).slots))
    return 0


def _jobs_on(client: Client, slots: list[SlotShown]) -> list[PickedJob]:
    ids = sorted({slot.job for slot in slots if slot.job is not None})
    if not ids:
        return []
    jobs = client.ask(PickJobs([(job, job) for job in ids])).jobs
    return [job for job in jobs if job.state in ACTIVE and job.state is not StateName.STOPPING]


def _new_slots(options: Options, before: list[SlotShown]) -> tuple[list[Slot], str | None]:
    """Return the slots after the requested change, and a notice about them."""
    from gputui.gpus.hardware import find_hardware
    from gputui.gpus.slots import BadGpus, parse_gpus, slots

    written = " ".join(options.words)
    bare = [Slot(slot.id, slot.devices, DeviceKind(slot.kind)) for slot in before]
    sign = written[0] if written[:1] in ("+", "-") and written != "-1" else ""
    try:
        parsed = slots(parse_gpus(written.removeprefix(sign)), find_hardware())
    except BadGpus as error:
        refuse(str(error))
    named = list(parsed.slots)
    if sign == "+":
        if bare and DeviceKind.SIMULATED in {slot.kind for slot in bare} ^ {slot.kind for slot in named}:
            # Real jobs must not run on simulated GPUs.
            anew = suggest(options, "gputui gpus sim:4")
            refuse(f"cannot mix simulated and real GPUs in a session; replace all slots: {anew}")
        return bare + named, parsed.notice
    if sign == "-":
        leaving = {device for slot in named for device in slot.devices}
        unknown = leaving - {device for slot in before for device in slot.devices}
        if unknown:
            raise Exit(NOT_FOUND, f"no slot uses GPU {', '.join(sorted(unknown))}; the slots are {_all_names(bare)}")
        staying = [slot for slot in bare if leaving.isdisjoint(slot.devices)]
        for kind in (slot.kind for slot in named if not slot.devices):
            # Slots without devices are interchangeable: remove one for each that is named.
            match = next((slot for slot in staying if slot.kind is kind and not slot.devices), None)
            if match is not None:
                staying.remove(match)
        return staying, None
    return named, parsed.notice


def _all_names(slots: list[Slot]) -> str:
    if slots and not any(slot.devices for slot in slots):
        return f"{slots[0].kind}:{len(slots)}"
    return " ".join(map(device_names, slots)) or "none"


def _removed(before: list[SlotShown], after: list[Slot]) -> list[SlotShown]:
    """Return the slots of `before` that are not in `after`.

    Of identical slots, idle ones count as removed before busy ones.
    """
    unmatched = [(slot.devices, str(slot.kind)) for slot in after]
    removed = []
    for slot in sorted(before, key=lambda slot: slot.job is None):
        key = (slot.devices, slot.kind)
        if key in unmatched:
            unmatched.remove(key)
        else:
            removed.append(slot)
    return removed


# GPUs as text and as JSON


_NAMELESS = ("NVIDIA ", "GeForce ")
_DEVICE_COLUMNS = (Column("", least=12), *(Column("", right=True) for _ in range(5)), Column(""))


class ProcessShown(Struct, frozen=True):
    pid: int
    user: str | None
    memory: int | None
    command: str | None
    compute: bool
    started: float | None
    job: JobId | None


class DeviceShown(Struct, frozen=True):
    """The figures of a GPU in bytes, °C, watts and percent, or None if unknown."""

    index: int
    name: str
    status: Status
    utilization: int | None
    memory_used: int | None
    memory_total: int | None
    temperature: int | None
    power: float | None
    power_limit: float | None
    fan: int | None
    age: float
    memory_shared: bool
    parent: str | None
    visible: bool
    uuid: str | None
    message: str | None
    processes: list[ProcessShown]
    node: str | None = None
    jobs: list[JobId] = []
    """On a cluster, the job that holds the GPU."""


class NodeShown(Struct, frozen=True):
    name: str
    state: NodeState
    gpus: int
    used: int
    reason: str | None
    closed_by: str | None
    closed_at: float | None


class ClusterShown(Struct, frozen=True):
    name: str | None
    partition: str | None
    asked: float | None
    silent: str | None
    """Why the cluster did not answer."""
    nodes: list[NodeShown]


class GpusAnswer(Struct, frozen=True):
    slots: list[SlotShown]
    devices: list[DeviceShown] = []
    cluster: ClusterShown | None = None


ANSWERS = {"gpus": GpusAnswer}


def shown_devices(
    sample: Sample | None, jobs: Mapping[int, JobId], held: Mapping[str, JobId] | None = None
) -> list[DeviceShown]:
    """Return the devices for JSON output.

    `jobs`: the jobs by process id. `held`: on a cluster, the jobs by the key of the GPU that they hold.
    """
    return [_shown_device(device, jobs, held) for device in (sample.devices if sample is not None else ())]


def _shown_device(device: DeviceSample, jobs: Mapping[int, JobId], held: Mapping[str, JobId] | None) -> DeviceShown:
    own = ("uuid", "message", "processes", "node", "jobs")
    same = {name: getattr(device, name) for name in DeviceShown.__struct_fields__ if name not in own}
    names = [name for name in ProcessShown.__struct_fields__ if name != "job"]
    processes = [
        ProcessShown(**{name: getattr(process, name) for name in names}, job=jobs.get(process.pid))
        for process in device.processes
    ]
    job = held.get(device.key) if held is not None else None
    return DeviceShown(
        **same,
        uuid=device.uuid or None,
        message=device.message or None,
        processes=processes,
        node=node_of(device.key) if held is not None else None,
        jobs=[] if job is None else [job],
    )


def text_table(sample: Sample, fmt: OutputFormat, jobs: Mapping[int, JobId]) -> list[str]:
    """Return one line per device and per process."""
    lines = [f"{sample.trouble.message}: {sample.trouble.advice}"] if sample.trouble else []
    columns, rows = without_empty(_DEVICE_COLUMNS, [[_name_cell(device), *_cells(device)] for device in sample.devices])
    device_lines = table(columns, rows, fmt, [""] * len(rows))[1:] if rows else []
    for device, line in zip(sample.devices, device_lines, strict=True):
        why = "" if device.status is Status.OK else f"  {device.status.value}: {device.message}"
        lines += [line + why, *(f"      {_process(process, jobs)}" for process in device.processes)]
    return [fmt.cut(printable(line)) for line in (*lines, *sample.notes)]


def _name_cell(device: DeviceSample) -> str:
    name = device.name
    for noise in _NAMELESS:
        name = name.replace(noise, "")
    return printable(f"    └ {name[name.find('MIG') :]}" if device.mig else f"{device.index:>3} {name}")


def _cells(device: DeviceSample) -> list[str]:
    """Return the cells of a device, the most important first. On a narrow terminal the last ones are cut."""
    if device.status is not Status.OK:
        return [""] * 6
    shared = " shared" if device.memory_shared else ""
    watts = "?" if device.power_limit is None else f"{device.power_limit:.0f}"
    return [
        "n/a" if device.utilization is None else f"{device.utilization}%",
        f"{memory_of(device.memory_used, device.memory_total)}{shared}",
        "" if device.temperature is None else f"{device.temperature}°C",
        "" if device.power is None else f"{device.power:.0f}/{watts}W",
        "" if device.fan is None else f"fan {device.fan}%",
        "" if device.visible else "not in CUDA_VISIBLE_DEVICES",
    ]


def _process(process: ProcessSample, jobs: Mapping[int, JobId]) -> str:
    job = jobs.get(process.pid)
    owner = f"#{job}" if job is not None else (process.user or "?")
    kind = "" if process.compute else " graphics"
    what = process.command or ("not visible here" if process.alive else "no such process here")
    return f"{owner} {process.pid}{kind} {memory(process.memory)} {what}"


PATIENCE = 0.9
"""Seconds to wait for GPU figures, because a hanging driver never returns them."""


def _sample(reply: SlotsShown | None, slots: Sequence[SlotShown]) -> tuple[Sample | None, dict[int, JobId]]:
    """Return the GPU figures and the jobs by process id. They come from the owner's reply if it has figures."""
    if reply is not None and reply.sample is not None:
        return msgspec.convert(reply.sample, Sample), reply.pids
    from gputui.gpus.sampler_process import sample_once

    with closing(_sampler(slots)) as sampler:
        return sample_once(sampler, PATIENCE), {}


def _sampler(slots: Sequence[SlotShown]) -> Sampler:
    from gputui.gpus.hardware import driver_present

    if slots and all(slot.kind == DeviceKind.SIMULATED for slot in slots):
        from gputui.gpus.simulated import SimulatedSampler

        return SimulatedSampler(len({device for slot in slots for device in slot.devices}))
    if driver_present():
        from gputui.gpus.sampler_process import ProcessSampler

        return ProcessSampler()
    from gputui.gpus.machine import CpuSampler

    return CpuSampler(max(1, len(slots)))


# Nodes of a cluster


SLURM_PATIENCE = 10.0
NODE_COLUMNS = (Column("node"), Column("state"), Column("gpus", least=30))


def print_nodes(reply: SlotsShown, options: Options) -> int:
    """Print the cluster's nodes."""
    from gputui.engines.slurm.client import SlurmError
    from gputui.session.devices.cluster import sampled_once

    known = msgspec.convert(reply.sample, Sample) if reply.sample is not None else None
    sample, silent = known, None
    try:
        sample = _with_measurements(sampled_once(reply.partition, SLURM_PATIENCE), known)
    except SlurmError as error:
        silent = str(error)
        say(f"{plain(silent)}; showing the last known state")
    return print_answer(
        lambda: GpusAnswer(reply.slots, shown_devices(sample, {}, reply.held), _cluster(sample, silent)),
        lambda fmt: _node_lines(sample, reply, fmt, options),
    )


def _node_lines(sample: Sample | None, reply: SlotsShown, fmt: OutputFormat, options: Options) -> list[str]:
    running = len(set(reply.held.values()))
    busy = f"{running} running, {sum(slot.job is not None for slot in reply.slots) - running} submitted"
    change = suggest(options, "gputui gpus slurm:N")
    summary = f"{counted(len(reply.slots), 'slot', 'slots')}: {busy}; change with: {change}"
    return [*(_node_table(sample, reply.held, fmt) if sample is not None else []), summary]


def _with_measurements(sample: Sample, known: Sample | None) -> Sample:
    """Add the owner's measurements of the GPUs that our jobs use."""
    measured = {device.key: device for device in known.devices if device.utilization is not None} if known else {}
    fields = ("utilization", "memory_used", "memory_total", "temperature", "power")
    devices = (
        replace(device, **{field: getattr(measured[device.key], field) for field in fields})
        if device.key in measured
        else device
        for device in sample.devices
    )
    return replace(sample, devices=tuple(devices))


def _cluster(sample: Sample | None, silent: str | None) -> ClusterShown:
    cluster = sample.cluster if sample is not None and sample.cluster is not None else ClusterSample()
    nodes = [
        NodeShown(node.name, node.standing, node.gpus, node.used, node.reason, node.closed_by, node.closed_at)
        for node in cluster.nodes
    ]
    return ClusterShown(cluster.name or None, cluster.partition, cluster.asked, silent, nodes)


def _node_table(sample: Sample, held: dict[str, JobId], fmt: OutputFormat) -> list[str]:
    """Return one line per node. The line of a closed node is followed by a line with the reason."""
    gpus: dict[str, list[DeviceSample]] = {}
    for device in sample.devices:
        gpus.setdefault(node_of(device.key), []).append(device)
    nodes = {node.name: node for node in (sample.cluster.nodes if sample.cluster is not None else ())}
    rows = []
    for name, devices in gpus.items():
        node = nodes.get(name) or NodeSample(name=name)
        rows.append(
            [
                plain(name),
                node.standing.value,
                " · ".join(_usage(device, held.get(device.key), node) for device in devices),
            ]
        )
        if node.reason:
            when = f", {moment(node.closed_at, sample.taken)}" if node.closed_at is not None else ""
            rows.append(["", "", f"closed by {plain(node.closed_by or 'the admin')}{when}: {plain(node.reason)}"])
    return table(NODE_COLUMNS, rows, fmt, [""] * len(rows))


def _usage(device: DeviceSample, job: JobId | None, node: NodeSample) -> str:
    if job is not None:
        figures = "" if device.utilization is None else f" {device.utilization}% {memory(device.memory_used)}"
        return f"{device.index} #{job}{figures}"
    if device.processes:
        return f"{device.index} {plain(device.processes[0].user or 'unknown user')} ({device.processes[0].pid})"
    free = "closed" if node.standing.closed else "free" if not node.unplaced else "free or in use"
    return f"{device.index} {free}"
