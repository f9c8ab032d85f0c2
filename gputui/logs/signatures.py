"""A crash in its own words, to be shown, and in words that are the same for crashes that are alike, to be compared."""

from __future__ import annotations

from typing import NamedTuple

from .complaints import aborted, error_line, gpu_trouble, named_gpu_trouble, oom_killer, shell_refusal
from .exceptions import last_exception
from .likeness import alike, shortened
from .plain import plain, without_escapes
from .tail import TAIL_BYTES, read_tail

__all__ = ["Crash", "crash_of", "job_crash", "signal_of"]

_LONGEST_LINE = 1000
_MOST_LINES = 1000
_FIRST_SIGNAL_CODE, _LAST_SIGNAL_CODE = 129, 192
_SHELL_CODES = (126, 127)
_RANK_MARK = "[rank"


class Crash(NamedTuple):
    message: str
    """What the job really said, numbers and all."""
    signature: str
    """The same without what varies from run to run; for nobody's eyes."""


def crash_of(tail: bytes, code: int | None) -> Crash:
    """What the end of a job's output and its exit code say about why it failed."""
    return _crash([_lines(tail)], code)


def job_crash(out_path: str, err_path: str | None, code: int | None) -> Crash:
    """The same from both logs: a traceback in either counts more than a complaint, ERR more than OUT."""
    paths = [err_path, out_path] if err_path else [out_path]
    return _crash([_lines(read_tail(path)) for path in paths], code)


def _crash(logs: list[list[str]], code: int | None) -> Crash:
    words = _words(logs, code)
    return Crash(shortened(" ".join(words.split())), alike(words))


def signal_of(code: int | None) -> int | None:
    """The signal that an exit code of the shell stands for."""
    if code is not None and _FIRST_SIGNAL_CODE <= code <= _LAST_SIGNAL_CODE:
        return code - 128
    return None


def _words(logs: list[list[str]], code: int | None) -> str:
    number = signal_of(code)
    if number is not None:
        return _signal_words(logs, number)
    finders = [_exception, gpu_trouble, shell_refusal, error_line]
    if code in _SHELL_CODES:
        finders.insert(0, shell_refusal)
    for finder in finders:
        for lines in logs:
            if found := finder(lines):
                return found
    return "ended without an exit code" if code is None else f"exit code {code}"


def _exception(lines: list[str]) -> str | None:
    found = last_exception(lines)
    return (named_gpu_trouble(found) or found) if found else None


def _signal_words(logs: list[list[str]], number: int) -> str:
    """Earlier tracebacks are left alone: whoever printed them lived on until the signal came."""
    import signal

    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"killed by signal {number}"
    if number == signal.SIGSEGV:
        return f"segmentation fault (signal {number}, {name})"
    words = f"killed by signal {number} ({name})"
    if number == signal.SIGABRT:
        said = next((text for lines in logs if (text := aborted(lines))), None)
        return f"{words}: {named_gpu_trouble(said) or said}" if said else words
    if number == signal.SIGKILL and any(oom_killer(lines) for lines in logs):
        return f"{words}, out of memory killer?"
    return words


def _lines(tail: bytes) -> list[str]:
    """The lines as a reader saw them at the end: no colours, progress overwritten."""
    text = without_escapes(tail[-TAIL_BYTES:].decode("utf-8", "replace"))
    return [line for raw in text.split("\n")[-_MOST_LINES:] if (line := _line(raw))]


def _line(raw: str) -> str:
    seen = raw.rstrip("\r \t").rpartition("\r")[2][:_LONGEST_LINE].replace("\t", "    ")
    return _without_rank(plain(seen)).rstrip()


def _without_rank(line: str) -> str:
    """`[rank0]: ` is put before each line by torch; which rank it was does not matter."""
    if not line.startswith(_RANK_MARK):
        return line
    mark, colon, rest = line.partition("]:")
    return rest.removeprefix(" ") if colon and mark.removeprefix(_RANK_MARK).isdigit() else line
