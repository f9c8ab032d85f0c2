"""The part of a log that shows why a job failed.

This is the traceback that ends with the error message, with library frames folded. If there is no traceback, it is the
lines around the message.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NamedTuple

from gputui.core.regex import lazy_regex
from gputui.logs.line_index import FAR_TAIL_BYTES, read_tail

from .kinds import LONGEST_MESSAGE, named, shortened
from .lines import CleanLine, cleaned
from .tracebacks import Trace, judged, traces_in

LAST_LINES = 20
_FRAME = lazy_regex(r"\s*[|│>]?\s*File \"(?P<path>[^\"]{1,400})\", line (?P<line>\d{1,9})(?:, in (?P<where>.{1,200}))?")
_PACKAGES = lazy_regex(r"/(?:site|dist)-packages/(?P<name>[A-Za-z0-9_]+)")
_PYTHON = lazy_regex(r"/lib(?:64)?/python\d[.\d]*/|^<frozen |^<string>$|/pypy[\d.]*/lib")
_MARKS = lazy_regex(r"\s*[~^]+[~^\s]*$")


class Piece(StrEnum):
    """The kind of line in an excerpt."""

    HEADER = "header"
    FOLDED = "folded"
    """A placeholder for frames of libraries."""
    PLACE = "place"
    """The file, line and function of a frame."""
    SOURCE = "source"
    FAILING = "failing"
    """The line of the user's code that failed."""
    MARKS = "marks"
    ERROR = "error"
    TEXT = "text"


class ExcerptLine(NamedTuple):
    piece: Piece
    text: str
    line: str = ""
    where: str = ""
    """Line number and function of a frame."""


class Excerpt(NamedTuple):
    lines: tuple[ExcerptLine, ...]
    stream: str
    """OUT or ERR, or an empty string if there is no log."""
    needle: str
    """Text to search for in the log to find the place of the excerpt, or empty if there is none."""
    is_trace: bool


class _Frame(NamedTuple):
    path: str
    line: str
    where: str
    source: tuple[str, ...]
    """The statement, and the lines below it with marks such as `^^^^`."""


def excerpt(out_path: str, err_path: str | None, message: str, cwd: str = "") -> Excerpt:
    """Return the excerpt for an error message. Paths in it are relative to `cwd`."""
    logs = [
        ("ERR" if path == err_path else "OUT", cleaned(read_tail(path, FAR_TAIL_BYTES)))
        for path in (err_path, out_path)
        if path
    ]
    for stream, lines in logs:
        if trace := _trace(lines, message):
            return Excerpt(tuple(_told(lines, trace, cwd)), stream, trace.text, is_trace=True)
    for stream, lines in logs:
        if (place := _place(lines, message)) is not None:
            return _around(stream, lines, place)
    return next((_end(stream, lines) for stream, lines in logs if any(line.text for line in lines)), _NOTHING)


_NOTHING = Excerpt((), "", "", is_trace=False)


def _trace(lines: list[CleanLine], message: str) -> Trace | None:
    """Return the last traceback with this message, printed by any rank."""
    verdict = judged(lines, traces := traces_in(lines))
    likely = [trace for trace in (verdict.cause, verdict.victim, verdict.wrapper) if trace is not None]
    for trace in [*likely, *reversed(traces)]:
        if shortened(" ".join(named(trace, lines).split()), LONGEST_MESSAGE) == message:
            return trace
    return None


def _place(lines: list[CleanLine], message: str) -> int | None:
    """Return the index of the last line that contains the message.

    A message that was joined from several lines is found by its beginning.
    """
    sought = message.removesuffix("…")
    for part in (sought, sought.partition(": ")[2], sought[:60]):
        if len(part) >= 8:
            for place in range(len(lines) - 1, -1, -1):
                if part in " ".join(lines[place].text.split()):
                    return place
    return None


def _around(stream: str, lines: list[CleanLine], place: int) -> Excerpt:
    first = max(0, place - LAST_LINES + 6)
    excerpt_lines = [
        ExcerptLine(Piece.ERROR if index == place else Piece.TEXT, lines[index].text)
        for index in range(first, min(len(lines), place + 6))
    ]
    return Excerpt(tuple(_trimmed(excerpt_lines)), stream, lines[place].text.strip(), is_trace=False)


def _end(stream: str, lines: list[CleanLine]) -> Excerpt:
    excerpt_lines = _trimmed([ExcerptLine(Piece.TEXT, line.text) for line in lines])[-LAST_LINES:]
    return Excerpt(tuple(excerpt_lines), stream, "", is_trace=False)


def _trimmed(lines: list[ExcerptLine]) -> list[ExcerptLine]:
    while lines and not lines[-1].text.strip():
        lines.pop()
    while lines and not lines[0].text.strip():
        lines.pop(0)
    return lines


def _told(lines: list[CleanLine], trace: Trace, cwd: str) -> list[ExcerptLine]:
    own = [line.text for line in lines[trace.first : trace.last] if line.source == trace.source]
    frames = _frames(own)
    error = [ExcerptLine(Piece.ERROR, " ".join((trace.text, *trace.block)))]
    if not frames:
        return [*(ExcerptLine(Piece.TEXT, text) for text in own[-LAST_LINES:]), *error]
    header = [ExcerptLine(Piece.HEADER, "Traceback (most recent call last):")]
    return [*header, *_folded(frames, cwd), *error]


def _frames(texts: list[str]) -> list[_Frame]:
    frames: list[_Frame] = []
    for text in texts:
        if match := _FRAME.match(text):
            frames.append(_Frame(match["path"], match["line"], match["where"] or "", ()))
        elif frames and text.strip():
            last = frames[-1]
            frames[-1] = last._replace(source=(*last.source, text))
    return frames


def _folded(frames: list[_Frame], cwd: str) -> list[ExcerptLine]:
    mine = [index for index, frame in enumerate(frames) if not _library(frame.path)]
    failing = mine[-1] if mine else len(frames) - 1
    shown_lines: list[ExcerptLine] = []
    folded: list[str] = []
    for index, frame in enumerate(frames):
        if index != failing and (library := _library(frame.path)):
            folded.append(library)
            continue
        if folded:
            shown_lines.append(_fold(folded))
            folded = []
        shown_lines += _shown(frame, cwd, failing=index == failing)
    return [*shown_lines, _fold(folded)] if folded else shown_lines


def _library(path: str) -> str:
    """Return the name of the library that a file belongs to, or an empty string for the user's own files."""
    if match := _PACKAGES.search(path):
        return match["name"]
    return "Python" if _PYTHON.search(path) else ""


def _fold(libraries: list[str]) -> ExcerptLine:
    names = list(dict.fromkeys(libraries))
    named = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    count = len(libraries)
    return ExcerptLine(Piece.FOLDED, f"… {count} frame{'s' if count > 1 else ''} of {named}")


def _shown(frame: _Frame, cwd: str, *, failing: bool) -> list[ExcerptLine]:
    shown_lines = [ExcerptLine(Piece.PLACE, _named_from(frame.path, cwd), frame.line, frame.where)]
    base = len(frame.source[0]) - len(frame.source[0].lstrip()) if frame.source else 0
    for text in frame.source:
        if _MARKS.match(text):
            shown_lines.append(ExcerptLine(Piece.MARKS, text[base:]))
        else:
            shown_lines.append(ExcerptLine(Piece.FAILING if failing else Piece.SOURCE, text[base:]))
    return shown_lines


def _named_from(path: str, cwd: str) -> str:
    if cwd and path.startswith(cwd.rstrip("/") + "/"):
        return path[len(cwd.rstrip("/")) + 1 :]
    if library := _PACKAGES.search(path):
        return path[library.start("name") :]
    return os.path.join(*path.split("/")[-2:]) if path.count("/") > 2 else path
