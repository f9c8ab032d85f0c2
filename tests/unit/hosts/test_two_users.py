"""Two machines with two users, by a real sshd: each is oneself there, and neither sees into the other's session."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Done
from support.sshd import Lab

TRIES = 100


@contextmanager
def throwaway_users(*names: str) -> Iterator[list[str]]:
    """Their names are made their own by this process's number. Skips the test where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("only root can make users; run the tests as root to check this")
    if shutil.which("useradd") is None or shutil.which("userdel") is None:
        pytest.skip("there is no useradd here: install passwd to check this")
    made: list[str] = []
    try:
        for name in names:
            user = f"gputui-{name}-{os.getpid()}"
            # A star is no password, and unlike a locked account it may log in by its key.
            _until_done("useradd", "--no-create-home", "--shell", "/bin/sh", "--password", "*", user)
            made.append(user)
        yield made
    finally:
        for user in made:
            _until_done("userdel", "--force", user)


def _until_done(*words: str) -> None:
    """Whoever else changes the list of users just now has it locked."""
    for _ in range(TRIES):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if "lock" not in done.stderr:
            pytest.skip(f"{words[0]} does not work here: {done.stderr.strip()}")
        time.sleep(0.1)
    pytest.skip(f"the list of users stays locked: {done.stderr.strip()}")


@pytest.fixture
def users() -> Iterator[list[str]]:
    with throwaway_users("ann", "bob") as made:
        yield made


def gputui(lab: Lab, *words: str) -> Done:
    environment = {key: value for key, value in lab.environment().items() if key != "GPUTUI_SESSION"}
    return subprocess.run([*GPUTUI, *words], cwd=lab.directory, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip


def test_each_host_is_used_as_its_own_user_and_all_are_looked_at_from_one_place(users: list[str], lab: Lab) -> None:
    homes = [lab.machine(name, user=user) for name, user in zip(("lab7", "lab8"), users, strict=True)]
    lab.dead("lab9")
    for home, name in zip(homes, ("lab7", "lab8"), strict=True):
        (home / "jobs.txt").write_text("id -un\n")
        ran = gputui(lab, "--host", name, "run", "--gpus", "cpu:1", "--no-daemon", "jobs.txt")
        assert ran.returncode == 0, ran
    assert [gputui(lab, "--host", name, "logs", "0").stdout.strip() for name in ("lab7", "lab8")] == users
    for home, user in zip(homes, users, strict=True):
        private = home / "gputui_run" / ".gputui"
        assert pwd.getpwuid(private.stat().st_uid).pw_name == user
        assert private.stat().st_mode & 0o077 == 0
    seen = json.loads(gputui(lab, "hosts", "--host", "lab7,lab8,lab9", "--json").stdout)["hosts"]
    assert [[Path(each["directory"]) for each in host["status"]["sessions"]] for host in seen[:2]] == [
        [home / "gputui_run"] for home in homes
    ]
    assert seen[2]["status"] is None
    assert "Connection refused" in seen[2]["trouble"]
    other = gputui(lab, "--host", "lab7", "ls", "--session", str(homes[1] / "gputui_run"))
    assert other.returncode == 1
    assert f"is a session of {users[1]}" in other.stderr
    assert os.listdir(homes[1] / "gputui_run")
