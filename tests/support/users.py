"""Acting as another user of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import gputui

LAB_UMASK = 0o002


def as_user(uid: int, work: Callable[[], object], gid: int | None = None) -> str:
    """Run `work` in a child of another user and return its result as text."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users; run the tests as root to check this")
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests leave threads; the child uses none of their locks
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            os.umask(LAB_UMASK if gid is not None else 0o022)
            os.write(write, repr(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return text


def with_our_python() -> list[str]:
    """Before a command: whoever it becomes may run the Python of these tests, also where that is in a closed home.

    In a mount namespace of its own, directories that are closed to others are covered by open ones that contain only
    what Python needs; nothing outside of it changes.
    """
    wanted = sorted({sys.base_prefix, sys.prefix, str(Path(gputui.__file__).parents[1])})
    closed = sorted({str(above) for place in wanted if (above := _closed_above(Path(place))) is not None})
    lines = ["set -e"]
    for directory in closed:
        inside = [place for place in wanted if place.startswith(f"{directory}/")]
        lines.append("mount -t tmpfs -o mode=755 kept /mnt")
        lines += [f"mkdir /mnt/{number}; mount --bind '{place}' /mnt/{number}" for number, place in enumerate(inside)]
        lines.append(f"mount -t tmpfs -o mode=755 open '{directory}'")
        lines += [f"mkdir -p '{place}'; mount --bind /mnt/{number} '{place}'" for number, place in enumerate(inside)]
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]
    tried = subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return words


def _closed_above(place: Path) -> Path | None:
    """The uppermost directory on the way that others may not enter."""
    return next(
        (directory for directory in reversed((place, *place.parents)) if not directory.stat().st_mode & 0o001), None
    )
