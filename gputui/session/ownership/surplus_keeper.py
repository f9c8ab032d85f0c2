"""What a waiting keeper watches besides the lock: whether it is one too many, and must go."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress

from gputui.process import pidfd
from gputui.process.threads import NoThread, begin
from gputui.session.files.paths import Paths

from . import lock as locks
from .lock import Holder, OwnerKind

LOOK_EVERY = 0.5
SETTLED_AFTER = 2.0
"""An owner that has been there for so long has a waiting keeper of its own."""


class Vigil:
    """A keeper waits for the death of whoever started it. If that one died without owning the session, for instance
    while the session was being handed to it, the owner has another keeper already."""

    def __init__(self, paths: Paths, starter: int) -> None:
        self._paths = paths
        self._starter = starter
        self._over = threading.Event()
        with suppress(NoThread):
            begin(self._watch, "gputui-vigil")

    def end(self) -> None:
        """The keeper owns now."""
        self._over.set()

    def _watch(self) -> None:
        _await_end(self._starter)
        while not self._over.wait(LOOK_EVERY):
            holder = locks.holder(self._paths)
            if holder is not None and self._is_settled(holder):
                os._exit(0)

    def _is_settled(self, holder: Holder) -> bool:
        """A client owns for a moment only, and whoever is dead does not own."""
        if holder.pid in (self._starter, os.getpid()) or holder.kind is OwnerKind.CLIENT:
            return False
        return time.time() - holder.since > SETTLED_AFTER and os.path.exists(f"/proc/{holder.pid}")


def _await_end(pid: int) -> None:
    """Of our parent: once it is dead, somebody else is our parent."""
    if os.getppid() == pid and pidfd.available():
        with suppress(OSError):
            fd = pidfd.open_process(pid)
            select.select([fd], [], [])
            os.close(fd)
    while os.getppid() == pid:
        time.sleep(LOOK_EVERY)
