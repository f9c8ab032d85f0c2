"""A cluster's nodes as groups of GPUs: whose each is, what ours do, and who closed a node and why. Pure; inks only.

A node is two lines, a GPU a cell of fixed width; where that is too much, a node is one line of short cells.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.amounts import counted, duration_cell, duration_words, memory, moment
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import ClusterSample, NodeSample, NodeStanding, node_of
from gputui.logs.plain import plain

from . import occupants, page
from .occupants import View
from .page import Ink, InkPiece, Page, PageLine, Room, Spot, gap, left, right, spot
from .rows import history_columns, load_ink

Pieces = list[InkPiece]

NAME = 12
"""Cells of a node's name, with the space after it."""
CELL, SHORT_CELL = 25, 13
"""Cells that a GPU needs at the least."""
_MOST_BESIDE = 8
_SPARK = 6
_BAND_GAP = 3
_STANDINGS = {NodeStanding.DRAINING: Ink.WARNING, NodeStanding.DRAINED: Ink.WARNING, NodeStanding.DOWN: Ink.FAILURE}


class NodeGroup(Struct, frozen=True):
    node: NodeSample
    gpus: tuple[DevicePicture, ...]


class NodeDrawing:
    """The GPUs of a cluster."""

    def rows_wanted(self, picture: DevicesPicture, width: int, height: int, *, unfolded: bool) -> int:
        groups = grouped(picture)
        most = max(4, height // (2 if unfolded else 3))
        tall = _line_count(groups, width, CELL, 2)
        wanted = tall if tall <= most else _line_count(groups, width, SHORT_CELL, 1)
        return max(1, min(most, wanted + _has_notice(picture)))

    def page(self, view: View, room: Room) -> Page:
        groups = grouped(view.picture)
        notice = _notice(view)
        rows = 2 if room.full or _line_count(groups, room.width, CELL, 2) + len(notice) <= room.height else 1
        page_lines: list[PageLine] = [(spot(line, room.width),) for line in notice]
        for group in groups:
            page_lines += _lines(group, view, room.width, rows)
        if not page_lines:
            words = " looking at the cluster …" if view.picture.looking else " no node has a GPU"
            page_lines = [(spot([InkPiece(words, Ink.PAST)], room.width),)]
        tail = _tail(view.picture)
        left_over = room.width - room.title - sum(len(piece.text) for piece in tail)
        return Page(tuple(page_lines), head=_head(view, left_over), tail=tail)


def grouped(picture: DevicesPicture) -> list[NodeGroup]:
    """Each node with its GPUs, in the cluster's order; those of our jobs that no answer told of come last."""
    cluster = _cluster(picture)
    nodes = {node.name: node for node in cluster.nodes} if cluster is not None else {}
    gpus: dict[str, list[DevicePicture]] = {name: [] for name in nodes}
    for device in picture.devices:
        gpus.setdefault(node_of(device.sample.key), []).append(device)
    return [NodeGroup(nodes.get(name) or NodeSample(name=name), tuple(each)) for name, each in gpus.items() if each]


def _cluster(picture: DevicesPicture) -> ClusterSample | None:
    return picture.sample.cluster if picture.sample is not None else None


def _beside(width: int, cell: int) -> int:
    return max(1, min(_MOST_BESIDE, (width - NAME) // cell))


def _line_count(groups: list[NodeGroup], width: int, cell: int, rows: int) -> int:
    beside = _beside(width, cell)
    return sum(rows * -(-len(group.gpus) // beside) for group in groups)


# What is said of the whole


def _head(view: View, room: int) -> tuple[InkPiece, ...]:
    """As much as fits beside what ends the band."""
    cluster = _cluster(view.picture)
    partition = f", partition {plain(cluster.partition)}" if cluster is not None and cluster.partition else ""
    name = f" {plain(cluster.name)}" if cluster is not None and cluster.name else ""
    lanes = len(view.snapshot.lanes) if view.snapshot is not None else 0
    at_once = f", up to {lanes} at once" if lanes else ""
    longest = (f"Slurm{name}{partition}{at_once}", f"Slurm{name}{partition}", f"Slurm{name}", "Slurm")
    fitting = next((text for text in longest if len(text) + 2 * _BAND_GAP <= room), "")
    return (InkPiece(f"{' ' * _BAND_GAP}{fitting}", Ink.PAST),) if fitting else ()


def _tail(picture: DevicesPicture) -> tuple[InkPiece, ...]:
    groups, cluster = grouped(picture), _cluster(picture)
    ours = sum(bool(gpu.jobs) for group in groups for gpu in group.gpus)
    if cluster is None or cluster.asked is None:  # what is free is not known yet
        return (
            InkPiece(f"{ours} ours", Ink.RUNNING if ours else Ink.PAST, bool(ours)),
            InkPiece("   the rest is not known yet ", Ink.PAST),
        )
    total = sum(len(group.gpus) for group in groups)
    closed = sum(len(group.gpus) - _used(group) for group in groups if group.node.standing.closed)
    others = sum(_used(group) for group in groups) - ours
    free = total - ours - others - closed
    return (
        InkPiece(f"{ours} ours", Ink.RUNNING if ours else Ink.PAST, bool(ours)),
        InkPiece(f"   {others} others", Ink.STRANGER if others else Ink.PAST),
        InkPiece(f"   {free} free", Ink.PAST),
        *((InkPiece(f"   {closed} closed", Ink.WARNING),) if closed else ()),
        InkPiece(f"   of {counted(total, 'GPU', 'GPUs')} ", Ink.PAST),
    )


def _used(group: NodeGroup) -> int:
    in_use = sum(bool(gpu.jobs or gpu.sample.processes) for gpu in group.gpus)
    return min(len(group.gpus), in_use + group.node.unplaced)


def _notice(view: View) -> list[Pieces]:
    cluster = _cluster(view.picture)
    if cluster is None or cluster.silent is None:
        return []
    since = f" Seen {duration_words(view.now - cluster.asked)} ago:" if cluster.asked is not None else ""
    return [[InkPiece(f" ! {plain(cluster.silent)}.{since}", Ink.WARNING, True)]]


def _has_notice(picture: DevicesPicture) -> int:
    cluster = _cluster(picture)
    return int(cluster is not None and cluster.silent is not None)


# A node


def _lines(group: NodeGroup, view: View, width: int, rows: int) -> list[PageLine]:
    beside = _beside(width, CELL if rows == 2 else SHORT_CELL)
    wide = (width - NAME) // beside
    open_gpus, closed = _parted(group)
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
            line = [spot(name, NAME), *(block[row] for block in blocks)]
            used = sum(part.width for part in line)
            node_lines.append((*line, spot([], max(0, width - used))) if used < width else tuple(line))
        if closed and start + beside >= len(open_gpus) and len(shown) < beside:
            break
    return node_lines


def _parted(group: NodeGroup) -> tuple[list[DevicePicture], list[DevicePicture]]:
    """Of a closed node, those that somebody has still, and the others, which nobody can get."""
    if not group.node.standing.closed:
        return list(group.gpus), []
    in_use = [gpu for gpu in group.gpus if gpu.jobs or gpu.sample.processes]
    return in_use, [gpu for gpu in group.gpus if not (gpu.jobs or gpu.sample.processes)]


def _name(node: NodeSample, row: int, rows: int) -> Pieces:
    if row == 1:
        return [gap(1), left(node.standing.value, NAME - 2, _STANDINGS.get(node.standing, Ink.PAST))]
    ink = Ink.TEXT if rows == 2 else _STANDINGS.get(node.standing, Ink.TEXT)
    return [gap(1), left(plain(node.name), NAME - 2, ink, bold=True)]


def _closed_cell(gpus: list[DevicePicture], node: NodeSample, view: View, room: int, rows: int) -> list[Spot]:
    ink = Ink.FAILURE if node.standing is NodeStanding.DOWN else Ink.WARNING
    indices = " " + " ".join(str(gpu.sample.index) for gpu in gpus)
    by = "closed by the admin" if node.standing is not NodeStanding.DOWN else "down"
    key = gpus[0].sample.key
    reason = _told(node, view.now)
    if rows == 1:
        return [
            spot([InkPiece(f"{indices} ", Ink.PAST), InkPiece(f"{by}: {reason}" if reason else by, ink)], room, key)
        ]
    first = [InkPiece(f"{indices} ", Ink.PAST), InkPiece(by, ink, True)]
    return [spot(first, room, key), spot([gap(len(indices) + 1), InkPiece(reason, ink)], room, key)]


def _told(node: NodeSample, now: float) -> str:
    """The admin's own words, after who said them and when."""
    when = moment(node.closed_at, now) if node.closed_at is not None else ""
    who = ", ".join(part for part in (plain(node.closed_by or ""), when) if part)
    reason = plain(node.reason or "")
    return f"{who}: {reason}" if who and reason else reason or who


# A GPU


def _cell(gpu: DevicePicture, group: NodeGroup, view: View, wide: int, rows: int) -> list[Spot]:
    index = [right(str(gpu.sample.index), 2, Ink.PAST), gap(1)]
    if gpu.jobs:
        drawn = _our_cell(gpu, view, wide - 4, rows)
    elif gpu.sample.processes:
        drawn = _others_cell(gpu)
    else:
        drawn = _free_cell(gpu, group)
    blank = [gap(3)]
    lines = [*drawn, *([[]] * rows)][:rows]
    return [spot([*(index if row == 0 else blank), *line], wide, gpu.sample.key) for row, line in enumerate(lines)]


def _our_cell(gpu: DevicePicture, view: View, room: int, rows: int) -> list[Pieces]:
    job, sample = gpu.jobs[0], gpu.sample
    number = InkPiece(f"#{job} ", Ink.RUNNING, True)
    name = InkPiece(plain(view.name_of(job)))
    if sample.utilization is None:
        return [[number, InkPiece(_time(job, view.snapshot, view.now), Ink.PAST)], [name]]
    percent = InkPiece(occupants.percent(sample.utilization), load_ink(sample.utilization, gpu), True)
    if rows == 1:
        return [[number, percent]]
    used = InkPiece(f" {memory(sample.memory_used)}" if sample.memory_used is not None else "")
    left_over = room - len(number.text) - len(percent.text) - len(used.text)
    cells = max(0, min(_SPARK * 2, left_over))
    spark = page.sparkline(history_columns(view, sample.key, cells)) if cells >= _SPARK // 2 else []
    return [[number, *spark, percent, used], [name]]


def _time(job: int, snapshot: Snapshot | None, now: float) -> str:
    """How long it has run, where nobody measures there."""
    placed = snapshot[job].active if snapshot is not None and job in snapshot else None
    return duration_cell(now - placed.since) if placed is not None else ""


def _others_cell(gpu: DevicePicture) -> list[Pieces]:
    first = gpu.sample.processes[0]
    user = plain(first.user or "somebody")
    return [[InkPiece(user, Ink.STRANGER)], [InkPiece(f"job {first.pid}", Ink.STRANGER)]]


def _free_cell(gpu: DevicePicture, group: NodeGroup) -> list[Pieces]:
    """Some clusters say how many are taken, and not which."""
    unsure = _untold(group.gpus)
    if not group.node.unplaced or not unsure:
        return [[InkPiece("free", Ink.PAST)]]
    if group.node.unplaced >= len(unsure):
        return [[InkPiece("taken", Ink.STRANGER)]]
    if gpu is unsure[0]:
        return [[InkPiece(f"{group.node.unplaced} of {len(unsure)} taken", Ink.STRANGER)]]
    return [[]]


def _untold(gpus: Iterable[DevicePicture]) -> list[DevicePicture]:
    return [gpu for gpu in gpus if not (gpu.jobs or gpu.sample.processes)]
