"""Running jobs whose node, place or GPUs Slurm takes away: only jobs that were seen to end are retried."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import SlurmMachine
from support.slurm import SCAVENGE, URGENT, Cluster
from support.waiting import until

from gputui.core.events import Exited, NodeFailed, Outcome, Remark, Vanished
from gputui.core.slots import NodeState
from gputui.engines.claims import BatchStarted, Claims
from gputui.engines.protocol import ClusterOptions
from gputui.engines.slurm import engine as slurm_engine
from gputui.engines.slurm.ends import judge_without_record
from gputui.engines.slurm.parse import SlurmEnd, SlurmNode
from gputui.process import processes

FOREVER = "echo $$ >ready; exec sleep 600"
SAVES = "trap 'echo saved; exit 0' TERM; echo $$ >ready; while :; do sleep 0.1; done"
"""As trainings do that are told to end: they save, and call it a success."""


@pytest.fixture
def machine(slurm: Cluster, tmp_path: Path) -> Iterator[SlurmMachine]:
    machine = SlurmMachine(tmp_path)
    yield machine
    machine.clear_away()


def begun(machine: SlurmMachine) -> BatchStarted:
    claim = Claims(str(machine.directory / "claims")).read_file(0, 1).begun
    assert claim is not None
    return claim


def words(outcome: Outcome) -> str:
    assert isinstance(outcome, NodeFailed | Vanished), outcome
    return outcome.why


def slurm_says(slurm: Cluster, number: int) -> str:
    return slurm.ask("scontrol", "-o", "show", "job", str(number))


def step_daemon(machine: SlurmMachine) -> int:
    supervisor = processes.stat_of(int((machine.directory / "claims/0.1").read_text().split()[3]))
    assert supervisor is not None
    return supervisor.parent


@pytest.mark.parametrize("command", [FOREVER, SAVES])
def test_a_preempted_job_has_not_succeeded(machine: SlurmMachine, slurm: Cluster, command: str) -> None:
    machine.start(command)
    machine.pid_in("ready")
    slurm.fill(URGENT)
    assert "preempted" in words(machine.end_of())
    assert isinstance(machine.end_of(), NodeFailed)


def requeue(machine: SlurmMachine, slurm: Cluster, how: str = "requeue") -> None:
    """As the admin may, who can lift what the user said at submission."""
    number = str(begun(machine).slurm_job)
    slurm.ask("scontrol", "update", f"job={number}", "Requeue=1")
    slurm.ask("scontrol", how, number)


@pytest.mark.parametrize("how", ["requeue", "requeuehold"])
def test_a_job_requeued_in_slurm_is_canceled_there_before_its_end_is_reported(
    machine: SlurmMachine, slurm: Cluster, how: str
) -> None:
    machine.start("echo ran >>runs; exec sleep 600")
    machine.until((machine.work / "runs").exists)
    requeue(machine, slurm, how)
    outcome = machine.end_of()
    assert isinstance(outcome, NodeFailed)
    assert "requeued in Slurm by the admin or by Slurm itself, then canceled there" in outcome.why
    assert "JobState=CANCELLED" in slurm_says(slurm, begun(machine).slurm_job)
    assert (machine.work / "runs").read_text() == "ran\n"


def test_the_next_owner_cancels_a_job_requeued_in_slurm_too(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start(FOREVER, cluster_options=ClusterOptions(partition=SCAVENGE))
    machine.pid_in("ready")
    machine.engine.close()
    requeue(machine, slurm)
    machine.next_owner()
    machine.recover()
    assert "requeued in Slurm by the admin or by Slurm itself, then canceled there" in words(machine.end_of())
    assert "JobState=CANCELLED" in slurm_says(slurm, begun(machine).slurm_job)


def test_a_requeued_job_without_an_exit_record_has_ended_only_if_its_node_is_known() -> None:
    end = SlurmEnd(id="7", state="CANCELLED", code=0, signal=15)
    node = SlurmNode(name="n1", state=NodeState.UP, said="IDLE")
    assert isinstance(judge_without_record(end, "n1", node, requeued=True).outcome, NodeFailed)
    assert isinstance(judge_without_record(end, "n1", None, requeued=True).outcome, Vanished)


def test_a_responding_node_that_is_set_down_ends_the_job(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start(FOREVER)
    command, node = machine.pid_in("ready"), begun(machine).node
    slurm.ask("scontrol", "update", f"node={node}", "state=down", "reason=broken fan")
    outcome = machine.end_of()
    assert isinstance(outcome, NodeFailed)
    assert f"node {node} failed or was closed" in outcome.why
    assert not os.path.exists(f"/proc/{command}")


def test_a_job_on_a_node_that_is_only_marked_down_is_lost(
    machine: SlurmMachine, slurm: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_engine, "NODE_PATIENCE", 3.0)
    machine.start(FOREVER)
    command, node = machine.pid_in("ready"), begun(machine).node
    slurm.kill_node(node)
    slurm.ask("scontrol", "update", f"node={node}", "state=down", "reason=no answer")
    outcome = machine.end_of()
    assert isinstance(outcome, Vanished)
    assert f"node {node} failed (Slurm: NODE_FAIL); it may still run there" in outcome.why
    remarks = [report.text for report in machine.reports if isinstance(report, Remark)]
    assert any(f"node {node} failed (Slurm: NODE_FAIL): lost unless it is back by" in text for text in remarks)
    assert os.path.exists(f"/proc/{command}")


def test_a_restarted_node_has_ended_its_jobs(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start(FOREVER)
    machine.pid_in("ready")
    node = begun(machine).node
    slurm.kill_node(node)
    os.kill(step_daemon(machine), signal.SIGKILL)  # which would tell, as on no machine that is gone
    machine.kill_everything()
    until(lambda: time.time() > begun(machine).started + 7, "a later second than Slurm may confuse it with")
    slurm.ask("scontrol", "update", f"node={node}", "state=down", "reason=no answer")
    slurm.start_node(node, rebooted=True)
    outcome = machine.end_of()
    assert isinstance(outcome, NodeFailed)
    assert f"node {node} failed" in outcome.why
    assert "and has restarted: nothing runs there" in outcome.why


def test_nothing_is_decided_about_an_end_while_slurm_does_not_answer(
    machine: SlurmMachine, slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's exit code alone would make it a failure of the job."""
    monkeypatch.setattr(slurm_engine, "WORD_PATIENCE", 0.5)
    silent, asked = tmp_path / "silent", tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin/scontrol"
    real = shutil.which("scontrol", path=slurm.environment["PATH"])
    scontrol.write_text(
        f'#!/bin/sh\n[ -e {silent} ] || exec {real} "$@"\n'
        f"echo x >>{asked}; echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1\n"
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{slurm.environment['PATH']}")
    machine.start(FOREVER)
    machine.pid_in("ready")
    machine.engine.close()
    silent.touch()
    slurm.ask(str(real), "update", f"node={begun(machine).node}", "state=down", "reason=broken fan")
    machine.next_owner()
    machine.recover()
    machine.until(lambda: asked.exists() and len(asked.read_text().split()) > 2)
    assert machine.ends() == []
    silent.unlink()
    assert isinstance(machine.end_of(), NodeFailed)


def test_a_job_terminated_in_slurm_by_its_user_keeps_its_exit_code(machine: SlurmMachine, slurm: Cluster) -> None:
    machine.start(SAVES)
    machine.pid_in("ready")
    slurm.ask("scancel", "--batch", "-s", "TERM", str(begun(machine).slurm_job))
    assert machine.end_of() == Exited(0)
