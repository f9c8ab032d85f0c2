"""Results and progress of one log file, read as it grows."""

from __future__ import annotations

import re
from functools import lru_cache
from heapq import merge

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.results import UNNAMED, WantedMetric, words_of
from gputui.logs.plain import plain, without_escapes

from .findings import MetricReading, number_of
from .line_reader import Context, close_box, read
from .named_numbers import mapping_in

# ---- The metric that the user wants, found in a line ----


LONGEST_MATCHED = 400
"""Characters of a line that the user's own expression is tried on: nothing can stop one that takes for ever."""
_NUMBER = r"(?P<value>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"


def is_wanted(name: str, wanted: WantedMetric) -> bool:
    """Whether a program that prints this name prints what the user wants: `Val Acc` is `val_acc`."""
    return wanted.name is not None and words_of(name) == words_of(wanted.name)


def read_wanted(line: str, wanted: WantedMetric) -> tuple[str, float] | None:
    """The wanted metric's name and value in this line, if it is there."""
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


# ---- The exact way to tell a result ----


MARK = "::gputui "
LONGEST_NOTE = 80
_LINE = re.compile(r"::gputui\s+(?P<body>(?:[^\":]|\"[^\"]*\"|:(?!:))*)::")
_PAIR = re.compile(r"(?P<name>[^\s=\"]{1,80})\s*=\s*(?:\"(?P<text>[^\"]*)\"|(?P<word>[^\s\"]{1,80}))")


class Announcement(Struct, frozen=True):
    """What one line told in so many words."""

    readings: tuple[MetricReading, ...] = ()
    progress: float | None = None
    note: str | None = None


def told_in(line: str) -> Announcement | None:
    """None when the line is no such line, or one that is not well formed."""
    match = _LINE.search(line)
    if match is None:
        return None
    is_metric = match["body"].split()[:1] == ["metric"]
    pairs = {
        pair["name"]: pair["word"] if pair["text"] is None else pair["text"] for pair in _PAIR.finditer(match["body"])
    }
    progress = _number(pairs.pop("progress", None))
    note = pairs.pop("note", None)
    step = _number(pairs.pop("step", None))
    readings = tuple(
        MetricReading(name, value, step, exact=True)
        for name, word in pairs.items()
        if (value := _number(word)) is not None
    )
    return Announcement(
        readings if is_metric else (),
        progress if progress is not None and 0 <= progress <= 1 else None,
        plain(note)[:LONGEST_NOTE] if note is not None else None,
    )


def _number(word: str | None) -> float | None:
    if word is None:
        return None
    try:
        return float(word.removesuffix("%"))
    except ValueError:
        return None


# ---- Which of very many lines are read ----


_ALIKE = b"0123456789.,+-eE \t#=>" + bytes(range(128, 256))
"""What numbers and bars are made of."""
SHAPE = 60
"""Bytes of a line that tell its kind."""


def thinned(lines: list[bytes], most: int, always: bytes) -> list[bytes]:
    """At most so many of them, in their order, and all with a mark that is never passed over."""
    if len(lines) <= most:
        return lines
    kinds: dict[bytes, list[int]] = {}
    marked: list[int] = []
    for number, line in enumerate(lines):
        if always in line:
            marked.append(number)
        else:
            kinds.setdefault(line.translate(None, _ALIKE)[:SHAPE], []).append(number)
    return [lines[number] for number in merge(marked, sorted(_shared(list(kinds.values()), most)))]


def _shared(kinds: list[list[int]], most: int) -> list[int]:
    """The rarest first; what they leave is shared by the others, each with its newest line."""
    kinds.sort(key=lambda numbers: (len(numbers), -numbers[-1]))
    chosen: list[int] = []
    for place, numbers in enumerate(kinds):
        share = (most - len(chosen)) // (len(kinds) - place)
        if share <= 0:
            share = 1 if len(chosen) < most else 0
        chosen += _evenly(numbers, share)
    return chosen


def _evenly(numbers: list[int], share: int) -> list[int]:
    if share >= len(numbers):
        return numbers
    return [numbers[len(numbers) - 1 - round(step * len(numbers) / share)] for step in range(share)]


# ---- Bytes as they come, as finished lines ----


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


# ---- Results and progress of one log file, read as it grows ----


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
        last = self._take(self._frames.finish())
        return last + [reading for reading in close_box(self._kept.context) if self._has_room(reading.name)]

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
