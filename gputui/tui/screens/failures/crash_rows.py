"""Why one job failed, as rows: the last frames of its log, the failing line bold, and what is known beyond the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from rich.style import Style

from gputui.core.crash_kind import CrashKind
from gputui.core.job import Attempt, Crashed, Job
from gputui.core.snapshot import Snapshot
from gputui.core.states import WORDS
from gputui.core.views.amounts import counted, duration_exact, memory, moment
from gputui.core.views.failures import said_of
from gputui.core.views.in_common import places_told
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import ProcessSample
from gputui.logs.crashes.excerpts import Excerpt, ExcerptLine, Piece
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow, blank_row

__all__ = ["beyond_the_log", "crash_rows", "excerpt_title", "strip_row"]

BOLD = Style(bold=True)
_NAMED = re.compile(r"[\w.]{1,80}(?:Error|Exception|Interrupt|Exit)\w*:")
_CARD = re.compile(r"\b(?:GPU|cuda:|device) ?(\d{1,2})\b")
_PID = re.compile(r"\b[Pp]rocess (\d{1,9})\b")


def excerpt_title(crash: Excerpt) -> str:
    if crash.is_trace:
        return f"{crash.stream}, the last frames"
    return (
        f"{crash.stream}, the lines around it" if crash.needle else f"{crash.stream}, its end" if crash.stream else ""
    )


def strip_row(
    count: int, marked: int, job: Job, name: str, title_at: int | None, told: str, palette: Palette
) -> ViewRow:
    """How many jobs the kind has, which one is looked at, from a cell on or right behind; what is seen of its log."""
    left = [(f" {counted(count, 'job', 'jobs')}", palette.text + BOLD)]
    left += [("  ", palette.text), (f"{marked} marked", palette.focus + BOLD)] if marked else []
    used = sum(len(text) for text, _ in left)
    left.append((" " * (3 if title_at is None else max(1, title_at - used)), palette.text))
    left += [(f"#{job.id} ", palette.text + BOLD), (name, palette.text)]
    return ViewRow(left, [(f"  {told}", palette.past)], band=True)


def crash_rows(
    crash: Excerpt, job: Job, beyond: Sequence[list[BandPart]], width: int, palette: Palette
) -> list[ViewRow]:
    room = max(10, width - 2)
    rows = [row for line in crash.lines for row in _rows(line, room, palette)]
    if not any(line.piece is Piece.ERROR for line in crash.lines):
        rows += [blank_row()] if rows else []
        rows += _wrapped(plain(said_of(job)), room, palette.failure + BOLD)
        if not crash.lines:
            rows.append(ViewRow([(" It printed nothing.", palette.past)]))
    rows.append(blank_row())
    for parts in beyond:
        rows += _flowing(parts, room, palette.text)
    return rows


def _rows(line: ExcerptLine, room: int, palette: Palette) -> list[ViewRow]:
    text = plain(line.text)
    match line.piece:
        case Piece.ERROR:
            return _error(text, room, palette)
        case Piece.PLACE:
            where = f" {plain(line.where)}" if line.where else ""
            parts = [(f"   {text}", palette.text + BOLD), (f":{line.line}", palette.past), (where, palette.text)]
            return [ViewRow(parts)]
        case Piece.SOURCE | Piece.FAILING:
            style = palette.text + BOLD if line.piece is Piece.FAILING else palette.text
            return [ViewRow([(f"     {text}", style)])]
        case Piece.MARKS:
            return [ViewRow([(f"     {text}", palette.failure)])]
        case Piece.TEXT:
            return _wrapped(text, room, palette.text) if text else [blank_row()]
    return [ViewRow([(f" {text}", palette.past)])]


def _error(text: str, room: int, palette: Palette) -> list[ViewRow]:
    """The name of the exception bold, what it says below it indented."""
    name = match[0] if (match := _NAMED.match(text)) else ""
    lines = wrap(text, room, subsequent_indent="  ", break_on_hyphens=False) or [text]
    first, *rest = lines
    begin = [(f" {first[: len(name)]}", palette.failure + BOLD), (first[len(name) :], palette.failure)]
    return [ViewRow(begin), *(ViewRow([(f" {line}", palette.failure)]) for line in rest)]


def _wrapped(text: str, room: int, style: Style) -> list[ViewRow]:
    return [ViewRow([(f" {line}", style)]) for line in wrap(text, room, break_on_hyphens=False) or [""]]


def _flowing(parts: Sequence[BandPart], room: int, blank: Style) -> list[ViewRow]:
    """Styled words over as many rows as they need."""
    rows: list[list[BandPart]] = [[(" ", blank)]]
    used = 0
    for text, style in parts:
        for word in re.findall(r"\S+\s*", text):
            if used + len(word.rstrip()) > room and used:
                rows.append([(" ", blank)])
                used = 0
            rows[-1].append((word, style))
            used += len(word)
    return [ViewRow(row) for row in rows]


def beyond_the_log(
    job: Job, snapshot: Snapshot, picture: DevicesPicture, now: float, palette: Palette
) -> list[list[BandPart]]:
    """What gputui knows of it that the log does not say, in sentences."""
    if not job.attempts:
        return []
    attempt = job.attempts[-1]
    sentences = [_end(attempt, len(job.attempts), now, palette)]
    sentences += _cards(attempt, palette)
    sentences += _processes(attempt, snapshot, picture, now, palette)
    if (alone := _once_more(job)) is not None:
        sentences.append([(alone, palette.past)])
    return sentences


def _end(attempt: Attempt, attempts: int, now: float, palette: Palette) -> list[BandPart]:
    code = f"signal {attempt.end.signal}" if isinstance(attempt.end, Crashed) else f"exit code {attempt.exit_code}"
    ended = code if attempt.exit_code is not None else WORDS[attempt.end.name]
    facts = [f"{ended} at {moment(attempt.ended, now)} after {duration_exact(attempt.ended - attempt.started)}"]
    facts += [f"on {places_told(attempt.gpus)}"] if attempt.gpus else []
    usage = attempt.usage
    facts += [f"peak {memory(usage.gpu_peak_memory)}"] if usage is not None and usage.gpu_peak_memory else []
    facts += [f"attempt {attempt.number} of {attempts}"] if attempts > 1 else []
    return [(", ".join(facts) + ".", palette.past)]


def _cards(attempt: Attempt, palette: Palette) -> list[list[BandPart]]:
    """A job counts its own cards from 0."""
    match = _CARD.search(attempt.said or "")
    if match is None or int(match[1]) >= len(attempt.gpus) or attempt.gpus[int(match[1])] == match[1]:
        return []
    return [[(f"GPU {match[1]} there is GPU {plain(attempt.gpus[int(match[1])])} of this machine.", palette.text)]]


def _processes(
    attempt: Attempt, snapshot: Snapshot, picture: DevicesPicture, now: float, palette: Palette
) -> list[list[BandPart]]:
    """Who it is that the message calls by a pid, as long as it is there."""
    sentences: list[list[BandPart]] = []
    for pid in dict.fromkeys(int(number) for number in _PID.findall(attempt.said or "")):
        if (job := picture.pids.get(pid)) is not None and job in snapshot:
            sentences.append([(f"Process {pid} is of #{job}.", palette.text)])
        elif (process := _seen(pid, picture)) is not None:
            command = f", {plain(process.command)}" if process.command else ""
            since = f", on it since {moment(process.started, now)}" if process.started else ""
            who = (plain(process.user or "somebody"), palette.stranger + BOLD)
            sentences.append([(f"Process {pid}: ", palette.text), who, (f"{command}{since}.", palette.text)])
    return sentences


def _seen(pid: int, picture: DevicesPicture) -> ProcessSample | None:
    return next(
        (process for device in picture.devices for process in device.sample.processes or () if process.pid == pid), None
    )


def _once_more(job: Job) -> str | None:
    """What became of a card that was full."""
    attempt = job.attempts[-1]
    if attempt.kind is not CrashKind.OOM_GPU or not attempt.gpus or attempt.left:
        return None
    if job.after_oom is not None:
        return "This was its second try, alone on its card: it needs a bigger one, or less."
    if job.spec.on_oom == "fail":
        return "Not tried again alone: on_oom = fail."
    return "Not tried again: it was alone on its card already."
