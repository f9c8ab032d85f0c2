"""Ends and waiting reasons of jobs in Slurm."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import SlurmMachine
from support.slurm import Cluster
from support.waiting import until

from gputui.core.events import EngineTrouble, Exited, NeverRan, NodesSeen, Submitted
from gputui.core.job import CrashKind
from gputui.core.slots import NodeSize
from gputui.engines.claims import BatchStarted, Revoked
from gputui.engines.slurm.engine import BatchAttempt
from gputui.engines.slurm.parse import SlurmJob

FOREVER = "echo $$ >ready; exec sleep 600"


@pytest.fixture
def machine(slurm: Cluster, tmp_path: Path) -> Iterator[SlurmMachine]:
    machine = SlurmMachine(tmp_path)
    yield machine
    machine.clear_away()


def number_of(machine: SlurmMachine, job: int = 0) -> str:
    claim = machine.claims.read(job, 1)
    assert isinstance(claim, BatchStarted)
    return str(claim.slurm_job)


def waiting(machine: SlurmMachine) -> list[str]:
    return [report.why for report in machine.reports if isinstance(report, Submitted)]


def test_every_end_of_a_job_that_waited_in_slurm_is_recognized(machine: SlurmMachine, slurm: Cluster) -> None:
    """Slurm's last answer before a begin says that the job waits; that must not be read as a return to its queue."""
    signals = {3: "SEGV", 4: "ABRT", 5: "KILL"}
    cancelled, limited = 6, 7
    commands = {job: f"sleep 0.5; kill -{name} $$" for job, name in signals.items()}
    # Programs that save and exit with 0 when told to stop: not a success.
    commands |= {cancelled: "exec sleep 600", limited: "trap 'exit 0' TERM; while :; do sleep 0.1; done"}
    until_go = "until [ -e go ]; do sleep 0.1; done"
    machine.engine.start([machine.launch(until_go, job=job, gpus=4) for job in range(3)])
    machine.until(lambda: len(machine.spawned()) == 3)
    machine.engine.start([machine.launch(command, job=job, gpus=1) for job, command in commands.items()])
    machine.until(lambda: commands.keys() <= _seen_waiting(machine))
    (machine.work / "go").touch()
    machine.until(lambda: commands.keys() <= {report.job for report in machine.spawned()})
    slurm.ask("scancel", number_of(machine, cancelled))
    slurm.ask("scontrol", "update", f"job={number_of(machine, limited)}", "TimeLimit=1")
    slurm.ask("scontrol", "update", f"job={number_of(machine, limited)}", "EndTime=now")
    machine.until(lambda: all(machine.has_ended(job) for job in commands))
    for job, name in signals.items():
        assert machine.end_of(job) == Exited(128 + signal.Signals[f"SIG{name}"])
    assert machine.end_of(cancelled) == machine.end_of(limited) == Exited(128 + signal.SIGTERM)
    assert machine.ends(cancelled)[0].signature == "canceled in Slurm, not by gputui"
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
    assert attempt.see_begin(BatchStarted(slurm_job=7, node="n1", started=0.0, gpus=()))
    assert not attempt.over
    attempt.see_row(waiting, asked_at=before)
    assert not attempt.over
    attempt.over_since = before
    attempt.see_row(running, asked_at=time.monotonic())
    assert attempt.over_since is None, "the patience for a missing record starts at the end"
    attempt.see_row(waiting, asked_at=time.monotonic())
    assert attempt.put_back
    assert attempt.over


def test_a_job_waiting_in_slurm_shows_why_and_can_be_withdrawn(machine: SlurmMachine) -> None:
    machine.engine.start([machine.launch("touch ran", gpus=1, timeout=None)])
    held = machine.launch("touch ran", job=1, gpus=4)
    machine.engine.start([machine.launch(FOREVER, job=job, gpus=4) for job in (2, 3, 4)])
    machine.engine.start([held])
    machine.until(lambda: any("Resources" in why or "Priority" in why for why in waiting(machine)))
    machine.order("withdraw", 1)
    assert machine.end_of(1) == NeverRan()
    assert isinstance(machine.claims.read(1, 1), Revoked)


def test_the_largest_node_is_reported(machine: SlurmMachine) -> None:
    machine.run("true")
    machine.until(lambda: any(isinstance(report, NodesSeen) for report in machine.reports))
    assert NodesSeen(NodeSize("n1", 4)) in machine.reports


def test_a_controller_outage_is_reported_and_no_job_is_lost(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start("echo $$ >ready; until [ -e go ]; do sleep 0.05; done; exit 5")
    slurm.kill_controller()
    machine.until(lambda: _troubles(machine) != [])
    assert "since" in _troubles(machine)[0]
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(5)
    slurm.start_controller()
    until(slurm.listening, "the controller answers")
    machine.until(lambda: _troubles(machine)[-1] == "")


def _troubles(machine: SlurmMachine) -> list[str]:
    return [report.why for report in machine.reports if isinstance(report, EngineTrouble)]
