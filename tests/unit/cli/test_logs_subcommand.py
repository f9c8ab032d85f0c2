"""`gputui logs`: every byte into a pipe, nothing that acts on a terminal, and on through a job's attempts."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from support.sessions import Gputui
from support.waiting import PATIENCE
from support.wires import FakeOwner, job

from gputui.cli.commands.logs import start_of_last
from gputui.cli.output import NOT_FOUND

EVIL = b"one\n\x1b]0;owned\x07two\x1b[31m\n 10%\r 50%\r100%\nlast\xff"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "OUT"
    path.write_bytes(EVIL)
    return path


def test_output_to_a_pipe_keeps_every_byte(owner: FakeOwner, out: Path) -> None:
    owner.jobs = {0: job(0, "running", out=str(out))}
    done = subprocess.run([sys.executable, "-m", "gputui", "logs", "0"], capture_output=True, check=True)
    assert done.stdout == EVIL


def test_a_job_that_wrote_only_to_stderr_gets_a_hint(owner: FakeOwner, tmp_path: Path, gputui: Gputui) -> None:
    out, err = tmp_path / "OUT", tmp_path / "ERR"
    out.touch()
    err.write_text("Traceback\nValueError")
    owner.jobs = {3: job(3, "failed", out=str(out), err=str(err))}
    told = gputui("logs", "3")
    assert (told.out, told.err) == ("", "gputui: #3 wrote nothing to OUT, 2 lines to ERR: gputui logs 3 --err\n")
    assert gputui("logs", "3", "--err").err == ""
    out.write_text("one\n")
    assert gputui("logs", "3").err == ""


def test_on_a_terminal_nothing_acts(owner: FakeOwner, out: Path) -> None:
    owner.jobs = {0: job(0, "running", out=str(out))}
    shown = _on_a_terminal("logs", "0")
    assert b"\x1b" not in shown.replace(b"\r\x1b[K", b"")
    assert b"\x07" not in shown
    assert [line.strip() for line in shown.splitlines()][:3] == [b"one", b"two", b"100%"]


def test_a_terminal_that_knows_no_size_is_written_on_without_cutting(owner: FakeOwner, out: Path) -> None:
    owner.jobs = {0: job(0, "running", out=str(out), name="a job with a name")}
    assert b"a job with a name" in _on_a_terminal("ls", columns=0)
    out.write_bytes(b"half a line")
    assert b"half a line" in _on_a_terminal("logs", "0", columns=0)


def _on_a_terminal(*words: str, columns: int = 80) -> bytes:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24 if columns else 0, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "gputui", *words], stdout=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    return shown


@pytest.mark.parametrize(
    "written", [b"", b"a", b"a\n", b"a\nb", b"a\nb\n", b"\n\n\n", b"x" * 200_000 + b"\ny\n"], ids=range(7)
)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_the_last_lines_are_those_of_tail(tmp_path: Path, written: bytes, count: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(written)
    with path.open("rb") as file:
        found = written[start_of_last(file.fileno(), count) :]
    assert found == subprocess.run(["tail", f"-n{count}", path], capture_output=True, check=True).stdout


def test_err_and_earlier_attempts(owner: FakeOwner, gputui: Gputui, tmp_path: Path) -> None:
    for name in ("OUT", "ERR", "OUT1"):
        (tmp_path / name).write_text(f"{name}\n")
    first = {"number": 1, "state": "failed", "out": str(tmp_path / "OUT1"), "err": None}
    files = {"out": str(tmp_path / "OUT"), "err": str(tmp_path / "ERR")}
    owner.jobs = {0: job(0, "running", attempt=2, attempts=[first], **files)}
    assert gputui("logs", "0").out == "OUT\n"
    assert gputui("logs", "0", "--err").out == "ERR\n"
    assert gputui("logs", "0", "--attempt", "1").out == "OUT1\n"
    assert gputui("logs", "0", "--attempt", "1", "--err").status == 1
    assert gputui("logs", "0", "--attempt", "7").status == NOT_FOUND


def test_a_job_without_output_shows_why_it_waits(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, why="needs 2 GPUs")}
    told = gputui("logs", "0")
    assert told.status == 1
    assert "needs 2 GPUs" in told.err


def test_a_missing_log_is_an_error(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "running", out="/does/not/exist")}
    told = gputui("logs", "0")
    assert told.status == 1
    assert "/does/not/exist" in told.err


def follow(owner: FakeOwner, monkeypatch: pytest.MonkeyPatch, steps: list[Any]) -> None:
    """At each look the next thing happens."""
    left = list(steps)
    monkeypatch.setattr("gputui.cli.commands.logs.time.sleep", lambda seconds: left.pop(0)())


def test_following_ends_when_the_job_has_ended_and_misses_nothing(
    owner: FakeOwner, gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "OUT"
    path.write_text("one\n")
    owner.jobs = {0: job(0, "running", out=str(path))}

    def write_and_end() -> None:
        with path.open("a") as file:
            file.write("two\nthree")
        owner.jobs = {0: job(0, "succeeded", out=str(path))}

    follow(owner, monkeypatch, [lambda: None, write_and_end])
    told = gputui("logs", "-f", "0")
    assert (told.status, told.out) == (0, "one\ntwo\nthree")


def test_output_written_just_before_the_end_is_not_missed(
    owner: FakeOwner, gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "OUT"
    path.write_text("one\n")
    looks = 0

    def show(fields: dict[str, Any]) -> dict[str, Any]:
        """The job's last words come between our read of the file and the owner's answer."""
        nonlocal looks
        looks += 1
        if looks == 1:
            return job(0, "running", out=str(path))
        if looks == 2:
            path.write_text("one\nlast words\n")
        return job(0, "succeeded", out=str(path))

    owner.answers["show"] = show
    monkeypatch.setattr("gputui.cli.commands.logs.time.sleep", lambda seconds: None)
    assert gputui("logs", "-f", "0").out == "one\nlast words\n"


def test_following_goes_through_attempts_even_short_ones(
    owner: FakeOwner, gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"OUT{number}" for number in (1, 2, 3)]
    paths[0].write_text("first\n")
    owner.jobs = {0: job(0, "queued", why="starts next")}

    def begin() -> None:
        owner.jobs = {0: job(0, "running", out=str(paths[0]))}

    def retry_twice() -> None:
        for number, path in enumerate(paths[1:], 2):
            path.write_text(f"attempt {number}\n")
        past = [
            {"number": number, "state": "failed", "out": str(path), "err": None}
            for number, path in enumerate(paths[:2], 1)
        ]
        owner.jobs = {0: job(0, "delayed", attempt=3, out=str(paths[2]), attempts=past)}

    def end() -> None:
        owner.jobs = {0: owner.jobs[0] | {"state": "succeeded"}}

    follow(owner, monkeypatch, [begin, retry_twice, end])
    assert gputui("logs", "-f", "0").out == "first\nattempt 2\nattempt 3\n"


def test_a_revoked_attempt_does_not_print_the_log_again(
    owner: FakeOwner, gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "OUT"
    path.write_text("once\n")
    owner.jobs = {0: job(0, "running", out=str(path))}

    def count_up() -> None:
        owner.jobs = {0: job(0, "failed", attempt=2, out=str(path))}

    follow(owner, monkeypatch, [count_up])
    assert gputui("logs", "-f", "0").out == "once\n"
