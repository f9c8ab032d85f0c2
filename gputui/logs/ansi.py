"""Convert the bytes of a log line to styled text."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from gputui.core.regex import lazy_regex

from .plain import plain

Colour = int | tuple[int, int, int]
"""A color, given as an index into the 256-color palette or as red, green and blue."""


@dataclass(frozen=True, slots=True)
class Look:
    """The style of a piece of text. None stands for the default color."""

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
"""Maximum number of codes that are read from one escape sequence. A malicious line may contain thousands."""

# Blinking and hidden text are not supported on purpose, because a log must be readable.
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
    """Return the style after an escape sequence `ESC [ parameters m`."""
    # With colons an empty field may stand for the color space: 38:2::1:2:3.
    fields = parameters.replace("38:2::", "38;2;").replace("48:2::", "48;2;").replace(":", ";").split(";")
    codes = [min(int(field[:4]), 255) if field else 0 for field in fields[:MOST_CODES]]
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


def _extended(codes: list[int]) -> Colour | None:
    """Remove a color from the front of the codes. It has the form `5;N` or `2;R;G;B`."""
    if codes[:1] == [5] and len(codes) >= 2:
        del codes[0]
        return codes.pop(0)
    if codes[:1] == [2] and len(codes) >= 4:
        red, green, blue = codes[1:4]
        del codes[:4]
        return red, green, blue
    codes.clear()  # unknown kind of color: the other codes may belong to it
    return None


LONGEST = 1 << 14
"""Maximum number of bytes of a line that are decoded."""
TAB = 8
MOST_STATES = 64

_SGR = lazy_regex("\x1b\\[([0-9;:]*+)m")
_CUT_ESCAPE = lazy_regex("\x1b(?:\\[[0-?]*+[ -/]*+)?$")


class Run(NamedTuple):
    """Consecutive characters with the same style."""

    text: str
    look: Look


@dataclass(frozen=True, slots=True)
class Line:
    """A line as styled text."""

    runs: tuple[Run, ...]
    hidden: int = 0
    """Number of bytes at the end of the line that are not in `runs`."""

    @property
    def text(self) -> str:
        return self.runs[0].text if len(self.runs) == 1 else "".join(run.text for run in self.runs)


def decoded(raw: bytes, size: int | None = None) -> Line:
    """Decode a line without its newline. `size` is the size of the whole line if only its beginning was read."""
    size = len(raw) if size is None else size
    raw = raw.removesuffix(b"\r")
    if b"\r" in raw:
        return Line(_runs(_last_state(raw.decode("utf-8", "replace"))))
    if len(raw) <= LONGEST:
        return Line(_runs(raw.decode("utf-8", "replace")), max(0, size - len(raw)))
    # Remove an incomplete character or escape sequence at the end.
    text, _ = codecs.utf_8_decode(raw[:LONGEST], "replace", False)
    return Line(_runs(_CUT_ESCAPE.sub("", text)), max(0, size - LONGEST))


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
    """Append a piece of plain text and return how many columns it takes on the screen."""
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
    """Return what a terminal shows of a line with carriage returns. Each state overwrites the previous ones."""
    states = [state for state in text.split("\r") if state][-MOST_STATES:]
    if not states:
        return ""
    shown = states.pop()
    while states and "\x1b" not in shown:
        earlier = states.pop()
        if "\x1b" in earlier:
            break  # an escape sequence may have erased the line or moved the cursor
        shown += earlier[len(shown) :]
    return shown[:LONGEST].rstrip(" ")
