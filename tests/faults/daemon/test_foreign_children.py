"""Processes of a job that run as another user: ended where we may, and named where we may not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, alive, all_pids
from support.waiting import until

from gputui.process.processes import stat_of

NUMBER = 65534


AS_THEM = (
    "setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups",
    # The Python of these tests may be in root's own home; reading all there is does not let one signal or write.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


class SecondUser:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GPUTUI_"))},
            "HOME": str(directory),
        }

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*AS_THEM, *map(str, words)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def set_uid(self, program: str) -> Path:
        """Return a copy of a program that runs as root for every user."""
        found = shutil.which(program)
        assert found is not None
        copy = self.directory / f"root-{program}"
        shutil.copyfile(found, copy)
        copy.chmod(0o4755)
        return copy


@contextmanager
def second_user() -> Iterator[SecondUser]:
    """Yield a second user, or skip the test if this process cannot act as one."""
    if os.getuid() != 0:
        pytest.skip("only root can act as a second user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    # Other users may not enter pytest's own directory.
    directory = Path(tempfile.mkdtemp(prefix="gputui-"))
    try:
        os.chown(directory, NUMBER, NUMBER)
        user = SecondUser(directory)
        if user.run(sys.executable, "-c", "import gputui.session.owner.owner").returncode != 0:
            pytest.skip("another user cannot run the Python of these tests")
        if os.statvfs(directory).f_flag & os.ST_NOSUID:
            pytest.skip("set-uid programs do not work on this file system")
        yield user
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def user() -> Iterator[SecondUser]:
    with second_user() as user:
        yield user


@contextmanager
def running(user: SecondUser, command: str) -> Iterator[int]:
    """Run a job and yield the pid that it has written."""
    (user.directory / "jobs").write_text(command + "\n")
    run = user.start(*GPUTUI, "run", "--gpus", "0", "--grace", "0.2", "jobs")
    number = user.directory / "pid"
    try:
        until(lambda: number.exists() and number.read_text().endswith("\n"), "the job has written its number")
        yield int(number.read_text())
    finally:
        _end(user.directory)
        run.communicate()


def _end(directory: Path) -> None:
    """End every process in this directory, as root may."""
    for _ in range(3):
        for pid in all_pids():
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd").startswith(str(directory)):
                    os.kill(pid, signal.SIGKILL)


def subcommand(user: SecondUser, *words: str) -> subprocess.CompletedProcess[str]:
    return user.run(*GPUTUI, *words, "--session", user.directory / "gputui_run")


def job(user: SecondUser) -> dict[str, Any]:
    done = subcommand(user, "show", "0", "--json")
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_a_set_uid_process_is_ended_with_its_job(user: SecondUser) -> None:
    sleep = user.set_uid("sleep")
    with running(user, f"echo $$ >pid.new; mv pid.new pid; exec {sleep} 600") as pid:
        until(lambda: os.stat(f"/proc/{pid}").st_uid == 0, "it is root's")
        assert subcommand(user, "kill", "0").returncode == 0
        until(lambda: job(user)["state"] == "killed", "the job has ended")
        assert not alive(pid)


def test_a_process_that_may_not_be_signalled_is_named_and_its_job_held(user: SecondUser) -> None:
    setpriv = user.set_uid("setpriv")
    foreign = f"{setpriv} --reuid=0 --regid=0 --clear-groups sleep 600"
    with running(user, f"echo $$ >pid.new; mv pid.new pid; exec {foreign}") as pid:
        until(lambda: os.stat(f"/proc/{pid}").st_uid == 0, "it is root's")
        stopped = subcommand(user, "stop")
        assert stopped.returncode == 1
        sentence = f"pid {pid} (sleep 600) is still running: belongs to root, no permission"
        assert f"still running: {sentence}" in stopped.stderr
        assert "nothing left running" not in stopped.stdout
        now = job(user)
        assert now["state"] == "held"
        assert now["why"] == f"{sentence}; kill it, then release the job"
        assert sentence in [line["text"] for line in now["history"]]
        assert alive(pid)
        (left,) = now["attempts"][-1]["leftovers"]
        stat = stat_of(pid)
        assert stat is not None
        assert (left["pid"], left["started"]) == (pid, stat.started)
