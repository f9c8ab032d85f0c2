"""What shells, drivers and programs other than Python say when they give up, in words that are always the same."""

from __future__ import annotations

import re

__all__ = ["aborted", "error_line", "gpu_trouble", "named_gpu_trouble", "oom_killer", "shell_refusal"]

_OUT_OF_GPU_MEMORY = re.compile(
    r"(?:torch|cupy)[\w.]*\.OutOfMemoryError|(?:CUDA|HIP) (?:error: )?out of memory|cudaErrorMemoryAllocation"
    r"|CUDA_ERROR_OUT_OF_MEMORY|ResourceExhaustedError|OOM when allocating tensor"
    r"|RESOURCE_EXHAUSTED: (?:[^:]{1,80}: )?(?:Out of memory|Failed to allocate)"
)
_CUDA_ERROR = re.compile(r"(?:CUDA|HIP) error: ([^.(]+)")
_NCCL_ERROR = re.compile(r"NCCL error\b(?:[^,]*+,\s*+([a-z][a-z ]*+))?")
_NCCL_WATCHDOG = re.compile(r"[Ww]atchdog caught collective operation timeout")

_SHELL = r"(?:(?:[\w./+-]*+(?:: -c)?: (?:line )?\d{1,9}|-?[\w./+-]*+): )"
_NOT_FOUND = re.compile(rf"{_SHELL}(?P<what>\S.*?): (?:command )?not found$")
_ZSH_NOT_FOUND = re.compile(r"[\w./-]*+:(?:\d{1,9}:)? command not found: (?P<what>\S.*)$")
_DENIED = re.compile(r"[^:]{1,200}: (?:.{1,200}: )?(?P<what>[^:]+): Permission denied$")
_NO_MODULE = re.compile(r"\S*python[\w.]*+: No module named (?P<what>\S+)")
_CANNOT_OPEN = re.compile(r"\S*python[\w.]*+: can't open file '?(?P<what>[^']+?)'?: \[Errno \d+\]")
_NO_FILE = re.compile(
    r"[^:]{1,200}: (?:.{1,200}: )?(?:cannot [a-z ]{1,40} )?(?P<what>[^:]+): No such file or directory$"
)
_SYNTAX = re.compile(r"(?P<what>syntax error[ :].*)", re.IGNORECASE)
_ERROR = re.compile(r"(?:[^\s:]{1,100}: )?(?:fatal|error|fatal error)\b:? \S.*", re.IGNORECASE)

_SHELL_COMPLAINTS = (
    (_NOT_FOUND, "command not found"),
    (_ZSH_NOT_FOUND, "command not found"),
    (_DENIED, "permission denied"),
    (_NO_MODULE, "no module named"),
    (_CANNOT_OPEN, "no such file"),
    (_NO_FILE, "no such file"),
)
_ABORT = re.compile(
    r"\s*+what\(\):\s*+(?P<what>\S.*)|(?P<fatal>Fatal Python error: .*)|.*?(?P<assertion>Assertion [`'].*failed)"
    r"|(?P<heap>(?:free|malloc|munmap_chunk|double free|corrupted)\b.*)"
)
_OOM_KILLER = re.compile(
    r"oom[-_ ]?kill|Out of memory: Killed process|OOM killer|exceeded (?:\w+ )?memory limit", re.IGNORECASE
)


def named_gpu_trouble(message: str) -> str | None:
    """Trouble on the GPU that libraries word differently, in one wording; None if it is something else."""
    if _OUT_OF_GPU_MEMORY.search(message):
        return "CUDA out of memory"
    if match := _CUDA_ERROR.search(message):
        return f"CUDA error: {match[1].partition(' when calling')[0].strip()}"
    if _NCCL_WATCHDOG.search(message):
        return "NCCL error: collective operation timeout"
    if match := _NCCL_ERROR.search(message):
        return f"NCCL error: {match[1].strip()}" if match[1] else "NCCL error"
    return None


def gpu_trouble(lines: list[str]) -> str | None:
    return next((words for line in reversed(lines) if (words := named_gpu_trouble(line))), None)


def shell_refusal(lines: list[str]) -> str | None:
    """Why a shell or an interpreter could not start what it was given."""
    for line in reversed(lines):
        for pattern, words in _SHELL_COMPLAINTS:
            if match := pattern.match(line):
                return f"{words}: {_unquoted(match['what'])}"
    return None


def _unquoted(name: str) -> str:
    return name.strip().strip("'\"`‘’")


def error_line(lines: list[str]) -> str | None:
    """The last line that calls itself an error."""
    for line in reversed(lines):
        if "egmentation fault" in line:
            return "segmentation fault"
        if match := _SYNTAX.search(line):
            return f"shell: {match['what']}" if ": " in line[: match.start()] else match["what"]
        if match := _ERROR.match(line):
            return match[0]
    return None


def aborted(lines: list[str]) -> str | None:
    """What a C or C++ program said before it gave itself SIGABRT."""
    for line in reversed(lines):
        if match := _ABORT.match(line):
            return next(text for text in match.groups() if text)
    return None


def oom_killer(lines: list[str]) -> bool:
    return any(_OOM_KILLER.search(line) for line in lines)
