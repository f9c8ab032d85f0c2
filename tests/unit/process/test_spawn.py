"""A spawned process gets exactly the given descriptors and variables, with every supported C library."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputui.process import spawn as spawning
from gputui.process.spawn import CopyOf, OpenedPath, spawn

LOG = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND


def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def older_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the C library cannot close all descriptors above a number."""
    monkeypatch.setattr(spawning, "_closes_from", lambda: False)
    spawning._inherited.cache_clear()


@pytest.fixture(params=[as_it_is, older_c_library], autouse=True)
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    request.param(monkeypatch)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shown(directory: Path, text: str, descriptors: dict[int, Any] | None = None) -> str:
    """Run a shell command with these descriptors and return its output."""
    out = directory / "shown"
    out.unlink(missing_ok=True)
    pid = spawn(["/bin/sh", "-c", text], dict(os.environ), {1: OpenedPath(str(out), LOG, 0o600), **(descriptors or {})})
    assert ended(pid) == 0
    return out.read_text()


def test_no_other_descriptors_are_inherited(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    beyond = fcntl.fcntl(reader, fcntl.F_DUPFD, 60)
    try:
        seen = shown(tmp_path, "for n in $(seq 0 99); do [ -e /proc/$$/fd/$n ] && echo $n; done; :", {8: reader})
    finally:
        for fd in (reader, writer, beyond):
            os.close(fd)
    assert seen.split() == ["0", "1", "2", "8"]


CHANGED_PLACES = """
import os, sys
from gputui.process.spawn import spawn
for number in (7, 8, 9):
    os.dup2(os.open(f"file {number}", os.O_RDWR | os.O_CREAT), number, inheritable=False)
show = ["/bin/readlink", *(f"/proc/self/fd/{number}" for number in (7, 8, 9))]
pid = spawn(show, {}, {1: os.dup(1), 7: 8, 8: 9, 9: 7})
sys.exit(os.waitpid(pid, 0)[1])
"""


def test_descriptors_can_be_swapped(tmp_path: Path) -> None:
    """Our descriptors may have the numbers under which the child gets others."""
    seen = subprocess.run([sys.executable, "-c", CHANGED_PLACES], cwd=tmp_path, capture_output=True, text=True)
    names = [os.path.basename(line) for line in seen.stdout.splitlines()]
    assert names == ["file 8", "file 9", "file 7"], seen.stderr


def test_standard_streams_default_to_dev_null(tmp_path: Path) -> None:
    assert shown(tmp_path, "readlink /proc/$$/fd/0 /proc/$$/fd/2") == "/dev/null\n/dev/null\n"
    assert shown(tmp_path, "echo 1; echo 2 >&2", {2: CopyOf(1)}) == "1\n2\n"


def test_a_new_process_leads_a_session_with_default_signals(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        seen = shown(tmp_path, "cut -d' ' -f1,5,6 /proc/$$/stat; exec grep -E '^Sig(Blk|Ign)' /proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    numbers, *masks = seen.splitlines()
    assert len(set(numbers.split())) == 1  # pid, group, session
    of_the_c_library = 0x180000000
    assert [int(mask.split()[1], 16) & ~of_the_c_library for mask in masks] == [0, 0]


def test_an_existing_log_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(FileExistsError):
        spawn(["/bin/true"], {}, {1: OpenedPath(str(tmp_path / "log"), LOG, 0o600)})


def test_a_missing_program_raises_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(["/no/such/program"], {}, {})


@pytest.mark.parametrize(("arguments", "environment"), [(["/bin/echo", "a\0b"], {}), (["/bin/true"], {"a=b": "c"})])
def test_invalid_arguments_raise_a_value_error(arguments: list[str], environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"null|illegal"):
        spawn(arguments, environment, {})


def test_the_exit_status_can_be_collected() -> None:
    assert ended(spawn(["/bin/sh", "-c", "exit 42"], {}, {})) == 42


def test_paths_may_go_through_our_descriptors(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert (
            ended(spawn(["/bin/echo", "here"], {}, {1: OpenedPath(f"/proc/self/fd/{directory}/log", LOG, 0o600)})) == 0
        )
    finally:
        os.close(directory)
    assert (tmp_path / "log").read_text() == "here\n"
