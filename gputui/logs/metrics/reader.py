"""Read the metrics and the progress from a growing log file."""

from __future__ import annotations

import re
from functools import lru_cache
from heapq import merge

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.regex import lazy_regex
from gputui.core.results import UNNAMED, WantedMetric, name_words
from gputui.logs.plain import plain, without_escapes

from .findings import MetricReading, number_of
from .line_reader import Context, close_box, read
from .named_numbers import mapping_in

# The metric that the user has chosen


LONGEST_MATCHED = 400
"""Maximum number of characters of a line to search with the user's regular expression, which may be slow."""
_NUMBER = r"(?P<value>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"


def _is_wanted(name: str, wanted: WantedMetric) -> bool:
    """Return whether a printed name refers to the metric that the user wants.

    For example, `Val Acc` matches `val_acc`.
    """
    return wanted.name is not None and name_words(name) == name_words(wanted.name)


def _read_wanted(line: str, wanted: WantedMetric) -> tuple[str, float] | None:
    """Return the name and value of the wanted metric in a line, or None if the line does not contain it."""
    match = _compiled(wanted).search(line[:LONGEST_MATCHED])
    if match is None:
        return None
    named = match.groupdict()
    text = (
        named["value"] if named.get("value") is not None else next((group for group in match.groups() if group), None)
    )
    value = number_of(text) if text is not None else None
    return (named.get("name") or wanted.name or UNNAMED, value) if value is not None else None


@lru_cache(maxsize=64)
def _compiled(wanted: WantedMetric) -> re.Pattern[str]:
    if wanted.pattern is not None:
        return re.compile(wanted.pattern)
    return re.compile(rf"(?<![\w./-]){re.escape(wanted.name or '')}['\"]?\s*(?:[:=]|\bis\b)?\s*{_NUMBER}(?![\w.])")


# Lines such as `::gputui metric val_loss=0.1::`


MARK = "::gputui "
LONGEST_NOTE = 80
_LINE = lazy_regex(r"::gputui\s+(?P<body>(?:[^\":]|\"[^\"]*\"|:(?!:))*)::")
_PAIR = lazy_regex(r"(?P<name>[^\s=\"]{1,80})\s*=\s*(?:\"(?P<text>[^\"]*)\"|(?P<word>[^\s\"]{1,80}))")


class Announcement(Struct, frozen=True):
    """The contents of an announcement such as `::gputui metric val_loss=0.1::`."""

    readings: tuple[MetricReading, ...] = ()
    progress: float | None = None
    note: str | None = None


def parse_announcement(line: str) -> Announcement | None:
    """Parse the announcement in a line. Return None if there is none or it is malformed."""
    match = _LINE.search(line)
    if match is None:
        return None
    is_metric = match["body"].split()[:1] == ["metric"]
    pairs = {
        pair["name"]: pair["word"] if pair["text"] is None else pair["text"] for pair in _PAIR.finditer(match["body"])
    }
    progress = number_of(pairs.pop("progress", ""))
    note = pairs.pop("note", None)
    step = number_of(pairs.pop("step", ""))
    readings = tuple(
        MetricReading(name, value, step, exact=True)
        for name, word in pairs.items()
        if (value := number_of(word)) is not None
    )
    return Announcement(
        readings if is_metric else (),
        progress if progress is not None and 0 <= progress <= 1 else None,
        plain(note)[:LONGEST_NOTE] if note is not None else None,
    )


# Sampling of very many lines


_ALIKE = b"0123456789.,+-eE \t#=>" + bytes(range(128, 256))
"""Bytes of numbers and bars, which are ignored when kinds of lines are distinguished."""
SHAPE = 60
"""Number of bytes at the beginning of a line by which kinds of lines are distinguished."""


def sample_lines(lines: list[bytes], most: int, always: bytes) -> list[bytes]:
    """Return at most `most` lines in their order, plus all lines that contain the mark `always`."""
    if len(lines) <= most:
        return lines
    kinds: dict[bytes, list[int]] = {}
    marked: list[int] = []
    for number, line in enumerate(lines):
        if always in line:
            marked.append(number)
        else:
            kinds.setdefault(line.translate(None, _ALIKE)[:SHAPE], []).append(number)
    # The rarest kinds come first. The other kinds get equal shares of the rest, and each keeps its newest line.
    rarest = sorted(kinds.values(), key=lambda numbers: (len(numbers), -numbers[-1]))
    chosen: list[int] = []
    for place, numbers in enumerate(rarest):
        left = most - len(chosen)
        share = max(left // (len(rarest) - place), min(1, left))
        if share < len(numbers):
            numbers = [numbers[len(numbers) - 1 - round(step * len(numbers) / share)] for step in range(share)]
        chosen += numbers
    return [lines[number] for number in merge(marked, sorted(chosen))]


# Lines


LONGEST = 1 << 14
"""Maximum length of a line in bytes. A longer line is skipped because a part of it could be misread."""
_ENDS = lazy_regex(rb"[\r\n]+")
_METER = lazy_regex(rb"%\|[^|]{0,600}\|[^\[|]{0,80}\[")
_BRACKETS = lazy_regex(rb"[\[\]]")
_NO_TEXT = bytes(set(range(32)) - set(b"\t\r\n\a\b\f\v\x1b\x0e\x0f"))
"""Bytes that do not occur in text."""
_HIGH = bytes(range(128, 256))
_OLD_CODES = 4
"""Minimum ratio of all bytes to non-ASCII bytes in text that is not UTF-8.

Data with more non-ASCII bytes is considered binary.
"""
_WIPED = lazy_regex("\x08{3,}")


class Frames:
    """Splits the output of a job into lines. `rest` is an incomplete line."""

    def __init__(self, rest: bytes = b"", dropping: bool = False) -> None:
        self.rest = rest
        self.dropping = dropping
        """Whether the current line is being skipped because it is too long or its beginning was not read."""

    def gap(self) -> None:
        """Skip the current line, because the bytes before the next data were not read."""
        self.rest, self.dropping = b"", True

    def feed(self, data: bytes, most: int, always: bytes) -> list[str]:
        """Return at most `most` of the lines that the data completes.

        All lines that contain the mark `always` are returned. They do not count towards `most`.
        """
        pieces = _ENDS.split(self.rest + data)
        self.rest = pieces.pop()
        lines: list[str] = []
        if self.dropping and pieces:
            del pieces[0]
            self.dropping = False
        for piece in sample_lines([piece for piece in pieces if not _is_junk(piece)], most, always):
            if len(rest := self._bars(piece, lines)) <= LONGEST:
                lines += _texts(rest)
        if not self.dropping:
            self.rest = self._bars(self.rest, lines)
        if self.dropping or len(self.rest) > LONGEST:
            self.gap()
        return lines

    def finish(self) -> list[str]:
        """Return the last line, which has no newline."""
        lines = [] if self.dropping else list(_texts(self.rest))
        self.rest, self.dropping = b"", False
        return lines

    def _bars(self, piece: bytes, lines: list[str]) -> bytes:
        """Split complete progress bars off the beginning of a piece. Return the rest."""
        while b"%|" in piece and 0 < (end := _end_of_bar(piece)) <= LONGEST:
            lines += _texts(piece[:end])
            piece = piece[end:]
        return piece


def _is_junk(piece: bytes) -> bool:
    """Return whether a piece is binary data, such as part of an image or an archive."""
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


# The reader


MARK_BYTES = MARK.encode()
MOST_NAMES = 64
MOST_LINES = 400
"""Maximum number of lines read from one chunk of data. If there are more, a sample of them is read."""
LONGEST_TEXT = 600
"""Maximum length of a line in characters. Dictionaries may be longer."""
_WIDE = lazy_regex(r"\s{3,}")


class _Kept(Struct):
    """The state of a reader, from which another process can resume reading."""

    rest: bytes = b""
    dropping: bool = False
    names: list[str] = []
    context: Context = field(default_factory=Context)
    progress: float | None = None
    note: str | None = None
    wanted: WantedMetric | None = None


class MetricReader:
    """Reads one log file. Its memory use does not grow with the file."""

    def __init__(self, wanted: WantedMetric | None = None) -> None:
        self._kept = _Kept(wanted=wanted)
        self._frames = Frames()

    @property
    def progress(self) -> float | None:
        return self._kept.context.course.progress if self._kept.progress is None else self._kept.progress

    @property
    def tells_whole(self) -> bool:
        """Whether the progress is that of the whole job: it was announced by the job, or is counted in epochs."""
        return self._kept.progress is not None or bool(self._kept.context.course.epochs)

    @property
    def note(self) -> str | None:
        return self._kept.note

    def feed(self, data: bytes, most: int = MOST_LINES) -> list[MetricReading]:
        """Return the readings from the lines that the data completes.

        If there are more than `most` lines, a sample is read.
        """
        return self._take(self._frames.feed(data, most, MARK_BYTES))

    def finish(self) -> list[MetricReading]:
        """Return the readings from the last line, at the end of the file."""
        last = self._take(self._frames.finish())
        return last + [reading for reading in close_box(self._kept.context) if self._has_room(reading.name)]

    def gap(self) -> None:
        """Note that bytes were skipped, so that the next data may begin in the middle of a line."""
        self._frames.gap()

    def state(self) -> bytes:
        state = replace(self._kept, rest=self._frames.rest, dropping=self._frames.dropping)
        return msgspec.msgpack.encode(state)

    @classmethod
    def resume(cls, state: bytes) -> MetricReader:
        """Return a reader with a saved state. Raise ValueError if the state is invalid."""
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
        announcement = parse_announcement(line)
        if announcement is None:
            return []
        self._kept.progress = self._kept.progress if announcement.progress is None else announcement.progress
        self._kept.note = self._kept.note if announcement.note is None else announcement.note
        return list(announcement.readings)

    def _with_wanted(self, line: str, readings: list[MetricReading]) -> list[MetricReading]:
        """Add the metric that the user chose, under the user's name for it."""
        wanted = self._kept.wanted
        if wanted is None:
            return readings
        named = [
            replace(reading, name=wanted.name or reading.name) if _is_wanted(reading.name, wanted) else reading
            for reading in readings
        ]
        if wanted.pattern is None and (named != readings or any(reading.name == wanted.name for reading in readings)):
            return named
        wanted_value = _read_wanted(line, wanted)
        if wanted_value is None:
            return named
        others = [reading for reading in named if reading.name != wanted_value[0]]
        return [*others, MetricReading(*wanted_value, self._kept.context.step, exact=True)]

    def _has_room(self, name: str) -> bool:
        if name not in self._kept.names and len(self._kept.names) < MOST_NAMES:
            self._kept.names.append(name)
        return name in self._kept.names
