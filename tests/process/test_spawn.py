"""Whoever is started has what was named and nothing else, whatever Python and C library start it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputui.process import libc_spawn
from gputui.process.descriptors import OpenedPath, Same
from gputui.process.spawn import spawn

LOG = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND


def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def older_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot close all from a number on."""
    monkeypatch.setattr(libc_spawn, "_closes_from", False)
    libc_spawn._inherited.cache_clear()


def ancient_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def posix_spawn(*_: Any) -> int:
        raise NotImplementedError("this C library cannot make a session in posix_spawn")

    monkeypatch.setattr(libc_spawn, "posix_spawn", posix_spawn)


@pytest.fixture(params=[as_it_is, older_c_library, ancient_c_library], autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    request.param(monkeypatch)
    way: Callable[..., None] = request.param
    return way


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def shown(folder: Path, text: str, descriptors: dict[int, Any] | None = None) -> str:
    """What the shell text printed, started with these descriptors."""
    out = folder / "shown"
    out.unlink(missing_ok=True)
    pid = spawn(["/bin/sh", "-c", text], dict(os.environ), {1: OpenedPath(str(out), LOG, 0o600), **(descriptors or {})})
    assert ended(pid) == 0
    return out.read_text()


def test_it_inherits_nothing_that_is_not_named(tmp_path: Path) -> None:
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
from gputui.process import libc_spawn
from gputui.process.spawn import spawn
if sys.argv[1] == "ancient_c_library":
    del libc_spawn.posix_spawn
for number in (7, 8, 9):
    os.dup2(os.open(f"file {number}", os.O_RDWR | os.O_CREAT), number, inheritable=False)
show = ["/bin/readlink", *(f"/proc/self/fd/{number}" for number in (7, 8, 9))]
pid = spawn(show, {}, {1: os.dup(1), 7: 8, 8: 9, 9: 7})
sys.exit(os.waitpid(pid, 0)[1])
"""


def test_descriptors_come_under_their_numbers_even_when_they_change_places(
    tmp_path: Path, library: Callable[..., None]
) -> None:
    """Ours may have the very numbers that the child is to have others under."""
    words = [sys.executable, "-c", CHANGED_PLACES, library.__name__]
    seen = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    names = [os.path.basename(line) for line in seen.stdout.splitlines()]
    assert names == ["file 8", "file 9", "file 7"], seen.stderr


def test_what_is_not_named_of_the_standard_three_leads_nowhere(tmp_path: Path) -> None:
    assert shown(tmp_path, "readlink /proc/$$/fd/0 /proc/$$/fd/2") == "/dev/null\n/dev/null\n"
    assert shown(tmp_path, "echo 1; echo 2 >&2", {2: Same(1)}) == "1\n2\n"


def test_it_leads_a_session_and_has_default_signals_and_no_mask(tmp_path: Path) -> None:
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


def test_a_file_that_must_not_be_there_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(FileExistsError):
        spawn(["/bin/true"], {}, {1: OpenedPath(str(tmp_path / "log"), LOG, 0o600)})


def test_a_program_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(["/no/such/program"], {}, {})


@pytest.mark.parametrize(("arguments", "environment"), [(["/bin/echo", "a\0b"], {}), (["/bin/true"], {"a=b": "c"})])
def test_what_no_process_can_be_given_is_a_value_error(arguments: list[str], environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"null|illegal"):
        spawn(arguments, environment, {})


def test_its_end_is_left_for_us_to_collect() -> None:
    assert ended(spawn(["/bin/sh", "-c", "exit 42"], {}, {})) == 42


def test_paths_may_lead_through_our_own_descriptors(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert ended(spawn(["/bin/echo", "here"], {}, {1: OpenedPath(f"/proc/self/fd/{folder}/log", LOG, 0o600)})) == 0
    finally:
        os.close(folder)
    assert (tmp_path / "log").read_text() == "here\n"
