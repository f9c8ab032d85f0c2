"""A crash in its own words, to be shown, and in words that are the same for crashes that are alike, to be compared."""

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

__all__ = ["Crash", "crash_of", "job_crash", "recalled", "signal_of"]

_KIND_OF_CODE: dict[int | None, CrashKind] = {126: CrashKind.NOT_EXECUTABLE, 127: CrashKind.NOT_FOUND}
"""By which shells say that they could not start a command."""
_TIMEOUT_CODE = 124
_LAST_SURE_SIGNAL_CODE = 159
_ASKED_TO_END = (1, 2, 9, 15)
"""The signals by which jobs are cancelled; after others batch systems cancel what is left."""


class Crash(NamedTuple):
    message: str
    """What the job really said, numbers and all."""
    signature: str
    """The same without what varies from run to run; for nobody's eyes."""
    kind: CrashKind = CrashKind.EXCEPTION


class _Log(NamedTuple):
    lines: list[CleanLine]
    verdict: CrashReading
    for_errors: bool


def crash_of(tail: bytes, code: int | None) -> Crash:
    """What the end of a job's output and its exit code say about why it failed."""
    return _crash([_log(tail[-FAR_TAIL_BYTES:], False)], code)


def job_crash(out_path: str, err_path: str | None, code: int | None) -> Crash:
    """The same from both logs: a traceback in either counts more than a complaint, ERR more than OUT."""
    return _crash([_read(path, path == err_path) for path in (err_path, out_path) if path], code)


def recalled(message: str, code: int | None) -> Crash:
    """The same from a message that was kept, for whom the logs are not there any more."""
    crash = crash_of(message.encode("utf-8", "replace"), code)
    if crash.message == message:
        return crash
    kind = kind_in(message) or (CrashKind.EXCEPTION if signal_of(code) is None else CrashKind.SIGNAL)
    return Crash(message, common_words(message) or alike(message), kind)


def _read(path: str, for_errors: bool) -> _Log:
    """The end of a log, and more of it only when that holds nothing but consequences."""
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
    """What may be the cause, the surest first."""
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
    yield from _words(logs, code)


def _of_processes(logs: list[_Log]) -> Iterator[Found]:
    """Of a job of many processes: what went wrong between them, or the signal that one of them died of."""
    if cause := _first(logs, watchdog):
        yield cause
    for log in logs:
        if log.verdict.signal is not None:
            lost = by_signal([log.lines], log.verdict.signal)
            yield lost if lost.kind is not CrashKind.SIGNAL else lost._replace(text=log.verdict.signal_line)
    yield from (_exception(log, log.verdict.victim) for log in logs if log.verdict.victim)


def _words(logs: list[_Log], code: int | None) -> Iterator[Found]:
    for log in logs:
        if words := last_words(log.lines, log.for_errors, log.verdict.claimed):
            yield Found(words, None, kind_in(words) or _KIND_OF_CODE.get(code, CrashKind.EXIT_ONLY))


def _exception(log: _Log, trace: Trace) -> Found:
    text = named(trace, log.lines)
    return Found(text, None, kind_in(text) or CrashKind.EXCEPTION)
