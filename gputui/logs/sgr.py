"""How text looks that a program coloured: what the colour sequences (SGR) of a terminal mean, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

__all__ = ["PLAIN", "Colour", "Look", "after_sgr"]

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
