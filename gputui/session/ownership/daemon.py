"""The daemon: a process that waits for the session's lock and takes over when the owner dies."""

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
from gputui.process.directories import DirectoryId
from gputui.process.spawn import spawn
from gputui.process.watch import NoThread, Watch, start_thread
from gputui.session import lock as locks
from gputui.session.control.connection import ClientError, NoOwner, connect
from gputui.session.environment import inherited
from gputui.session.event_loop import Loop, Timer
from gputui.session.lock import Holder, OwnerKind
from gputui.session.session_dir import Journal, Paths

TAKEOVER_TIME = 0.25
"""Seconds within which a waiting daemon takes the lock of an owner that died."""
START_LOCK_TIMEOUT = 5.0
"""Seconds that a client waits for another client that is starting a daemon."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
MIN_HEALTHY_LIFE = 10.0
"""Seconds after which a daemon that dies is assumed to have started successfully."""
START_TIMEOUT = 60.0
"""Seconds to wait for a new daemon to answer, because Python takes seconds to start on a busy machine. A daemon that
fails exits at once.
"""


def spawn_daemon(root: str, *, wait: bool, directory: DirectoryId | None = None) -> int:
    """Start a daemon in the background and return its pid. If `wait` is set, it waits for the lock; otherwise it exits
    if the lock is held.

    `directory` identifies the session. The daemon exits if another session is at its path.
    """
    role = ["--wait", "--for", str(os.getpid())] if wait else ["--start"]
    role += ["--directory", str(directory)] if directory is not None else []
    arguments = [sys.executable, "-P", "-X", "utf8", "-m", "gputui", "daemon", *role, root]
    return spawn(arguments, inherited(), {})


class Waiter:
    """The owner's waiting daemon. If it dies, it is restarted with exponential back-off."""

    def __init__(self, loop: Loop, paths: Paths, directory: DirectoryId, journal: Journal) -> None:
        self._loop = loop
        self._paths = paths
        self._directory = directory
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
            self.watch(spawn_daemon(self._paths.root, wait=True, directory=self._directory))
        except OSError as error:
            self._journal.write(f"cannot start a daemon: {error}")
            self._retry()

    def watch(self, pid: int) -> None:
        """Watch a daemon that was started by this process."""
        self._started = time.monotonic()
        self._watch = Watch(pid)
        self._watch.begin(self._loop, self._died)

    def _died(self) -> None:
        assert self._watch is not None
        self._watch.finish()
        self._watch = None
        if time.monotonic() - self._started > MIN_HEALTHY_LIFE:
            self._pause = FIRST_PAUSE
        self._journal.write("standby daemon died; starting another")
        self._retry()

    def _retry(self) -> None:
        self._again = self._loop.call_later(self._pause, self.start)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def ensure(self) -> None:
        """Make sure that a daemon is waiting before the owner leaves. If none is, start one without back-off."""
        if self._again is not None:
            self._again.cancel()
        if self._watch is not None:
            # Ask the kernel: the callback that reports the end may not have run yet.
            with suppress(ChildProcessError):
                if os.waitid(os.P_PID, self._watch.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return
            self._watch.close()
        self.start()

    def end(self) -> None:
        """End the waiting daemon. Call this before the lock is released."""
        if self._again is not None:
            self._again.cancel()
        if self._watch is not None:
            self._watch.close()
            end_daemon(self._watch.pid)
            self._watch = None


def end_daemon(child: int) -> None:
    """Kill a daemon that was started by this process."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def start_daemon_and_wait(root: str) -> None:
    """Start a daemon and wait until an owner answers. The owner may be this daemon or another process
    that was faster.
    """
    paths = Paths(root)
    paths.check()
    start = DaemonStart(paths)
    try:
        start.until_answered()
    finally:
        start.close()


class DaemonStart:
    """The start of a daemon, for a session without an owner. Only one client at a time starts one."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._daemon: int | None = None
        self._start_lock: int | None = None
        """Descriptor of the lock file that this process holds while it may start a daemon, or None."""
        now = time.monotonic()
        self._deadline = now + START_TIMEOUT
        self._lock_deadline = now + START_LOCK_TIMEOUT
        # If there is a socket, the owner may have died a moment ago, and its daemon is about to take the lock.
        self._not_before = now + TAKEOVER_TIME if os.path.lexists(paths.socket) else now

    def until_answered(self) -> None:
        while time.monotonic() < self._deadline:
            with suppress(NoOwner):
                connect(self._paths.private).close()
                return
            if self._daemon is not None and os.waitpid(self._daemon, os.WNOHANG)[0]:
                self._daemon = None
                self._raise_if_unusable()  # if this returns, another owner was faster and may be leaving
            if self._daemon is None and self._is_wanted():
                try:
                    self._daemon = spawn_daemon(self._paths.root, wait=False)
                except OSError as error:
                    why = f"{error.strerror}; end some processes and try again"
                    raise ClientError(f"no daemon can be started: {why}") from error
            time.sleep(0.005)
        raise ClientError(f"daemon for {self._paths.root} did not start; see {self._paths.log}")

    def _is_wanted(self) -> bool:
        if time.monotonic() < self._not_before or not self._take_start_lock() or locks.is_held(self._paths):
            return False
        holder = locks.holder(self._paths)
        return holder is None or not holder.cool_down

    def _take_start_lock(self) -> bool:
        """Return whether this process may start a daemon now. Clients take turns, but do not wait long, because one of
        them may be stopped.
        """
        if self._start_lock is not None or time.monotonic() > self._lock_deadline:
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
        self._start_lock = fd
        return True

    def _raise_if_unusable(self) -> None:
        """Raise ClientError with the reason if the session cannot be opened."""
        from gputui.session.errors import SessionError
        from gputui.session.messages import Layout
        from gputui.session.store.opening import open_session

        try:
            lock = locks.take(self._paths)
            if lock is not None:
                try:
                    open_session(self._paths, Layout()).store.close()
                finally:
                    lock.release()
        except SessionError as error:
            raise ClientError(str(error)) from error

    def close(self) -> None:
        if self._start_lock is not None:
            descriptors.close_private(self._start_lock)
        if (daemon := self._daemon) is not None:

            def reap() -> None:
                with suppress(ChildProcessError):
                    os.waitpid(daemon, 0)

            with suppress(NoThread):
                start_thread(reap, "gputui-reaper")


# Superfluous daemons


LOOK_EVERY = 0.5
SETTLED_AFTER = 2.0
"""Seconds after which an owner is assumed to have a waiting daemon of its own."""


class OrphanWatch:
    """A thread that ends a waiting daemon if the process that started the daemon died without owning the session.

    This can happen during a hand-over. In that case the owner has another daemon.
    """

    def __init__(self, paths: Paths, starter: int) -> None:
        self._paths = paths
        self._starter = starter
        self._over = threading.Event()
        with suppress(NoThread):
            start_thread(self._watch, "gputui-orphan")

    def end(self) -> None:
        """Stop watching, because this daemon now owns the session."""
        self._over.set()

    def _watch(self) -> None:
        if os.getppid() == self._starter and processes.available():
            with suppress(OSError):
                fd = processes.open_process(self._starter)
                select.select([fd], [], [])
                os.close(fd)
        while os.getppid() == self._starter:
            time.sleep(LOOK_EVERY)
        while not self._over.wait(LOOK_EVERY):
            holder = locks.holder(self._paths)
            if holder is not None and self._is_settled(holder):
                os._exit(0)

    def _is_settled(self, holder: Holder) -> bool:
        """Return whether an app, a run or a daemon is alive and has owned the session for a while."""
        if holder.pid in (self._starter, os.getpid()) or holder.kind is OwnerKind.CLIENT:
            return False
        return time.time() - holder.since > SETTLED_AFTER and os.path.exists(f"/proc/{holder.pid}")
