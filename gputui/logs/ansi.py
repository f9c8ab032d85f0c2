"""The bytes of one log line as styled text: colours are kept as data, nothing else can act on a terminal.

A line that was redrawn with carriage returns reads as its last state, as it would stand on a terminal.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import NamedTuple

from .plain import plain
from .sgr import PLAIN, Look, after_sgr

__all__ = ["Line", "Run", "decoded"]

LONGEST = 1 << 14
"""Bytes of one line that are decoded; the rest is told as a number."""
TAB = 8
MOST_STATES = 64

_SGR = re.compile("\x1b\\[([0-9;:]*+)m")
_CUT_ESCAPE = re.compile("\x1b(?:\\[[0-?]*+[ -/]*+)?$")


class Run(NamedTuple):
    """Characters that look alike."""

    text: str
    look: Look


@dataclass(frozen=True, slots=True)
class Line:
    """What can be shown of one line."""

    runs: tuple[Run, ...]
    hidden: int = 0
    """Bytes of the line's end that are not in `runs`."""

    @property
    def text(self) -> str:
        return self.runs[0].text if len(self.runs) == 1 else "".join(run.text for run in self.runs)


def decoded(raw: bytes, size: int | None = None) -> Line:
    """A line without its newline; `size` is that of the whole line when only its beginning was read."""
    size = len(raw) if size is None else size
    raw = raw.removesuffix(b"\r")
    text = _unicode(raw)
    if "\r" in text:
        return Line(_runs(_last_state(text)))
    return Line(_runs(text), max(0, size - min(len(raw), LONGEST)))


def _unicode(raw: bytes) -> str:
    if b"\r" in raw or len(raw) <= LONGEST:
        return raw.decode("utf-8", "replace")
    # A character or an escape sequence cut in two would read as rubbish.
    text, _ = codecs.utf_8_decode(raw[:LONGEST], "replace", False)
    return _CUT_ESCAPE.sub("", text)


def _runs(text: str) -> tuple[Run, ...]:
    if text.isprintable():
        return (Run(text, PLAIN),) if text else ()
    runs: list[Run] = []
    look, column, start = PLAIN, 0, 0
    for match in _SGR.finditer(text):
        column += _append(runs, text[start : match.start()], look, column)
        look, start = after_sgr(look, match[1]), match.end()
    _append(runs, text[start:], look, column)
    return tuple(runs)


def _append(runs: list[Run], piece: str, look: Look, column: int) -> int:
    """Adds what can be shown of the piece; how many columns it takes."""
    if "\t" in piece:
        indent = column % TAB
        piece = (" " * indent + piece).expandtabs(TAB)[indent:]
    shown = plain(piece)
    if shown and runs and runs[-1].look == look:
        runs[-1] = Run(runs[-1].text + shown, look)
    elif shown:
        runs.append(Run(shown, look))
    return len(shown)


def _last_state(text: str) -> str:
    """What a terminal shows of a line that returned to its beginning: each state overwrites those before it."""
    states = [state for state in text.split("\r") if state][-MOST_STATES:]
    if not states:
        return ""
    shown = states.pop()
    while states and "\x1b" not in shown:
        earlier = states.pop()
        if "\x1b" in earlier:
            break  # it may have erased the line or moved: where its characters stand is not known
        shown += earlier[len(shown) :]
    return shown[:LONGEST].rstrip(" ")
