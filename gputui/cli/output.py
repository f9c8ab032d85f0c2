"""Output of the command line: messages, JSON, tables that fit the terminal, and a status line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

from gputui.core.job import ACTIVE, BAD_ENDS, ENDS, FAILURES, WAITING, EngineName, StateName, by_word
from gputui.logs.plain import plain
from gputui.views import format
from gputui.views.format import cut, width

REFUSED, USAGE, NOT_FOUND, TIMED_OUT, UNREACHABLE, INTERRUPTED = 1, 2, 3, 4, 5, 130
"""Exit statuses. A command that could do its work exits with 1 if jobs failed or some of several were refused."""
ERRORS = {
    REFUSED: "refused",
    USAGE: "usage",
    NOT_FOUND: "not-found",
    TIMED_OUT: "timed-out",
    UNREACHABLE: "unreachable",
    INTERRUPTED: "interrupted",
}
"""The name of each class of errors in JSON. A missing session, which is `no-session`, also exits with NOT_FOUND."""
HOST = os.environ.pop("GPUTUI_HOST", "")
"""The `--host` name of this machine, if gputui was started over ssh.

It is removed from the environment, because jobs inherit the environment.
"""


class Exit(Exception):
    """Ends the program with an exit status and an optional message.

    `hint`: a command that may help, for JSON; the message already contains advice.
    """

    def __init__(self, status: int, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint


class JsonMode:
    """What a command with --json has reported so far: its answer or an error, and messages to print with it."""

    def __init__(self) -> None:
        self.on = False
        self.answered = False
        self.messages: list[str] = []

    def begin(self, *, on: bool) -> None:
        self.on, self.answered, self.messages = on, False, []


JSON = JsonMode()


LOST: list[str] = []
"""Why standard output could not be written. Empty unless something was lost."""
CLOSED_BY_READER = (5, 32)
"""EIO and EPIPE, which mean that a terminal or a pipe was closed. The module errno is not imported, for speed."""


def say(message: str) -> None:
    """Print a message for the user on standard error. With --json it becomes one of the answer's `messages`."""
    if JSON.on:
        JSON.messages.append(plain(message))
        return
    write(sys.stderr, f"gputui{f' on {HOST}' if HOST else ''}: {plain(message)}\n")


def refuse(message: str) -> NoReturn:
    """Print a message and exit with the status for a usage error."""
    raise Exit(USAGE, message)


def out(line: str) -> None:
    """Print a line of the answer. With --json it becomes one of the answer's `messages`."""
    if JSON.on:
        JSON.messages.append(plain(line))
    else:
        write(sys.stdout, f"{line}\n")


def write(stream: TextIO, text: str) -> None:
    """Write and flush. A closed pipe or terminal is not an error. Other errors of standard output are reported when the
    command ends, because `run` must not stop its jobs for them.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        discard(stream)
        if stream is sys.stdout and error.errno not in CLOSED_BY_READER:
            LOST.append(str(error.strerror))


def discard(stream: TextIO) -> None:
    """Discard what was not written to a stream and everything that is written to it from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def writing_output() -> Iterator[None]:
    """Exit with an error message if standard output cannot be written, unless its pipe or terminal was closed."""
    try:
        yield
    except OSError as error:
        if error.errno in CLOSED_BY_READER:
            raise BrokenPipeError from None
        discard(sys.stdout)
        LOST.append(str(error.strerror))
        check_output()


def check_output() -> None:
    """Exit with an error message if a part of the output could not be written."""
    if LOST:
        JSON.answered = False
        raise Exit(REFUSED, f"cannot write the output: {LOST.pop()}")


SCHEMA = 1
"""Version of the JSON that commands print. Within a version, fields are only added."""


def format_json(fields: Mapping[str, Any], stream: TextIO) -> str:
    """Format an answer with its version and the messages that belong to it.

    The JSON is in ASCII, so that it cannot contain control sequences.
    """
    import json

    messages = {"messages": JSON.messages} if JSON.messages else {}
    return json.dumps({"schema": SCHEMA, **fields, **messages}, indent=2 if stream.isatty() else None)


def print_json(answer: Any) -> None:
    """Print an answer. For the JSON schema, its class must be listed in the `ANSWERS` of the command's module."""
    import msgspec

    JSON.answered = True
    write(sys.stdout, format_json(msgspec.to_builtins(answer), sys.stdout) + "\n")


def print_error(error: str, message: str, hint: str | None) -> None:
    """Print an error as a JSON object on standard error."""
    write(sys.stderr, format_json({"error": error, "message": plain(message), "hint": hint}, sys.stderr) + "\n")


def print_answer(value: Callable[[], Any], lines: Callable[[OutputFormat], Iterable[str]]) -> int:
    """Print a command's answer, as JSON or as lines of text, and return its exit status."""
    if JSON.on:
        print_json(value())
    elif text := "\n".join(lines(OutputFormat())):
        out(text)
    return 0


class StatusLine:
    """A line on standard error that is rewritten when it changes. Without a terminal nothing is printed.

    Used as a context manager, it is cleared at the end.
    """

    def __init__(self) -> None:
        self._shown = ""
        self._terminal = sys.stderr.isatty() and not JSON.on

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, line: str) -> None:
        if self._terminal and line != self._shown:
            write(sys.stderr, f"\r\x1b[K{line}")
            self._shown = line

    def clear(self) -> None:
        if self._shown:
            write(sys.stderr, "\r\x1b[K")
            self._shown = ""


# Tables

GAP = "  "
WIDEST = 160
"""Maximum width to which cells are padded if none are truncated."""


class Column:
    """A table column.

    `least`: the minimum width on a narrow terminal, or None if the column is never truncated.
    """

    def __init__(self, title: str, *, right: bool = False, least: int | None = None) -> None:
        self.title = title
        self.right = right
        self.least = least


class OutputFormat:
    """Width and colour support of standard output. The width is None if it is unknown or if this is not a terminal."""

    def __init__(self) -> None:
        terminal = sys.stdout.isatty()
        # A terminal whose size was never set reports 0.
        size = os.get_terminal_size(sys.stdout.fileno()) if terminal else os.terminal_size((0, 0))
        self.width: int | None = size.columns or None
        self.colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def cut(self, text: str) -> str:
        return cut(text, self.width) if self.width is not None else text

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if code and self.colour else text


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], fmt: OutputFormat, colours: Sequence[str]
) -> list[str]:
    """Return a header line and one line per row.

    `colours`: an SGR code for each row.
    """
    titles = tuple(column.title for column in columns)
    # Work by column because most cells of a column are identical. This is faster with 100,000 rows.
    cells = [_plain_cells(column) for column in zip(titles, *rows, strict=True)]
    if fmt.width is None:
        widths = [_usual_width(column) for column in cells]
    else:
        widths = _fitted(columns, [_widest(column) for column in cells], fmt.width)
        cells = [_cut_cells(column, size) for column, size in zip(cells, widths, strict=True)]
    padded = map(_pad_cells, cells, widths, (column.right for column in columns))
    lines = (fmt.cut(GAP.join(line).rstrip()) for line in zip(*padded, strict=True))
    return [fmt.paint(line, code) for line, code in zip(lines, ("1", *colours), strict=True)]


def without_empty(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> tuple[list[Column], list[list[str]]]:
    """Leave out the columns that are empty in every row."""
    used = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    return [columns[at] for at in used], [[row[at] for at in used] for row in rows]


def _plain_cells(cells: Sequence[str]) -> Sequence[str]:
    return cells if "".join(cells).isprintable() else [plain(cell) for cell in cells]


def _usual_width(cells: Sequence[str]) -> int:
    """Return the width for a column that is not truncated.

    A few very long cells exceed it, so that they do not widen every row.
    """
    widest = _widest(cells)
    return widest if widest <= WIDEST else max((size for size in map(width, cells) if size <= WIDEST), default=WIDEST)


def _fitted(columns: Sequence[Column], wanted: list[int], available: int) -> list[int]:
    """Shrink the widest columns that may be truncated until all columns fit."""
    widths = [
        min(size, available) if column.least is not None else size for column, size in zip(columns, wanted, strict=True)
    ]
    surplus = sum(widths) + len(GAP) * (len(widths) - 1) - available
    while surplus > 0:
        spare = [(widths[at] - column.least, at) for at, column in enumerate(columns) if column.least is not None]
        most, widest = max(spare, default=(0, 0))
        if most <= 0:
            break
        widths[widest] -= 1
        surplus -= 1
    return widths


def _cut_cells(cells: Sequence[str], size: int) -> Sequence[str]:
    if _widest(cells) <= size:
        return cells
    shortened = {cell: cut(cell, size) for cell in set(cells)}
    return [shortened[cell] for cell in cells]


def _pad_cells(cells: Sequence[str], size: int, right: bool) -> list[str]:
    if _is_ascii(cells):
        return [cell.rjust(size) for cell in cells] if right else [cell.ljust(size) for cell in cells]
    blanks = {cell: " " * (size - width(cell)) for cell in set(cells)}
    return [blanks[cell] + cell if right else cell + blanks[cell] for cell in cells]


def _widest(cells: Sequence[str]) -> int:
    return max(map(len, cells)) if _is_ascii(cells) else max(map(width, set(cells)))


def _is_ascii(cells: Sequence[str]) -> bool:
    return "".join(cells).isascii()


GROUPS = {"waiting": WAITING, "active": ACTIVE, "failed": FAILURES, "ended": ENDS, "crashed": FAILURES}
"""Names for groups of states. `failed` means the same as in --all-failed, and `crashed` is its old name."""

_COLOURS = {"running": "32", "suspended": "33", "stopping": "33", "held": "33", "succeeded": "36", "killed": "35"}


def colour(state: str) -> str:
    """Return the SGR code for a state, or "" for the default colour."""
    return "31" if state in BAD_ENDS else _COLOURS.get(state, "")


def expand_states(words: Iterable[str]) -> list[StateName]:
    """Return the states selected by names of states and of groups of states."""
    return [state for word in words for state in GROUPS.get(word) or (StateName(word),)]


def format_counts(counts: Mapping[StateName, int], engine: EngineName = EngineName.LOCAL) -> str:
    """Format counts as `2 running · 5 queued`. Jobs that a cluster has not started yet are shown as `submitted`."""
    words = by_word(counts)
    if engine is not EngineName.LOCAL:
        words = {
            format.SUBMITTED_WORD if word == StateName.STARTING else word: number for word, number in words.items()
        }
    return " · ".join(f"{number} {word}" for word, number in words.items())
