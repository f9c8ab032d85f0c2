"""Orders to local attempts, at any time and whatever their processes do."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from support.engines import Machine, alive, stopped
from support.waiting import until

from gputui.core.events import AttemptEnded, Exited, KillTree, NeverRan, Outcome, Vanished
from gputui.engines.local import spawn as wrapper
from gputui.engines.local import stop as rounds
from gputui.process import processes


def was_continued(child: int) -> bool:
    """As the kernel tells its parent, however soon after the stop it was."""
    return os.waitid(os.P_PID, child, os.WCONTINUED | os.WNOHANG) is not None


def ended_by_itself(machine: Machine) -> bool:
    [end] = [report for report in machine.reports if isinstance(report, AttemptEnded)]
    return end.by_itself


def test_a_process_seen_once_is_found_after_its_parent_and_environment_are_gone(machine: Machine) -> None:
    deaf = "trap '' TERM; echo \\$\\$ >escaped; while :; do sleep 0.05; done"
    machine.start(f'env -i setsid sh -c "{deaf}" >/dev/null 2>&1 & sleep 60')
    escaped = machine.pid_in("escaped")
    machine.order("terminate")
    machine.until(lambda: (stat := processes.stat_of(escaped)) is not None and stat.parent != machine.wrapper())
    machine.loop.call_later(0.2, lambda: machine.order("kill"))
    assert machine.end_of() == Exited(143)
    assert not alive(escaped)


def test_parents_hear_of_an_order_before_their_children(machine: Machine) -> None:
    machine.start("for i in 1 2 3 4 5 6 7 8; do (sleep 60; :) & done; wait")
    machine.until(lambda: len(machine.tree()) == 18)
    members = machine.tree()
    order = list(members)
    children = ((pid, stat.parent) for pid, stat in members.items() if stat.parent in members)
    assert all(order.index(parent) < order.index(pid) for pid, parent in children)


def test_a_job_that_stopped_its_own_wrapper_ends_with_its_code(machine: Machine) -> None:
    machine.start("kill -STOP $PPID; exit 3")
    assert machine.end_of() == Exited(3)


def test_a_command_stopped_from_outside_with_its_wrapper_stays_stopped(machine: Machine) -> None:
    machine.start("sleep 60")
    command, shell = machine.command(), machine.wrapper()
    for pid in (command, shell):
        os.kill(pid, signal.SIGSTOP)
    machine.until(lambda: was_continued(shell))
    assert stopped(command)


def test_a_suspended_job_killed_from_outside_is_seen(machine: Machine) -> None:
    machine.start("sleep 60")
    command = machine.command()
    machine.order("suspend")
    machine.until(lambda: stopped(command))
    os.kill(command, signal.SIGKILL)
    assert machine.end_of() == Exited(137)


def test_a_job_stopped_from_outside_with_its_wrapper_can_be_killed(machine: Machine) -> None:
    machine.start("sleep 60")
    machine.command()
    os.killpg(machine.wrapper(), signal.SIGSTOP)
    machine.order("kill")
    assert machine.end_of() == Exited(137)


def held_wrapper(machine: Machine, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """The wrapper comes no further than this line for a while; it waits by itself, since it has no child yet."""
    gate = machine.directory / "gate"
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
    machine.order(order)
    outcome: Outcome = machine.end_of()
    assert isinstance(outcome, NeverRan | Vanished) or outcome in (Exited(137), Exited(143))
    assert machine.tree() == {}


def test_a_suspend_right_after_the_start_is_carried_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    held_wrapper(machine, monkeypatch, "set -C")
    machine.start("sleep 60")
    machine.order("suspend")
    pid = machine.wrapper()
    machine.until(lambda: any(stat.stopped for member, stat in machine.tree().items() if member != pid))


@pytest.mark.parametrize("order", ["kill", "terminate"])
@pytest.mark.parametrize("command", ["exit 0", "exit 3", "setsid sleep 60 & exit 0"])
def test_an_end_that_came_before_the_first_signal_is_the_commands_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, order: str, command: str
) -> None:
    """The order is given while the command runs, and is carried out when it has ended."""
    machine.start(f"until test -e go; do sleep 0.01; done; {command}")
    wrapper, carry_out = machine.wrapper(), rounds.signal_once

    def carried_out_late(*arguments: object) -> rounds.Round | None:
        (machine.work / "go").touch()
        until(lambda: not alive(wrapper), "the command has ended and its wrapper too")
        return carry_out(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rounds, "signal_once", carried_out_late)
    machine.order(order)
    machine.loop.call_later(0.3, lambda: machine.order("kill"))
    machine.end_of()
    assert ended_by_itself(machine)


@pytest.mark.parametrize("stopping", [False, True])
def test_what_an_earlier_owner_was_stopping_may_have_been_signalled(machine: Machine, stopping: bool) -> None:
    machine.start("until test -e go; do sleep 0.01; done")
    machine.wrapper()
    machine.next_owner()
    machine.recover(stopping=stopping)
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(0)
    assert ended_by_itself(machine) is not stopping


def test_a_process_that_escapes_one_scan_is_killed_in_the_same_round(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start("sleep 60")
    command, scans, search = machine.command(), list[object](), processes.tree

    def blind_once(*arguments: object) -> processes.Members:
        scans.append(arguments)
        return search(*arguments) if len(scans) > 1 else {}  # type: ignore[arg-type]

    monkeypatch.setattr(rounds, "tree", blind_once)
    rounds.signal_once(KillTree, processes.AttemptMarks(machine.engine.token(0, 1), machine.wrapper()), ended=False)
    assert not alive(command)


@pytest.mark.parametrize("order", ["terminate", "suspend", "resume"])
def test_no_later_order_replaces_a_kill(machine: Machine, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    machine.start("trap '' TERM; echo $$ >ready; while :; do sleep 0.05; done")
    machine.pid_in("ready")
    carry_out, carried_out = rounds.signal_once, list[object]()

    def first_in_vain(*arguments: object) -> rounds.Round | None:
        carried_out.append(arguments[0])
        return carry_out(*arguments) if len(carried_out) > 1 else rounds.Round(1)  # type: ignore[arg-type]

    monkeypatch.setattr(rounds, "signal_once", first_in_vain)
    machine.order("kill")
    machine.order(order)
    assert machine.end_of() == Exited(137)


def test_a_fork_storm_loses(machine: Machine) -> None:
    storm = "while :; do setsid sleep 60 & done"
    machine.start(f"for i in 1 2 3; do ({storm}) & setsid bash -c '{storm}' & done; echo $$ >ready; {storm}")
    machine.pid_in("ready")
    machine.until(lambda: len(machine.tree()) > 40)
    machine.order("kill")
    assert isinstance(machine.end_of(), Exited)
    assert machine.tree() == {}


def test_trees_are_never_searched_in_the_owners_thread(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[threading.Thread] = set()
    search = processes.tree

    def noting(*arguments: object) -> processes.Members:
        threads.add(threading.current_thread())
        return search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rounds, "tree", noting)
    machine.start("sleep 60")
    machine.wrapper()
    for order in ("suspend", "resume", "terminate"):
        machine.order(order)
    machine.end_of()
    assert threads
    assert threading.current_thread() not in threads
