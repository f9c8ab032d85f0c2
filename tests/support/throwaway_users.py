"""Users that are there for one test: made by useradd, and gone after it; and a way for them to run our own Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gputui

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


def with_our_python() -> list[str]:
    """Before a command: whoever it becomes may run the Python of these tests, also where that is in a closed home.

    In a mount namespace of its own, folders that are closed to others are covered by open ones with nothing in them but
    what Python needs; nothing outside of it changes.
    """
    wanted = sorted({sys.base_prefix, sys.prefix, str(Path(gputui.__file__).parents[1])})
    closed = sorted({str(above) for place in wanted if (above := _closed_above(Path(place))) is not None})
    lines = ["set -e"]
    for folder in closed:
        inside = [place for place in wanted if place.startswith(f"{folder}/")]
        lines.append("mount -t tmpfs -o mode=755 kept /mnt")
        lines += [f"mkdir /mnt/{number}; mount --bind '{place}' /mnt/{number}" for number, place in enumerate(inside)]
        lines.append(f"mount -t tmpfs -o mode=755 open '{folder}'")
        lines += [f"mkdir -p '{place}'; mount --bind /mnt/{number} '{place}'" for number, place in enumerate(inside)]
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]
    tried = subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return words


def _closed_above(place: Path) -> Path | None:
    """The uppermost folder on the way that others may not enter."""
    return next((folder for folder in reversed((place, *place.parents)) if not folder.stat().st_mode & 0o001), None)
