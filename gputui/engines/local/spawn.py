"""Starting a wrapper: its own session, its logs opened with O_EXCL, clean signals, nothing else inherited.

Says in one exception type per cause why it could not, since each cause means something else for the job.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gputui.process.descriptors import OpenedPath, Same
from gputui.process.spawn import spawn as spawn_process

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
LOG_MODE = 0o666
LEASE, SESSION = 8, 9
"""The wrapper's numbers of what it holds for its attempt; dash knows numbers of one digit only."""
HELD_BY_WRAPPER = (LEASE, SESSION)
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
    arguments: Sequence[str], environment: Environment, out: str, err: str | None, held: Mapping[int, int] | None = None
) -> int:
    """The pid of the wrapper, leader of its own session. `err` None: both streams into `out`.

    `held`: descriptors of ours by the number that the wrapper gets them under, and closes for its command.
    """
    begun = time.time_ns()
    try:
        return spawn_process(arguments, environment, {**_logs(out, err), **(held or {})})
    except FileExistsError as error:
        raise AlreadyStarted("this attempt was started before") from error
    except ValueError as error:
        _remove_own_logs(out, err, begun)
        raise CannotStart(f"it cannot be passed to a shell: {error}") from error
    except OSError as error:
        _remove_own_logs(out, err, begun)
        raise _explained(error, arguments, out) from error


def _logs(out: str, err: str | None) -> dict[int, OpenedPath | Same]:
    return {
        1: OpenedPath(out, LOG_FLAGS, LOG_MODE),
        2: Same(1) if err is None else OpenedPath(err, LOG_FLAGS, LOG_MODE),
    }


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
        return CannotStart(f"the folder for its output is gone: {os.path.realpath(folder)}")
    if error.errno in (errno.EACCES, errno.EPERM) and not os.access(folder, os.W_OK | os.X_OK):
        return CannotStart(f"the folder for its output cannot be written: {os.path.realpath(folder)}")
    return CannotStart(f"it could not be started: {_words(error)}")


def _too_long(arguments: Sequence[str]) -> str:
    longest = max(len(os.fsencode(argument)) for argument in arguments)
    if longest > LONGEST_ARGUMENT:
        return f"the command is too long: {longest:,} bytes, and this machine takes {LONGEST_ARGUMENT:,}"
    return "the command and its environment are too long for this machine together"


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None else str(error)
