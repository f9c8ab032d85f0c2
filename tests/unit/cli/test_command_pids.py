"""The pid that is shown of a job is its command's: who signals it reaches the command."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from support.sessions import Session, finished
from support.waiting import until


def shown(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(session.call("show", "0", "--json").stdout)
    return found


@pytest.mark.parametrize("command", ["sleep 600", "sleep 600 | cat; true"])
def test_a_signal_to_the_shown_pid_reaches_the_command(session: Session, command: str) -> None:
    with session.running(session.write(command), gpus="0") as run:
        wrapper = session.claim_pid(0)
        until(lambda: shown(session)["pid"], "the command is there")
        job = shown(session)
        pid = job["pid"]
        assert job["wrapper"] == wrapper
        assert pid != wrapper
        assert json.loads(session.call("ls", "--json").stdout)["jobs"][0]["pid"] == pid
        assert f" {pid} " in session.call("ls", "-l").stdout
        assert f"pid        {pid}\n" in session.call("show", "0").stdout
        os.kill(pid, signal.SIGTERM)
        assert finished(run).returncode == 1
    ended = shown(session)
    assert (ended["pid"], ended["state"], ended["signal"]) == (None, "failed", signal.SIGTERM)


def test_before_its_command_is_there_a_job_has_no_pid(session: Session) -> None:
    with session.running(session.write("sleep 600"), gpus="0"):
        wrapper = session.claim_pid(0)
        until(lambda: shown(session)["pid"], "the command is there")
        os.kill(wrapper, signal.SIGSTOP)
        os.kill(shown(session)["pid"], signal.SIGKILL)
        until(lambda: shown(session)["pid"] is None or shown(session)["state"] == "failed", "it has none any more")
