"""What is on the GPUs of a cluster, for `gputui gpus`: asked of Slurm now, with what the owner measured on ours."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.cli.calling import print_json
from gputui.cli.output.table import Column, Paper, table
from gputui.cli.output.words import out, say
from gputui.core.job import JobId
from gputui.core.views.amounts import counted, memory, moment
from gputui.engines.slurm.commands import SlurmError
from gputui.gpus.nodes import ClusterSample, NodeSample, node_of
from gputui.gpus.sample import DeviceSample, Sample
from gputui.gpus.table import json_rows
from gputui.logs.plain import plain
from gputui.session.devices.cluster_sampler import sampled_once
from gputui.session.messages.replies import LanesShown

PATIENCE = 10.0
COLUMNS = (Column("node"), Column("state"), Column("gpus", least=30))


def nodes_shown(reply: LanesShown, paper: Paper, *, as_json: bool) -> int:
    measured = msgspec.convert(reply.sample, Sample) if reply.sample is not None else None
    sample, silent = measured, None
    try:
        sample = with_figures(sampled_once(reply.partition, PATIENCE), measured)
    except SlurmError as error:
        silent = str(error)
    if as_json:
        print_json({"lanes": reply.lanes, "devices": _rows(sample, reply.held), "cluster": _cluster(sample, silent)})
        return 0
    if silent is not None:
        say(f"{plain(silent)}; what is below was known before")
    if sample is not None:
        out("\n".join(drawn(sample, reply.held, paper)))
    waiting = sum(lane.job is not None for lane in reply.lanes) - len(set(reply.held.values()))
    busy = f"{len(set(reply.held.values()))} running, {waiting} submitted"
    out(f"{counted(len(reply.lanes), 'lane', 'lanes')}: {busy}; gputui gpus slurm:N changes how many")
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


def drawn(sample: Sample, held: dict[str, JobId], paper: Paper) -> list[str]:
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
    return table(COLUMNS, rows, paper, [""] * len(rows))


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
