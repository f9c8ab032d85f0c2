"""Two real users of one machine: their processes, and a folder that both may write to, as labs have it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VICTIM, MALLORY, LAB = 54_321, 54_322, 54_320
"""Two users and the group that they share; nobody has these numbers."""
LAB_UMASK = 0o002


def as_user(uid: int, work: Callable[[], object], gid: int | None = None) -> str:
    """Runs `work` in a child of another user and gives what it returned, as text."""
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


def words_as(uid: int) -> tuple[str, ...]:
    """Before a command: it runs as this user of the lab. It may read what root may, so that it finds its Python;
    what is written, and whose it is, is as for anybody."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users; run the tests as root to check this")
    reads = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    shell = ("sh", "-c", f'umask {LAB_UMASK:03o}; exec "$@"', "sh")
    words = ("setpriv", "--reuid", str(uid), "--regid", str(LAB), "--clear-groups", *reads, *shell)
    try:
        subprocess.run([*words, sys.executable, "-c", ""], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("setpriv is not here or may not give another user the right to read our Python")
    return words


@contextmanager
def shared_folder() -> Iterator[Path]:
    """The victim's, but for the whole lab to write: set-gid, as project folders are made."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users; run the tests as root to check this")
    path = Path(tempfile.mkdtemp(prefix="lab-"))
    try:
        os.chown(path, VICTIM, LAB)
        path.chmod(0o2775)
        yield path
    finally:
        shutil.rmtree(path)
