"""The test cluster: it assigns GPUs, keeps exit codes, and leaves nothing behind."""

from __future__ import annotations

import pytest
from support.sessions import alive
from support.slurm import Cluster, lent
from support.waiting import until


def test_nothing_of_a_test_is_left_to_the_next(slurm: Cluster) -> None:
    slurm.ask("scontrol", "update", "node=n3", "state=drain", "reason=fan replacement")
    running = slurm.submit("setsid sleep 1000 & wait")
    slurm.await_state(running, "RUNNING")
    waiting = slurm.submit("true", "-H")
    slurm.kill_node("n2")
    slurm.clear()
    assert slurm.state(waiting) == "CANCELLED"
    assert slurm.processes() == []
    assert slurm.ask("sinfo", "-h", "-o", "%T", "-p", "gpu").split() == ["idle"]


@pytest.mark.parametrize("tracker", ["pgid", "cgroup"])
def test_two_clusters_run_side_by_side_and_leave_nothing(slurm: Cluster, tracker: str) -> None:
    with lent(tracker=tracker, nodes=1) as other:
        jobs = [each.submit("sleep 1000") for each in (slurm, other)]
        for each, job in zip((slurm, other), jobs, strict=True):
            each.await_state(job, "RUNNING")
        until(other.processes, "the job runs")
        inside = other.processes()
    assert not any(map(alive, inside))
    assert not other.directory.exists()
    assert slurm.state(jobs[0]) == "RUNNING"
