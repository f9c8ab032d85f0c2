"""The error of a failed job: a message to display, and a signature that is the same for the same error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gputui.core.job import CrashKind
from gputui.logs.line_index import FAR_TAIL_BYTES, read_tail

from .kinds import LONGEST_MESSAGE, alike, kind_in, named, shortened
from .lines import CleanLine, cleaned, farewell, last_words
from .messages import (
    Found,
    aftermath,
    batch_verdict,
    by_signal,
    cancelled,
    common_words,
    complaint,
    shell_refusal,
    signal_of,
    watchdog,
)
from .tracebacks import CrashReading, Trace, above_stack, judged, traces_in

__all__ = ["Crash", "crash_of", "job_crash", "signal_of"]

_KIND_OF_CODE: dict[int | None, CrashKind] = {126: CrashKind.NOT_EXECUTABLE, 127: CrashKind.NOT_FOUND}
"""Kinds of crash for the exit codes with which shells report that a command could not be started."""
_TIMEOUT_CODE = 124
_LAST_SURE_SIGNAL_CODE = 159
_ASKED_TO_END = (1, 2, 9, 15)
"""Signals by which jobs are canceled. After other signals, batch systems cancel the rest of the job."""


class Crash(NamedTuple):
    message: str
    """The job's message, including its numbers."""
    signature: str
    """The message without the parts that vary between runs. Not meant for display."""
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
    """Yield possible causes, starting with the most certain one."""
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
    """Yield errors that arose between the processes of a job, or the signal that killed one of the processes."""
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
