"""What Slurm does to a job is named in its end, and what it waits for is said."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slurm_cluster import Cluster
from support.slurm_machine import SlurmMachine
from support.waiting import until

from gputui.core.events import EngineTrouble, Exited, NeverRan, NodesSeen, NotStarted, Submitted
from gputui.core.job import CrashKind
from gputui.core.lanes import NodeSize
from gputui.engines.claims import BatchBegun, Revoked
from gputui.engines.slurm.attempt import BatchAttempt
from gputui.engines.slurm.parse import SlurmJob

FOREVER = "echo $$ >ready; exec sleep 600"


@pytest.fixture
def machine(slurm: Cluster, tmp_path: Path) -> Iterator[SlurmMachine]:
    machine = SlurmMachine(tmp_path)
    yield machine
    machine.clear_away()


def number_of(machine: SlurmMachine, job: int = 0) -> str:
    claim = machine.claims.read(job, 1)
    assert isinstance(claim, BatchBegun)
    return str(claim.slurm_job)


def waiting(machine: SlurmMachine) -> list[str]:
    return [report.why for report in machine.reports if isinstance(report, Submitted)]


def test_where_and_when_it_began_is_told(machine: SlurmMachine) -> None:
    machine.start(FOREVER, gpus=2)
    [spawned] = machine.spawned()
    assert spawned.pid is None
    assert spawned.gpus is not None
    assert len(spawned.gpus) == 2
    assert spawned.slurm_job == int(number_of(machine))


def test_a_job_that_others_cancel_says_so(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start(FOREVER)
    machine.pid_in("ready")
    with slurm.patience():
        slurm.ask("scancel", number_of(machine))
        machine.until(machine.has_ended)
    assert machine.end_of() == Exited(128 + signal.SIGTERM)
    assert machine.ends()[0].signature == "it was cancelled in Slurm, not by gputui"


def test_every_end_of_a_job_that_waited_in_slurm_is_told_as_it_was(machine: SlurmMachine, slurm: Cluster) -> None:
    """Slurm's last answer before a begin says that the job waits; that must not be read as a return to its queue."""
    signals = {3: "SEGV", 4: "ABRT", 5: "KILL"}
    cancelled, limited = 6, 7
    commands = {job: f"sleep 0.5; kill -{name} $$" for job, name in signals.items()}
    commands |= {cancelled: "exec sleep 600", limited: "exec sleep 600"}
    until_go = "until [ -e go ]; do sleep 0.1; done"
    machine.engine.start([machine.launch(until_go, job=job, gpus=4) for job in range(3)])
    machine.until(lambda: len(machine.spawned()) == 3)
    machine.engine.start([machine.launch(command, job=job, gpus=1) for job, command in commands.items()])
    machine.until(lambda: commands.keys() <= _seen_waiting(machine))
    (machine.work / "go").touch()
    machine.until(lambda: commands.keys() <= {report.job for report in machine.spawned()})
    with slurm.patience():
        slurm.ask("scancel", number_of(machine, cancelled))
        slurm.ask("scontrol", "update", f"job={number_of(machine, limited)}", "TimeLimit=1")
        slurm.ask("scontrol", "update", f"job={number_of(machine, limited)}", "EndTime=now")
        machine.until(lambda: all(machine.has_ended(job) for job in commands), seconds=120)
    for job, name in signals.items():
        assert machine.end_of(job) == Exited(128 + signal.Signals[f"SIG{name}"])
    assert machine.end_of(cancelled) == machine.end_of(limited) == Exited(128 + signal.SIGTERM)
    assert machine.ends(cancelled)[0].signature == "it was cancelled in Slurm, not by gputui"
    assert machine.ends(limited)[0].kind is CrashKind.TIME_LIMIT


def _seen_waiting(machine: SlurmMachine) -> set[int]:
    """Jobs that Slurm itself has listed as waiting."""
    said = (report for report in machine.reports if isinstance(report, Submitted))
    return {report.job for report in said if "(Resources)" in report.why or "(Priority)" in report.why}


def test_only_an_answer_asked_for_after_the_begin_can_say_that_a_job_waits_again() -> None:
    attempt = BatchAttempt((0, 1), "token")
    waiting, running = SlurmJob(id="7", state="PENDING"), SlurmJob(id="7", state="RUNNING")
    attempt.see_row(waiting, asked_at=time.monotonic())
    before = time.monotonic()
    assert attempt.see_begin(BatchBegun(slurm_job=7, node="n1", started=0.0, gpus=()))
    assert not attempt.over
    attempt.see_row(waiting, asked_at=before)
    assert not attempt.over
    attempt.over_since = before
    attempt.see_row(running, asked_at=time.monotonic())
    assert attempt.over_since is None, "the patience for a missing record starts at the end"
    attempt.see_row(waiting, asked_at=time.monotonic())
    assert attempt.put_back
    assert attempt.over


def test_what_it_waits_for_is_said_and_what_has_not_begun_can_be_taken_back(machine: SlurmMachine) -> None:
    machine.engine.start([machine.launch("touch ran", gpus=1, timeout=None)])
    held = machine.launch("touch ran", job=1, gpus=4)
    machine.engine.start([machine.launch(FOREVER, job=job, gpus=4) for job in (2, 3, 4)])
    machine.engine.start([held])
    machine.until(lambda: any("Resources" in why or "Priority" in why for why in waiting(machine)))
    machine.engine.withdraw(1, 1)
    assert machine.end_of(1) == NeverRan()
    assert isinstance(machine.claims.read(1, 1), Revoked)


def test_a_partition_that_is_not_there_refuses_the_job(machine: SlurmMachine) -> None:
    from gputui.engines.protocol import ClusterWishes

    outcome = machine.run("true", wishes=ClusterWishes(partition="nowhere"))
    assert isinstance(outcome, NotStarted)
    assert "no partition" in outcome.why


def test_the_largest_node_is_told(machine: SlurmMachine) -> None:
    machine.run("true")
    machine.until(lambda: any(isinstance(report, NodesSeen) for report in machine.reports))
    assert NodesSeen(NodeSize("n1", 4)) in machine.reports


def test_a_controller_that_is_down_is_told_with_the_time_and_costs_nothing(
    machine: SlurmMachine, slurm: Cluster
) -> None:
    machine.start("echo $$ >ready; until [ -e go ]; do sleep 0.05; done; exit 5")
    slurm.kill_controller()
    machine.until(lambda: _troubles(machine) != [], seconds=60)
    assert "since" in _troubles(machine)[0]
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(5)
    slurm.start_controller()
    until(slurm.listening, "the controller answers")
    machine.until(lambda: _troubles(machine)[-1] == "", seconds=60)


def _troubles(machine: SlurmMachine) -> list[str]:
    return [report.why for report in machine.reports if isinstance(report, EngineTrouble)]
