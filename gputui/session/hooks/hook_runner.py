"""Runs hooks: some at a time, each with a limit of time and output, none able to hold up or hurt the owner.

Works in the owner's thread without ever waiting there. A hook that fails, hangs or cannot be started is complained
about; one that is under way when the owner leaves goes on without it.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from gputui.core.views.amounts import counted
from gputui.process.descriptors import OpenedPath, Same
from gputui.process.event_loop import Cancel, EventLoop
from gputui.process.spawn import spawn
from gputui.process.watch import Watch
from gputui.session.login import captured

MOST_AT_ONCE = 8
MOST_WAITING = 1000
MOST_AT_CLOSE = 64
"""So many of those still waiting when the owner leaves are started, the newest."""
LOG_LIMIT = 1 << 20
"""Bytes of hooks.log; then it is kept once as hooks.log.1 and begun anew."""
RUNAWAY = 16 * LOG_LIMIT
LOOK_EVERY = 1.0

Variables = dict[str, str]


class Hook(Struct, frozen=True):
    command: str
    event: str
    variables: Variables


class HookRunner:
    """Some at a time, in the order they came; too many waiting are dropped, and that is said once."""

    def __init__(self, loop: EventLoop, log: str, timeout: float, complain: Callable[[str], None]) -> None:
        self._loop = loop
        self._log = log
        self._timeout = timeout
        self._complain = complain
        self._waiting: deque[Hook] = deque()
        self._starting = 0
        self._watched: set[_Run] = set()
        self._dropped = 0
        self._closed = False

    def take(self, hook: Hook) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
            if self._dropped == 1:
                self._complain(f"{MOST_WAITING} hooks wait already; further ones are left out")
            return
        self._waiting.append(hook)
        self._start_more()

    def _start_more(self) -> None:
        while self._waiting and self._starting + len(self._watched) < MOST_AT_ONCE:
            self._starting += 1
            hook = self._waiting.popleft()
            self._loop.run_in_thread(partial(spawned, hook, self._log), partial(self._started, hook))

    def _started(self, hook: Hook, result: int | str) -> None:
        self._starting -= 1
        if isinstance(result, str):
            self._complain(f"hook on_{hook.event}: {result}")
        elif not self._closed:
            run = _Run(hook, result, self._timeout, self._log)
            self._watched.add(run)
            run.begin(self._loop, partial(self._ended, run))
        self._go_on()

    def _ended(self, run: _Run) -> None:
        self._watched.discard(run)
        trouble = run.finish()
        if trouble is not None:
            self._complain(f"hook on_{run.hook.event}: {trouble}")
        self._go_on()

    def _go_on(self) -> None:
        if self._closed:
            return
        self._start_more()
        if self._dropped and not self._waiting:
            self._complain(f"{counted(self._dropped, 'hook was', 'hooks were')} left out")
            self._dropped = 0

    def close(self) -> None:
        self._closed = True
        for run in self._watched:
            run.let_go()
        if len(self._waiting) > MOST_AT_CLOSE:
            self._complain(
                f"{counted(len(self._waiting) - MOST_AT_CLOSE, 'hook was', 'hooks were')} left out: the owner leaves"
            )
        for hook in list(self._waiting)[-MOST_AT_CLOSE:]:
            result = spawned(hook, self._log)
            if isinstance(result, str):
                self._complain(f"hook on_{hook.event}: {result}")
        self._waiting.clear()


class _Run:
    """One hook under way."""

    def __init__(self, hook: Hook, pid: int, timeout: float, log: str) -> None:
        self.hook = hook
        self._watch = Watch(pid)
        self._left = timeout
        self._limit = timeout
        self._log = log
        self._killed: str | None = None
        self._timer: Cancel | None = None

    def begin(self, loop: EventLoop, ended: Callable[[], None]) -> None:
        self._watch.begin(loop, ended)
        self._later(loop)

    def _later(self, loop: EventLoop) -> None:
        self._timer = loop.call_later(min(LOOK_EVERY, max(0.0, self._left)), lambda: self._look(loop))

    def _look(self, loop: EventLoop) -> None:
        self._left -= LOOK_EVERY
        if self._left <= 0:
            self._kill(f"killed after {self._limit:g} s (hooks.timeout)")
        elif _size(self._log) > RUNAWAY:
            self._kill("killed: it printed without end")
        else:
            self._later(loop)

    def _kill(self, why: str) -> None:
        self._killed = why
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._watch.pid, signal.SIGKILL)

    def finish(self) -> str | None:
        """After its end: what went wrong, if anything did."""
        if self._timer is not None:
            self._timer.cancel()
        result = self._watch.finish()
        if self._killed is not None:
            return self._killed
        if result is None or (result.si_code == os.CLD_EXITED and result.si_status == 0):
            return None
        return f"{'exit' if result.si_code == os.CLD_EXITED else 'signal'} {result.si_status}; see {self._log}"

    def let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watch.close()


def spawned(hook: Hook, log: str) -> int | str:
    """The pid of a new session's leader, or the sentence why there is none."""
    try:
        _make_room(log)
        output = OpenedPath(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return spawn(["/bin/sh", "-c", hook.command], {**captured(), **hook.variables}, {1: output, 2: Same(1)})
    except (OSError, ValueError) as error:
        return f"could not be started: {error}"


def _make_room(log: str) -> None:
    if _size(log) > LOG_LIMIT:
        os.replace(log, log + ".1")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
