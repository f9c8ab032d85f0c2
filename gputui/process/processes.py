"""Processes: reading /proc, finding the processes of an attempt, and sending them signals through pidfds."""

from __future__ import annotations

import errno
import os
import signal
import stat as modes
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

# Pidfds, which never refer to a later process with the same pid


OPEN_SYSCALL, SEND_SYSCALL = 434, 424
P_PIDFD: int = getattr(os, "P_PIDFD", 3)

native_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
native_send: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
kernel_has_them: bool | None = None
"""Whether the kernel supports pidfds, or None if this has not been checked yet."""


def available() -> bool:
    """Return whether the kernel supports pidfds."""
    global kernel_has_them
    if kernel_has_them is None:
        try:
            os.close(open_process(os.getpid()))
            kernel_has_them = True
        except (OSError, ImportError):  # ImportError: Python without ctypes
            kernel_has_them = False
    return kernel_has_them


def open_process(pid: int) -> int:
    """Return a descriptor that becomes readable when a process ends. Raise ProcessLookupError if it does not exist."""
    if native_open is not None:
        return native_open(pid)
    return _syscall(OPEN_SYSCALL, pid, 0)


def send_signal(fd: int, signum: int) -> None:
    if native_send is not None:
        native_send(fd, signum)
    else:
        _syscall(SEND_SYSCALL, fd, int(signum), None, 0)


def reap(pid: int, fd: int | None) -> os.waitid_result | None:
    """Return how a child ended and reap it, or return None if it has not ended or is not a child of ours."""
    try:
        kind, which = (P_PIDFD, fd) if fd is not None else (os.P_PID, pid)
        return os.waitid(kind, which, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    except OSError:
        # Linux 5.3 can open pidfds but cannot wait for them.
        return reap(pid, None) if fd is not None else None


@cache
def _libc() -> Any:
    import ctypes  # slow, and rarely needed

    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | None) -> int:
    import ctypes

    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


# /proc


TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
TOKEN_VARIABLE = "GPUTUI_RUN"
_DEAD = (b"Z", b"X", b"x")
_STOPPED = (b"T", b"t")
_EXITING = 0x4
"""The flag PF_EXITING in /proc/PID/stat."""
_SHOWN = 100
_PIECE = 1 << 16


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use."""

    state: bytes
    parent: int
    group: int
    session: int
    started: int
    """Start time in clock ticks since boot. Together with the pid, it identifies a process of this boot."""
    worked: int = 0
    """CPU time in clock ticks, including the CPU time of children that have ended."""
    exiting: bool = False
    """Whether the process is exiting. If it is, signals no longer have an effect."""
    resident: int = 0
    """Resident memory in bytes."""

    @property
    def alive(self) -> bool:
        """Whether the process is alive, not a zombie. Zombies remain forever if PID 1 does not reap its children."""
        return self.state not in _DEAD

    @property
    def stopped(self) -> bool:
        return self.state in _STOPPED


Members = dict[int, Stat]


class AttemptMarks(NamedTuple):
    """The properties by which the processes of an attempt are recognized."""

    token: str
    wrapper: int | None = None
    pinned: bool = False
    """Whether the wrapper was watched through its pidfd, so that its pid cannot have been reused."""
    logs: tuple[str, ...] = ()
    """The attempt's log files. Even a daemonized process may still write to them."""
    known: dict[int, int] | None = None
    """The start time of each process that was found before, by pid. Its parent may have ended since then."""


def stat_of(pid: int) -> Stat | None:
    """Return the status of a process, or None if it does not exist. Raise OSError if descriptors or memory run out."""
    return parse_stat(_content(f"/proc/{pid}/stat"))


def parse_stat(content: bytes) -> Stat | None:
    if b")" not in content:
        return None
    # The name in parentheses may contain spaces and parentheses.
    fields = content[content.rindex(b")") + 2 :].split()
    return Stat(
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        worked=sum(map(int, fields[11:15])),
        exiting=bool(int(fields[6]) & _EXITING),
        resident=int(fields[21]) * PAGE,
    )


def bears_token(pid: int, token: str) -> bool:
    entry = os.fsencode(f"{TOKEN_VARIABLE}={token}")
    return b"\0" + entry + b"\0" in b"\0" + _content(f"/proc/{pid}/environ") + b"\0"


def leads_attempt(pid: int, token: str) -> bool:
    """Return whether the process is the live wrapper of the attempt: it has the attempt's token and leads a session."""
    stat = stat_of(pid)
    return stat is not None and stat.alive and stat.session == pid and bears_token(pid, token)


def tree(marks: AttemptMarks, met: Callable[[int, Stat], None] | None = None) -> Members:
    """Return the live processes of an attempt, parents first, so that parents are signaled before their children die.

    `met` is called for each process with the token as soon as it is found, because it may end soon after.
    """
    living, bearers, writers = _scan(marks, met)
    known = (marks.known or {}).items()
    found_before = {pid for pid, started in known if pid in living and living[pid].started == started}
    members = bearers | writers | found_before | _session_of(marks, living, bearers)
    _add_kin(members, living)
    members.discard(os.getpid())
    members_now = {pid: living[pid] for pid in sorted(members, key=lambda pid: _depth(pid, members, living))}
    if marks.known is not None:
        marks.known.clear()
        marks.known.update((pid, stat.started) for pid, stat in members_now.items())
    return members_now


def _depth(pid: int, members: set[int], living: Members) -> int:
    """Return the number of ancestors that are members. The loop is bounded, as reused pids could form a cycle."""
    depth = 0
    while (pid := living[pid].parent) in members and depth < len(members):
        depth += 1
    return depth


def _scan(marks: AttemptMarks, met: Callable[[int, Stat], None] | None) -> tuple[Members, set[int], set[int]]:
    """Return all live processes, the pids with the token, and the pids without the token that write to the logs."""
    living: Members = {}
    bearers: set[int] = set()
    writers: set[int] = set()
    logs = {_file_id(log) for log in marks.logs} - {None}
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


class TreeUse(NamedTuple):
    """What the live processes of an attempt use."""

    cpu_seconds: float
    memory: int
    """Resident memory in bytes. Pages that several processes share count several times."""


def use_of_trees(wrappers: Iterable[int]) -> dict[int, TreeUse]:
    """Return what the attempt of each wrapper uses. Attempts without live processes are omitted."""
    living = dict(_processes())
    used: dict[int, TreeUse] = {}
    for wrapper in wrappers:
        members = {pid for pid, stat in living.items() if pid == wrapper or stat.session == wrapper}
        if members:
            _add_kin(members, living)
            stats = [living[pid] for pid in members]
            used[wrapper] = TreeUse(sum(stat.worked for stat in stats) / TICKS, sum(stat.resident for stat in stats))
    return used


def signal_member(pid: int, started: int, signum: int, reached: Callable[[], None] | None = None) -> bool:
    """Send a signal to a process that may have ended, but never to a later process with the same pid.

    Return False if the process now belongs to another user. `started` is the start time of the process. `reached` is
    called just before the signal is sent, and only if the process has not begun to exit.
    """
    with suppress(ProcessLookupError):
        try:
            if available():
                fd = open_process(pid)
                try:
                    if _is_same(pid, started, reached):
                        send_signal(fd, signum)
                finally:
                    os.close(fd)
            elif _is_same(pid, started, reached):
                os.kill(pid, signum)
        except PermissionError:
            return False
    return True


def _is_same(pid: int, started: int, reached: Callable[[], None] | None) -> bool:
    stat = stat_of(pid)
    if stat is None or stat.started != started:
        return False
    if reached is not None and stat.alive and not stat.exiting:
        reached()
    return True


def command_of(wrapper: int) -> int | None:
    """Return the pid of the wrapper's command, or None if the command has not started or has ended."""
    children = _content(f"/proc/{wrapper}/task/{wrapper}/children").split()
    if not children and not os.path.exists(f"/proc/{wrapper}/task/{wrapper}/children"):
        children = [b"%d" % pid for pid, stat in _processes() if stat.parent == wrapper]
    alive = (int(child) for child in children if (stat := stat_of(int(child))) is not None and stat.alive)
    return next(alive, None)


def command_line(pid: int) -> str:
    """Return the start of a process's command line. It is not escaped, so it may contain control characters."""
    written = _content(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip() or _content(f"/proc/{pid}/comm").strip()
    return written.decode("utf-8", "replace")[:_SHOWN]


def user_of(pid: int) -> str:
    try:
        return user_name(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return "unknown user"


def user_name(uid: int) -> str:
    """Return the name of a user, or the uid if the user has no name."""
    import pwd  # rarely needed

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _processes() -> Iterator[tuple[int, Stat]]:
    """Yield all live processes, newest first, because the newest ones are likely to end soonest."""
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        stat = stat_of(pid)
        if stat is not None and stat.alive:
            yield pid, stat


def _may_be_read(pid: int) -> bool:
    """Return whether we may read the details of a process. One check is cheaper than several refused reads."""
    me = os.getuid()
    try:
        return me == 0 or os.stat(f"/proc/{pid}").st_uid == me
    except OSError:
        return False


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _writes_to(pid: int, logs: Container[tuple[int, int] | None]) -> bool:
    """Return whether the standard output or standard error of a process is one of the logs."""
    for number in (1, 2):
        link = f"/proc/{pid}/fd/{number}"
        if _file_id(link) in logs:
            with suppress(OSError):
                return bool(os.lstat(link).st_mode & modes.S_IWUSR)
    return False


def _session_of(marks: AttemptMarks, living: Members, bearers: set[int]) -> set[int]:
    """Return the processes in the wrapper's session, or none if the wrapper's pid may have been reused."""
    wrapper = marks.wrapper
    if wrapper is None or (wrapper in living and wrapper not in bearers):
        return set()
    members = {pid for pid, stat in living.items() if wrapper in (stat.group, stat.session)}
    return members if marks.pinned or members & bearers else set()


def _add_kin(members: set[int], living: Members) -> None:
    """Add all descendants of the members, and all processes in sessions that a member leads."""
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
    """Read a file in /proc. Return empty bytes if the process has ended or the file is not readable."""
    try:
        return _read(path)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return b""


def read_bytes(path: str, limit: int = 1 << 20) -> bytes:
    """Read a file. Return empty bytes if that fails for any reason."""
    try:
        return _read(path, limit)
    except OSError:
        return b""


def _read(path: str, limit: int = 1 << 30) -> bytes:
    """Read a file with system calls. A scan reads thousands of files, and `open()` takes twice as long."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < limit and (piece := os.read(fd, min(_PIECE, limit - len(content)))):
            content += piece
        return content
    finally:
        os.close(fd)
