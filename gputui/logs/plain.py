"""Make text from outside safe to display by removing escape sequences and control characters."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from gputui.core.regex import lazy_regex

NEWLINE_SIGN = "␤"

# Each body ends at the next escape, so that the search is linear even for many unterminated sequences.
_ESCAPES = lazy_regex(
    r"""
    (?: \x1b\[ | \x9b ) [0-?]*+ [\ -/]*+ [@-~]                                      # CSI: colours, cursor
  | (?: \x1b[\]PX^_] | [\x9d\x90\x98\x9e\x9f] ) [^\x07\x1b\x9c\n]*+ (?: \x07 | \x1b\\ | \x9c )  # OSC, DCS …
  | \x1b [\ -/]*+ [0-~]                                                              # the short ones
  | \x1b
    """,
    re.VERBOSE,
)
_SURROGATES = lazy_regex("[\ud800-\udfff]")

_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])
_DIRECTIONS = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_BLANKS = dict.fromkeys(map(ord, "\t\r\v\f"), " ")
_NEWLINES = dict.fromkeys(map(ord, "\n\x85\u2028\u2029"), NEWLINE_SIGN)
_TABLE: dict[int, str | None] = {**_CONTROLS, **_DIRECTIONS, **_BLANKS, **_NEWLINES}

FORBIDDEN = frozenset(_TABLE)
"""The characters that `plain` removes or replaces, in addition to lone surrogates."""


def plain(text: str) -> str:
    """Return text as a single line without anything that a terminal would interpret."""
    if text.isprintable():
        return text
    one_line = without_escapes(text).replace("\r\n", "\n").translate(_TABLE)
    return _SURROGATES.sub("\ufffd", one_line)


def without_escapes(text: str) -> str:
    """Remove escape sequences but no other control characters."""
    return _ESCAPES.sub("", text)


# Logs for a pager


LONGEST_LINE = 1 << 20
"""Maximum length of a line that is yielded at once. A longer line is yielded in pieces."""
_SGR = lazy_regex("(\x1b\\[[0-9;:]{0,64}m)")


def paged_lines(path: str) -> Iterator[bytes]:
    """Yield the current lines of a file. Raise OSError if it is not a regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        while line := file.readline(LONGEST_LINE):
            yield paged(line)


def paged(line: bytes) -> bytes:
    """Make one line safe to display. Its colors are kept.

    If a line was redrawn with carriage returns, only its last state is kept.
    """
    text = line.decode("utf-8", "replace")
    if text.removesuffix("\n").isprintable():
        return text.encode("utf-8", "replace")
    whole = text.removesuffix("\n").rstrip("\r").rpartition("\r")[2]
    end = "\n" if text.endswith("\n") else ""
    # Every other piece is a color.
    pieces = [
        piece if at % 2 else "\t".join(map(plain, piece.split("\t"))) for at, piece in enumerate(_SGR.split(whole))
    ]
    return ("".join(pieces) + ("\x1b[0m" if len(pieces) > 1 else "") + end).encode("utf-8", "replace")
