"""The local engine on Pythons and kernels without pidfd, ctypes or free descriptors."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
from contextlib import suppress

import pytest
from support.engines import Machine, alive

from gputui.core.events import Exited, NotStarted, Vanished
from gputui.process import processes as pidfd
from gputui.process.spawn import c_library


def no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidfd, "kernel_has_them", False)


def no_native_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidfd, "native_open", None)
    monkeypatch.setattr(pidfd, "native_send", None)
    monkeypatch.setattr(pidfd, "kernel_has_them", None)


@pytest.fixture(params=[no_pidfd, no_native_pidfd])
def poor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Machine:
    request.param(monkeypatch)
    return machine


def test_exit_codes_are_right(poor: Machine) -> None:
    assert poor.run("true") == Exited(0)
    assert poor.run("exit 42", job=1) == Exited(42)
    assert poor.run("kill -9 $$", job=2) == Exited(137)


def test_a_kill_reaches_the_whole_tree(poor: Machine) -> None:
    poor.start("setsid sh -c 'echo $$ >escaped; exec sleep 60' & sleep 60")
    escaped = poor.pid_in("escaped")
    poor.order("kill")
    assert poor.end_of() == Exited(137)
    assert not alive(escaped)


def test_a_killed_wrapper_is_noticed(poor: Machine) -> None:
    poor.start("sleep 60")
    os.kill(poor.wrapper(), signal.SIGKILL)
    assert poor.end_of() == Vanished("its shell was killed by signal 9")


def test_a_running_attempt_is_adopted(poor: Machine) -> None:
    poor.start("until [ -e go ]; do sleep 0.01; done; exit 42")
    poor.wrapper()
    poor.next_owner()
    poor.recover()
    assert len(poor.spawned()) == 1
    (poor.work / "go").touch()
    assert poor.end_of() == Exited(42)


def test_the_wrapper_leads_its_session_and_writes_to_its_logs(poor: Machine) -> None:
    assert poor.run("echo out; echo err >&2; ps -o sid= -p $PPID; echo $PPID", merged=True) == Exited(0)
    out, err, session, wrapper = poor.out().split()
    assert (out, err, session) == ("out", "err", wrapper)


def test_the_wrapper_holds_its_lease_and_the_command_does_not(poor: Machine) -> None:
    lease = os.open(poor.directory / "lease", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lease, fcntl.LOCK_SH)
    poor.start("ls -l /proc/self/fd; until [ -e go ]; do sleep 0.01; done", lease=lease)
    os.close(lease)
    poor.wrapper()
    again = os.open(poor.directory / "lease", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (poor.work / "go").touch()
    assert poor.end_of() == Exited(0)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)
    assert "lease" not in poor.out()


@pytest.mark.parametrize("adopted", [False, True])
def test_without_a_descriptor_left_no_job_comes_to_harm(machine: Machine, adopted: bool) -> None:
    machine.start("until [ -e go ]; do sleep 0.01; done; exit 42", job=1)
    machine.wrapper(1)
    if adopted:
        machine.next_owner()
    taken = take_all_descriptors()
    try:
        machine.recover(1) if adopted else machine.start("sleep 0.05; exit 43", job=2)
        machine.order("suspend", 1)
        machine.order("kill", 7)
        wait(machine, 0.4)
        assert not machine.ends(1)
    finally:
        release(taken)
    (machine.work / "go").touch()
    machine.order("resume", 1)
    assert machine.end_of(1) == Exited(42)
    assert adopted or machine.end_of(2) == Exited(43)


def test_a_kill_without_a_descriptor_left_waits_for_one(machine: Machine) -> None:
    machine.start("sleep 60")
    command = machine.command()
    taken = take_all_descriptors()
    try:
        machine.order("kill")
        wait(machine, 0.2)
    finally:
        release(taken)
    assert machine.end_of() == Exited(137)
    assert not alive(command)


def take_all_descriptors() -> tuple[tuple[int, int], list[int]]:
    """The limit is above all that is open: earlier tests may have left many, and one beyond it cannot be handed on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, before[1]))
    taken: list[int] = []
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    return before, taken


def release(taken: tuple[tuple[int, int], list[int]]) -> None:
    for fd in taken[1]:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, taken[0])


def wait(machine: Machine, seconds: float) -> None:
    over: list[bool] = []
    machine.loop.call_later(seconds, lambda: over.append(True))
    machine.until(lambda: bool(over))


def test_a_python_without_ctypes_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    c_library.cache_clear()
    assert machine.run("true") == NotStarted("failed to start: this Python was built without ctypes")
    assert not (machine.directory / "0.1.OUT").exists()


def test_all_ways_are_really_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    no_native_pidfd(monkeypatch)
    assert pidfd.available()
    fd = pidfd.open_process(os.getpid())
    pidfd.send_signal(fd, 0)
    os.close(fd)
    with pytest.raises(ProcessLookupError):
        pidfd.open_process(2**22 + 1)
