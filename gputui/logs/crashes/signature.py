"""The error of a failed job: a message to display, and a signature that is the same for the same error.

The lower part finds the messages of shells, drivers, batch systems, signals and programs not written in Python.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from gputui.core.job import CrashKind
from gputui.core.regex import lazy_regex
from gputui.logs.line_index import FAR_TAIL_BYTES, read_tail

from .kinds import LONGEST_MESSAGE, alike, device_assertion, kind_in, named, shortened
from .lines import CleanLine, cleaned, farewell, is_aftermath, is_noise, is_work, last_words, mentioned
from .tracebacks import CrashReading, Trace, above_stack, judged, traces_in

_KIND_OF_CODE: dict[int | None, CrashKind] = {126: CrashKind.NOT_EXECUTABLE, 127: CrashKind.NOT_FOUND}
"""The kinds of error for the exit codes by which shells report that a command could not be started."""
_TIMEOUT_CODE = 124
_LAST_SURE_SIGNAL_CODE = 159
_ASKED_TO_END = (1, 2, 9, 15)
"""Signals that cancel a job. If a process ends by another signal, batch systems cancel the rest of its job."""


class Crash(NamedTuple):
    message: str
    """The job's message, including its numbers."""
    signature: str
    """The message without the parts that vary between runs. It is not meant for display."""
    kind: CrashKind = CrashKind.EXCEPTION


class _Log(NamedTuple):
    lines: list[CleanLine]
    verdict: CrashReading
    for_errors: bool


def crash_of(tail: bytes, code: int | None) -> Crash:
    """Determine the error from the end of a job's output and its exit code."""
    return _crash([_log(tail[-FAR_TAIL_BYTES:], False)], code)


def job_crash(out_path: str, err_path: str | None, code: int | None) -> Crash:
    """Determine the error from both logs.

    A traceback takes precedence over an error message, and ERR over OUT.
    """
    return _crash([_read(path, path == err_path) for path in (err_path, out_path) if path], code)


def _read(path: str, for_errors: bool) -> _Log:
    """Read the end of a log. If it contains only consequences of an error, read a longer part."""
    log = _log(read_tail(path), for_errors)
    if log.verdict.consequences_only:
        return _log(read_tail(path, FAR_TAIL_BYTES), for_errors)
    return log


def _log(tail: bytes, for_errors: bool) -> _Log:
    lines = cleaned(tail)
    return _Log(lines, judged(lines, traces_in(lines)), for_errors)


def _crash(logs: list[_Log], code: int | None) -> Crash:
    cause = _found(logs, code)
    text = " ".join(cause.text.split())
    kind = cause.kind or kind_in(text) or CrashKind.EXCEPTION
    return Crash(shortened(text, LONGEST_MESSAGE), shortened(cause.key or common_words(text) or alike(text)), kind)


def _found(logs: list[_Log], code: int | None) -> Found:
    if code == 0:
        return Found("exit code 0", None, CrashKind.NONE)
    number = signal_of(code)
    if code is not None and number is not None and code <= _LAST_SURE_SIGNAL_CODE:
        interrupted = (cancelled,) if number in _ASKED_TO_END else ()
        return _first(logs, batch_verdict, *interrupted) or by_signal([log.lines for log in logs], number)
    if code == _TIMEOUT_CODE:
        return _first(logs, batch_verdict) or Found(f"exit code {code}", None, CrashKind.TIME_LIMIT)
    if cause := next(_causes(logs, code), None):
        return cause
    if number is not None:
        return by_signal([], number)
    words = "ended without an exit code" if code is None else f"exit code {code}"
    return Found(words, None, CrashKind.EXIT_ONLY)


def _first(logs: list[_Log], *finders: Callable[[list[CleanLine]], Found | None]) -> Found | None:
    return next((cause for find in finders for log in logs if (cause := find(log.lines))), None)


def _causes(logs: list[_Log], code: int | None) -> Iterator[Found]:
    """Yield the possible causes, the most certain one first."""
    if cause := _first(logs, batch_verdict):
        yield cause
    if code in _KIND_OF_CODE and (cause := _first(logs, lambda lines: shell_refusal(lines, code))):
        yield cause
    for log in logs:
        if words := farewell(log.lines):
            yield Found(words, None, kind_in(words) or CrashKind.EXIT_ONLY)
        elif log.verdict.cause:
            yield _exception(log, log.verdict.cause)
    yield from _of_processes(logs)
    for log in logs:
        if cause := complaint(log.lines, log.verdict.claimed, code):
            yield cause
    yield from (Found(said) for log in logs if (said := above_stack(log.lines)))
    yield from (_exception(log, log.verdict.wrapper) for log in logs if log.verdict.wrapper)
    if cause := _first(logs, aftermath, cancelled):
        yield cause
    for log in logs:
        if words := last_words(log.lines, log.for_errors, log.verdict.claimed):
            yield Found(words, None, kind_in(words) or _KIND_OF_CODE.get(code, CrashKind.EXIT_ONLY))


def _of_processes(logs: list[_Log]) -> Iterator[Found]:
    """Yield errors in the communication between a job's processes, or the signal that killed one of them."""
    if cause := _first(logs, watchdog):
        yield cause
    for log in logs:
        if log.verdict.signal is not None:
            lost = by_signal([log.lines], log.verdict.signal)
            yield lost if lost.kind is not CrashKind.SIGNAL else lost._replace(text=log.verdict.signal_line)
    yield from (_exception(log, log.verdict.victim) for log in logs if log.verdict.victim)


def _exception(log: _Log, trace: Trace) -> Found:
    text = named(trace, log.lines)
    return Found(text, None, kind_in(text) or CrashKind.EXCEPTION)


# Error messages of shells, batch systems and programs


class Found(NamedTuple):
    text: str
    """The line that contains the error."""
    key: str | None = None
    """The signature, or None if it is derived from `text`."""
    kind: CrashKind | None = None


_SHELL = r"(?:(?:[\w./+-]*+(?:: -c)?: (?:line )?\d{1,9}|-?[\w./+-]*+): )"
_NOT_FOUND = lazy_regex(rf"{_SHELL}(?P<what>\S.*?): (?:command )?not found$")
_ZSH_NOT_FOUND = lazy_regex(r"[\w./-]*+:(?:\d{1,9}:)? command not found: (?P<what>\S.*)$")
_DENIED = lazy_regex(r"[^:]{1,200}: (?:.{1,200}: )?(?P<what>[^:]+): Permission denied$")
_NO_MODULE = lazy_regex(r"\S*python[\w.]*+: No module named (?P<what>\S+)")
_CANNOT_OPEN = lazy_regex(r"\S*python[\w.]*+: can't open file '?(?P<what>[^']+?)'?: \[Errno \d+\]")
_NO_FILE = lazy_regex(
    r"[^:]{1,200}: (?:.{1,200}: )?(?:cannot [a-z ]{1,40} )?(?P<what>[^:]+): No such file or directory$"
)
_SHELL_COMPLAINTS = (
    (_NOT_FOUND, "command not found"),
    (_ZSH_NOT_FOUND, "command not found"),
    (_DENIED, "permission denied"),
    (_NO_MODULE, "no module named"),
    (_CANNOT_OPEN, "no such file"),
    (_NO_FILE, "no such file"),
)
_QUOTES = "'\"`‘’"
_LAUNCHERS = ("MPI_ABORT", "make", "srun: error", "mpirun", "Primary job")
_BAD_FILE = lazy_regex(r"bad interpreter|cannot execute|loading shared libraries|symbol lookup error")

_BATCH = (
    (re.compile(r"DUE TO TIME LIMIT|[Ww]alltime .{1,60} exceeded|TERM_RUNLIMIT"), "time limit", CrashKind.TIME_LIMIT),
    (re.compile(
        r"Out of memory: Kill|oom[-_]kill event|[Oo]ut of memory: [Kk]illed process|OOM Killed|TERM_MEMLIMIT"
        r"|xceeded (?:\w+ )?memory limit|cgroup out of memory"), "out of memory killer", CrashKind.OOM_HOST),
    (re.compile(r"DUE TO PREEMPTION|DUE TO NODE FAIL"), "preempted", CrashKind.INTERRUPTED),
)  # fmt: skip
_BATCH_CLUES = ("DUE TO", "alltime", "TERM_", "emory", "oom", "OOM")
_CANCELLED = lazy_regex(r".{0,200}CANCELLED AT|=>> PBS: job killed|.{0,80}job .{0,40}cancell?ed by")
_CANCELLED_CLUES = ("CANCELLED AT", "PBS: job killed", "celled by", "celed by")

_SYNTAX = lazy_regex(r"(?P<what>syntax error[ :].*)", re.IGNORECASE)
_SEGFAULT = lazy_regex(r".{0,200}[Ss]egmentation fault")
_ENDED_CHILD = lazy_regex(
    r".{0,300}: line \d{1,7}: +\d{1,9} (Killed|Aborted|Bus error|Illegal instruction|Floating point)"
)
_COMPILER = lazy_regex(r"\S{1,300}?[:(]\d{1,7}(?:[:,]\d{1,5})?\)?: (?:fatal )?error\b")
_FORMS = lazy_regex(
    r"(?:[^\s:]{1,100}: +)?(?:(?i:fatal|error|fatal error|panic)\b:? +\S|(?i:fatal|error|panic): *\S)"
    r"|(?:.{0,80}?[\s\[|:=])?(?:ERROR|CRITICAL|FATAL|SEVERE)\b\W{0,3}\S|Error (?:in|using|at|while|executing)\b"
    r"|[\w-]{1,40} (?:error|fatal) {0,4}: \S|.{1,60} the following error: "
    r"|\{.{0,200}\"(?:level|severity)\": ?\"(?:error|fatal|critical)\"|Exception in thread \"|FAILED \S{1,300}::"
    r"|forrtl: |Fortran runtime error|thread '.{1,80}' panicked|Uncaught |Unhandled |\s*what\(\): "
    r"|[^\s:]{1,100}: (?:[Cc]annot|[Cc]ould not|[Uu]nable to|[Cc]an't|[Ff]ailed to) \S|[^\s:]{1,60}: +cannot find"
    r"|(?:Cannot|Can't|Could not|Couldn't|Unable to|Failed to|Invalid) \S|.{0,30}ERR! |\*\*\* [A-Z]"
    r"|(?:.{0,60}? )?\[[EF]\] \S"
)
_PLACE = lazy_regex(
    r"Error in \S{1,200} \(line \d+\)|Error termination|Error in startup|ERROR: script returned|error: called from"
)
_INCOMPLETE = lazy_regex(r"Error using\b|Error in .{1,300} : *$|.{0,300}:$")
_BOX = lazy_regex(r"╭─ (?:Error|Parsing error|(?:Unrecognized|Required|Missing|Invalid) \w{1,20}) ─")
_USAGE = lazy_regex(r"\s{0,4}(?:usage|Usage|USAGE): ")
_FARTHEST_USAGE_ABOVE, _FARTHEST_USAGE_BELOW = 60, 8

_FARTHEST = 400
_MOST_SUSPECTS = 40

# A line that contains none of these is not an error message. This fast test is enough for most lines.
_CLUES = (
    "error", "fatal", "fail", "no such", "not found", "denied", "cannot", "can't", "could not", "unable", "invalid",
    "panic", "exception", "critical", "severe", "nccl", "watchdog", "cuda", "nvml", "xid", "memory", "alloc", "fault",
    "killed", "signal", "no space", "quota", "read-only", "too many", "resource", "refused", "timed out",
    "unreachable", "resolve", "in use", "no module", "option", "argument", "assert", "not permitted", "unhandled",
    "uncaught", "what()", "no rule", "no matching", "there is no", "not a ", "aborted", "core dumped", "symbol",
    "unrecognized", "limit", "terminated", "undefined", "err!", "parse", "syntax", "unterminated", "override",
    "certificate", "ssl", "http", "expected",
)  # fmt: skip


def batch_verdict(lines: list[CleanLine]) -> Found | None:
    """Return why the kernel or the batch system ended the job. This takes precedence over all other causes."""
    for line in lines if mentioned(lines, _BATCH_CLUES) else ():
        if any(clue in line.text for clue in _BATCH_CLUES):
            for pattern, key, kind in _BATCH:
                if pattern.search(line.text):
                    return Found(line.text, key, kind)
    return None


def cancelled(lines: list[CleanLine]) -> Found | None:
    for line in lines if mentioned(lines, _CANCELLED_CLUES) else ():
        if _CANCELLED.match(line.text):
            return Found(line.text, "cancelled", CrashKind.INTERRUPTED)
    return None


def shell_refusal(lines: list[CleanLine], code: int | None) -> Found | None:
    """Return why a shell or an interpreter could not start a command."""
    for line in reversed(lines):
        if refusal := _refusal(line.text, code):
            return refusal
    return None


def _refusal(text: str, code: int | None) -> Found | None:
    if code in (126, 127) and _BAD_FILE.search(text):
        return Found(text)
    if not text.endswith(("found", "denied", "directory")) and "ython" not in text and "not found: " not in text:
        return None
    for pattern, words in _SHELL_COMPLAINTS:
        if match := pattern.match(text):
            kind = CrashKind.NOT_EXECUTABLE if code == 126 and words == "permission denied" else None
            return Found(text, f"{words}: {match['what'].strip().strip(_QUOTES)}", kind)
    return None


def complaint(lines: list[CleanLine], claimed: frozenset[int], code: int | None) -> Found | None:
    """Return the last line that is clearly an error message."""
    for index in islice(_suspects(lines, claimed), _MOST_SUSPECTS):
        text = lines[index].text
        if _BOX.match(text):
            return Found(_unboxed(lines, index), None, CrashKind.USAGE)
        if is_aftermath(text) or is_noise(lines[index]) or _PLACE.match(text):
            continue
        if crash := _complaint(lines, index, code):
            return None if any(is_work(line) for line in lines[index + 1 :][-_FARTHEST:]) else crash
    return None


def _suspects(lines: list[CleanLine], claimed: frozenset[int]) -> Iterator[int]:
    """Yield the indices of lines that may be error messages, starting with the last line."""
    first = max(0, len(lines) - _FARTHEST)
    low = [line.text.lower() for line in lines[first:]]
    text = "\n".join(low)
    clues = [clue for clue in _CLUES if clue in text]
    for index in range(len(lines) - 1, first - 1, -1) if clues else ():
        if index not in claimed and any(clue in low[index - first] for clue in clues):
            yield index


def _complaint(lines: list[CleanLine], index: int, code: int | None) -> Found | None:
    text = lines[index].text
    if refusal := _refusal(text, code):
        return refusal
    if _SEGFAULT.match(text):
        return Found(text, "segmentation fault", CrashKind.SIGNAL)
    if match := _ENDED_CHILD.match(text):
        return Found(text, f"shell: {match[1]}", CrashKind.SIGNAL)
    if match := _SYNTAX.search(text):
        key = f"shell: {match['what']}" if ": " in text[: match.start()] else match["what"]
        return Found(text, key, CrashKind.SYNTAX)
    if _COMPILER.match(text):
        return Found(next(line.text for line in lines if _COMPILER.match(line.text)), None, CrashKind.EXCEPTION)
    kind = kind_in(text.strip())
    if kind is None and not _FORMS.match(text):
        return None
    if _INCOMPLETE.match(text):
        text = f"{text} {next((line.text.strip() for line in lines[index + 1 : index + 4] if line.text), '')}".strip()
        kind = kind_in(text)
    around = lines[max(0, index - _FARTHEST_USAGE_ABOVE) : index + 1 + _FARTHEST_USAGE_BELOW]
    if kind is None and any(_USAGE.match(line.text) for line in around):
        kind = CrashKind.USAGE
    return Found(text.strip().removeprefix("what():").strip(), None, kind or CrashKind.EXCEPTION)


def _unboxed(lines: list[CleanLine], index: int) -> str:
    for line in lines[index + 1 : index + 4]:
        if inside := line.text.strip("│ ╰─╯"):
            return inside
    return lines[index].text.strip("╭─╮ ")


def aftermath(lines: list[CleanLine]) -> Found | None:
    """Return what a launcher reports about a program that printed nothing itself."""
    for line in lines:
        if line.text.startswith(_LAUNCHERS) and is_aftermath(line.text):
            return Found(line.text.strip(), None, kind_in(line.text) or CrashKind.EXCEPTION)
    return None


# GPUs


_CUDA_ERROR = lazy_regex(r"(?:CUDA|HIP) error: ([^.(]+?)(?= when calling|[.(]|: Assertion|$)")
_ASSERTION = lazy_regex(r"Assertion (.{1,300}?) failed")
_NCCL_ERROR = lazy_regex(r"NCCL error\b(?:[^,]*+,\s*+([a-z][a-z ]*+))?")
_NCCL_WATCHDOG = lazy_regex(r"[Ww]atchdog caught collective operation timeout")


def common_words(message: str) -> str | None:
    """Return the signature of a GPU error, or None for other errors."""
    if _NCCL_WATCHDOG.search(message):
        return "NCCL error: collective operation timeout"
    if kind_in(message) is CrashKind.OOM_GPU:
        return "CUDA out of memory"
    if match := _CUDA_ERROR.search(message):
        asserted = _ASSERTION.search(message)
        return f"CUDA error: {match[1].strip()}" + (f": {asserted[1]}" if asserted else "")
    if match := _NCCL_ERROR.search(message):
        return f"NCCL error: {match[1].strip()}" if match[1] else "NCCL error"
    return None


def watchdog(lines: list[CleanLine]) -> Found | None:
    """Return the message of the first rank that timed out while it waited for the others."""
    for line in lines:
        if "atchdog" in line.text and _NCCL_WATCHDOG.search(line.text):
            return Found(line.text, None, CrashKind.NCCL)
    return None


# Signals


_FIRST_SIGNAL_CODE, _LAST_SIGNAL_CODE = 129, 192
_NARROWER = (CrashKind.CUDA, CrashKind.NCCL, CrashKind.OOM_GPU, CrashKind.OOM_HOST)
_KINDS: dict[int, CrashKind] = {
    signal.SIGINT: CrashKind.INTERRUPTED,
    signal.SIGXCPU: CrashKind.LIMIT,
    signal.SIGXFSZ: CrashKind.LIMIT,
}

# What programs print before they abort.
_GASPS = (
    "Fatal Python error: ", "FATAL ERROR: ", "Fatal glibc error", "terminate called", "pure virtual method called",
    "free()", "malloc", "realloc()", "munmap_chunk", "double free", "corrupted ", "unaligned ", "invalid fastbin",
    "*** stack smashing", "*** buffer overflow", "*** Error in", "*** longjmp",
    "Unhandled ", "Uncaught ", "Memory access fault", "Fatal error", "fatal error",
)  # fmt: skip
_WHAT = "what():"
_CHECK_FAILED = lazy_regex(r"F\d{4} \d\d:\d\d|\d{4}-.{0,30}: F \w")
_FAILED_ASSERTION = lazy_regex(r"Assertion [`'].{1,400}failed")

# The shell that waited for a process prints the pid, the signal and the command.
_SHELL_WORDS: dict[int, str] = {
    signal.SIGSEGV: "egmentation fault", signal.SIGBUS: "Bus error", signal.SIGKILL: "Killed",
    signal.SIGABRT: "Aborted", signal.SIGFPE: "Floating point exception", signal.SIGILL: "Illegal instruction",
    signal.SIGXCPU: "CPU time limit", signal.SIGXFSZ: "File size limit", signal.SIGINT: "KeyboardInterrupt",
    signal.SIGTERM: "Terminated",
}  # fmt: skip


def signal_of(code: int | None) -> int | None:
    """Return the signal that a shell's exit code stands for."""
    if code is not None and _FIRST_SIGNAL_CODE <= code <= _LAST_SIGNAL_CODE:
        return code - 128
    return None


def by_signal(logs: list[list[CleanLine]], number: int) -> Found:
    """Return the error of a program that a signal ended. Earlier tracebacks are ignored: the program survived them."""
    words = _words(number)
    kind = _KINDS.get(number, CrashKind.SIGNAL)
    if number == signal.SIGABRT and (said := next((gasp for lines in logs if (gasp := _last_gasp(lines))), "")):
        narrower = kind_in(said)
        if narrower in _NARROWER:
            return Found(said, common_words(said) or alike(said), narrower)
        return Found(said, f"{words}: {_key(said)}", CrashKind.SIGNAL)
    sentence = next((text for lines in logs if (text := _told(lines, number))), "")
    return Found(words if sentence.lower() in words else sentence, words, kind)


def _words(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"killed by signal {number}"
    if number == signal.SIGSEGV:
        return f"segmentation fault (signal {number}, {name})"
    return f"killed by signal {number} ({name})"


def _told(lines: list[CleanLine], number: int) -> str | None:
    mark = _SHELL_WORDS.get(number)
    for line in reversed(lines) if mark else ():
        if mark and mark in line.text and not line.text.startswith(" "):
            return line.text.strip()
    return None


def _last_gasp(lines: list[CleanLine]) -> str:
    """Return what a program printed directly before it aborted."""
    if timeout := watchdog(lines):
        return timeout.text
    if assertion := device_assertion(lines):
        return assertion
    for line in reversed(lines):
        text = line.text.strip()
        if text.startswith(_WHAT) and len(text) > len(_WHAT):
            return text.removeprefix(_WHAT).strip()
        if (
            text.startswith(_GASPS)
            or (text[:1] in "F12" and _CHECK_FAILED.match(text))
            or ("Assertion" in text and _FAILED_ASSERTION.search(text))
        ):
            return text
    traces = [trace.text for trace in traces_in(lines) if kind_in(trace.text) in _NARROWER]
    return traces[-1] if traces else ""


def _key(said: str) -> str:
    # Some messages do not name the program.
    match = _FAILED_ASSERTION.search(said)
    return alike(match[0] if match else said)
