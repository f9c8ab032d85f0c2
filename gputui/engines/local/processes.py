"""What /proc tells about processes, and which of them belong to one attempt.

An attempt's tree is the session and process group of its wrapper, every process that bears its token in the
environment, and all descendants of those. A scan costs milliseconds: never in the owner's thread. Where nothing
can be seen (no descriptor left) functions raise OSError, since nothing seen is not nobody there.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from . import pidfd

TOKEN_VARIABLE = "GPUTUI_RUN"
_DEAD = (b"Z", b"X", b"x")
_STOPPED = (b"T", b"t")


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    state: bytes
    parent: int
    group: int
    session: int
    started: int
    """In clock ticks since boot; with the pid it names a process of this boot."""

    @property
    def alive(self) -> bool:
        """A zombie is dead: where PID 1 does not reap, it stays for ever."""
        return self.state not in _DEAD

    @property
    def stopped(self) -> bool:
        return self.state in _STOPPED


Members = dict[int, Stat]


class Marks(NamedTuple):
    """By what the processes of an attempt are known."""

    token: str
    wrapper: int | None = None
    pinned: bool = False
    """The wrapper was watched by its pidfd until its end, so its number has not passed to anybody else."""


def stat_of(pid: int) -> Stat | None:
    content = _content(f"/proc/{pid}/stat")
    if b")" not in content:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    fields = content[content.rindex(b")") + 2 :].split()
    return Stat(fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def bears_token(pid: int, token: str) -> bool:
    entry = os.fsencode(f"{TOKEN_VARIABLE}={token}")
    return b"\0" + entry + b"\0" in b"\0" + _content(f"/proc/{pid}/environ") + b"\0"


def leads_attempt(pid: int, token: str) -> bool:
    """Whether this is the live wrapper of the attempt: bears its token and leads a session."""
    stat = stat_of(pid)
    return stat is not None and stat.alive and stat.session == pid and bears_token(pid, token)


def tree(marks: Marks, met: Callable[[int, Stat], None] | None = None) -> Members:
    """The live processes of an attempt; without a wrapper only bearers of the token and their descendants.

    `met` is called for each bearer as soon as it is seen: one that forks and exits all the time is gone later.
    """
    mine: Members = {}
    bearers: set[int] = set()
    for pid, stat in _my_processes():
        mine[pid] = stat
        if bears_token(pid, marks.token):
            bearers.add(pid)
            if met is not None:
                met(pid, stat)
    members = bearers | _session_of(marks, mine, bearers)
    _add_descendants(members, mine)
    members.discard(os.getpid())
    return {pid: mine[pid] for pid in members}


def signal_member(pid: int, started: int, signum: int) -> None:
    """Signals the process only if it is still the one that started then; one that is gone is no error."""
    with suppress(ProcessLookupError, PermissionError):
        if pidfd.available():
            _signal_pinned(pid, started, signum)
        elif _still(pid, started):
            os.kill(pid, signum)


def signal_members(members: Mapping[int, Stat], signals: Iterable[signal.Signals]) -> None:
    for signum in signals:
        for pid, stat in members.items():
            signal_member(pid, stat.started, signum)


def _signal_pinned(pid: int, started: int, signum: int) -> None:
    fd = pidfd.open_process(pid)
    try:
        if _still(pid, started):
            pidfd.send_signal(fd, signum)
    finally:
        os.close(fd)


def _still(pid: int, started: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and stat.started == started


def _my_processes() -> Iterator[tuple[int, Stat]]:
    """The live ones of this user, newest first because they are the first to be gone."""
    me = os.getuid()
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        if _owner_of(pid) == me:
            stat = stat_of(pid)
            if stat is not None and stat.alive:
                yield pid, stat


def _owner_of(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _session_of(marks: Marks, mine: Members, bearers: set[int]) -> set[int]:
    """A number that was only read may be a stranger's by now: then somebody there must bear the token."""
    wrapper = marks.wrapper
    if wrapper is None or (wrapper in mine and wrapper not in bearers):
        return set()
    members = {pid for pid, stat in mine.items() if wrapper in (stat.group, stat.session)}
    return members if marks.pinned or members & bearers else set()


def _add_descendants(members: set[int], mine: Members) -> None:
    children: dict[int, list[int]] = {}
    for pid, stat in mine.items():
        children.setdefault(stat.parent, []).append(pid)
    unseen = list(members)
    while unseen:
        for child in children.get(unseen.pop(), ()):
            if child not in members:
                members.add(child)
                unseen.append(child)


def _content(path: str) -> bytes:
    """Empty when the process is gone or hides it."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return b""
