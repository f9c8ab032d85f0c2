"""The one gate for text from outside."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

# ---- The one gate for text from outside ----


NEWLINE_SIGN = "␤"

# Each body ends at the next escape, so the search stays linear however many sequences are left open.
_ESCAPES = r"""
    (?: \x1b\[ | \x9b ) [0-?]*+ [\ -/]*+ [@-~]                                      # CSI: colours, cursor
  | (?: \x1b[\]PX^_] | [\x9d\x90\x98\x9e\x9f] ) [^\x07\x1b\x9c\n]*+ (?: \x07 | \x1b\\ | \x9c )  # OSC, DCS …
  | \x1b [\ -/]*+ [0-~]                                                              # the short ones
  | \x1b
    """

_SURROGATES = "[\ud800-\udfff]"
_compiled: tuple[re.Pattern[str], re.Pattern[str]] | None = None

_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])
_DIRECTIONS = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_BLANKS = dict.fromkeys(map(ord, "\t\r\v\f"), " ")
_NEWLINES = dict.fromkeys(map(ord, "\n\x85\u2028\u2029"), NEWLINE_SIGN)
_TABLE: dict[int, str | None] = {**_CONTROLS, **_DIRECTIONS, **_BLANKS, **_NEWLINES}

FORBIDDEN = frozenset(_TABLE)
"""The characters that `plain` never lets pass; lone surrogates are the others."""


def plain(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    if text.isprintable():
        return text
    one_line = without_escapes(text).replace("\r\n", "\n").translate(_TABLE)
    return _patterns()[1].sub("\ufffd", one_line)


def without_escapes(text: str) -> str:
    """The text without escape sequences; other control characters stay."""
    return _patterns()[0].sub("", text)


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Made when first needed: most text is printable, and verbs must start at once."""
    global _compiled
    if _compiled is None:
        import re

        _compiled = (re.compile(_ESCAPES, re.VERBOSE), re.compile(_SURROGATES))
    return _compiled


# ---- A log as a pager may have it ----


LONGEST_LINE = 1 << 20
"""A line without end comes in pieces."""
_SGR = re.compile("(\x1b\\[[0-9;:]{0,64}m)")
_RESET = "\x1b[0m"


def paged_lines(path: str) -> Iterator[bytes]:
    """From the file as it is now; OSError if there is no plain file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no plain file")
        while line := file.readline(LONGEST_LINE):
            yield paged(line)


def paged(line: bytes) -> bytes:
    """One line; redrawn with carriage returns it reads as its last state."""
    text = line.decode("utf-8", "replace")
    if text.removesuffix("\n").isprintable():
        return text.encode("utf-8", "replace")
    whole = text.removesuffix("\n").rstrip("\r").rpartition("\r")[2]
    end = "\n" if text.endswith("\n") else ""
    # Every other piece is a colour.
    pieces = [piece if at % 2 else _harmless(piece) for at, piece in enumerate(_SGR.split(whole))]
    return ("".join(pieces) + (_RESET if len(pieces) > 1 else "") + end).encode("utf-8", "replace")


def _harmless(piece: str) -> str:
    return "\t".join(map(plain, piece.split("\t")))
