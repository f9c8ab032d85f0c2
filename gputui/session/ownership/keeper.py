"""Keepers: the process that waits for the lock and owns the session when the owner dies."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

from gputui.process import descriptors, processes
from gputui.process.directories import FolderId
from gputui.process.spawn import spawn
from gputui.process.watch import NoThread, Watch, begin
from gputui.session import lock as locks
from gputui.session.control.connection import ClientError, NoOwner, connected
from gputui.session.environment import inherited
from gputui.session.event_loop import Loop, Timer
from gputui.session.lock import Holder, OwnerKind
from gputui.session.session_dir import Journal, Paths

# ---- Keepers ----


TAKES_OVER_WITHIN = 0.25
"""Seconds in which a waiting keeper has taken the lock of an owner that died."""
TURN_WITHIN = 5.0
"""Seconds that a client waits for another one that is starting a keeper."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
LIVED_WELL = 10.0
"""A keeper that waited so long did not die of being started."""
STARTED_WITHIN = 60.0
"""On a machine that does much else a Python takes seconds to start; one that cannot start says so at once."""


def spawn_keeper(root: str, *, wait: bool, folder: FolderId | None = None) -> int:
    """A new process without a terminal. `wait`: for the lock; otherwise it goes if the lock is held.

    `folder`: it keeps this very session, and goes if another is at its place.
    """
    role = ["--wait", "--for", str(os.getpid())] if wait else ["--start"]
    role += ["--folder", str(folder)] if folder is not None else []
    arguments = [sys.executable, "-P", "-X", "utf8", "-m", "gputui", "keep", *role, root]
    return spawn(arguments, inherited(), {})


class Waiter:
    """The owner's one waiting keeper; started anew when it dies, less and less eagerly."""

    def __init__(self, loop: Loop, paths: Paths, folder: FolderId, journal: Journal) -> None:
        self._loop = loop
        self._paths = paths
        self._folder = folder
        self._journal = journal
        self._pause = FIRST_PAUSE
        self._started = 0.0
        self._watch: Watch | None = None
        self._again: Timer | None = None

    @property
    def pid(self) -> int | None:
        return self._watch.pid if self._watch is not None else None

    def start(self) -> None:
        self._again = None
        self._started = time.monotonic()
        try:
            self.watch(spawn_keeper(self._paths.root, wait=True, folder=self._folder))
        except OSError as error:
            self._journal.write(f"no keeper could be started: {error}")
            self._retry()

    def watch(self, pid: int) -> None:
        """A keeper that was started already, by us."""
        self._started = time.monotonic()
        self._watch = Watch(pid)
        self._watch.begin(self._loop, self._died)

    def _died(self) -> None:
        assert self._watch is not None
        self._watch.finish()
        self._watch = None
        if time.monotonic() - self._started > LIVED_WELL:
            self._pause = FIRST_PAUSE
        self._journal.write("the waiting keeper died; another is started")
        self._retry()

    def _retry(self) -> None:
        self._again = self._loop.call_later(self._pause, self.start)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def ensure(self) -> None:
        """The owner leaves and somebody must follow: no time for back-off."""
        if self._again is not None:
            self._again.cancel()
        if self._watch is not None and _has_ended(self._watch.pid):
            self._watch.close()
            self._watch = None
        if self._watch is None:
            self.start()

    def end(self) -> None:
        """No successor is wanted: called before the lock is let go."""
        if self._again is not None:
            self._again.cancel()
        if self._watch is not None:
            self._watch.close()
            end_keeper(self._watch.pid)
            self._watch = None


def end_keeper(child: int) -> None:
    """One that this process started."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _has_ended(child: int) -> bool:
    """Asked of the kernel, for the news of it may still wait its turn."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def start_keeper_and_wait(root: str) -> None:
    """Returns when somebody answers: the keeper started here, or whoever was faster."""
    paths = Paths(root)
    paths.check()
    start = KeeperStart(paths)
    try:
        start.until_answered()
    finally:
        start.close()


class KeeperStart:
    """Starts a keeper where the session needs one: nobody has the lock, and no other client is starting one."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._keeper: int | None = None
        self._turn: int | None = None
        """The descriptor whose lock says that it is our turn to start one."""
        now = time.monotonic()
        self._deadline = now + STARTED_WITHIN
        self._turn_at_last = now + TURN_WITHIN
        # An owner that died has left its socket, and the keeper that waited for it is about to take the lock.
        self._not_before = now + TAKES_OVER_WITHIN if os.path.lexists(paths.socket) else now

    def until_answered(self) -> None:
        while time.monotonic() < self._deadline:
            with suppress(NoOwner):
                connected(self._paths.private).close()
                return
            if self._keeper is not None and os.waitpid(self._keeper, os.WNOHANG)[0]:
                self._keeper = None
                _explain(self._paths)  # whoever was faster may have been about to leave
            if self._keeper is None and self._is_wanted():
                self._keeper = _spawned(self._paths.root)
            time.sleep(0.005)
        raise ClientError(f"no keeper came up for {self._paths.root}; see {self._paths.log}")

    def _is_wanted(self) -> bool:
        return time.monotonic() >= self._not_before and self._has_turn() and not locks.is_held(self._paths)

    def _has_turn(self) -> bool:
        """One client after the other; whoever holds up the others for long, for instance stopped, is passed over."""
        if self._turn is not None or time.monotonic() > self._turn_at_last:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        try:
            fd = descriptors.open_private(os.path.join(self._paths.private, "starting"), flags)
        except OSError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            descriptors.close_private(fd)
            return not isinstance(error, BlockingIOError)
        self._turn = fd
        return True

    def close(self) -> None:
        if self._turn is not None:
            descriptors.close_private(self._turn)
        if self._keeper is not None:
            _reap_when_ended(self._keeper)


def _reap_when_ended(child: int) -> None:
    def reap() -> None:
        with suppress(ChildProcessError):
            os.waitpid(child, 0)

    with suppress(NoThread):
        begin(reap, "gputui-reaper")


def _spawned(root: str) -> int:
    try:
        return spawn_keeper(root, wait=False)
    except OSError as error:
        raise ClientError(f"no keeper can be started: {error.strerror}; end some processes and try again") from error


def _explain(paths: Paths) -> None:
    """A keeper that went at once either lost the race or could not open the session; the latter is said."""
    from gputui.session import lock as locks
    from gputui.session.errors import SessionError
    from gputui.session.layouts import Layout
    from gputui.session.store.opening import open_session

    try:
        lock = locks.take(paths)
        if lock is None:
            return
        try:
            open_session(paths, Layout()).store.close()
        finally:
            lock.release()
    except SessionError as error:
        raise ClientError(str(error)) from error


# ---- What a waiting keeper watches besides the lock ----


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
    if os.getppid() == pid and processes.available():
        with suppress(OSError):
            fd = processes.open_process(pid)
            select.select([fd], [], [])
            os.close(fd)
    while os.getppid() == pid:
        time.sleep(LOOK_EVERY)
