"""Every engine: the next owner takes over, and no attempt runs twice."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import engine_victim
from support.engines import EngineMachine

from gputui.core.events import Exited, NeverRan
from gputui.core.job import Purpose
from gputui.core.steps import Step

GATED = "echo begun >begun; until [ -e go ]; do sleep 0.01; done; exit 42"


def begin_gated(machine: EngineMachine) -> None:
    """A job that waits for `go`, and has begun."""
    machine.start(GATED)
    machine.until((machine.work / "begun").exists)


def killed_at(machine: EngineMachine, step: Step, act: str) -> None:
    """An owner of the same session kills itself with SIGKILL at this step."""
    kind = type(machine)
    words = [kind.__module__, kind.__qualname__, str(machine.directory), machine.session, str(step), act]
    assert subprocess.run([sys.executable, engine_victim.__file__, *words], check=False).returncode == -9


def times_run(machine: EngineMachine) -> int:
    ran = machine.work / "ran"
    return len(ran.read_text().splitlines()) if ran.exists() else 0


@pytest.mark.parametrize("step", [Step.SPAWNED, Step.WATCHED, Step.END_SEEN])
def test_an_attempt_whose_owner_is_killed_at_a_step_runs_at_most_once_and_its_end_is_true(
    machine: EngineMachine, step: Step
) -> None:
    command = "echo ran >>ran; exit 5"
    killed_at(machine, step, command)
    machine.recover()
    outcome = machine.end_of()
    assert (outcome, times_run(machine)) in [(Exited(5), 1), (NeverRan(), 0)]
    machine.next_owner()
    machine.run(command)
    assert times_run(machine) <= 1


def test_an_attempt_whose_owner_is_killed_as_it_revokes_it_never_runs(machine: EngineMachine) -> None:
    killed_at(machine, Step.REVOKED, "recover")
    machine.recover()
    assert machine.end_of() == NeverRan()
    machine.next_owner()
    machine.run("echo ran >>ran")
    assert times_run(machine) == 0


def test_a_running_attempt_of_a_killed_owner_is_adopted_and_its_end_seen(machine: EngineMachine) -> None:
    killed_at(machine, Step.WATCHED, GATED)
    machine.until((machine.work / "begun").exists)
    machine.recover()
    machine.until(lambda: bool(machine.spawned()))
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(42)


def test_an_adopted_attempt_can_be_killed(machine: EngineMachine) -> None:
    begin_gated(machine)
    machine.next_owner()
    machine.recover()
    machine.order("kill")
    assert machine.end_of() == Exited(137)


def test_an_attempt_that_was_never_started_is_revoked_and_never_runs(machine: EngineMachine) -> None:
    machine.recover()
    assert machine.end_of() == NeverRan()
    machine.engine.forget(0, 1)
    machine.next_owner()
    machine.start("touch ran")
    assert machine.end_of() == NeverRan()
    assert not (machine.work / "ran").exists()


@pytest.mark.parametrize("purpose", [Purpose.KILL, Purpose.REQUEUE])
def test_an_order_that_was_not_stored_is_reported_with_the_adopted_attempt(
    machine: EngineMachine, purpose: Purpose
) -> None:
    begin_gated(machine)
    machine.engine.write_down(0, 1, purpose)
    machine.next_owner()
    machine.recover()
    machine.until(lambda: bool(machine.spawned()))
    assert [spawned.requested for spawned in machine.spawned()] == [purpose]
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(42)


def test_a_job_that_ended_between_two_owners_keeps_its_exit_code_and_its_last_order(machine: EngineMachine) -> None:
    begin_gated(machine)
    machine.engine.write_down(0, 1, Purpose.REQUEUE)
    machine.engine.write_down(0, 1, Purpose.KILL)
    machine.next_owner()
    (machine.work / "go").touch()
    machine.await_unwatched_end()
    machine.recover()
    assert machine.end_of() == Exited(42)
    assert machine.ends()[0].requested is Purpose.KILL
