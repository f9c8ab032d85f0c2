"""Every engine: starts and ends."""

from __future__ import annotations

import os
import signal
import time

import pytest
from support.engines import EngineMachine, SlurmMachine, alive

from gputui.core.events import Exited, NotStarted


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 255])
def test_the_exit_code_is_the_commands(machine: EngineMachine, code: int) -> None:
    assert machine.run(f"exit {code}") == Exited(code)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_command_killed_by_a_signal_has_its_exit_code(machine: EngineMachine, number: int) -> None:
    assert machine.run(f"kill -{number} $$; sleep 60") == Exited(128 + number)


def test_a_start_is_reported_before_its_end_and_both_once(machine: EngineMachine) -> None:
    before = time.time()
    machine.run("true")
    [spawned, ended] = machine.begun_or_ended()
    assert machine.spawned() == [spawned]
    assert machine.ends() == [ended]
    assert not machine.spawned()[0].adopted
    assert before <= machine.ends()[0].at <= time.time()


def test_the_command_reads_nothing(machine: EngineMachine) -> None:
    assert machine.run("readlink /proc/self/fd/0; cat") == Exited(0)
    assert machine.out() == "/dev/null\n"


def test_the_command_knows_its_token_and_no_other(machine: EngineMachine) -> None:
    machine.run("echo $GPUTUI_RUN", environment={**os.environ, "GPUTUI_RUN": "of an outer session"})
    assert machine.out() == f"{machine.engine.token(0, 1)}\n"


def test_streams_go_to_their_files(machine: EngineMachine) -> None:
    machine.run("echo out; echo err >&2")
    assert machine.out() == "out\n"
    assert (machine.directory / "0.1.ERR").read_text() == "err\n"


def test_merged_streams_go_to_one_file_in_order(machine: EngineMachine) -> None:
    machine.run("echo 1; echo 2 >&2; echo 3", merged=True)
    assert machine.out() == "1\n2\n3\n"
    assert not (machine.directory / "0.1.ERR").exists()


def test_a_directory_that_is_gone_is_named(machine: EngineMachine) -> None:
    missing = str(machine.directory / "it's gone")
    assert machine.run("touch ran", cwd=missing) == NotStarted(f"directory {missing} is gone")


def test_forgetting_removes_the_claim(machine: EngineMachine) -> None:
    machine.run("true")
    assert machine.engine.claimed() == [(0, 1)]
    machine.engine.forget(0, 1)
    machine.engine.forget(0, 1)
    assert machine.engine.claimed() == []


def test_processes_left_by_an_ended_job_are_killed_by_the_cluster_or_on_request(machine: EngineMachine) -> None:
    machine.run("setsid sleep 60 & echo $! >left")
    left = machine.pid_in("left")
    if isinstance(machine, SlurmMachine):
        assert not alive(left)
        return
    assert alive(left)
    machine.engine.kill_leftovers(0, 1)
    machine.until(lambda: not alive(left))
