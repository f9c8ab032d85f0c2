"""Old sessions: moved aside for --new, or adopted from another machine."""

from __future__ import annotations

import os

from gputui.core.amounts import counted
from gputui.session import lock as locks
from gputui.session.errors import ForeignSession, SessionError
from gputui.session.layouts import Layout
from gputui.session.lock import Lock, OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.session_dir import Paths
from gputui.session.store.opening import open_session

# ---- `--new` ----


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


# ---- adoption ----


def refusal(paths: Paths) -> ForeignSession | None:
    """Why it cannot be opened here as it is; None: it can."""
    lock = _taken(paths)
    try:
        open_session(paths, Layout()).store.close()
    except ForeignSession as foreign:
        return foreign
    finally:
        lock.release()
    return None


def adopt(paths: Paths) -> None:
    """From now on it lives here; attempts that were under way where it lived are lost, those in a cluster go on."""
    lock = _taken(paths)
    try:
        lock.sign(OwnerKind.CLIENT)
        owner = Owner(paths, lock, OwnerKind.CLIENT, places=False, adopt=True)
        owner.start()
        owner.do(lambda act: None).result()
        owner.close()
    finally:
        lock.release()


def _taken(paths: Paths) -> Lock:
    lock = locks.take(paths)
    if lock is None:
        raise locks.busy(paths)
    return lock
