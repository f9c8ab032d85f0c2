"""Bytes as they come, as finished lines: nothing of a line or of a bar's frame that has not ended leaves here.

A frame ends at a carriage return, and a tqdm bar with its closing bracket, whatever is glued to it. Knows no names.
"""

from __future__ import annotations

import re

from gputui.logs.plain import without_escapes

from .thinning import thinned

__all__ = ["LONGEST", "Frames"]

LONGEST = 1 << 14
"""Bytes of a line; a longer one is left out, for a part of it could say something false."""
_ENDS = re.compile(rb"[\r\n]+")
_METER = re.compile(rb"%\|[^|]{0,600}\|[^\[|]{0,80}\[")
_BRACKETS = re.compile(rb"[\[\]]")
_NO_TEXT = bytes(set(range(32)) - set(b"\t\r\n\a\b\f\v\x1b\x0e\x0f"))
"""What no program prints as text."""
_HIGH = bytes(range(128, 256))
_OLD_CODES = 4
"""In a line of an older code than UTF-8 at most one letter of so many has an accent."""
_WIPED = re.compile("\x08{3,}")


class Frames:
    """Cuts what a job writes into lines; `rest` is what waits for its end."""

    def __init__(self, rest: bytes = b"", dropping: bool = False) -> None:
        self.rest = rest
        self.dropping = dropping
        """The line under way is left out: it was too long, or its beginning was not seen."""

    def gap(self) -> None:
        """Something was not read: what comes next begins inside a line."""
        self.rest, self.dropping = b"", True

    def feed(self, data: bytes, most: int, always: bytes) -> list[str]:
        """At most so many lines, and all those that hold what is never passed over."""
        pieces = _ENDS.split(self.rest + data)
        self.rest = pieces.pop()
        lines: list[str] = []
        if self.dropping and pieces:
            del pieces[0]
            self.dropping = False
        for piece in thinned([piece for piece in pieces if not _is_junk(piece)], most, always):
            if len(rest := self._bars(piece, lines)) <= LONGEST:
                lines += _texts(rest)
        if not self.dropping:
            self.rest = self._bars(self.rest, lines)
        if self.dropping or len(self.rest) > LONGEST:
            self.gap()
        return lines

    def finish(self) -> list[str]:
        """What stands there when the file has ended is a line, too."""
        lines = [] if self.dropping else list(_texts(self.rest))
        self.rest, self.dropping = b"", False
        return lines

    def _bars(self, piece: bytes, lines: list[str]) -> bytes:
        """Takes the whole bars at its beginning; what is left."""
        while b"%|" in piece and 0 < (end := _end_of_bar(piece)) <= LONGEST:
            lines += _texts(piece[:end])
            piece = piece[end:]
        return piece


def _is_junk(piece: bytes) -> bool:
    """Bytes of a picture or an archive: whatever looks like a name in them is none."""
    if piece.isascii():
        return len(piece.translate(None, _NO_TEXT)) != len(piece)
    try:
        piece.decode()
    except UnicodeDecodeError:
        high = len(piece) - len(piece.translate(None, _HIGH))
        return high * _OLD_CODES > len(piece) or len(piece.translate(None, _NO_TEXT)) != len(piece)
    return len(piece.translate(None, _NO_TEXT)) != len(piece)


def _end_of_bar(piece: bytes) -> int:
    meter = _METER.search(piece)
    depth = 1
    for bracket in _BRACKETS.finditer(piece, meter.end()) if meter is not None else ():
        depth += 1 if bracket[0] == b"[" else -1
        if not depth:
            return bracket.end()
    return 0


def _texts(piece: bytes) -> list[str]:
    if not piece or piece.isspace():
        return [""] if piece else []
    text = piece.decode("utf-8", "replace")
    if "\x1b" in text:
        text = without_escapes(text)
    return [frame.replace("\b", "") for frame in _WIPED.split(text)] if "\b" in text else [text]
