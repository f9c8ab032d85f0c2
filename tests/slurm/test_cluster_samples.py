"""Samples of a cluster: its nodes, the users of its GPUs, and our jobs' GPU usage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.slurm import Cluster, user
from support.waiting import until

from gputui.core.slots import NodeState
from gputui.gpus.sample import ClusterSample, Sample
from gputui.session.devices.cluster import ClusterSampler, FigureFiles, gpu_use

SESSION = "5f3a"


def sample_where(held: FigureFiles, holds: Callable[[Sample, ClusterSample], bool], *, asks: bool = True) -> Sample:
    """The first sample of which this holds."""
    sampler = ClusterSampler(lambda: held, SESSION, partition=None, asks=asks)
    found: list[Sample] = []

    def looked() -> bool:
        sample = sampler.read()
        if sample is not None and sample.cluster is not None and holds(sample, sample.cluster):
            found.append(sample)
        return bool(found)

    try:
        until(looked, "the cluster is seen so")
    finally:
        sampler.close()
    return found[0]


def test_nodes_and_the_users_of_their_gpus_are_shown(slurm: Cluster) -> None:
    job = slurm.submit("sleep 1000", "--gres=gpu:2", "-w", "n2")
    slurm.await_state(job, "RUNNING")
    slurm.ask("scontrol", "update", "node=n3", "state=drain", "reason=fan replacement, back on Tuesday")
    sample = sample_where({}, lambda sample, _: sample.complete)
    assert sample.cluster is not None
    assert (sample.cluster.name, sample.cluster.partition) == ("gputui", "gpu")
    _, busy, closed = sample.cluster.nodes
    assert (busy.name, busy.gpus, busy.used, busy.unplaced) == ("n2", 4, 2, 0)
    assert (closed.standing, closed.reason) == (NodeState.DRAINED, "fan replacement, back on Tuesday")
    assert closed.closed_by == user()
    assert [device.key for device in sample.devices][:5] == ["n1:0", "n1:1", "n1:2", "n1:3", "n2:0"]
    taken = {device.key: device.processes[0] for device in sample.devices if device.processes}
    assert sorted(taken) == ["n2:0", "n2:1"]
    assert (taken["n2:0"].user, taken["n2:0"].command) == (user(), f"Slurm job {job}")


def test_our_jobs_are_not_shown_as_other_users(slurm: Cluster) -> None:
    job = slurm.submit("sleep 1000", "-w", "n2", f"--comment=gputui:{SESSION}.7.1")
    slurm.await_state(job, "RUNNING")
    sample = sample_where({}, lambda sample, _: sample.complete)
    assert not any(device.processes for device in sample.devices)
    assert sample.cluster is not None
    assert [(node.used, node.unplaced) for node in sample.cluster.nodes] == [(0, 0), (1, 0), (0, 0)]


def test_our_gpus_show_the_usage_that_their_node_wrote(slurm: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "gpu_use.csv"
    file.write_text("0, 97, 28774, 40960, 61, 287.50\n1, [N/A], 100, 40960, 41, [Not Supported]\n")
    held = {"n1:0": str(file), "n1:1": str(file)}
    sample = sample_where(held, lambda sample, _: sample.complete and sample.devices[0].utilization is not None)
    first, second = sample.devices[:2]
    assert (first.utilization, first.memory_used, first.memory_total) == (97, 28774 * 1024**2, 40960 * 1024**2)
    assert (first.temperature, first.power) == (61, 287.5)
    assert (second.utilization, second.power) == (None, None)
    assert len(sample.devices) == 12


def test_without_viewers_slurm_is_not_queried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "gpu_use.csv"
    file.write_text("2, 50, 100, 40960, 61, 287.50\n")
    sample = sample_where({"n7:2": str(file)}, lambda sample, _: bool(sample.devices), asks=False)
    assert [device.key for device in sample.devices] == ["n7:2"]


def test_a_silent_cluster_is_shown_as_it_was_with_the_reason(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputui.session.devices.cluster.NODES_EVERY", 1.0)
    sampler = ClusterSampler(dict, SESSION, partition=None, asks=True)
    seen: list[Sample] = []

    def looked(holds: Callable[[ClusterSample], bool]) -> bool:
        sample = sampler.read()
        if sample is not None:
            seen[:] = [sample]
        return bool(seen) and seen[0].cluster is not None and holds(seen[0].cluster)

    try:
        until(lambda: looked(lambda cluster: bool(cluster.nodes)), "the nodes are seen")
        slurm.kill_controller()
        until(lambda: looked(lambda cluster: cluster.silent is not None), "its silence is seen")
        cluster = seen[0].cluster
        assert cluster is not None
        assert len(cluster.nodes) == 3
        assert "not responding" in (cluster.silent or "")
    finally:
        sampler.close()


def test_old_or_damaged_usage_files_are_ignored(tmp_path: Path) -> None:
    old, damaged, pipe = tmp_path / "old", tmp_path / "damaged", tmp_path / "pipe"
    old.write_text("0, 97, 28774, 40960, 61, 287.50\n")
    os.utime(old, (0, 0))
    damaged.write_bytes(b"0, 97, 28\n\xff\xfe, 1, 2, 3, 4, 5\n0, inf, -3, nan, x, 1e99\n")
    os.mkfifo(pipe)
    held = {"n1:0": str(old), "n2:0": str(damaged), "n3:0": str(pipe), "n4:0": str(tmp_path / "none")}
    used = gpu_use(held)
    assert list(used) == ["n2:0"]
    assert (used["n2:0"].utilization, used["n2:0"].memory_used, used["n2:0"].power) == (None, None, None)
