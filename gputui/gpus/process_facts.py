"""What the kernel knows of a process: who, what, since when. Owns reading /proc; knows nothing of GPUs.

Read directly, since psutil would cost the sampler twice the start-up time and fifteen times the reading.
Facts are read once per (pid, start time): they do not change, and a command line can be slow to read; but for the
memory a process has.
"""

from __future__ import annotations

import os
import pwd
import queue
import threading
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

_LOOKUP_PATIENCE = 0.1
_LARGEST_CACHE = 4096
_LONGEST_COMMAND = 4096
_PIECE = 1 << 16
_HOST_PID_NAMESPACE = "pid:[4026531836]"
_RUN_VARIABLE = b"GPUTUI_RUN="


class ProcessFacts(Struct, frozen=True):
    """A process as this pid namespace sees it; `alive` False: there is none of this pid."""

    alive: bool
    born: int | None = None
    started: float | None = None
    user: str | None = None
    command: str | None = None
    session: int | None = None
    run: str | None = None
    host_memory: int | None = None


NOBODY = ProcessFacts(alive=False)


class UserNames:
    """Names of users, looked up in a thread of its own: a directory server that hangs must not stop sampling."""

    def __init__(self, lookup: Callable[[int], str] = lambda uid: pwd.getpwuid(uid).pw_name) -> None:
        self._lookup = lookup
        self._names: dict[int, str] = {}
        self._asked: dict[int, threading.Event] = {}
        self._queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def name(self, uid: int) -> str:
        """The number itself while (or where) no name can be had."""
        if uid not in self._names:
            self._ask(uid).wait(_LOOKUP_PATIENCE)
        return self._names.get(uid, str(uid))

    def known(self, uid: int) -> bool:
        return uid in self._names

    def _ask(self, uid: int) -> threading.Event:
        event = self._asked.get(uid)
        if event is None:
            event = self._asked.setdefault(uid, threading.Event())
            self._queue.put(uid)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="user-names", daemon=True)
            self._thread.start()
        return event

    def _work(self) -> None:
        while True:
            uid = self._queue.get()
            try:
                self._names[uid] = self._lookup(uid)
            except (KeyError, OSError):
                self._names[uid] = str(uid)
            self._asked[uid].set()


class ProcessTable:
    """Facts by pid, each read once in a process's life. Used by several threads."""

    def __init__(self, proc: str = "/proc", users: UserNames | None = None, *, foreign: bool = False) -> None:
        self._proc, self._foreign = proc, foreign
        self._users = users or UserNames()
        self._boot_time = _boot_time(proc)
        self._cache: dict[tuple[int, int], ProcessFacts] = {}

    def facts(self, pid: int) -> ProcessFacts:
        """Nobody for a foreign pid: whoever has that number here is somebody else."""
        if self._foreign:
            return NOBODY
        fields = _stat_fields(self._proc, pid)
        if fields is None:
            return ProcessFacts(alive=_exists(pid)) if self._proc == "/proc" else NOBODY
        if fields[0] in (b"Z", b"X"):
            return NOBODY
        born = int(fields[19])
        facts = self._cache.get((pid, born)) or self._read(pid, born, session=int(fields[3]))
        return replace(facts, host_memory=int(fields[21]) * _PAGE)

    def _read(self, pid: int, born: int, session: int) -> ProcessFacts:
        uid = _uid(self._proc, pid)
        facts = ProcessFacts(
            alive=True,
            born=born,
            started=self._boot_time + born / _TICKS_PER_SECOND,
            user=None if uid is None else self._users.name(uid),
            command=_command(self._proc, pid),
            session=session,
            run=_run_token(self._proc, pid),
        )
        if uid is None or self._users.known(uid):
            self._remember((pid, born), facts)
        return facts

    def _remember(self, identity: tuple[int, int], facts: ProcessFacts) -> None:
        if len(self._cache) >= _LARGEST_CACHE:
            self._cache.clear()
        self._cache[identity] = facts


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat_fields(proc: str, pid: int) -> list[bytes] | None:
    """From the state on; the name before it may hold spaces and brackets."""
    content = read_bytes(f"{proc}/{pid}/stat")
    if content is None or b")" not in content:
        return None
    return content[content.rindex(b")") + 2 :].split()


def _uid(proc: str, pid: int) -> int | None:
    """From `status`: the owner of the folder is root for a process that forbids core dumps."""
    for line in (read_bytes(f"{proc}/{pid}/status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def _command(proc: str, pid: int) -> str | None:
    content = read_bytes(f"{proc}/{pid}/cmdline", _LONGEST_COMMAND)
    if content:
        return content.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    name = read_bytes(f"{proc}/{pid}/comm")
    return f"[{name.decode('utf-8', 'replace').strip()}]" if name else None


def _run_token(proc: str, pid: int) -> str | None:
    for entry in (read_bytes(f"{proc}/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(_RUN_VARIABLE):
            return entry.removeprefix(_RUN_VARIABLE).decode("utf-8", "replace")
    return None


def _exists(pid: int) -> bool:
    """Also for processes that a /proc with hidepid does not show."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _boot_time(proc: str) -> float:
    for line in (read_bytes(f"{proc}/stat") or b"").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def read_bytes(path: str, most: int = 1 << 20) -> bytes | None:
    """None where there is no such file, or none for us. Bare system calls: this is most of what a sample costs."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        content = b""
        while len(content) < most and (piece := os.read(fd, min(_PIECE, most - len(content)))):
            content += piece
        return content
    except OSError:
        return None
    finally:
        os.close(fd)


def foreign_pids() -> bool:
    """We live in a pid namespace of our own, while drivers speak of the machine's."""
    try:
        return os.readlink("/proc/self/ns/pid") != _HOST_PID_NAMESPACE
    except OSError:
        return False
