"""Failures as rows: kinds, their jobs, and the end of a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style

from gputui.core.amounts import DURATION_CELLS, counted, duration_cell, duration_exact, duration_words, memory, moment
from gputui.core.job import WORDS, Attempt, Crashed, CrashKind, Job, JobId
from gputui.core.parameter_columns import Parameters
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import ProcessSample
from gputui.logs.crashes.excerpts import Excerpt, ExcerptLine, Piece
from gputui.logs.plain import plain
from gputui.tui.chrome import BandPart
from gputui.tui.theme import Palette
from gputui.views.failures import FailureGroup, place_of, places_told, said_of, seconds_of_last
from gputui.views.format import cut

from .base import ViewRow, blank_row

# ---- Why one job failed, as rows ----


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


# ---- The kinds of failures as rows ----


BETWEEN = "  ·  "
AT_ONCE = 600.0
"""Seconds within which several failures count as having come at once."""
LEAST_AT_ONCE = 3


def band_facts(groups: Sequence[FailureGroup], palette: Palette) -> list[BandPart]:
    """`17 jobs in 4 kinds, newest kind first`."""
    jobs = sum(group.count for group in groups)
    if not jobs:
        return [("   no job has failed", palette.past)]
    many = f"{len(groups)} kinds, newest kind first" if len(groups) > 1 else "1 kind"
    return [(f"   {counted(jobs, 'job', 'jobs')} in {many}", palette.past)]


def group_rows(
    groups: Sequence[FailureGroup], selected: int, now: float, palette: Palette, *, airy: bool, focused: bool
) -> tuple[list[ViewRow], tuple[int, int]]:
    """With the rows that the cursor is on. `airy`: a blank line after each."""
    counts = max((len(f"{group.count:,}") for group in groups), default=1)
    rows: list[ViewRow] = [blank_row()] if airy else []
    cursor_rows = (0, 0)
    for number, group in enumerate(groups):
        chosen = number == selected
        if chosen:
            cursor_rows = (len(rows), len(rows) + 1)
        rows += [
            ViewRow(parts, selected=chosen, marked=chosen and focused, value=number)
            for parts in (_message(group, counts, palette, chosen), _facts(group, counts, now, palette))
        ]
        rows += [blank_row()] if airy else []
    return rows, cursor_rows


def _message(group: FailureGroup, counts: int, palette: Palette, chosen: bool) -> list[BandPart]:
    said = plain(group.message)
    style = palette.failure + BOLD if chosen else palette.failure
    return [(f"  {group.count:>{counts},}", palette.failure + BOLD), (" × ", palette.past), (said, style)]


def _facts(group: FailureGroup, counts: int, now: float, palette: Palette) -> list[BandPart]:
    facts: list[BandPart] = []
    common = group.common
    if common.where:
        facts.append((common.where, palette.warning + BOLD if common.only_there else palette.past))
    if common.told:
        facts.append((f"all {plain(common.told)}", palette.text + BOLD))
    if common.group:
        facts.append((f"all of {plain(common.group)}", palette.text + BOLD))
    if at_once(group):
        facts.append((f"all within {duration_words(max(60.0, group.last - group.first))}", palette.text + BOLD))
    facts += [(text, palette.past) for text in (_when(group, now), _ran(group), _variants(group)) if text]
    parts: list[BandPart] = [(" " * (counts + 5), palette.past)]
    for number, fact in enumerate(facts):
        parts += [(BETWEEN, palette.past)] if number else []
        parts.append(fact)
    return parts


def at_once(group: FailureGroup) -> bool:
    """They came at once, and nothing else tells what they share: what was on then is the question."""
    common = group.common
    together = group.count >= LEAST_AT_ONCE and group.last - group.first <= AT_ONCE
    return together and not (common.only_there or common.told or common.group)


def _when(group: FailureGroup, now: float) -> str:
    last = moment(group.last, now)
    first = moment(group.first, now)
    return last if first == last else f"{first} – {last}"


def _ran(group: FailureGroup) -> str:
    if not group.longest:
        return "never ran"
    shortest, longest = duration_cell(group.shortest), duration_cell(group.longest)
    return f"ran {longest}" if shortest == longest else f"ran {shortest} – {longest}"


def _variants(group: FailureGroup) -> str:
    return f"+{group.variants} variant{'s' if group.variants > 1 else ''}" if group.variants else ""


# ---- The jobs of one kind of failure as a table ----


MOST_VALUE = 16
LEAST_NAME = 12
GAP = "  "


class TableColumn(NamedTuple):
    title: str
    width: int
    right: bool
    text: Callable[[Job], str]

    def cell(self, text: str) -> str:
        text = cut(text, self.width)
        blanks = " " * (self.width - cell_len(text))
        return blanks + text if self.right else text + blanks


class FailedTable(NamedTuple):
    columns: tuple[TableColumn, ...]

    @property
    def width(self) -> int:
        return 1 + sum(column.width + len(GAP) for column in self.columns)

    def head(self, palette: Palette) -> ViewRow:
        return ViewRow([(f" {GAP.join(column.cell(column.title) for column in self.columns)}", palette.past)])

    def rows(
        self, jobs: Sequence[Job], cursor: JobId | None, marked: set[JobId], palette: Palette, *, focused: bool
    ) -> list[ViewRow]:
        return [self._row(job, job.id == cursor, job.id in marked, palette, focused=focused) for job in jobs]

    def _row(self, job: Job, chosen: bool, marked: bool, palette: Palette, *, focused: bool) -> ViewRow:
        text = GAP.join(column.cell(column.text(job)) for column in self.columns)
        style = palette.text + Style(bold=True) if chosen else palette.text
        return ViewRow([(f" {text}", style)], selected=chosen and focused, marked=marked, value=job.id)


def job_table(
    jobs: Sequence[Job], parameters: Parameters, name_of: Callable[[Job], str], room: int, highest_id: int
) -> FailedTable:
    """As many parameters as there is room for; where no parameter tells jobs apart, their names."""
    fixed_before = [TableColumn("id", max(3, len(str(highest_id))), True, lambda job: str(job.id))]
    gpu = max((len(_gpus(job)) for job in jobs[:200]), default=0)
    fixed_after = [TableColumn("gpu", max(3, min(gpu, 8)), True, _gpus)] if gpu else []
    fixed_after.append(TableColumn("ran", DURATION_CELLS, True, lambda job: duration_cell(seconds_of_last(job))))
    remaining = room - 1 - sum(column.width + len(GAP) for column in (*fixed_before, *fixed_after))
    between = _parameters(parameters, remaining)
    if not between and remaining > len(GAP) + 2:
        longest = max((cell_len(plain(name_of(job))) for job in jobs[:200]), default=LEAST_NAME)
        width = min(remaining - len(GAP), max(LEAST_NAME, longest))
        between = [TableColumn("job", width, False, lambda job: plain(name_of(job)))]
    return FailedTable((*fixed_before, *between, *fixed_after))


def _parameters(parameters: Parameters, room: int) -> list[TableColumn]:
    columns: list[TableColumn] = []
    for column in parameters.columns():
        title = plain(column.title)
        width = min(MOST_VALUE, max(cell_len(title), column.width))
        if width + len(GAP) > room:
            break
        room -= width + len(GAP)
        columns.append(TableColumn(title, width, column.is_number, _value(parameters, column.name)))
    return columns


def _value(parameters: Parameters, name: str) -> Callable[[Job], str]:
    return lambda job: plain(parameters.value(job, name) or "")


def _gpus(job: Job) -> str:
    return ",".join(gpu if len(gpu) <= 4 else f"{gpu[:7]}…" for gpu in place_of(job))
