"""Start wrappers. A wrapper is an sh script that claims an attempt and runs its command."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from gputui.core.events import NoRoom, NotStarted, Outcome, Vanished
from gputui.core.regex import lazy_regex
from gputui.engines.claims import DIRECTORY_GONE_LINE, EXIT_WORD
from gputui.engines.protocol import STARTED_BEFORE, Launch
from gputui.process.processes import TOKEN_VARIABLE
from gputui.process.spawn import CopyOf, OpenedPath
from gputui.process.spawn import spawn as spawn_process
from gputui.process.watch import NoThread, start_thread

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
LOG_MODE = 0o666
LEASE, SESSION = 8, 9
"""Descriptor numbers in the wrapper. They must be single digits because dash supports no others."""
HELD_BY_WRAPPER = (LEASE, SESSION)
LONGEST_ARGUMENT = 32 * os.sysconf("SC_PAGE_SIZE") - 1

_MACHINE_TROUBLE = frozenset(
    (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT, errno.EROFS, errno.EIO)
)
# Some file systems store times in units of one or two seconds.
_COARSEST_FILE_TIME_NS = 2_000_000_000


def spawn(
    arguments: Sequence[str], environment: dict[str, str], out: str, err: str | None, held: Mapping[int, int]
) -> int | Outcome:
    """Start a wrapper as the leader of its own session. Return its pid, or why it could not be started.

    If `err` is None, both streams go to `out`. `held` maps descriptor numbers in the wrapper to descriptors of this
    process. The wrapper closes them before it runs its command.
    """
    begun = time.time_ns()
    stderr = CopyOf(1) if err is None else OpenedPath(err, LOG_FLAGS, LOG_MODE)
    try:
        return spawn_process(arguments, environment, {1: OpenedPath(out, LOG_FLAGS, LOG_MODE), 2: stderr, **held})
    except FileExistsError:
        return Vanished(STARTED_BEFORE)
    except ValueError as error:
        why: Outcome = NotStarted(f"cannot pass it to a shell: {error}")
    except OSError as error:
        why = _explained(error, arguments, out)
    return why if _remove_own_logs(out, err, begun) else Vanished(STARTED_BEFORE)


def _remove_own_logs(out: str, err: str | None, begun: int) -> bool:
    """Remove the logs that this start created. Return False if a log is from an earlier start of the attempt."""
    for log in (out, err):
        if log is not None:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                facts = os.stat(log)
                if facts.st_size or facts.st_mtime_ns < begun - _COARSEST_FILE_TIME_NS:
                    return False
                os.unlink(log)
    return True


def _explained(error: OSError, arguments: Sequence[str], out: str) -> NoRoom | NotStarted:
    """Return why a start failed. The child only returns an errno, which does not say which step failed."""
    directory = os.path.dirname(out)
    if error.errno in _MACHINE_TROUBLE:
        return NoRoom(f"cannot start it now: {error.strerror or error}")
    if error.errno == errno.E2BIG:
        longest = max(len(os.fsencode(argument)) for argument in arguments)
        if longest > LONGEST_ARGUMENT:
            return NotStarted(f"command too long: {longest:,} bytes; the limit here is {LONGEST_ARGUMENT:,}")
        return NotStarted("command and environment together are too long for this machine")
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.isdir(directory):
        return NotStarted(f"its output directory is gone: {os.path.realpath(directory)}")
    if error.errno in (errno.EACCES, errno.EPERM) and not os.access(directory, os.W_OK | os.X_OK):
        return NotStarted(f"cannot write to its output directory: {os.path.realpath(directory)}")
    return NotStarted(f"failed to start: {error.strerror or error}")


# The wrapper


SHELL = "/bin/sh"
CLAIM_FAILED = 125
_WITHOUT_LEASES = " ".join(f"{fd}>&-" for fd in HELD_BY_WRAPPER)
DIRECTORY_FAILED = 126

# Signals are trapped with ':' and not with '', so that the command gets default dispositions. A signal to the whole
# group then does not end the wrapper before it has written the exit code. The variables have a special prefix because
# the environment of the command may contain any other name.
TEXT = f"""\
trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2 XCPU XFSZ
gputui_claim=$1 gputui_directory=$2 gputui_code=0
shift 2
set -C
{{ echo "$$" >"$gputui_claim"; }} 2>/dev/null || exit {CLAIM_FAILED}
if cd -- "$gputui_directory" 2>/dev/null; then
    "$@" {_WITHOUT_LEASES} || gputui_code=$?
    {{ echo "{EXIT_WORD.decode()} $gputui_code" >>"$gputui_claim"; }} 2>/dev/null
    exit "$gputui_code"
fi
{{ echo {DIRECTORY_GONE_LINE.decode()} >>"$gputui_claim"; }} 2>/dev/null
exit {DIRECTORY_FAILED}
"""

_PLAIN_WORDS = lazy_regex(r"[ \t]*[A-Za-z0-9_./+@-]+(?:[ \t]+[A-Za-z0-9_./:,+@%=-]+)*[ \t\n]*")
# true and false are omitted because they behave the same in every shell.
_BUILTINS_AND_KEYWORDS = """
    . : [ alias bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare
    dirs disown do done echo elif else enable esac eval exec exit export fc fg fi for function getopts hash help
    history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set
    shift shopt source suspend test then time times trap type typeset ulimit umask unalias unset until wait while
"""
_NEEDS_BASH = frozenset(_BUILTINS_AND_KEYWORDS.split())
_EXPORTED_FUNCTION = "BASH_FUNC_"
_SETS_UP_BASH = ("BASH_ENV", "SHELLOPTS", "BASHOPTS")
# Shells that accept '--' after their options.
_KNOW_END_OF_OPTIONS = frozenset(("ash", "bash", "dash", "ksh", "ksh93", "mksh", "sh", "yash", "zsh"))


def arguments(launch: Launch, claim: str) -> list[str]:
    """Return the argument list of the wrapper."""
    return [SHELL, "-c", TEXT, "sh", claim, launch.cwd, *_command(launch)]


def variables(environment: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the job's variables and its token, without variables that would affect the wrapper itself."""
    chosen = {**environment, TOKEN_VARIABLE: token}
    for name in kept_from_the_wrapper(environment):
        del chosen[name]
    return chosen


def plain_words(command: str) -> list[str] | None:
    """Split a command that needs no shell into its arguments. Return None if bash has to parse the command."""
    if _PLAIN_WORDS.fullmatch(command) is None:
        return None
    words = command.split()
    # Shells differ in the options of echo and in backslashes, which plain words do not contain.
    plain_echo = words[0] == "echo" and not (len(words) > 1 and words[1].startswith("-"))
    return None if words[0] in _NEEDS_BASH and not plain_echo else words


def _command(launch: Launch) -> list[str]:
    environment = launch.environment
    kept_variables = kept_from_the_wrapper(environment)
    if not (launch.shell or launch.login_shell or kept_variables) and "PATH" in environment:
        words = plain_words(launch.command)
        # A shell runs scripts without '#!' itself, and sh may not be bash.
        if words is not None and ("/" not in words[0] or _kernel_runs(os.path.join(launch.cwd, words[0]))):
            return words
    return [*handed_over(kept_variables, environment), *shell_call(launch)]


def shell_call(launch: Launch) -> list[str]:
    shell = launch.shell or _default_shell(launch.environment.get("PATH"))
    options = ["-l", "-c"] if launch.login_shell else ["-c"]
    if shell.rpartition("/")[2] in _KNOW_END_OF_OPTIONS:
        options.append("--")
    return [shell, *options, launch.command]


def kept_from_the_wrapper(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that would affect the wrapper's shell: exported functions and bash's own options."""
    # Searching the joined names is faster than checking each name.
    all_names = "\n".join(environment)
    if "BASH" not in all_names and "SHELLOPTS" not in all_names:
        return []
    return [name for name in environment if name.startswith(_EXPORTED_FUNCTION) or name in _SETS_UP_BASH]


def handed_over(names: list[str], environment: Mapping[str, str]) -> list[str]:
    """Return arguments for `env` that pass variables on to the command.

    The wrapper's environment cannot contain them: dash would drop exported functions, and bash running as sh would act
    on them.
    """
    return ["/usr/bin/env", *(f"{name}={environment[name]}" for name in names)] if names else []


def _kernel_runs(path: str) -> bool:
    """Return whether the kernel can execute a file. If it cannot, bash runs the command and reports the reason."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return False
    executable = stat.S_ISREG(facts.st_mode) and facts.st_mode & 0o111
    return bool(executable) and _has_known_start(path, facts.st_ino, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _has_known_start(path: str, inode: int, changed: int) -> bool:
    with suppress(OSError), open(path, "rb", buffering=0) as program:
        start = program.read(256)
        interpreter = start[2:].split(maxsplit=1)[0] if start[:2] == b"#!" and start[2:].strip() else None
        return start.startswith(b"\x7fELF") or (interpreter is not None and os.path.exists(interpreter))
    return False


@lru_cache(maxsize=64)
def _default_shell(search_path: str | None) -> str:
    import shutil  # slow to import: loads three compression modules

    if search_path and shutil.which("bash", path=search_path):
        return "bash"
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or SHELL


# Concurrent starts


T = TypeVar("T")
R = TypeVar("R")

HANDS = 3
LOOK_AT_THREADS = 1.0
"""Seconds between checks whether the threads are alive. If memory runs out, they may die without a result."""


class Crew(Generic[T, R]):
    """A small thread pool that runs one function. Its threads are started when there is a second concurrent task."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work
        self._tasks: SimpleQueue[T | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[T, R] | BaseException] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def each(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Yield each task with its result. The last runs in the calling thread, so one task wakes no other thread."""
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
            done = self._next_done()
            if isinstance(done, BaseException):
                raise done
            yield done

    def _next_done(self) -> tuple[T, R] | BaseException:
        while True:
            with suppress(Empty):
                return self._done.get(timeout=LOOK_AT_THREADS)
            if not all(thread.is_alive() for thread in self._threads):
                raise MemoryError("a thread that starts jobs has died")

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _hand_over(self, task: T) -> None:
        if not self._threads:
            with suppress(NoThread):
                for number in range(HANDS):
                    self._threads.append(start_thread(self._serve, f"gputui-crew-{number}"))
        if self._threads:
            self._tasks.put(task)
        else:
            self._do(task)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._do(task)

    def _do(self, task: T) -> None:
        try:
            self._done.put((task, self._work(task)))
        except BaseException as defect:  # passed on, because `each` waits for an answer
            self._done.put(defect)
