"""The lines of the failures view: groups, their jobs, and excerpts of logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap

from rich.cells import cell_len

from gputui.core.amounts import DURATION_CELLS, counted, duration_cell, duration_exact, duration_words, memory, moment
from gputui.core.job import WORDS, Attempt, CrashKind, Failed, Job
from gputui.core.regex import lazy_regex
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.logs.crashes.excerpts import Excerpt, ExcerptLine
from gputui.logs.crashes.excerpts import Piece as LinePart
from gputui.logs.plain import plain
from gputui.tui.text import COLUMN_GAP, Column, Line, Piece, fitting, join, table_width, wrapped
from gputui.tui.theme import Ground, Look
from gputui.views.failures import FailureGroup, error_message, format_gpus, last_duration, last_gpus
from gputui.views.parameters import Parameters

# Why one job failed

_NAMED = lazy_regex(r"[\w.]{1,80}(?:Error|Exception|Interrupt|Exit)\w*:")
_GPU = lazy_regex(r"\b(?:GPU|cuda:|device) ?(\d{1,2})\b")
_PID = lazy_regex(r"\b[Pp]rocess (\d{1,9})\b")


def excerpt_title(shown: Excerpt) -> str:
    if shown.is_trace:
        return f"{shown.stream}, last frames"
    return f"{shown.stream}, nearby lines" if shown.needle else f"{shown.stream}, last lines" if shown.stream else ""


def strip_row(count: int, marked: int, job: Job, name: str, title_at: int | None, excerpt: str) -> Line:
    """Return the band above the lower half. It shows how many jobs failed alike, the selected job, and the title of the
    excerpt.

    `title_at` is the cell where the selected job should begin, or None for no alignment.
    """
    left = [(f" {counted(count, 'job', 'jobs')}", Look.BOLD)]
    left += [("  ", Look.TEXT), (f"{marked} marked", Look.FOCUS_BOLD)] if marked else []
    used = sum(len(text) for text, _ in left)
    left.append((" " * (3 if title_at is None else max(1, title_at - used)), Look.TEXT))
    left += [(f"#{job.id} ", Look.BOLD), (name, Look.TEXT)]
    return Line(left, Ground.BAND, [(f"  {excerpt}", Look.PAST)])


def excerpt_rows(shown: Excerpt, job: Job, beyond: Sequence[list[Piece]], width: int) -> list[Line]:
    room = max(10, width - 2)
    rows = [row for line in shown.lines for row in _rows(line, room)]
    if not any(line.piece is LinePart.ERROR for line in shown.lines):
        rows += [Line()] if rows else []
        rows += wrapped(plain(error_message(job)), room, Look.FAILURE_BOLD)
        if not shown.lines:
            rows.append(Line([(" No output.", Look.PAST)]))
    rows.append(Line())
    for pieces in beyond:
        rows += _flowing(pieces, room)
    return rows


def _rows(line: ExcerptLine, room: int) -> list[Line]:
    text = plain(line.text)
    match line.piece:
        case LinePart.ERROR:
            return _error(text, room)
        case LinePart.PLACE:
            where = f" {plain(line.where)}" if line.where else ""
            parts = [(f"   {text}", Look.BOLD), (f":{line.line}", Look.PAST), (where, Look.TEXT)]
            return [Line(parts)]
        case LinePart.SOURCE | LinePart.FAILING:
            look = Look.BOLD if line.piece is LinePart.FAILING else Look.TEXT
            return [Line([(f"     {text}", look)])]
        case LinePart.MARKS:
            return [Line([(f"     {text}", Look.FAILURE)])]
        case LinePart.TEXT:
            return wrapped(text, room, Look.TEXT) if text else [Line()]
    return [Line([(f" {text}", Look.PAST)])]


def _error(text: str, room: int) -> list[Line]:
    """Return the lines of an error. The name of the exception is bold and continuation lines are indented."""
    name = match[0] if (match := _NAMED.match(text)) else ""
    lines = wrap(text, room, subsequent_indent="  ", break_on_hyphens=False) or [text]
    first, *rest = lines
    begin = [(f" {first[: len(name)]}", Look.FAILURE_BOLD), (first[len(name) :], Look.FAILURE)]
    return [Line(begin), *(Line([(f" {line}", Look.FAILURE)]) for line in rest)]


def _flowing(pieces: Sequence[Piece], room: int) -> list[Line]:
    """Wrap pieces of text that have different looks."""
    rows: list[list[Piece]] = [[(" ", Look.TEXT)]]
    used = 0
    for text, look in pieces:
        for word in re.findall(r"\S+\s*", text):
            if used + len(word.rstrip()) > room and used:
                rows.append([(" ", Look.TEXT)])
                used = 0
            rows[-1].append((word, look))
            used += len(word)
    return [Line(row) for row in rows]


def beyond_the_log(job: Job, snapshot: Snapshot, picture: DevicesPicture, now: float) -> list[list[Piece]]:
    """Return sentences about facts that are not in the log."""
    if not job.attempts:
        return []
    attempt = job.attempts[-1]
    sentences = [_end(attempt, len(job.attempts), now)]
    sentences += _gpu_numbers(attempt)
    sentences += _processes(attempt, snapshot, picture, now)
    if (reason := _why_not_retried(job)) is not None:
        sentences.append([(reason, Look.PAST)])
    return sentences


def _end(attempt: Attempt, attempts: int, now: float) -> list[Piece]:
    signal = attempt.end.signal if isinstance(attempt.end, Failed) else None
    code = f"signal {signal}" if signal is not None else f"exit code {attempt.exit_code}"
    ended = code if attempt.exit_code is not None else WORDS[attempt.end.name]
    facts = [f"{ended} at {moment(attempt.ended, now)} after {duration_exact(attempt.ended - attempt.started)}"]
    facts += [f"on {format_gpus(attempt.gpus)}"] if attempt.gpus else []
    usage = attempt.usage
    facts += [f"peak {memory(usage.gpu_peak_memory)}"] if usage is not None and usage.gpu_peak_memory else []
    facts += [f"attempt {attempt.number} of {attempts}"] if attempts > 1 else []
    return [(", ".join(facts) + ".", Look.PAST)]


def _gpu_numbers(attempt: Attempt) -> list[list[Piece]]:
    """Translate the GPU number in the message, because a job counts its own GPUs from 0."""
    match = _GPU.search(attempt.reason or "")
    if match is None or int(match[1]) >= len(attempt.gpus) or attempt.gpus[int(match[1])] == match[1]:
        return []
    return [[(f"GPU {match[1]} in its log is GPU {plain(attempt.gpus[int(match[1])])} of this machine.", Look.TEXT)]]


def _processes(attempt: Attempt, snapshot: Snapshot, picture: DevicesPicture, now: float) -> list[list[Piece]]:
    """Describe the processes whose pids the message mentions, if they still exist."""
    sentences: list[list[Piece]] = []
    processes = [process for device in picture.devices for process in device.sample.processes]
    for pid in dict.fromkeys(int(number) for number in _PID.findall(attempt.reason or "")):
        if (job := picture.pids.get(pid)) is not None and job in snapshot:
            sentences.append([(f"Process {pid} belongs to #{job}.", Look.TEXT)])
        elif (process := next((process for process in processes if process.pid == pid), None)) is not None:
            command = f", {plain(process.command)}" if process.command else ""
            since = f", running since {moment(process.started, now)}" if process.started else ""
            who = (plain(process.user or "somebody"), Look.EXTERNAL_BOLD)
            sentences.append([(f"Process {pid}: ", Look.TEXT), who, (f"{command}{since}.", Look.TEXT)])
    return sentences


def _why_not_retried(job: Job) -> str | None:
    """Return why the job was not retried after the GPU ran out of memory, or None."""
    attempt = job.attempts[-1]
    if attempt.kind is not CrashKind.OOM_GPU or not attempt.gpus or attempt.left:
        return None
    if job.after_oom is not None:
        return "This was the retry, alone on its GPU: it needs a bigger GPU or less memory."
    if job.spec.on_oom == "fail":
        return "Not retried alone: on_oom = fail."
    return "Not retried: it was already alone on its GPU."


# Groups of failures

BETWEEN = "  ·  "
SIMULTANEOUS_SECONDS = 600.0
"""Maximum number of seconds between failures that count as simultaneous."""
LEAST_AT_ONCE = 3


def band_facts(groups: Sequence[FailureGroup]) -> list[Piece]:
    """Return the text for the band, such as `17 jobs, 4 errors, newest first`."""
    jobs = sum(group.count for group in groups)
    if not jobs:
        return [("   no failed jobs", Look.PAST)]
    many = f"{len(groups)} errors, newest first" if len(groups) > 1 else "1 error"
    return [(f"   {counted(jobs, 'job', 'jobs')}, {many}", Look.PAST)]


def group_rows(
    groups: Sequence[FailureGroup], selected: int, now: float, *, airy: bool, focused: bool
) -> tuple[list[Line], tuple[int, int]]:
    """Return the lines, and the first and last line number of the selected group. `airy` adds blank lines."""
    counts = max((len(f"{group.count:,}") for group in groups), default=1)
    rows: list[Line] = [Line()] if airy else []
    cursor_rows = (0, 0)
    for number, group in enumerate(groups):
        chosen = number == selected
        if chosen:
            cursor_rows = (len(rows), len(rows) + 1)
        rows += [
            Line(parts, ground=Ground.CURSOR if chosen else Ground.PAGE, marked=chosen and focused, value=number)
            for parts in (_message(group, counts, chosen), _facts(group, counts, now))
        ]
        rows += [Line()] if airy else []
    return rows, cursor_rows


def _message(group: FailureGroup, counts: int, chosen: bool) -> list[Piece]:
    look = Look.FAILURE_BOLD if chosen else Look.FAILURE
    return [(f"  {group.count:>{counts},}", Look.FAILURE_BOLD), (" × ", Look.PAST), (plain(group.message), look)]


def _facts(group: FailureGroup, counts: int, now: float) -> list[Piece]:
    facts: list[Piece] = []
    common = group.common
    if common.where:
        facts.append((common.where, Look.WARNING_BOLD if common.only_there else Look.PAST))
    if common.parameters_text:
        facts.append((f"all {plain(common.parameters_text)}", Look.BOLD))
    if common.group:
        facts.append((f"all in {plain(common.group)}", Look.BOLD))
    if only_simultaneous(group):
        facts.append((f"all within {duration_words(max(60.0, group.last - group.first))}", Look.BOLD))
    facts += [(text, Look.PAST) for text in (_when(group, now), _ran(group), _variants(group)) if text]
    return [(" " * (counts + 5), Look.PAST), *join([[fact] for fact in facts], (BETWEEN, Look.PAST))]


def only_simultaneous(group: FailureGroup) -> bool:
    """Return whether the time is the only thing that the failures have in common."""
    common = group.common
    together = group.count >= LEAST_AT_ONCE and group.last - group.first <= SIMULTANEOUS_SECONDS
    return together and not (common.only_there or common.parameters_text or common.group)


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


# The jobs of one group

MOST_VALUE = 16
LEAST_NAME = 12


def job_columns(
    jobs: Sequence[Job], parameters: Parameters, name_of: Callable[[Job], str], room: int, highest_id: int
) -> list[Column]:
    """Return the columns: the ids of the jobs, then as many parameters as fit or else the names of the jobs, then their
    GPUs and run times.
    """

    def column(title: str, texts: Iterable[str], width: int, *, to_right: bool = True, rank: int = 0) -> Column:
        return Column(title, [(text, Look.TEXT) for text in texts], to_right, rank, fixed_width=width)

    gpus = [_gpus(job) for job in jobs]
    gpu = max(map(len, gpus[:200]), default=0)
    before = [column("id", (str(job.id) for job in jobs), max(3, len(str(highest_id))))]
    after = [column("gpu", gpus, max(3, min(gpu, 8)))] if gpu else []
    after.append(column("ran", (duration_cell(last_duration(job)) for job in jobs), DURATION_CELLS))
    values = []
    for rank, parameter in enumerate(parameters.columns(), 1):
        title, texts = plain(parameter.title), (plain(parameters.value(job, parameter.name) or "") for job in jobs)
        width = min(MOST_VALUE, max(cell_len(title), parameter.width))
        values.append(column(title, texts, width, to_right=parameter.is_number, rank=rank))
    columns = fitting([*before, *values, *after], room)
    remaining = room - table_width(columns) - len(COLUMN_GAP)
    if len(columns) > len(before + after) or remaining <= 2:
        return columns
    names = [plain(name_of(job)) for job in jobs]
    longest = max((cell_len(name) for name in names[:200]), default=LEAST_NAME)
    return [*before, column("job", names, min(remaining, max(LEAST_NAME, longest)), to_right=False), *after]


def _gpus(job: Job) -> str:
    return ",".join(gpu if len(gpu) <= 4 else f"{gpu[:7]}…" for gpu in last_gpus(job))
