"""Results and progress of one log file, read as it grows. Pure: bytes come in, readings come out."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.results.wanted import WantedMetric

from .exact import MARK, told_in
from .frames import Frames
from .line_reader import Context, read
from .mappings import mapping_in
from .reading import MetricReading
from .wanted import is_wanted, read_wanted

__all__ = ["MetricReader"]

MARK_BYTES = MARK.encode()
MOST_NAMES = 64
MOST_LINES = 400
"""Of one feed; of more, those are read that say something else than the others."""
LONGEST_TEXT = 600
"""Characters of a line that is no dictionary."""


_WIDE = re.compile(r"\s{3,}")


class _Kept(Struct):
    """All that a next owner needs to go on in the middle."""

    rest: bytes = b""
    dropping: bool = False
    names: list[str] = []
    context: Context = field(default_factory=Context)
    progress: float | None = None
    note: str | None = None
    wanted: WantedMetric | None = None


class MetricReader:
    """One for each log file; its memory does not grow with the file."""

    def __init__(self, wanted: WantedMetric | None = None) -> None:
        self._kept = _Kept(wanted=wanted)
        self._frames = Frames()

    @property
    def progress(self) -> float | None:
        return self._kept.context.course.progress if self._kept.progress is None else self._kept.progress

    @property
    def tells_whole(self) -> bool:
        """The progress is of the whole job: told in so many words, or counted in epochs."""
        return self._kept.progress is not None or bool(self._kept.context.course.epochs)

    @property
    def note(self) -> str | None:
        return self._kept.note

    def feed(self, data: bytes, most: int = MOST_LINES) -> list[MetricReading]:
        """What the lines say that are now complete; of more than so many not all are read."""
        return self._take(self._frames.feed(data, most, MARK_BYTES))

    def finish(self) -> list[MetricReading]:
        """The file has ended: its last line is complete."""
        return self._take(self._frames.finish())

    def gap(self) -> None:
        """Bytes were left out: what is fed next begins inside a line."""
        self._frames.gap()

    def state(self) -> bytes:
        state = replace(self._kept, rest=self._frames.rest, dropping=self._frames.dropping)
        return msgspec.msgpack.encode(state)

    @classmethod
    def resume(cls, state: bytes) -> MetricReader:
        """Goes on where the reader was whose state this is; ValueError when it is none."""
        reader = cls()
        try:
            reader._kept = msgspec.msgpack.decode(state, type=_Kept)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not the state of a reader of results: {error}") from None
        reader._frames = Frames(reader._kept.rest, reader._kept.dropping)
        return reader

    def _take(self, lines: list[str]) -> list[MetricReading]:
        return [reading for line in lines for reading in self._line(line) if self._has_room(reading.name)]

    def _line(self, line: str) -> list[MetricReading]:
        if len(line) > LONGEST_TEXT:
            line = _WIDE.sub("  ", line)
            if len(line) > LONGEST_TEXT and mapping_in(line) is None:
                return []
        if MARK not in line:
            return self._with_wanted(line, read(line, self._kept.context))
        announcement = told_in(line)
        if announcement is None:
            return []
        self._kept.progress = self._kept.progress if announcement.progress is None else announcement.progress
        self._kept.note = self._kept.note if announcement.note is None else announcement.note
        return list(announcement.readings)

    def _with_wanted(self, line: str, readings: list[MetricReading]) -> list[MetricReading]:
        """What the user asked for comes under the name that the user gave it."""
        wanted = self._kept.wanted
        if wanted is None:
            return readings
        named = [
            replace(reading, name=wanted.name or reading.name) if is_wanted(reading.name, wanted) else reading
            for reading in readings
        ]
        if wanted.pattern is None and (named != readings or any(reading.name == wanted.name for reading in readings)):
            return named
        wanted_value = read_wanted(line, wanted)
        others = [reading for reading in named if wanted_value is None or reading.name != wanted_value[0]]
        return (
            [*others, MetricReading(*wanted_value, self._kept.context.step, exact=True)]
            if wanted_value is not None
            else others
        )

    def _has_room(self, name: str) -> bool:
        if name not in self._kept.names and len(self._kept.names) < MOST_NAMES:
            self._kept.names.append(name)
        return name in self._kept.names
