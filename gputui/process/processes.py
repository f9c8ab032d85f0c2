"""What /proc says about processes, which of them belong to an attempt, and pidfd handles on them."""

from __future__ import annotations

import errno
import os
import signal
import stat as modes
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

# ---- Handles on processes that a later process of the same number can never be confused with ----


OPEN_SYSCALL, SEND_SYSCALL = 434, 424
P_PIDFD: int = getattr(os, "P_PIDFD", 3)

native_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
native_send: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
kernel_has_them: bool | None = None
"""None: not asked yet."""


def available() -> bool:
    global kernel_has_them
    if kernel_has_them is None:
        kernel_has_them = _works()
    return kernel_has_them


def open_process(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; ProcessLookupError: there is none."""
    if native_open is not None:
        return native_open(pid)
    return _syscall(OPEN_SYSCALL, pid, 0)


def send_signal(fd: int, signum: int) -> None:
    if native_send is not None:
        native_send(fd, signum)
    else:
        _syscall(SEND_SYSCALL, fd, int(signum), None, 0)


def reap(pid: int, fd: int | None) -> os.waitid_result | None:
    """The end of a child of ours; None: not ours, or not ended. Never takes any other child's end."""
    try:
        if fd is not None:
            return _waitid(P_PIDFD, fd)
        return _waitid(os.P_PID, pid)
    except ChildProcessError:
        return None
    except OSError:
        # Linux 5.3 opens pidfds but cannot wait for them yet.
        return reap(pid, None) if fd is not None else None


def _waitid(kind: int, which: int) -> os.waitid_result | None:
    return os.waitid(kind, which, os.WEXITED | os.WNOHANG)


def _works() -> bool:
    try:
        os.close(open_process(os.getpid()))
    except (OSError, ImportError):  # ImportError: a Python without ctypes
        return False
    return True


@cache
def _libc() -> Any:
    import ctypes  # costs every process that imports it; most never come here

    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | None) -> int:
    import ctypes

    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


# ---- What /proc tells about processes, and which of them belong to one attempt ----


TICKS = os.sysconf("SC_CLK_TCK")
TOKEN_VARIABLE = "GPUTUI_RUN"
_DEAD = (b"Z", b"X", b"x")
_STOPPED = (b"T", b"t")
_EXITING = 0x4
"""PF_EXITING among the flags in /proc/PID/stat."""
_SHOWN = 100
_PIECE = 1 << 16


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    state: bytes
    parent: int
    group: int
    session: int
    started: int
    """In clock ticks since boot; with the pid it names a process of this boot."""
    worked: int = 0
    """Ticks of processor time, with those of its ended children."""
    exiting: bool = False
    """The kernel is tearing it down: no signal changes how it ends any more."""

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
    logs: tuple[str, ...] = ()
    """The attempt's own: a daemon that left everything else behind may still write to them."""
    known: dict[int, int] | None = None
    """When whom started that was met before: a parent may be gone since, and with it the way to its child."""


def stat_of(pid: int) -> Stat | None:
    content = _content(f"/proc/{pid}/stat")
    if b")" not in content:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    fields = content[content.rindex(b")") + 2 :].split()
    return Stat(
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        worked=sum(map(int, fields[11:15])),
        exiting=bool(int(fields[6]) & _EXITING),
    )


def bears_token(pid: int, token: str) -> bool:
    entry = os.fsencode(f"{TOKEN_VARIABLE}={token}")
    return b"\0" + entry + b"\0" in b"\0" + _content(f"/proc/{pid}/environ") + b"\0"


def leads_attempt(pid: int, token: str) -> bool:
    """Whether this is the live wrapper of the attempt: bears its token and leads a session."""
    stat = stat_of(pid)
    return stat is not None and stat.alive and stat.session == pid and bears_token(pid, token)


def tree(marks: Marks, met: Callable[[int, Stat], None] | None = None) -> Members:
    """The live processes of an attempt, parents first; without a wrapper only bearers of the token and descendants.

    Whoever is signalled in this order hears of it before it sees its children die.
    `met` is called for each bearer as soon as it is seen: one that forks and exits all the time is gone later.
    """
    living, bearers, writers = _look(marks, met)
    members = bearers | writers | _met_before(marks, living) | _session_of(marks, living, bearers)
    _add_kin(members, living)
    members.discard(os.getpid())
    members_now = {pid: living[pid] for pid in sorted(members, key=lambda pid: _depth(pid, members, living))}
    if marks.known is not None:
        marks.known.clear()
        marks.known.update((pid, stat.started) for pid, stat in members_now.items())
    return members_now


def _depth(pid: int, members: set[int], living: Members) -> int:
    """How many of its ancestors are members; bounded, for pids are reused while one looks."""
    depth = 0
    while (pid := living[pid].parent) in members and depth < len(members):
        depth += 1
    return depth


def _look(marks: Marks, met: Callable[[int, Stat], None] | None) -> tuple[Members, set[int], set[int]]:
    """All that live, those that bear the token, and those that only write to the logs."""
    living: Members = {}
    bearers: set[int] = set()
    writers: set[int] = set()
    logs = {_identity(log) for log in marks.logs} - {None}
    for pid, stat in _processes():
        living[pid] = stat
        if not _may_be_read(pid):
            continue
        if bears_token(pid, marks.token):
            bearers.add(pid)
            if met is not None:
                met(pid, stat)
        elif logs and _writes_to(pid, logs):
            writers.add(pid)
    return living, bearers, writers


def cpu_seconds(wrappers: Iterable[int]) -> dict[int, float]:
    """What the attempts of these wrappers have used of processors; one that is gone has no figure."""
    living = dict(_processes())
    used: dict[int, float] = {}
    for wrapper in wrappers:
        members = {pid for pid, stat in living.items() if pid == wrapper or stat.session == wrapper}
        if members:
            _add_kin(members, living)
            used[wrapper] = sum(living[pid].worked for pid in members) / TICKS
    return used


def descendants(wrapper: int) -> list[int]:
    """The processes of an attempt below its wrapper, oldest first."""
    living, members = dict(_processes()), {wrapper}
    _add_kin(members, living)
    return sorted((pid for pid in members if pid != wrapper and pid in living), key=lambda pid: living[pid].started)


def signal_member(pid: int, started: int, signum: int, reached: Callable[[], None] | None = None) -> bool:
    """Signals the process only if it is still the one that started then; one that is gone is no error.

    False: it is another user's now, and we may not. `reached` is called just before the signal is sent, and only if
    the process has not begun to exit.
    """
    with suppress(ProcessLookupError):
        try:
            if available():
                _signal_pinned(pid, started, signum, reached)
            elif _still(pid, started, reached):
                os.kill(pid, signum)
        except PermissionError:
            return False
    return True


def signal_members(members: Mapping[int, Stat], signals: Iterable[signal.Signals]) -> None:
    for signum in signals:
        for pid, stat in members.items():
            signal_member(pid, stat.started, signum)


def _signal_pinned(pid: int, started: int, signum: int, reached: Callable[[], None] | None) -> None:
    fd = open_process(pid)
    try:
        if _still(pid, started, reached):
            send_signal(fd, signum)
    finally:
        os.close(fd)


def _still(pid: int, started: int, reached: Callable[[], None] | None) -> bool:
    stat = stat_of(pid)
    if stat is None or stat.started != started:
        return False
    if reached is not None and stat.alive and not stat.exiting:
        reached()
    return True


def command_of(wrapper: int) -> int | None:
    """The process that the wrapper's command is; None: it is not there yet, or not any more."""
    children = _content(f"/proc/{wrapper}/task/{wrapper}/children").split()
    if not children and not os.path.exists(f"/proc/{wrapper}/task/{wrapper}/children"):
        children = [b"%d" % pid for pid, stat in _processes() if stat.parent == wrapper]
    alive = (int(child) for child in children if (stat := stat_of(int(child))) is not None and stat.alive)
    return next(alive, None)


def command_line(pid: int) -> str:
    """Its beginning, on one line; what a process calls itself may act on a terminal and is passed on as it is."""
    written = _content(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip() or _content(f"/proc/{pid}/comm").strip()
    return written.decode("utf-8", "replace")[:_SHOWN]


def user_of(pid: int) -> str:
    import pwd  # only the names of others' processes need it

    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "nobody known"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _processes() -> Iterator[tuple[int, Stat]]:
    """All that live, newest first because they are the first to be gone."""
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        stat = stat_of(pid)
        if stat is not None and stat.alive:
            yield pid, stat


def _may_be_read(pid: int) -> bool:
    """The kernel would refuse to tell us of others; asking once for all is cheaper."""
    me = os.getuid()
    try:
        return me == 0 or os.stat(f"/proc/{pid}").st_uid == me
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _writes_to(pid: int, logs: Container[tuple[int, int] | None]) -> bool:
    """As the command did whose standard output or error it has inherited."""
    for number in (1, 2):
        link = f"/proc/{pid}/fd/{number}"
        if _identity(link) in logs:
            with suppress(OSError):
                return bool(os.lstat(link).st_mode & modes.S_IWUSR)
    return False


def _met_before(marks: Marks, living: Members) -> set[int]:
    known_starts = marks.known or {}
    return {pid for pid, started in known_starts.items() if pid in living and living[pid].started == started}


def _session_of(marks: Marks, living: Members, bearers: set[int]) -> set[int]:
    """A number that was only read may be a stranger's by now: then somebody there must bear the token."""
    wrapper = marks.wrapper
    if wrapper is None or (wrapper in living and wrapper not in bearers):
        return set()
    members = {pid for pid, stat in living.items() if wrapper in (stat.group, stat.session)}
    return members if marks.pinned or members & bearers else set()


def _add_kin(members: set[int], living: Members) -> None:
    """Descendants, and who is in a session that a member leads."""
    kin: dict[int, list[int]] = {}
    for pid, stat in living.items():
        kin.setdefault(stat.parent, []).append(pid)
        kin.setdefault(stat.session, []).append(pid)
    unseen = list(members)
    while unseen:
        for relative in kin.get(unseen.pop(), ()):
            if relative not in members:
                members.add(relative)
                unseen.append(relative)


def _content(path: str) -> bytes:
    """Empty when the process is gone or hides it."""
    try:
        # Read a thousand times in one look: open() would cost twice as much.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = piece = os.read(fd, _PIECE)
            while piece:
                piece = os.read(fd, _PIECE)
                content += piece
            return content
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return b""
