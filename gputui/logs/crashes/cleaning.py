"""The lines of a log's tail as a reader saw them at the end: no colours, no rewritten progress, no marks of ranks."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputui.logs.plain import plain, without_escapes

__all__ = ["CleanLine", "cleaned", "mentioned"]

_LONGEST_LINE = 1000
_MOST_LINES = 2000

# Launchers put these before each line of the process that printed it.
_MARK = re.compile(
    r"\[(?P<rank>(?:rank|default)\d{1,5})\]:\ ?"
    r"|\[\d{1,5},(?P<mpi>\d{1,5})\]<std(?:err|out)>:\ ?"
    r"|\((?:[\w.]{1,60}\ )?pid=(?P<pid>\d{1,9})[^)]{0,80}\)\ ",
)
_LABEL = re.compile(r" {0,4}(\d{1,5}): ?")
_LABELLED_TRACE = re.compile(r"^ {0,4}\d{1,5}: Traceback \(", re.MULTILINE)
_GROUP_MARGIN = re.compile(r"\s*+(?:\|(?: |$)|\+ (?=Exception Group)|\+-[-+0-9 ]*+$)")


class CleanLine(NamedTuple):
    text: str
    source: str = ""
    """The rank or process that a launcher says it is from."""
    rewritten: bool = False
    """It was drawn again and again, as bars are."""


def cleaned(tail: bytes) -> list[CleanLine]:
    text = tail.decode("utf-8", "replace")
    if "\x1b" in text or not text.isascii():
        text = without_escapes(text)
    labelled = ": Traceback (" in text and _LABELLED_TRACE.search(text) is not None
    grouped = "Exception Group Traceback" in text
    lines = [_line(raw, labelled) for raw in text.split("\n")[-_MOST_LINES:]]
    return [_without_margin(line) for line in lines] if grouped else lines


def _line(raw: str, labelled: bool) -> CleanLine:
    rewritten = False
    if not raw.isprintable():
        before, _, raw = raw.rstrip("\r \t").rpartition("\r")
        rewritten = before.count("\r") > 1
        raw = plain(raw[:_LONGEST_LINE].replace("\t", "    "))
    text = raw[:_LONGEST_LINE].rstrip()
    if text.startswith(("[", "(")) and (mark := _MARK.match(text)):
        return CleanLine(text[mark.end() :], mark["rank"] or mark["mpi"] or mark["pid"], rewritten)
    if labelled and (mark := _LABEL.match(text)):
        return CleanLine(text[mark.end() :], mark[1], rewritten)
    return CleanLine(text, "", rewritten)


def _without_margin(line: CleanLine) -> CleanLine:
    margin = _GROUP_MARGIN.match(line.text)
    return line._replace(text=line.text[margin.end() :]) if margin else line


def mentioned(lines: list[CleanLine], marks: tuple[str, ...]) -> bool:
    """Whether any of the marks occurs at all: most logs are told by this alone."""
    text = "\n".join([line.text for line in lines])
    return any(mark in text for mark in marks)
