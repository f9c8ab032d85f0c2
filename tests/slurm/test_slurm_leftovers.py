"""Withdrawn jobs leave Slurm's queue, even if their owner exits at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.app import staged
from support.engines import SlurmMachine
from support.sessions import GPUTUI, Home
from support.slurm import Cluster
from support.waiting import until

from gputui.core.events import Exited, NeverRan, Submitted
from gputui.core.job import StateName
from gputui.core.slots import DeviceKind, Slot
from gputui.engines.claims import MARK
from gputui.engines.slurm import engine as slurm_engine


@pytest.fixture
def full(slurm: Cluster) -> Cluster:
    """A cluster whose GPUs are others'."""
    for node in ("n1", "n2", "n3"):
        slurm.await_state(slurm.submit("sleep 1000", "-w", node, "--exclusive", "--gres=gpu:4"), "RUNNING")
    return slurm


@pytest.fixture
def home(full: Cluster, tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()


def ours(cluster: Cluster) -> list[str]:
    return [line for line in cluster.ask("squeue", "-h", "-o", "%j %T").splitlines() if line.startswith("gputui-")]


@pytest.fixture
def pending(home: Home, full: Cluster) -> Iterator[Home]:
    """A session whose only job stands in the full cluster's queue."""
    jobs = home.directory / "j.txt"
    jobs.write_text("echo x >>cnt\n")
    run = home.start(jobs, gpus="slurm:2")
    until(lambda: any("PENDING" in line for line in ours(full)), "the job is in Slurm's queue")
    yield home
    run.kill()
    run.communicate()


def told(home: Home, subcommand: str) -> subprocess.CompletedProcess[str]:
    words = [*GPUTUI, subcommand, "--session", str(home.root)]
    return subprocess.run(words, cwd=home.directory, capture_output=True, text=True, check=False)


def test_stop_empties_slurms_queue(pending: Home, full: Cluster) -> None:
    done = told(pending, "stop")
    assert "stopped, nothing left running" in done.stdout
    assert ours(full) == []


def test_stop_names_the_jobs_that_slurm_may_still_have(pending: Home, full: Cluster) -> None:
    full.kill_controller(signal.SIGTERM)
    done = told(pending, "stop")
    assert "stopped, nothing left running; 1 job waiting" in done.stdout
    assert "Slurm did not answer: #0 may still be in its queue." in done.stderr
    assert done.returncode == 1


def test_pause_withdraws_jobs_that_have_not_started(pending: Home, full: Cluster) -> None:
    done = told(pending, "pause")
    assert "paused: nothing running, 1 job waiting" in done.stdout + done.stderr
    until(lambda: ours(full) == [], "Slurm's queue is empty")


SLURM_SLOTS = tuple(Slot(number, (), DeviceKind.SLURM) for number in range(2))


def test_keys_on_a_submitted_job_withdraw_it_from_slurms_queue(full: Cluster, tmp_path: Path) -> None:
    async def history() -> None:
        async with staged(tmp_path, slots=SLURM_SLOTS, size=(140, 40)) as stage:
            [job, other] = await stage.add("touch ran", "touch ran")
            await stage.until(lambda: len(ours(full)) == 2, "both are in Slurm's queue")
            await stage.go_to(job)
            for key in ("K", "B"):
                await stage.press(key)
                await stage.shows("Slurm's queue")
                assert "SIGTERM" not in stage.text
                assert "grace" not in stage.text
                await stage.press("escape")
            await stage.press("h")
            await stage.told("held #0, and taken back from Slurm")
            await stage.becomes(job, StateName.HELD)
            await stage.until(lambda: len(ours(full)) == 1, "only the other is left in Slurm's queue")
            await stage.go_to(other)
            await stage.press("K", "y")
            await stage.becomes(other, StateName.KILLED)

    asyncio.run(history())
    until(lambda: ours(full) == [], "Slurm's queue is empty")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def machine(full: Cluster, tmp_path: Path) -> Iterator[SlurmMachine]:
    machine = SlurmMachine(tmp_path)
    yield machine
    machine.clear_away()


def test_the_next_owner_cancels_what_the_last_one_withdrew(machine: SlurmMachine, full: Cluster) -> None:
    machine.engine.start([machine.launch("touch ran")])
    machine.until(lambda: any(isinstance(told, Submitted) and told.slurm_job for told in machine.reports))
    full.kill_controller(signal.SIGTERM)  # which keeps what it knows
    machine.order("withdraw")
    assert machine.end_of() == NeverRan()
    machine.engine.close()
    full.start_controller()
    until(full.listening, "the controller is back")
    assert len(ours(full)) == 1
    mark = machine.directory / MARK
    assert mark.exists()
    machine.engine = machine.make_engine()
    machine.engine.recover([])
    machine.until(lambda: not mark.exists())
    assert ours(full) == []
    assert not os.path.exists(machine.directory / "ran")


@pytest.mark.parametrize("next_owner", [False, True])
def test_an_ended_job_that_a_crashed_controller_lists_as_running_gives_its_gpus_back(
    slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_owner: bool
) -> None:
    monkeypatch.setattr(slurm_engine, "RUNS_ON_AFTER", 1.0)
    machine = SlurmMachine(tmp_path)
    machine.start("until [ -e go ]; do sleep 0.1; done")
    slurm.kill_controller(signal.SIGTERM)  # which saves what it knows
    saved = shutil.copytree(slurm.directory / "state", tmp_path / "saved")
    slurm.start_controller()
    until(slurm.listening, "the controller is back")
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(0)
    if next_owner:
        machine.engine.close()
        machine.claims.remove(0, 1)  # as is done when the end is stored
    until(lambda: ours(slurm) == [], "Slurm knows of the end")
    slurm.kill_controller()
    shutil.copytree(saved, slurm.directory / "state", dirs_exist_ok=True)
    slurm.start_controller()
    until(slurm.listening, "the controller is back")
    assert [line.split()[1] for line in ours(slurm)] == ["RUNNING"]
    if next_owner:
        machine.engine = machine.make_engine()
        machine.engine.recover([])
    machine.until(lambda: ours(slurm) == [])
    assert "JobState=CANCELLED" in slurm.ask("scontrol", "show", "job")
    machine.clear_away()
