"""One stream of an attempt, or both with ERR below OUT, as one sequence of lines to scroll through.

A line's key stays the same while files grow at their end and their indexes towards their beginning; its row, counted
from the first line that is known, does not. Keys are in reading order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .ansi import Line, decoded
from .line_index import FileChange, LineIndex

__all__ = ["Document", "Section"]

SPAN = 1 << 42
"""Keys of one section; lines are numbered to both sides of its middle, its heading comes first."""
TOO_FAR_BEHIND = 1 << 26


@dataclass(frozen=True)
class Section:
    """One file; `heading` is the name of its stream when there is another one to tell it from."""

    index: LineIndex
    heading: str | None = None

    @property
    def rows(self) -> int:
        return self.headed + self.index.end - self.index.first

    @property
    def headed(self) -> int:
        return 1 if self.heading is not None else 0


class Document:
    """Rows `0 … rows - 1`."""

    def __init__(self, streams: list[tuple[str, Path]]) -> None:
        several = len(streams) > 1
        self.sections = [Section(LineIndex(path), name if several else None) for name, path in streams]

    @property
    def rows(self) -> int:
        return sum(section.rows for section in self.sections)

    @property
    def empty(self) -> bool:
        """Has nothing been written to any of its files?"""
        return all(section.index.end == section.index.first for section in self.sections)

    @property
    def complete(self) -> bool:
        return all(section.index.complete for section in self.sections)

    def look(self, *, at_end: bool) -> FileChange:
        """Takes in what was written; whoever watches the end must not wait for what lies before it."""
        changes = [section.index.look() for section in self.sections]
        for section in self.sections:
            if at_end and section.index.unread > TOO_FAR_BEHIND:
                section.index.jump_to_end()
                changes.append(FileChange.ANEW)
        return max(changes, key=lambda change: change.value, default=FileChange.NOTHING)

    def extend(self, seconds: float) -> bool:
        """Makes more lines known towards the beginning, those at the end first; True when all are."""
        return all(section.index.extend(seconds) for section in reversed(self.sections))

    def key(self, row: int) -> int:
        for place, section in enumerate(self.sections):
            if row < section.rows:
                in_file = row - section.headed
                return place * SPAN if in_file < 0 else self._key(place, section.index.first + in_file)
            row -= section.rows
        return len(self.sections) * SPAN

    def row(self, key: int) -> int:
        """Of a line that is not known (any more), the nearest that is."""
        place, line = self._place(key)
        above = sum(section.rows for section in self.sections[:place])
        if line is None or place == len(self.sections):
            return above
        index = self.sections[place].index
        return above + self.sections[place].headed + min(max(line, index.first), index.end) - index.first

    def heading(self, key: int) -> str | None:
        place, line = self._place(key)
        return self.sections[place].heading if line is None else None

    def line(self, key: int) -> Line:
        place, number = self._place(key)
        if number is None:
            return Line(())
        raw = self.sections[place].index.line(number)
        return decoded(raw.shown, raw.size)

    def unsettled(self) -> set[int]:
        """Keys of the lines in which the next look, or knowing more of the beginning, may find other text."""
        last = {self._key(place, max(0, section.index.end - 1)) for place, section in enumerate(self.sections)}
        cut = {
            self._key(place, section.index.first)
            for place, section in enumerate(self.sections)
            if not section.index.complete
        }
        return last | cut

    def offset(self, key: int) -> tuple[int, int]:
        """The section of a line and where in its file it begins."""
        place, line = self._place(key)
        if place == len(self.sections):
            return place - 1, self.sections[-1].index.size
        index = self.sections[place].index
        return place, 0 if line is None else index.start(line)

    def key_at(self, place: int, offset: int) -> int:
        """Of the line that has this byte, which must be known."""
        return self._key(place, self.sections[place].index.line_at(offset))

    def close(self) -> None:
        for section in self.sections:
            section.index.close()

    def _key(self, place: int, line: int) -> int:
        return place * SPAN + SPAN // 2 + line

    def _place(self, key: int) -> tuple[int, int | None]:
        """Section and number of a line; None for a heading and for the end of all."""
        place, rest = divmod(key, SPAN)
        return place, rest - SPAN // 2 if rest else None
