"""Making a session of another machine or container this one's, when only the user can know that nothing runs there."""

from __future__ import annotations

from gputui.session.errors import ForeignSession
from gputui.session.files.paths import Paths
from gputui.session.owner.owner import Owner
from gputui.session.ownership import lock as locks
from gputui.session.ownership.lock import Lock, OwnerKind

from .opening import Layout, open_session


def refusal(paths: Paths) -> str | None:
    """Why it cannot be opened here as it is; None: it can."""
    lock = _taken(paths)
    try:
        open_session(paths, Layout()).store.close()
    except ForeignSession as foreign:
        return str(foreign)
    finally:
        lock.release()
    return None


def adopt(paths: Paths) -> None:
    """From now on it lives here; attempts that were under way where it lived are lost."""
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
