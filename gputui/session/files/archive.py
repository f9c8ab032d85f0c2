"""`--new`: the old session's folder gets another name, so that a fresh one can take its place."""

from __future__ import annotations

import os

from gputui.core.views.amounts import counted
from gputui.session.errors import SessionError
from gputui.session.ownership import lock as locks
from gputui.session.store.opening import Layout, open_session

from .paths import Paths


def move_aside(paths: Paths) -> str | None:
    """Returns the old folder's new name; None: there was no session. Refuses what may still run."""
    if not paths.exists():
        return None
    paths.check()
    lock = locks.take(paths)
    if lock is None:
        raise SessionError(f"{locks.busy(paths)}; end that first, or choose another --output-dir")
    try:
        opened = open_session(paths, Layout())
        running, is_ours = len(opened.scheduler.book.active), opened.identity.made_folder
        opened.store.close()
        if running:
            run = counted(running, "job runs", "jobs run")
            raise SessionError(f"{run} in {paths.root} still; wait for that, or choose another --output-dir")
        if not is_ours:
            raise SessionError(f"{paths.root} was not made by gputui, so it is not moved; choose another --output-dir")
        aside = _free_name(paths.root)
        os.rename(paths.root, aside)
        return aside
    finally:
        lock.release()


def _free_name(root: str) -> str:
    number = 1
    while os.path.lexists(f"{root}.{number}"):
        number += 1
    return f"{root}.{number}"
