"""What is to be said of a process that a signal ended."""

from __future__ import annotations

import re
import signal

from gputui.core.crash_kind import CrashKind
from gputui.logs.likeness import alike

from .cleaning import CleanLine
from .complaints import Found
from .gpu_trouble import common_words, watchdog
from .kinds import kind_in
from .naming import device_assertion
from .traces import traces_in

__all__ = ["by_signal", "signal_of"]

_FIRST_SIGNAL_CODE, _LAST_SIGNAL_CODE = 129, 192
_NARROWER = (CrashKind.CUDA, CrashKind.NCCL, CrashKind.OOM_GPU, CrashKind.OOM_HOST)
_KINDS: dict[int, CrashKind] = {
    signal.SIGINT: CrashKind.INTERRUPTED,
    signal.SIGXCPU: CrashKind.LIMIT,
    signal.SIGXFSZ: CrashKind.LIMIT,
}

# What a program says before it gives itself SIGABRT.
_GASPS = (
    "Fatal Python error: ", "FATAL ERROR: ", "Fatal glibc error", "terminate called", "pure virtual method called",
    "free()", "malloc", "realloc()", "munmap_chunk", "double free", "corrupted ", "unaligned ", "invalid fastbin",
    "*** stack smashing", "*** buffer overflow", "*** Error in", "*** longjmp",
    "Unhandled ", "Uncaught ", "Memory access fault", "Fatal error", "fatal error",
)  # fmt: skip
_WHAT = "what():"
_CHECK_FAILED = re.compile(r"F\d{4} \d\d:\d\d|\d{4}-.{0,30}: F \w")
_ASSERTION = re.compile(r"Assertion [`'].{1,400}failed")

# The shell that waited for it tells the pid, the signal and the command.
_TOLD: dict[int, str] = {
    signal.SIGSEGV: "egmentation fault", signal.SIGBUS: "Bus error", signal.SIGKILL: "Killed",
    signal.SIGABRT: "Aborted", signal.SIGFPE: "Floating point exception", signal.SIGILL: "Illegal instruction",
    signal.SIGXCPU: "CPU time limit", signal.SIGXFSZ: "File size limit", signal.SIGINT: "KeyboardInterrupt",
    signal.SIGTERM: "Terminated",
}  # fmt: skip


def signal_of(code: int | None) -> int | None:
    """The signal that an exit code of the shell stands for."""
    if code is not None and _FIRST_SIGNAL_CODE <= code <= _LAST_SIGNAL_CODE:
        return code - 128
    return None


def by_signal(logs: list[list[CleanLine]], number: int) -> Found:
    """Earlier tracebacks are left alone: whoever printed them lived on until the signal came."""
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
    mark = _TOLD.get(number)
    for line in reversed(lines) if mark else ():
        if mark and mark in line.text and not line.text.startswith(" "):
            return line.text.strip()
    return None


def _last_gasp(lines: list[CleanLine]) -> str:
    """What a program said before it gave itself SIGABRT."""
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
            or ("Assertion" in text and _ASSERTION.search(text))
        ):
            return text
    traces = [trace.text for trace in traces_in(lines) if kind_in(trace.text) in _NARROWER]
    return traces[-1] if traces else ""


def _key(said: str) -> str:
    """Which program it was is not told by all of them."""
    match = _ASSERTION.search(said)
    return alike(match[0] if match else said)
