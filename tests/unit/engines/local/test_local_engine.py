"""Starts and ends of local attempts."""

from __future__ import annotations

import os
import signal
import stat

import pytest
from support.engines import Machine, alive

from gputui.core.events import Exited, NoRoom, NotStarted, Vanished
from gputui.process import processes


@pytest.mark.parametrize("command", ["cat /proc/self/status", "cat /proc/self/status || exit 1"])
def test_the_command_sees_default_signals_and_no_mask(machine: Machine, command: str) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert machine.run(command) == Exited(0)
    finally:
        signal.signal(signal.SIGHUP, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    masks = dict(line.split(":\t") for line in machine.out().splitlines())
    # glibc keeps two signals for itself, and its posix_spawn leaves them ignored.
    of_the_c_library = 0x180000000
    assert [int(masks[name], 16) & ~of_the_c_library for name in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


def test_the_command_inherits_no_descriptor(machine: Machine) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        machine.run("ls /proc/self/fd", lease=reader)
    finally:
        os.close(reader)
        os.close(writer)
    assert machine.out().split() == ["0", "1", "2", "3"]  # 3: ls itself looks at the directory


def test_a_log_that_is_emptied_while_the_job_runs_gets_no_hole(machine: Machine) -> None:
    machine.start("echo before; until [ -e go ]; do sleep 0.01; done; echo after")
    log = machine.directory / "0.1.OUT"
    machine.until(lambda: log.exists() and log.read_text() == "before\n")
    os.truncate(log, 0)
    (machine.work / "go").touch()
    machine.end_of()
    assert machine.out() == "after\n"


def test_logs_have_the_permissions_of_the_umask(machine: Machine) -> None:
    before = os.umask(0o027)
    try:
        machine.run("true")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(machine.directory / "0.1.OUT").st_mode) == 0o640


@pytest.mark.parametrize("name", ["0.1.OUT", "0.1.ERR"])
def test_an_attempt_whose_log_exists_is_not_run_again(machine: Machine, name: str) -> None:
    (machine.directory / name).write_text("of an earlier start\n")
    machine.start("touch ran")
    assert machine.end_of() == Vanished("this attempt was already started")
    assert (machine.directory / name).read_text() == "of an earlier start\n"
    assert not (machine.work / "ran").exists()


def test_a_command_too_long_for_the_machine_is_refused_in_words(machine: Machine) -> None:
    outcome = machine.run("echo '" + "x" * 200_000 + "'")
    assert isinstance(outcome, NotStarted)
    assert outcome.why == "command too long: 200,007 bytes; the limit here is 131,071"
    assert os.listdir(machine.directory / "claims") == []
    assert not (machine.directory / "0.1.OUT").exists()


def test_a_nul_byte_is_refused_in_words(machine: Machine) -> None:
    outcome = machine.run("echo a\0b")
    assert isinstance(outcome, NotStarted)
    assert "null" in outcome.why


def test_a_claim_that_cannot_be_written_is_no_fault_of_the_job(machine: Machine) -> None:
    os.rmdir(machine.directory / "claims")
    (machine.directory / "claims").symlink_to("/no/such/directory")
    assert isinstance(machine.run("touch ran"), NoRoom)
    assert not (machine.work / "ran").exists()


def test_a_job_whose_claim_is_deleted_while_it_runs_is_not_run_again(machine: Machine) -> None:
    machine.start("echo begun; until [ -e go ]; do sleep 0.01; done; exit 0")
    machine.wrapper()
    os.unlink(machine.claims.path(0, 1))
    os.rmdir(machine.claims.directory)
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(0)


def test_an_attempt_whose_wrapper_is_killed_and_claim_deleted_is_lost(machine: Machine) -> None:
    machine.start("echo begun; sleep 60")
    pid = machine.wrapper()
    machine.until(lambda: machine.out() == "begun\n")
    os.unlink(machine.claims.path(0, 1))
    os.kill(pid, signal.SIGKILL)
    assert isinstance(machine.end_of(), Vanished)
    assert machine.tree() == {}


@pytest.mark.parametrize("killed", [False, True])
def test_an_end_that_cannot_be_read_is_taken_from_the_wrapper(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr("gputui.engines.local.engine.READ_TRIES", 3)
    machine.start("until [ -e go ]; do sleep 0.01; done; exit 42")
    pid = machine.wrapper()
    os.unlink(machine.claims.path(0, 1))
    os.mkdir(machine.claims.path(0, 1))
    (machine.work / "go").touch()
    machine.until(lambda: not alive(pid))
    if killed:
        machine.order("kill")
    assert machine.end_of() == Exited(42)
    assert len(machine.ends()) == 1


def test_a_second_start_of_an_attempt_does_not_harm_the_first(machine: Machine) -> None:
    machine.start("sleep 60")
    pid = machine.wrapper()
    for name in ("0.1.OUT", "0.1.ERR"):
        os.unlink(machine.directory / name)
    machine.next_owner()
    assert machine.run("touch ran") == Vanished("this attempt was already started")
    assert alive(pid)
    assert not (machine.work / "ran").exists()


def test_a_wrapper_killed_from_outside_takes_its_command_along(machine: Machine) -> None:
    machine.start("sleep 60 & echo $! >escaped; wait")
    child = machine.pid_in("escaped")
    os.kill(machine.wrapper(), signal.SIGKILL)
    assert machine.end_of() == Vanished("its shell was killed by signal 9")
    assert not alive(child)
    assert machine.tree() == {}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_leaves_the_witness_alive(machine: Machine, number: int) -> None:
    machine.start(f"trap 'exit 42' {int(number)}; echo $$ >ready; while :; do sleep 0.01; done")
    machine.pid_in("ready")
    os.killpg(machine.wrapper(), number)
    assert machine.end_of() == Exited(42)


def test_closing_touches_no_job_and_reports_nothing(machine: Machine) -> None:
    machine.start("sleep 60")
    pid = machine.wrapper()
    before = set(os.listdir("/proc/self/fd"))
    machine.engine.close()
    assert alive(pid)
    assert len(set(os.listdir("/proc/self/fd"))) == len(before) - 1
    os.kill(pid, signal.SIGKILL)
    machine.until(lambda: not alive(pid))
    assert len(machine.reports) == 1


def test_no_descriptor_and_no_zombie_stays_after_many_jobs(machine: Machine) -> None:
    machine.run("true")
    before = len(os.listdir("/proc/self/fd"))
    for job in range(1, 30):
        machine.run("true", job=job)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not any(processes.stat_of(report.pid) for report in machine.spawned() if report.pid is not None)
