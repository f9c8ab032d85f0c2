"""Backups: whole copies, and never a damaged one in the place of a good one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.owning import spec

from gputui.core.job import Job, Queued
from gputui.session.event_loop import Loop
from gputui.session.session_dir import Journal, Paths
from gputui.session.store import backup
from gputui.session.store.backup import Backups
from gputui.session.store.store import Change, Store


def backed_up(paths: Paths, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One backup, from its beginning to its end."""
    monkeypatch.setattr(backup, "FIRST_AFTER", 0.0)
    loop = Loop()
    backups = Backups(loop, store, paths, Journal(paths.log))
    made = backups._made

    def stop(trouble: str | None) -> None:
        made(trouble)
        loop.stop()

    monkeypatch.setattr(backups, "_made", stop)
    loop.run()
    loop.close()


def test_damage_on_the_disk_never_replaces_a_good_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(str(tmp_path))
    paths.create()
    store = Store(paths.database)
    # More than SQLite keeps in memory: what it remembers is sound still.
    jobs = [Job(id, spec(f"echo {id} {'x' * 4000}"), 0.0, 30, float(id), Queued(0.0)) for id in range(2000)]
    store.commit(Change(jobs=jobs))
    store.make_room()
    backed_up(paths, store, monkeypatch)
    good = Path(paths.backup).read_bytes()
    with open(paths.database, "r+b") as file:
        file.seek(4096 * 100)
        file.write(b"\xa5" * 4096 * 100)
    backed_up(paths, store, monkeypatch)
    assert Path(paths.backup).read_bytes() == good
    assert "the backup before is kept" in Path(paths.log).read_text()
    store.close()
    copy = Store(paths.backup)
    assert list(copy.load().book) == jobs
    copy.close()
