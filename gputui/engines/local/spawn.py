"""Starting a wrapper: the sh script that claims an attempt and runs its command."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Generic, TypeVar

from gputui.engines.claims import EXIT_WORD, FOLDER_GONE_LINE
from gputui.engines.protocol import Launch
from gputui.process.descriptors import OpenedPath, Same
from gputui.process.processes import TOKEN_VARIABLE
from gputui.process.spawn import spawn as spawn_process
from gputui.process.watch import NoThread, begin

# ---- Starting a wrapper ----


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


# ---- The wrapper ----


SHELL = "/bin/sh"
CLAIM_FAILED = 125
_WITHOUT_LEASES = " ".join(f"{fd}>&-" for fd in HELD_BY_WRAPPER)
FOLDER_FAILED = 126

# Trapped with ':' and not '': the command gets default dispositions, and a signal to the whole group does not end
# the wrapper before it has written the code. The names of variables are ours alone because the command may know
# any other from its environment.
TEXT = f"""\
trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2 XCPU XFSZ
gputui_claim=$1 gputui_folder=$2 gputui_code=0
shift 2
set -C
{{ echo "$$" >"$gputui_claim"; }} 2>/dev/null || exit {CLAIM_FAILED}
if cd -- "$gputui_folder" 2>/dev/null; then
    "$@" {_WITHOUT_LEASES} || gputui_code=$?
    {{ echo "{EXIT_WORD.decode()} $gputui_code" >>"$gputui_claim"; }} 2>/dev/null
    exit "$gputui_code"
fi
{{ echo {FOLDER_GONE_LINE.decode()} >>"$gputui_claim"; }} 2>/dev/null
exit {FOLDER_FAILED}
"""

# A word with a slash may name a script without '#!', which sh would run itself and bash would run in bash.
_PLAIN_WORDS = re.compile(r"[ \t]*[A-Za-z0-9_.+@-]+(?:[ \t]+[A-Za-z0-9_./:,+@%=-]+)*[ \t\n]*")
# Without true and false, which are the same in every shell: the wrapper runs them itself.
_BUILTINS_AND_KEYWORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap type typeset ulimit umask unalias unset until wait while
"""
_NEEDS_BASH = frozenset(_BUILTINS_AND_KEYWORDS.split())
_EXPORTED_FUNCTION = "BASH_FUNC_"
_SETS_UP_BASH = ("BASH_ENV", "SHELLOPTS", "BASHOPTS")
# Shells that end their options at '--'; in others '--' would be the command.
_KNOW_END_OF_OPTIONS = frozenset(("ash", "bash", "dash", "ksh", "ksh93", "mksh", "sh", "yash", "zsh"))


def arguments(launch: Launch, claim: str) -> list[str]:
    """The argument list that runs the attempt."""
    return [SHELL, "-c", TEXT, "sh", claim, launch.cwd, *_command(launch)]


def variables(environment: Mapping[str, str], token: str) -> dict[str, str]:
    """The wrapper's environment: the job's and its token, without what its own shell must not act upon."""
    chosen = {**environment, TOKEN_VARIABLE: token}
    for name in kept_from_the_wrapper(environment):
        del chosen[name]
    return chosen


def plain_words(command: str) -> list[str] | None:
    """The words of a command that no shell is needed for; None: bash must read it."""
    if _PLAIN_WORDS.fullmatch(command) is None:
        return None
    words = command.split()
    return None if words[0] in _NEEDS_BASH and not _plain_echo(words) else words


def _plain_echo(words: list[str]) -> bool:
    """Shells differ about options of echo and about backslashes, and plain words hold no backslashes."""
    return words[0] == "echo" and not any(word.startswith("-") for word in words[1:2])


def _command(launch: Launch) -> list[str]:
    environment = launch.environment
    kept_variables = kept_from_the_wrapper(environment)
    if not (launch.shell or launch.login_shell or kept_variables) and "PATH" in environment:
        words = plain_words(launch.command)
        if words is not None:
            return words
    return [*handed_over(kept_variables, environment), *shell_call(launch)]


def shell_call(launch: Launch) -> list[str]:
    shell = launch.shell or _default_shell(launch.environment.get("PATH"))
    options = ["-l", "-c"] if launch.login_shell else ["-c"]
    if shell.rpartition("/")[2] in _KNOW_END_OF_OPTIONS:
        options.append("--")
    return [shell, *options, launch.command]


def kept_from_the_wrapper(environment: Mapping[str, str]) -> list[str]:
    # One look at all names together is what nearly every start pays.
    all_names = "\n".join(environment)
    if "BASH" not in all_names and "SHELLOPTS" not in all_names:
        return []
    return [name for name in environment if name.startswith(_EXPORTED_FUNCTION) or name in _SETS_UP_BASH]


def handed_over(names: list[str], environment: Mapping[str, str]) -> list[str]:
    """Gives the command what dash would drop (functions have no names it knows) and bash as sh would act upon."""
    return ["/usr/bin/env", *(f"{name}={environment[name]}" for name in names)] if names else []


@lru_cache(maxsize=64)
def _default_shell(search_path: str | None) -> str:
    import shutil  # brings three compressors along

    if search_path and shutil.which("bash", path=search_path):
        return "bash"
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or SHELL


# ---- Threads that do one kind of work beside each other while whoever gave it waits for all of it ----


T = TypeVar("T")
R = TypeVar("R")

HANDS = 3


class Crew(Generic[T, R]):
    """Its threads are made when there are two tasks at once for the first time; where none can be, it needs none."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work
        self._tasks: SimpleQueue[T | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[T, R] | BaseException] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def each(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Every task with what came of it. The last is done here, so that one alone wakes nobody."""
        under_way = 0
        last: T | None = None
        for task in tasks:
            if last is not None:
                self._hand_over(last)
                under_way += 1
            last = task
        if last is not None:
            yield last, self._work(last)
        for _ in range(under_way):
            done = self._done.get()
            if isinstance(done, BaseException):
                raise done
            yield done

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _hand_over(self, task: T) -> None:
        if not self._threads:
            self._gather()
        if self._threads:
            self._tasks.put(task)
        else:
            self._do(task)

    def _gather(self) -> None:
        """As many as the machine gives."""
        with suppress(NoThread):
            for number in range(HANDS):
                self._threads.append(begin(self._serve, f"gputui-crew-{number}"))

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._do(task)

    def _do(self, task: T) -> None:
        try:
            self._done.put((task, self._work(task)))
        except BaseException as defect:  # whoever waits must not wait for ever
            self._done.put(defect)
