"""Starting a wrapper: its own session, its logs opened with O_EXCL, clean signals, nothing else inherited.

Says in one exception type per cause why it could not, since each cause means something else for the job.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from .libc_spawn import posix_spawn

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
LOG_MODE = 0o666
HELD_BY_WRAPPER = range(3, 10)
LONGEST_ARGUMENT = 32 * os.sysconf("SC_PAGE_SIZE") - 1

_MACHINE_TROUBLE = frozenset(
    (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT, errno.EROFS, errno.EIO)
)
# Some file systems keep times in whole seconds, or in two.
_COARSEST_FILE_TIME_NS = 2_000_000_000

Environment = dict[str, str]


class SpawnError(Exception):
    """Nothing was started; the message is the sentence the user reads."""


class AlreadyStarted(SpawnError):
    """The attempt's log is there: it may have run before."""


class CannotStart(SpawnError):
    """It will not start however often it is tried."""


class NoRoomNow(SpawnError):
    """The machine lacks something; later it may start."""


def spawn(
    arguments: Sequence[str], environment: Environment, out: str, err: str | None, leases: Sequence[int] = ()
) -> int:
    """The pid of the wrapper, leader of its own session. `err` None: both streams into `out`."""
    begun = time.time_ns()
    try:
        return _spawn(arguments, environment, out, err, leases)
    except FileExistsError as error:
        raise AlreadyStarted("this attempt was started before") from error
    except ValueError as error:
        _remove_own_logs(out, err, begun)
        raise CannotStart(f"it cannot be passed to a shell: {error}") from error
    except OSError as error:
        _remove_own_logs(out, err, begun)
        raise _explained(error, arguments, out) from error


def _spawn(arguments: Sequence[str], environment: Environment, out: str, err: str | None, leases: Sequence[int]) -> int:
    try:
        return posix_spawn(arguments, environment, [*_file_actions(out, err), *_held(leases)])
    except NotImplementedError:
        return _spawn_by_popen(arguments, environment, out, err)


def _file_actions(out: str, err: str | None) -> list[tuple[Any, ...]]:
    """Opened in the child: the owner needs no descriptors and no further calls."""
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, out, LOG_FLAGS, LOG_MODE),
        (os.POSIX_SPAWN_DUP2, 1, 2) if err is None else (os.POSIX_SPAWN_OPEN, 2, err, LOG_FLAGS, LOG_MODE),
        *((os.POSIX_SPAWN_CLOSE, fd) for fd in _descriptors_of_our_parent()),
    ]


def _held(leases: Sequence[int]) -> list[tuple[Any, ...]]:
    """Under the numbers that the wrapper closes for its command."""
    return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in zip(HELD_BY_WRAPPER, leases, strict=False)]


def _spawn_by_popen(arguments: Sequence[str], environment: Environment, out: str, err: str | None) -> int:
    """For Pythons built against a C library that cannot make a session in posix_spawn (conda)."""
    import subprocess  # costs every process that imports it; most never come here

    with ExitStack() as logs:
        stdout = logs.enter_context(_created(out))
        stderr = subprocess.STDOUT if err is None else logs.enter_context(_created(err))
        process = subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    # Otherwise subprocess would reap the child behind our back.
    process.returncode = 0
    return process.pid


def _created(log: str) -> Any:
    return open(os.open(log, LOG_FLAGS | os.O_CLOEXEC, LOG_MODE), "ab", buffering=0)


_inherited: tuple[int, ...] | None = None


def _descriptors_of_our_parent() -> tuple[int, ...]:
    """What whoever started us left open; our own descriptors close by themselves."""
    global _inherited
    if _inherited is None:
        # One beyond the limit cannot be named in an action, and the whole start would fail.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        _inherited = tuple(fd for fd in map(int, os.listdir("/proc/self/fd")) if 2 < fd < limit and _inheritable(fd))
    return _inherited


def _inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def _remove_own_logs(out: str, err: str | None, begun: int) -> None:
    """Removes what this call created, and only that: an older log says that the attempt was started before."""
    for log in (out, err):
        if log is not None:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _remove_own_log(log, begun)


def _remove_own_log(log: str, begun: int) -> None:
    stat = os.stat(log)
    if stat.st_size or stat.st_mtime_ns < begun - _COARSEST_FILE_TIME_NS:
        raise AlreadyStarted("this attempt was started before")
    os.unlink(log)


def _explained(error: OSError, arguments: Sequence[str], out: str) -> SpawnError:
    """The kernel gives one number for all that can fail in the child; what is at hand tells the cases apart."""
    folder = os.path.dirname(out)
    if error.errno in _MACHINE_TROUBLE:
        return NoRoomNow(f"the machine could not start it now: {_words(error)}")
    if error.errno == errno.E2BIG:
        return CannotStart(_too_long(arguments))
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.isdir(folder):
        return CannotStart(f"the folder for its output is gone: {folder}")
    if error.errno in (errno.EACCES, errno.EPERM) and not os.access(folder, os.W_OK | os.X_OK):
        return CannotStart(f"the folder for its output cannot be written: {folder}")
    return CannotStart(f"it could not be started: {_words(error)}")


def _too_long(arguments: Sequence[str]) -> str:
    longest = max(len(os.fsencode(argument)) for argument in arguments)
    if longest > LONGEST_ARGUMENT:
        return f"the command is too long: {longest:,} bytes, and this machine takes {LONGEST_ARGUMENT:,}"
    return "the command and its environment are too long for this machine together"


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None else str(error)
