"""Who holds a session that does not answer, for the sentence that a waiting user reads."""

from __future__ import annotations

from gputui.session.files.paths import Paths
from gputui.session.ownership import lock as locks

from .client import is_stopped, stopped_sentence


def holder_sentence(root: str) -> str:
    paths = Paths(root)
    who = locks.holder(paths)
    if who is not None and is_stopped(who.pid):
        return stopped_sentence(who.pid)
    return f"{locks.busy(paths)} and does not answer"
