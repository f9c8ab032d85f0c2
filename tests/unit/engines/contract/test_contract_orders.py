"""Every engine: an order reaches all processes of its attempt and no others."""

from __future__ import annotations

import pytest
from support.engines import ORDERS, EngineMachine, alive, stopped

from gputui.core.events import Exited

ESCAPES = {
    "child": "sleep 60 & echo $! >escaped; wait $!",
    "other session": "setsid sh -c 'echo $$ >escaped; exec sleep 60' & wait $!",
    "double fork": "(setsid sh -c 'echo $$ >escaped; exec sleep 60' &) ; sleep 60",
    "no environment": "env -i sh -c 'echo $$ >escaped; sleep 60; :' ; true",
    "neither environment nor session": "(env -i setsid sh -c 'echo $$ >escaped; exec sleep 60' &) ; sleep 60",
    "own group": "set -m; sleep 60 & echo $! >escaped; wait $!",
}


@pytest.mark.parametrize(("order", "code"), [("kill", 137), ("terminate", 143)])
@pytest.mark.parametrize("kind", ESCAPES)
def test_an_order_reaches_every_process_of_the_tree(machine: EngineMachine, kind: str, order: str, code: int) -> None:
    machine.start(ESCAPES[kind])
    escaped = machine.pid_in("escaped")
    machine.order(order)
    assert machine.end_of() == Exited(code)
    assert not alive(escaped)


def test_a_job_that_ignores_sigterm_continues_until_it_is_killed(machine: EngineMachine) -> None:
    machine.start("trap '' TERM; echo $$ >ready; while :; do sleep 0.02; done")
    command = machine.pid_in("ready")
    machine.order("terminate")
    seen: list[float] = []
    machine.loop.call_later(0.2, lambda: seen.append(1.0))
    machine.until(lambda: bool(seen))
    assert alive(command)
    machine.order("kill")
    assert machine.end_of() == Exited(137)


@pytest.mark.parametrize("code", [0, 3])
def test_an_end_tells_whether_the_command_was_signalled(machine: EngineMachine, code: int) -> None:
    machine.run(f"exit {code}")
    machine.start(f"trap 'echo saved; exit {code}' TERM; echo $$ >ready; while :; do sleep 0.01; done", job=1)
    machine.pid_in("ready")
    machine.order("terminate", 1)
    assert machine.end_of(1) == Exited(code)
    assert machine.out(1) == "saved\n"
    assert [machine.ends(job)[0].by_itself for job in (0, 1)] == [True, False]


def test_a_job_can_be_suspended_and_continued(machine: EngineMachine) -> None:
    machine.start("echo $$ >shell; sleep 60 & echo $! >child; until [ -e go ]; do sleep 0.01; done; kill $!; exit 6")
    shell, child = machine.pid_in("shell"), machine.pid_in("child")
    machine.order("suspend")
    machine.until(lambda: stopped(shell) and stopped(child))
    (machine.work / "go").touch()
    machine.order("resume")
    assert machine.end_of() == Exited(6)


@pytest.mark.parametrize("order", ["kill", "terminate"])
def test_a_suspended_job_can_be_stopped(machine: EngineMachine, order: str) -> None:
    machine.start("echo $$ >ready; exec sleep 60")
    command = machine.pid_in("ready")
    machine.order("suspend")
    machine.until(lambda: stopped(command))
    machine.order(order)
    assert machine.end_of() in (Exited(137), Exited(143))
    assert not alive(command)


def test_orders_for_attempts_that_are_over_or_unknown_do_nothing(machine: EngineMachine) -> None:
    machine.run("true")
    for order in ORDERS:
        machine.order(order)
        machine.order(order, 7, 3)
    assert len(machine.ends()) == 1


def test_a_kill_spares_other_attempts(machine: EngineMachine) -> None:
    spared = [(1, 1), (0, 11)]
    for job, attempt in [(0, 1), *spared]:
        machine.start(f"echo $$ >pid.{job}.{attempt}; exec sleep 60", job=job, attempt=attempt)
    pids = [machine.pid_in(f"pid.{job}.{attempt}") for job, attempt in spared]
    machine.order("kill")
    machine.end_of()
    assert all(alive(pid) for pid in pids)
    assert not any(machine.has_ended(*key) for key in spared)


def test_an_attempt_killed_many_times_ends_once(machine: EngineMachine) -> None:
    machine.start("echo $$ >ready; exec sleep 60")
    machine.pid_in("ready")
    for _ in range(5):
        machine.order("terminate")
        machine.order("kill")
    machine.end_of()
    settled: list[bool] = []
    machine.loop.call_later(0.3, lambda: settled.append(True))
    machine.until(lambda: bool(settled))
    assert len(machine.ends()) == 1
