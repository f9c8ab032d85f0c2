"""Why nothing could be started is told apart, and nothing is left behind that looks like a start."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gputui.engines.local import spawn
from gputui.engines.local.spawn import AlreadyStarted, CannotStart, NoRoomNow

COMMAND = ["/bin/sh", "-c", "exit 0"]
MACHINE_TROUBLE = [errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT]


def failing(number: int, *created: Path) -> Any:
    """Fails as the kernel does after some of the logs were opened."""

    def spawn_process(*arguments: Any, **options: Any) -> int:
        for path in created:
            path.touch()
        raise OSError(number, os.strerror(number))

    return spawn_process


def call(folder: Path) -> int:
    return spawn.spawn(COMMAND, dict(os.environ), str(folder / "OUT"), str(folder / "ERR"))


@pytest.mark.parametrize("number", MACHINE_TROUBLE)
def test_trouble_of_the_machine_is_temporary_and_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(spawn, "spawn_process", failing(number, tmp_path / "OUT"))
    with pytest.raises(NoRoomNow, match=os.strerror(number)):
        call(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_log_of_an_earlier_start_counts_even_when_the_machine_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "OUT"
    log.touch()
    os.utime(log, (time.time() - 60,) * 2)
    monkeypatch.setattr(spawn, "spawn_process", failing(errno.EAGAIN))
    with pytest.raises(AlreadyStarted):
        call(tmp_path)
    assert log.exists()


def test_a_log_with_content_is_never_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "OUT").write_text("epoch 1\n")
    monkeypatch.setattr(spawn, "spawn_process", failing(errno.ENOMEM))
    with pytest.raises(AlreadyStarted):
        call(tmp_path)
    assert (tmp_path / "OUT").read_text() == "epoch 1\n"


def test_a_folder_for_logs_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=f"the folder for its output is gone: {tmp_path}/gone"):
        call(tmp_path / "gone")


def test_a_missing_shell_is_not_taken_for_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="No such file"):
        spawn.spawn(["/no/shell"], {}, str(tmp_path / "OUT"), None)
    assert os.listdir(tmp_path) == []


def test_an_environment_too_large_is_told_apart_from_a_long_command(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="environment"):
        spawn.spawn(COMMAND, {"BIG": "x" * 200_000}, str(tmp_path / "OUT"), None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["OUT", "ERR"])
def test_an_existing_log_is_an_earlier_start(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(AlreadyStarted):
        call(tmp_path)
    assert (tmp_path / name).exists()


def test_a_name_no_environment_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="environment"):
        spawn.spawn(COMMAND, {"a=b": "x"}, str(tmp_path / "OUT"), None)
    assert os.listdir(tmp_path) == []


def test_what_is_started_has_default_signals_and_no_mask(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        pid = spawn.spawn(["/bin/cat", "/proc/self/status"], {}, str(tmp_path / "OUT"), None)
    finally:
        signal.signal(signal.SIGHUP, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.waitpid(pid, 0)
    fields = dict(line.split(":\t") for line in (tmp_path / "OUT").read_text().splitlines())
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) & (1 << signal.SIGHUP - 1 | 1 << signal.SIGPIPE - 1) == 0
