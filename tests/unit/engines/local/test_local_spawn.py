"""Why a wrapper could not be started; nothing is left behind that looks like a start."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from gputui.core.events import NoRoom, NotStarted, Outcome, Vanished
from gputui.engines.local import spawn
from gputui.engines.protocol import STARTED_BEFORE

COMMAND = ["/bin/sh", "-c", "exit 0"]
MACHINE_TROUBLE = [errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT]


def failing(number: int, *created: Path) -> Any:
    """Fails as the kernel does after some of the logs were opened."""

    def spawn_process(*arguments: Any, **options: Any) -> int:
        for path in created:
            path.touch()
        raise OSError(number, os.strerror(number))

    return spawn_process


def call(directory: Path) -> int | Outcome:
    return spawn.spawn(COMMAND, dict(os.environ), str(directory / "OUT"), str(directory / "ERR"), {})


@pytest.mark.parametrize("number", MACHINE_TROUBLE)
def test_trouble_of_the_machine_is_temporary_and_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(spawn, "spawn_process", failing(number, tmp_path / "OUT"))
    assert call(tmp_path) == NoRoom(f"cannot start it now: {os.strerror(number)}")
    assert os.listdir(tmp_path) == []


def test_a_log_of_an_earlier_start_counts_even_when_the_machine_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "OUT"
    log.touch()
    os.utime(log, (time.time() - 60,) * 2)
    monkeypatch.setattr(spawn, "spawn_process", failing(errno.EAGAIN))
    assert call(tmp_path) == Vanished(STARTED_BEFORE)
    assert log.exists()


def test_a_log_with_content_is_never_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "OUT").write_text("epoch 1\n")
    monkeypatch.setattr(spawn, "spawn_process", failing(errno.ENOMEM))
    assert call(tmp_path) == Vanished(STARTED_BEFORE)
    assert (tmp_path / "OUT").read_text() == "epoch 1\n"


def test_a_directory_for_logs_that_is_gone_is_named(tmp_path: Path) -> None:
    assert call(tmp_path / "gone") == NotStarted(f"its output directory is gone: {tmp_path}/gone")


@pytest.mark.parametrize("environment", [{"BIG": "x" * 200_000}, {"a=b": "x"}])
def test_a_variable_too_long_or_with_an_invalid_name_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    outcome = spawn.spawn(COMMAND, environment, str(tmp_path / "OUT"), None, {})
    assert isinstance(outcome, NotStarted)
    assert "environment" in outcome.why
    assert os.listdir(tmp_path) == []
