"""The GPU pane on a cluster: GPUs by node, their users, and closed nodes."""

from __future__ import annotations

import pytest
from support.app import GIB, NOW, process
from support.app import device_snapshot as snapshot

from gputui.core.slots import DeviceKind, NodeState
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import ClusterSample, DeviceSample, NodeSample, Sample, device_word
from gputui.tui.gpus.occupants import View
from gputui.tui.gpus.page import Room
from gputui.tui.gpus.pane import draw, rows_wanted
from gputui.views.format import width as cells

CHEN = process(88123, user="chen", command="Slurm job 88123")


def gpu(node: str, index: int, *jobs: int, load: int | None = 97, other: bool = False) -> DevicePicture:
    measured = bool(jobs) and load is not None
    sample = DeviceSample(
        index=index,
        uuid=device_word(node, index),
        name="a100",
        processes=(CHEN,) if other else (),
        utilization=load if measured else None,
        memory_used=28 * GIB if measured else None,
    )
    return DevicePicture(sample=sample, jobs=jobs)


def cluster(*nodes: NodeSample, gpus: tuple[DevicePicture, ...], silent: str | None = None) -> DevicesPicture:
    facts = ClusterSample(name="hpc1", partition="gpu", nodes=nodes, asked=NOW - 90, silent=silent)
    devices = tuple(each.sample for each in gpus)
    sample = Sample(kind=DeviceKind.SLURM, taken=NOW, devices=devices, cluster=facts)
    return DevicesPicture(kind=DeviceKind.SLURM, sample=sample, devices=gpus, looking=True)


PICTURE = cluster(
    NodeSample(name="n1", gpus=4, used=3),
    NodeSample(
        name="n2", standing=NodeState.DRAINING, gpus=4, used=1, reason="fan replacement, back on Tuesday",
        closed_by="root", closed_at=NOW - 300,
    ),
    gpus=(
        gpu("n1", 0, 1), gpu("n1", 1, 2, load=None), gpu("n1", 2, other=True), gpu("n1", 3),
        gpu("n2", 0), gpu("n2", 1, 0), gpu("n2", 2), gpu("n2", 3),
    ),
)  # fmt: skip


def drawn(picture: DevicesPicture, width: int = 120, height: int = 14) -> list[str]:
    view = View(picture, snapshot(3), lambda job: f"vit-b {job}", NOW)
    page = draw(view, Room(width, height, screen_height=40))
    lines = ["".join(text for section in line for text, _ in section.pieces) for line in page.lines]
    assert {cells(line) for line in lines} == {width}
    band = "".join(text for text, _ in (*page.head, *page.tail))
    return [band, *lines]


def test_gpus_are_grouped_by_node_and_show_their_users() -> None:
    band, first, second, third, fourth = drawn(PICTURE)
    assert "Slurm hpc1, partition gpu" in band
    assert "3 yours   1 others   1 free   3 closed   of 8 GPUs" in band
    assert first.split()[:3] == ["n1", "0", "#1"]
    assert " 97% 28.0G" in first
    assert "1 #2 2h11" in first
    assert "2 chen" in first
    assert first.rstrip().endswith("3 free")
    assert second.split()[:3] == ["up", "vit-b", "1"]
    assert "job 88123" in second
    assert "1 #0" in third
    assert "0 2 3 closed by the admin" in third
    assert fourth.split()[0] == "draining"
    assert "fan replacement, back on Tuesday" in fourth
    assert "root, " in fourth


def test_the_header_is_shortened_to_fit() -> None:
    band = drawn(PICTURE, 80)[0]
    assert "Slurm" in band
    assert "partition" not in band
    assert cells(band) <= 80


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60), (40, 10)])
def test_every_line_is_as_wide_as_the_screen(width: int, height: int) -> None:
    wanted = rows_wanted(PICTURE, width, height)
    assert 1 <= wanted <= max(4, height // 3)
    drawn(PICTURE, width, wanted)


def test_in_a_low_pane_a_node_takes_one_line() -> None:
    lines = drawn(PICTURE, 120, 3)[1:]
    assert len(lines) == 2
    assert "#1  97%" in lines[0]
    assert "closed by the admin: root, " in lines[1]


def test_a_cluster_that_reports_only_counts_gets_counts() -> None:
    node = NodeSample(name="n1", gpus=4, used=3, unplaced=2)
    line = drawn(cluster(node, gpus=(gpu("n1", 0, 1), *(gpu("n1", at) for at in (1, 2, 3)))))[1]
    assert "2 of 3 in use" in line
    assert "free" not in line


def test_a_silent_controller_is_reported_above_the_last_state() -> None:
    silent = "Slurm controller not responding (Connection refused)"
    seen = cluster(NodeSample(name="n1", gpus=1), gpus=(gpu("n1", 0),), silent=silent)
    assert drawn(seen)[1].startswith(f" ! {silent}. Seen 1 min ago:")


def test_hostile_names_of_nodes_and_users_are_made_harmless() -> None:
    node = NodeSample(name="n\x1b[2J1", standing=NodeState.DOWN, gpus=1, reason="\x1b]0;x\x07",
                      closed_by="a\x1b[31m", closed_at=NOW)  # fmt: skip
    assert "\x1b" not in "".join(drawn(cluster(node, gpus=(gpu(node.name, 0),))))


def test_the_cursor_reaches_every_visible_gpu() -> None:
    view = View(PICTURE, snapshot(3), str, NOW)
    page = draw(view, Room(120, 14, screen_height=40))
    assert {"n1:0", "n1:3", "n2:1"} <= set(page.keys())
