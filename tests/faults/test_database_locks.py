"""The owner locks its database from opening to closing, so that no other program changes its log."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.sessions import VICTIM, Session
from support.waiting import until

LOOK = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0.2).execute('SELECT count(*) FROM job').fetchone()"


@pytest.fixture(autouse=True)
def _kernel_tells(tmp_path: Path) -> None:
    """Skip where the kernel does not show locks."""
    with open(tmp_path / "seen", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        if not locks_on(tmp_path / "seen"):
            pytest.skip("/proc/locks shows no locks here")


def locks_on(path: Path) -> int:
    """Count the POSIX locks on this file."""
    inode = f":{path.stat().st_ino}"
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return sum("POSIX" in words and any(word.endswith(inode) for word in words) for words in lines)


class Sentry:
    """Checks the locks all the time until the owner leaves."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._over = threading.Event()
        self.looks = self.missing = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        until(lambda: self._session.database.exists() and locks_on(self._session.database), "the database is locked")
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        socket = self._session.private / "control.sock"
        until(socket.exists, "the owner answers")
        while not self._over.wait(0.001):
            locked = locks_on(self._session.database)
            if not socket.exists():  # it leaves; the database is closed next
                return
            self.looks += 1
            self.missing += not locked


def test_the_locks_are_held_during_backups_and_adds(tmp_path: Path) -> None:
    session, gate, sentry = Session(tmp_path), tmp_path / "gate", Sentry(Session(tmp_path))
    orders = {"VICTIM": json.dumps({"backup_every": 0.1})}
    jobs = session.write(f"until test -e {gate}; do sleep 0.01; done")
    with session.running(jobs, program=VICTIM, env=orders) as owner, sentry.watching():
        for number in range(5):
            before = session.backup.stat().st_mtime_ns if session.backup.exists() else 0
            assert session.call("add", "--", "echo", str(number)).returncode == 0
            until(lambda before=before: backed_up_since(session, before), "there is another backup")  # type: ignore[misc]
        gate.touch()
        assert owner.wait(120) == 0
    assert sentry.looks > 50
    assert sentry.missing == 0
    assert not (session.private / "session.db-wal").exists()
    assert session.states() == ["succeeded"] * 6


def backed_up_since(session: Session, before: int) -> bool:
    return session.backup.exists() and session.backup.stat().st_mtime_ns > before


def test_added_jobs_survive_another_sqlite_process_and_kill_9(session: Session) -> None:
    with session.running(session.write("sleep 600", "sleep 600")) as owner:
        until(session.backup.exists, "the first backup is made")
        assert os.stat(session.backup).st_mode & 0o777 == 0o600
        for number in range(5):
            assert session.call("add", "--", "echo", str(number)).returncode == 0
        seen = subprocess.run([sys.executable, "-c", LOOK, str(session.database)], capture_output=True, text=True)
        assert "database is locked" in seen.stderr
        owner.kill()
        owner.wait()
    assert [job.spec.command for job in session.jobs()][2:] == [f"echo {number}" for number in range(5)]
