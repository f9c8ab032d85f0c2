"""What the user orders happens to the whole tree of an attempt, whenever it is ordered and whatever the tree does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from support.local_machine import Machine, alive

from gputui.core.events import Exited, NeverRan, Outcome, Vanished
from gputui.engines.local import stop_round as rounds
from gputui.engines.local import wrapper
from gputui.process import processes

ESCAPES = {
    "child": "sleep 60 & echo $! >escaped; wait $!",
    "other session": "setsid sh -c 'echo $$ >escaped; exec sleep 60' & wait $!",
    "double fork": "(setsid sh -c 'echo $$ >escaped; exec sleep 60' &) ; sleep 60",
    "no environment": "env -i sh -c 'echo $$ >escaped; sleep 60; :' ; true",
    "neither environment nor session": "(env -i setsid sh -c 'echo $$ >escaped; exec sleep 60' &) ; sleep 60",
    "own group": "set -m; sleep 60 & echo $! >escaped; wait $!",
}


def stopped(pid: int) -> bool:
    stat = processes.stat_of(pid)
    return stat is not None and stat.stopped


def was_continued(child: int) -> bool:
    """As the kernel tells its parent, however soon after the stop it was."""
    return os.waitid(os.P_PID, child, os.WCONTINUED | os.WNOHANG) is not None


@pytest.mark.parametrize("kind", ESCAPES)
def test_a_kill_reaches_every_process_of_the_tree(machine: Machine, kind: str) -> None:
    machine.start(ESCAPES[kind])
    escaped = machine.pid_in("escaped")
    machine.engine.kill(0, 1)
    assert machine.end_of() == Exited(137)
    assert not alive(escaped)
    assert machine.tree() == {}


@pytest.mark.parametrize("kind", ESCAPES)
def test_a_terminate_reaches_every_process_of_the_tree(machine: Machine, kind: str) -> None:
    machine.start(ESCAPES[kind])
    escaped = machine.pid_in("escaped")
    machine.engine.terminate(0, 1)
    assert machine.end_of() == Exited(143)
    assert not alive(escaped)


def test_who_was_met_once_is_found_when_its_parent_and_its_environment_are_gone(machine: Machine) -> None:
    deaf = "trap '' TERM; echo \\$\\$ >escaped; while :; do sleep 0.05; done"
    machine.start(f'env -i setsid sh -c "{deaf}" >/dev/null 2>&1 & sleep 60')
    escaped = machine.pid_in("escaped")
    machine.engine.terminate(0, 1)
    machine.until(lambda: (stat := processes.stat_of(escaped)) is not None and stat.parent != machine.wrapper())
    machine.loop.call_later(0.2, lambda: machine.engine.kill(0, 1))
    assert machine.end_of() == Exited(143)
    assert not alive(escaped)


def test_a_job_that_stopped_its_own_wrapper_ends_with_its_code(machine: Machine) -> None:
    machine.start("kill -STOP $PPID; exit 3")
    assert machine.end_of() == Exited(3)


def test_a_command_that_somebody_stopped_with_its_wrapper_stays_stopped(machine: Machine) -> None:
    machine.start("sleep 60")
    command, shell = machine.command(), machine.wrapper()
    for pid in (command, shell):
        os.kill(pid, signal.SIGSTOP)
    machine.until(lambda: was_continued(shell))
    assert stopped(command)


def test_the_end_after_a_terminate_waits_for_all_of_the_tree(machine: Machine) -> None:
    machine.start("setsid sh -c 'trap \"\" TERM; echo $$ >escaped; while :; do sleep 0.05; done' & sleep 60")
    escaped = machine.pid_in("escaped")
    pid = machine.wrapper()
    machine.engine.terminate(0, 1)
    machine.until(lambda: not alive(pid))
    assert alive(escaped)
    machine.loop.call_later(0.2, lambda: machine.engine.kill(0, 1))
    assert machine.end_of() == Exited(143)
    assert not alive(escaped)


def test_a_job_that_ignores_sigterm_goes_on_until_it_is_killed(machine: Machine) -> None:
    machine.start("trap '' TERM; echo $$ >ready; while :; do sleep 0.02; done")
    command = machine.pid_in("ready")
    machine.engine.terminate(0, 1)
    seen: list[float] = []
    machine.loop.call_later(0.2, lambda: seen.append(1.0))
    machine.until(lambda: bool(seen))
    assert alive(command)
    machine.engine.kill(0, 1)
    assert machine.end_of() == Exited(137)


def test_a_job_may_clean_up_when_terminated(machine: Machine) -> None:
    machine.start("trap 'echo saved; exit 7' TERM; echo $$ >ready; while :; do sleep 0.01; done")
    machine.pid_in("ready")
    machine.engine.terminate(0, 1)
    assert machine.end_of() == Exited(7)
    assert machine.out() == "saved\n"


def test_a_suspended_job_stands_still_and_goes_on(machine: Machine) -> None:
    machine.start("sleep 60 & echo $! >child; until [ -e go ]; do sleep 0.01; done; kill $!; exit 6")
    child = machine.pid_in("child")
    pid = machine.wrapper()
    machine.engine.suspend(0, 1)
    machine.until(lambda: all(stat.stopped for member, stat in machine.tree().items() if member != pid))
    assert stopped(child)
    assert not stopped(pid)
    (machine.work / "go").touch()
    machine.engine.resume(0, 1)
    assert machine.end_of() == Exited(6)


@pytest.mark.parametrize("order", ["kill", "terminate"])
def test_a_suspended_job_can_be_stopped(machine: Machine, order: str) -> None:
    machine.start("sleep 60")
    command = machine.command()
    machine.engine.suspend(0, 1)
    machine.until(lambda: stopped(command))
    getattr(machine.engine, order)(0, 1)
    assert machine.end_of() in (Exited(137), Exited(143))
    assert not alive(command)


def test_a_suspended_job_killed_from_outside_is_seen(machine: Machine) -> None:
    machine.start("sleep 60")
    command = machine.command()
    machine.engine.suspend(0, 1)
    machine.until(lambda: stopped(command))
    os.kill(command, signal.SIGKILL)
    assert machine.end_of() == Exited(137)


def test_a_job_stopped_from_outside_with_its_wrapper_can_be_killed(machine: Machine) -> None:
    machine.start("sleep 60")
    machine.command()
    os.killpg(machine.wrapper(), signal.SIGSTOP)
    machine.engine.kill(0, 1)
    assert machine.end_of() == Exited(137)


def held_wrapper(machine: Machine, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """The wrapper comes no further than this line for a while; it waits by itself, since it has no child yet."""
    gate = machine.folder / "gate"
    text = wrapper.TEXT.replace(before, f"until [ -e '{gate}' ]; do :; done\n{before}", 1)
    assert text != wrapper.TEXT
    monkeypatch.setattr(wrapper, "TEXT", text)
    machine.loop.call_later(0.15, gate.touch)


@pytest.mark.parametrize("before", ["trap :", "set -C", 'if cd -- "', '    "$@"'])
@pytest.mark.parametrize("order", ["kill", "terminate"])
def test_an_order_right_after_the_start_is_carried_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, before: str, order: str
) -> None:
    held_wrapper(machine, monkeypatch, before)
    machine.start("sleep 60")
    getattr(machine.engine, order)(0, 1)
    outcome: Outcome = machine.end_of()
    assert isinstance(outcome, NeverRan | Vanished) or outcome in (Exited(137), Exited(143))
    assert machine.tree() == {}


def test_a_suspend_right_after_the_start_is_carried_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    held_wrapper(machine, monkeypatch, "set -C")
    machine.start("sleep 60")
    machine.engine.suspend(0, 1)
    pid = machine.wrapper()
    machine.until(lambda: any(stat.stopped for member, stat in machine.tree().items() if member != pid))


def test_a_fork_storm_loses(machine: Machine) -> None:
    storm = "while :; do setsid sleep 60 & done"
    machine.start(f"for i in 1 2 3; do ({storm}) & setsid bash -c '{storm}' & done; echo $$ >ready; {storm}")
    machine.pid_in("ready")
    machine.until(lambda: len(machine.tree()) > 40)
    machine.engine.kill(0, 1)
    assert isinstance(machine.end_of(), Exited)
    assert machine.tree() == {}


def test_orders_for_attempts_that_are_over_or_unknown_do_nothing(machine: Machine) -> None:
    machine.run("true")
    orders: list[Callable[[int, int], None]] = [
        machine.engine.terminate,
        machine.engine.kill,
        machine.engine.suspend,
        machine.engine.resume,
    ]
    for order in orders:
        order(0, 1)
        order(7, 3)
    assert len(machine.ends()) == 1


def test_a_kill_spares_other_attempts(machine: Machine) -> None:
    for job in range(2):
        machine.start("sleep 60", job=job)
    machine.start("sleep 60", job=0, attempt=11)
    spared = [machine.wrapper(1), machine.wrapper(0, 11)]
    machine.engine.kill(0, 1)
    machine.end_of(0)
    assert all(alive(pid) for pid in spared)
    assert alive(machine.command(1))
    assert alive(machine.command(0, 11))


def test_an_attempt_killed_many_times_ends_once(machine: Machine) -> None:
    machine.start("sleep 60")
    machine.wrapper()
    for _ in range(5):
        machine.engine.terminate(0, 1)
        machine.engine.kill(0, 1)
    machine.end_of()
    settled: list[bool] = []
    machine.loop.call_later(0.3, lambda: settled.append(True))
    machine.until(lambda: bool(settled))
    assert len(machine.ends()) == 1


def test_trees_are_never_searched_in_the_owners_thread(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[threading.Thread] = set()
    search = processes.tree

    def noting(*arguments: object) -> processes.Members:
        threads.add(threading.current_thread())
        return search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rounds, "tree", noting)
    machine.start("sleep 60")
    machine.wrapper()
    for order in (machine.engine.suspend, machine.engine.resume, machine.engine.terminate):
        order(0, 1)
    machine.end_of()
    assert threads
    assert threading.current_thread() not in threads


def test_a_kill_takes_no_time_of_the_owner(machine: Machine) -> None:
    machine.start("sleep 60")
    machine.wrapper()
    before = time.thread_time()
    machine.engine.kill(0, 1)
    assert time.thread_time() - before < 0.005
    machine.end_of()
