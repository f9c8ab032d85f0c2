"""The bytes of a log line as styled text."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from .plain import plain

# ---- How text looks that a program coloured ----


Colour = int | tuple[int, int, int]
"""A number of the 256 colour palette, or red, green and blue."""


@dataclass(frozen=True, slots=True)
class Look:
    """None: the colour that the screen gives to plain text."""

    foreground: Colour | None = None
    background: Colour | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN = Look()
MOST_CODES = 32
"""In one sequence; nobody means more, and a hostile line may have thousands."""

# Blinking and hidden text are left out on purpose: a log is there to be read.
_SWITCHES: dict[int, dict[str, Any]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    29: {"strike": False},
    39: {"foreground": None},
    49: {"background": None},
}
for _number in range(8):
    _SWITCHES[30 + _number] = {"foreground": _number}
    _SWITCHES[40 + _number] = {"background": _number}
    _SWITCHES[90 + _number] = {"foreground": 8 + _number}
    _SWITCHES[100 + _number] = {"background": 8 + _number}


@lru_cache(maxsize=1024)
def after_sgr(look: Look, parameters: str) -> Look:
    """The look after a sequence `ESC [ parameters m`."""
    codes = _codes(parameters)
    while codes:
        code = codes.pop(0)
        if code == 0:
            look = PLAIN
        elif code in _SWITCHES:
            look = replace(look, **_SWITCHES[code])
        elif code == 38 and (colour := _extended(codes)) is not None:
            look = replace(look, foreground=colour)
        elif code == 48 and (colour := _extended(codes)) is not None:
            look = replace(look, background=colour)
    return look


def _codes(parameters: str) -> list[int]:
    # With colons an empty field may stand for the colour space: 38:2::1:2:3.
    fields = parameters.replace("38:2::", "38;2;").replace("48:2::", "48;2;").replace(":", ";").split(";")
    return [min(int(field[:4]), 255) if field else 0 for field in fields[:MOST_CODES]]


def _extended(codes: list[int]) -> Colour | None:
    """Takes a colour off the front: `5;N` or `2;R;G;B`."""
    if codes[:1] == [5] and len(codes) >= 2:
        del codes[0]
        return codes.pop(0)
    if codes[:1] == [2] and len(codes) >= 4:
        red, green, blue = codes[1:4]
        del codes[:4]
        return red, green, blue
    codes.clear()  # a colour of an unknown kind: what follows may be its parts
    return None


# ---- The bytes of one log line as styled text ----


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
