"""The cluster that Slurm's tests work with is a real one: it gives GPUs, keeps exit codes, and is gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sessions import alive
from support.slurm_cluster import Cluster, lent
from support.waiting import until


def test_a_job_is_given_gpus_of_its_own(slurm: Cluster, tmp_path: Path) -> None:
    job = slurm.submit("echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS; exit 3", "--gres=gpu:2", "-o", f"{tmp_path}/out")
    slurm.await_state(job, "FAILED")
    assert (tmp_path / "out").read_text() == "0,1 0,1\n"
    assert " ExitCode=3:0 " in slurm.ask("scontrol", "-o", "show", "job", job)


def test_a_controller_that_is_killed_comes_back_with_its_jobs(slurm: Cluster) -> None:
    job = slurm.submit("sleep 1000")
    slurm.await_state(job, "RUNNING")
    slurm.kill_controller(15)
    slurm.start_controller()
    until(slurm.listening, "the controller answers")
    assert slurm.state(job) == "RUNNING"


def test_a_node_that_the_admin_takes_out_is_closed_with_a_reason(slurm: Cluster) -> None:
    slurm.ask("scontrol", "update", "node=n3", "state=drain", "reason=fan replacement")
    assert "Reason=fan replacement" in slurm.ask("scontrol", "-o", "show", "node", "n3")


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
def test_two_clusters_stand_side_by_side_and_leave_nothing(slurm: Cluster, tracker: str) -> None:
    with lent(tracker=tracker, nodes=1) as other:
        jobs = [each.submit("sleep 1000") for each in (slurm, other)]
        for each, job in zip((slurm, other), jobs, strict=True):
            each.await_state(job, "RUNNING")
        until(other.processes, "the job runs")
        inside = other.processes()
    assert not any(map(alive, inside))
    assert not other.folder.exists()
    assert slurm.state(jobs[0]) == "RUNNING"
