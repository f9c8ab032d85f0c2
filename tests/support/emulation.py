"""What a terminal makes of the bytes it gets: `pyte`, with the few things that it does not know."""

from __future__ import annotations

import re
from typing import Any

import pyte

__all__ = ["Emulator", "Picture"]

Picture = tuple[tuple[Any, ...], ...]
"""One tuple of cells for each row; a cell is its text and its looks."""

# What pyte would print as text, and the switch between the two screens, which it does not have.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[a-z]|\x1b\[\?[0-9;]*\$p|\x18")
_SWITCH = re.compile(rb"(\x1b\[\?1049[hl])")
_UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?\Z")


class Emulator:
    def __init__(self, columns: int, rows: int) -> None:
        self._screens = {alternate: pyte.Screen(columns, rows) for alternate in (False, True)}
        self._streams = {alternate: pyte.ByteStream(screen) for alternate, screen in self._screens.items()}
        self._rest = b""
        self.alternate = False
        """Whether the program has the whole screen."""

    @property
    def screen(self) -> pyte.Screen:
        return self._screens[self.alternate]

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def picture(self) -> Picture:
        screen = self.screen
        return tuple(tuple(_as_seen(screen.buffer[y][x]) for x in range(screen.columns)) for y in range(screen.lines))

    @property
    def cursor_hidden(self) -> bool:
        return bool(self.screen.cursor.hidden)

    def resize(self, columns: int, rows: int) -> None:
        for screen in self._screens.values():
            screen.resize(rows, columns)

    def feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        unfinished = _UNFINISHED.search(data)
        cut = unfinished.start() if unfinished else len(data)
        data, self._rest = data[:cut], data[cut:]
        for part in _SWITCH.split(_UNKNOWN.sub(b"", data)):
            if _SWITCH.fullmatch(part):
                self._switch(part.endswith(b"h"))
            else:
                self._streams[self.alternate].feed(part)

    def _switch(self, alternate: bool) -> None:
        hidden = self.screen.cursor.hidden
        self.alternate = alternate
        self.screen.cursor.hidden = hidden
        if alternate:
            self.screen.erase_in_display(2)


def _as_seen(cell: Any) -> tuple[Any, ...]:
    """The colour of a blank is not seen, nor are its bold and italics."""
    if cell.data == " " and not (cell.underscore or cell.reverse or cell.strikethrough):
        return (" ", cell.bg)
    return tuple(cell)
