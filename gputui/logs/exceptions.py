"""Finds the Python exception that ended a program in the last lines it printed."""

from __future__ import annotations

import re

__all__ = ["last_exception"]

_HEADER = "Traceback (most recent call last)"
_NAME = r"(?:[A-Za-z_<][\w<>]*+\.)*+[A-Za-z_]\w*+"
_EXCEPTION = re.compile(rf"({_NAME})(?:\([\w.]*+\))?(?::(?=\s|$)|$)")
_SURE_ENDS = ("Error", "Exception", "ExceptionGroup", "KeyboardInterrupt", "SystemExit", "StopIteration")
_FRAME_STARTS = (" ", "\t", "│", "╭", "╰", "❱", ">")

# What Python prints of these comes after the crash, or beside it.
_BESIDE = ("Exception ignored in", "Error in atexit", "--- Logging error", "Error in sys.")

# What launchers and fellow processes say when another process was the one that crashed.
_CONSEQUENCE = re.compile(
    r"ChildFailedError|ProcessExitedException|CalledProcessError|DistBackendError|NCCL"
    r"|BrokenPipeError|ConnectionResetError"
)
_GROUP_MARGIN = re.compile(r"^\s*+(?:\|\ ?|\+\ (?=Exception Group))")


def last_exception(lines: list[str]) -> str | None:
    """The line of the exception that ended the program, such as `KeyError: 'lr'`."""
    found = _exceptions(_without_group_margin(lines))
    for text in reversed(found):
        if not _CONSEQUENCE.search(text):
            return text
    return found[-1] if found else None


def _exceptions(lines: list[str]) -> list[str]:
    """The exception lines in the order they were printed."""
    found: list[str] = []
    in_traceback = beside = False
    for index, line in enumerate(lines):
        if _HEADER in line:
            in_traceback = True
        elif line.startswith(_BESIDE):
            beside = True
        elif line and _is_exception(line, in_traceback):
            if not beside:
                found.append(_with_message(line, lines, index))
            in_traceback = beside = False
    return found


def _is_exception(line: str, in_traceback: bool) -> bool:
    """Outside a traceback only a name that says so counts; within one, any that could be a class."""
    if line.startswith(_FRAME_STARTS):
        return False
    match = _EXCEPTION.match(line)
    if match is None:
        return False
    name = match[1]
    return name.endswith(_SURE_ENDS) or (in_traceback and ("." in name or name[0].isupper()))


def _with_message(line: str, lines: list[str], index: int) -> str:
    """A message that begins on the next line is taken from there."""
    if not line.endswith(":") or ": " in line:
        return line.rstrip(":")
    below = next((text.strip() for text in lines[index + 1 : index + 4] if text.strip(" \t=-")), "")
    return f"{line} {below}".rstrip(": ") if below else line.rstrip(":")


def _without_group_margin(lines: list[str]) -> list[str]:
    if not any("Exception Group Traceback" in line for line in lines):
        return lines
    return [_GROUP_MARGIN.sub("", line, count=1) if line[:1] in " |+" else line for line in lines]
