"""The nodes of a cluster: their GPUs, their users, and who closed a node and why.

A node has two lines with a fixed-width cell for each GPU. If there is little room, it has one line with shorter cells.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.amounts import counted, duration_cell, duration_words, memory, moment
from gputui.core.slots import NodeState
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import NodeSample, node_of
from gputui.logs.plain import plain
from gputui.tui.text import Line, Piece, blank, ljust, rjust, width_of
from gputui.tui.theme import Look, bold

from . import occupants
from .occupants import View
from .page import Page, PageLine, Room, section, sparkline
from .rows import history_columns, load_look

NAME = 12
"""Width of a node's name, including the blank after it."""
CELL, SHORT_CELL = 25, 13
"""Minimum width of a GPU's cell, normal and short."""
_MOST_BESIDE = 8
_SPARK = 6
_BAND_GAP = 3
_STANDINGS = {NodeState.DRAINING: Look.WARNING, NodeState.DRAINED: Look.WARNING, NodeState.DOWN: Look.FAILURE}


class NodeGroup(Struct, frozen=True):
    node: NodeSample
    gpus: tuple[DevicePicture, ...]


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool) -> int:
    groups = grouped(picture)
    most = max(4, height // (2 if unfolded else 3))
    tall = _line_count(groups, width, CELL, 2)
    wanted = tall if tall <= most else _line_count(groups, width, SHORT_CELL, 1)
    return max(1, min(most, wanted + len(_notice(picture, 0.0))))


def page(view: View, room: Room) -> Page:
    """Return the page with the GPUs of a cluster."""
    groups = grouped(view.picture)
    notice = _notice(view.picture, view.now)
    rows = 2 if room.full or _line_count(groups, room.width, CELL, 2) + len(notice) <= room.height else 1
    page_lines: list[PageLine] = [(section(line, room.width),) for line in notice]
    for group in groups:
        page_lines += _lines(group, view, room.width, rows)
    if not page_lines:
        words = " querying the cluster …" if view.picture.looking else " no node has a GPU"
        page_lines = [(section([(words, Look.PAST)], room.width),)]
    tail = _tail(view.picture)
    return Page(tuple(page_lines), _head(view, room.width - room.title - width_of(tail)), tail)


def grouped(picture: DevicesPicture) -> list[NodeGroup]:
    """Return the nodes with their GPUs in the cluster's order. Nodes known only from our jobs come last."""
    cluster = picture.cluster
    nodes = {node.name: node for node in cluster.nodes} if cluster is not None else {}
    gpus: dict[str, list[DevicePicture]] = {name: [] for name in nodes}
    for device in picture.devices:
        gpus.setdefault(node_of(device.sample.key), []).append(device)
    return [
        NodeGroup(nodes.get(name) or NodeSample(name=name), tuple(devices)) for name, devices in gpus.items() if devices
    ]


def _beside(width: int, cell: int) -> int:
    return max(1, min(_MOST_BESIDE, (width - NAME) // cell))


def _line_count(groups: list[NodeGroup], width: int, cell: int, rows: int) -> int:
    beside = _beside(width, cell)
    return sum(rows * -(-len(group.gpus) // beside) for group in groups)


# The band


def _head(view: View, room: int) -> tuple[Piece, ...]:
    """Return the band text: as much of the cluster's name, partition and job limit as fits."""
    cluster = view.picture.cluster
    partition = f", partition {plain(cluster.partition)}" if cluster is not None and cluster.partition else ""
    name = f" {plain(cluster.name)}" if cluster is not None and cluster.name else ""
    slots = len(view.snapshot.slots) if view.snapshot is not None else 0
    at_once = f", up to {slots} at once" if slots else ""
    longest = (f"Slurm{name}{partition}{at_once}", f"Slurm{name}{partition}", f"Slurm{name}", "Slurm")
    fitting = next((text for text in longest if len(text) + 2 * _BAND_GAP <= room), "")
    return ((f"{' ' * _BAND_GAP}{fitting}", Look.PAST),) if fitting else ()


def _tail(picture: DevicesPicture) -> tuple[Piece, ...]:
    groups, cluster = grouped(picture), picture.cluster
    ours = sum(bool(gpu.jobs) for group in groups for gpu in group.gpus)
    if cluster is None or cluster.asked is None:  # the free GPUs are not known yet
        return (
            (f"{ours} yours", Look.RUNNING_BOLD if ours else Look.PAST),
            ("   the rest is not known yet ", Look.PAST),
        )
    total = sum(len(group.gpus) for group in groups)
    closed = sum(len(group.gpus) - _used(group) for group in groups if group.node.standing.closed)
    others = sum(_used(group) for group in groups) - ours
    free = total - ours - others - closed
    return (
        (f"{ours} yours", Look.RUNNING_BOLD if ours else Look.PAST),
        (f"   {others} others", Look.EXTERNAL if others else Look.PAST),
        (f"   {free} free", Look.PAST),
        *(((f"   {closed} closed", Look.WARNING),) if closed else ()),
        (f"   of {counted(total, 'GPU', 'GPUs')} ", Look.PAST),
    )


def _used(group: NodeGroup) -> int:
    in_use = sum(bool(gpu.jobs or gpu.sample.processes) for gpu in group.gpus)
    return min(len(group.gpus), in_use + group.node.unplaced)


def _notice(picture: DevicesPicture, now: float) -> list[list[Piece]]:
    cluster = picture.cluster
    if cluster is None or cluster.silent is None:
        return []
    since = f" Seen {duration_words(now - cluster.asked)} ago:" if cluster.asked is not None else ""
    return [[(f" ! {plain(cluster.silent)}.{since}", Look.WARNING_BOLD)]]


# Nodes


def _lines(group: NodeGroup, view: View, width: int, rows: int) -> list[PageLine]:
    beside = _beside(width, CELL if rows == 2 else SHORT_CELL)
    wide = (width - NAME) // beside
    open_gpus, closed = _split_closed(group)
    node_lines: list[PageLine] = []
    for start in range(0, max(1, len(group.gpus)), beside):
        shown = open_gpus[start : start + beside]
        first = not node_lines
        blocks = [_cell(gpu, group, view, wide, rows) for gpu in shown]
        if closed and len(shown) < beside and start + len(shown) == len(open_gpus):
            room = width - NAME - wide * len(shown)
            blocks.append(_closed_cell(closed, group.node, view, room, rows))
        for row in range(rows):
            name = _name(group.node, row, rows) if first else []
            line = [section(name, NAME), *(block[row] for block in blocks)]
            used = sum(width_of(part.pieces) for part in line)
            node_lines.append((*line, section([], max(0, width - used))) if used < width else tuple(line))
        if closed and start + beside >= len(open_gpus) and len(shown) < beside:
            break
    return node_lines


def _split_closed(group: NodeGroup) -> tuple[list[DevicePicture], list[DevicePicture]]:
    """Split the GPUs of a closed node into those in use and the rest. For an open node, the second list is empty."""
    if not group.node.standing.closed:
        return list(group.gpus), []
    in_use = [gpu for gpu in group.gpus if gpu.jobs or gpu.sample.processes]
    return in_use, [gpu for gpu in group.gpus if not (gpu.jobs or gpu.sample.processes)]


def _name(node: NodeSample, row: int, rows: int) -> list[Piece]:
    if row == 1:
        return [blank(1), (ljust(node.standing.value, NAME - 2), _STANDINGS.get(node.standing, Look.PAST))]
    look = Look.TEXT if rows == 2 else _STANDINGS.get(node.standing, Look.TEXT)
    return [blank(1), (ljust(plain(node.name), NAME - 2), bold(look))]


def _closed_cell(gpus: list[DevicePicture], node: NodeSample, view: View, room: int, rows: int) -> list[Line]:
    look = Look.FAILURE if node.standing is NodeState.DOWN else Look.WARNING
    indices = " " + " ".join(str(gpu.sample.index) for gpu in gpus)
    by = "closed by the admin" if node.standing is not NodeState.DOWN else "down"
    key = gpus[0].sample.key
    reason = _closed_reason(node, view.now)
    if rows == 1:
        return [section([(f"{indices} ", Look.PAST), (f"{by}: {reason}" if reason else by, look)], room, key)]
    first = [(f"{indices} ", Look.PAST), (by, bold(look))]
    return [section(first, room, key), section([blank(len(indices) + 1), (reason, look)], room, key)]


def _closed_reason(node: NodeSample, now: float) -> str:
    """Return who closed the node, when, and why."""
    when = moment(node.closed_at, now) if node.closed_at is not None else ""
    who = ", ".join(part for part in (plain(node.closed_by or ""), when) if part)
    reason = plain(node.reason or "")
    return f"{who}: {reason}" if who and reason else reason or who


# GPUs


def _cell(gpu: DevicePicture, group: NodeGroup, view: View, wide: int, rows: int) -> list[Line]:
    index = [(rjust(str(gpu.sample.index), 2), Look.PAST), blank(1)]
    if gpu.jobs:
        drawn = _our_cell(gpu, view, wide - 4, rows)
    elif gpu.sample.processes:
        drawn = _others_cell(gpu)
    else:
        drawn = _free_cell(gpu, group)
    lines = [*drawn, *([[]] * rows)][:rows]
    return [
        section([*(index if row == 0 else [blank(3)]), *line], wide, gpu.sample.key) for row, line in enumerate(lines)
    ]


def _our_cell(gpu: DevicePicture, view: View, room: int, rows: int) -> list[list[Piece]]:
    job, sample = gpu.jobs[0], gpu.sample
    number = (f"#{job} ", Look.RUNNING_BOLD)
    name = (plain(view.name_of(job)), Look.TEXT)
    if sample.utilization is None:
        return [[number, (_time(job, view.snapshot, view.now), Look.PAST)], [name]]
    percent = (occupants.percent(sample.utilization), load_look(sample.utilization, gpu))
    if rows == 1:
        return [[number, percent]]
    used = (f" {memory(sample.memory_used)}" if sample.memory_used is not None else "", Look.TEXT)
    left_over = room - width_of([number, percent, used])
    cells = max(0, min(_SPARK * 2, left_over))
    spark = sparkline(history_columns(view, sample.key, cells)) if cells >= _SPARK // 2 else []
    return [[number, *spark, percent, used], [name]]


def _time(job: int, snapshot: Snapshot | None, now: float) -> str:
    """Return how long the job has been running. Shown for GPUs without measurements."""
    placed = snapshot[job].active if snapshot is not None and job in snapshot else None
    return duration_cell(now - placed.since) if placed is not None else ""


def _others_cell(gpu: DevicePicture) -> list[list[Piece]]:
    first = gpu.sample.processes[0]
    user = plain(first.user or "somebody")
    return [[(user, Look.EXTERNAL)], [(f"job {first.pid}", Look.EXTERNAL)]]


def _free_cell(gpu: DevicePicture, group: NodeGroup) -> list[list[Piece]]:
    """Return `free`, or how many GPUs are taken if the cluster does not say which ones."""
    unattributed = _unattributed(group.gpus)
    if not group.node.unplaced or not unattributed:
        return [[("free", Look.PAST)]]
    if group.node.unplaced >= len(unattributed):
        return [[("taken", Look.EXTERNAL)]]
    if gpu is unattributed[0]:
        return [[(f"{group.node.unplaced} of {len(unattributed)} in use", Look.EXTERNAL)]]
    return [[]]


def _unattributed(gpus: Iterable[DevicePicture]) -> list[DevicePicture]:
    return [gpu for gpu in gpus if not (gpu.jobs or gpu.sample.processes)]
