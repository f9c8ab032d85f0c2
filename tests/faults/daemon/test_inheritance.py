"""Processes that gputui leaves running keep no descriptors of their caller."""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from support.sessions import GPUTUI, Home


def test_a_daemon_does_not_keep_the_lock_of_its_caller(home: Home, tmp_path: Path) -> None:
    """`flock -n cron.lock gputui add …`, every minute."""
    home.begin()
    cron = os.open(tmp_path / "cron.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(cron, fcntl.LOCK_EX)
    words = [*GPUTUI, "add", "--session", str(home.root), "--", "sleep", "600"]
    subprocess.run(words, cwd=tmp_path, pass_fds=(cron,), check=True, capture_output=True)
    os.close(cron)
    home.resume()
    assert home.owner()
    again = os.open(tmp_path / "cron.lock", os.O_RDWR)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)


def test_no_long_lived_process_of_a_run_inherits_open_files(home: Home, tmp_path: Path) -> None:
    held = os.open(tmp_path / "of the caller", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(held, True)
    words = [*GPUTUI, "run", "--gpus", "0", "--output-dir", str(home.root), str(home.write("sleep 600"))]
    try:
        run = subprocess.Popen(words, cwd=tmp_path, close_fds=False, stdout=subprocess.DEVNULL, stderr=-3)
    finally:
        os.close(held)
    waiter, wrapper = home.waiter(), home.claim_pid(0)
    for pid in (waiter, wrapper):
        assert str(tmp_path / "of the caller") not in open_files(pid)
    assert str(tmp_path / "of the caller") in open_files(run.pid)
    run.kill()
    run.wait()


def open_files(pid: int) -> list[str]:
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found
