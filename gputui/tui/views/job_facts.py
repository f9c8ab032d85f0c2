"""The parts of the details view: facts, attempts, environments, and the comparison of two logs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.amounts import (
    DAY,
    counted,
    duration_cell,
    duration_exact,
    duration_words,
    memory,
    memory_words,
    moment,
)
from gputui.core.eta import progress_of
from gputui.core.job import WORDS, Attempt, Delayed, Ended, Job, JobId, Running, Succeeded, Waiting, describe_end
from gputui.core.regex import lazy_regex
from gputui.core.results import JobResults
from gputui.core.snapshot import Snapshot
from gputui.logs.crashes.lines import cleaned
from gputui.logs.line_index import FAR_TAIL_BYTES, read_tail
from gputui.logs.plain import plain
from gputui.session.control.handlers import Details
from gputui.session.job_directories import Commit, Files
from gputui.tui.chrome import LinesView
from gputui.tui.queue.row_facts import state_words
from gputui.tui.text import Column, Line, Piece, bar, blank, heading, ljust, table, width_of
from gputui.tui.theme import Ground, Look, bold
from gputui.views.failures import error_message, format_gpus
from gputui.views.format import SIGNS, code_words, cut, masked, silence, value_text
from gputui.views.status import wants_notification

from .base import FullView

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# Facts

SHORT_HISTORY = 3600
"""Length in seconds below which a history is shown with seconds."""
LABEL = 11
BAR = 12
MOST_LINES = 6
"""Maximum number of lines of one fact. The key `y` copies the whole command."""
NO_PID = "none: not started yet, or just ended"


@dataclass(frozen=True)
class Subject:
    """Everything that the details view shows about a job."""

    details: Details
    job: Job
    """The newest state of the job. `details` may be slightly older."""
    snapshot: Snapshot
    now: float
    host: str
    commits: dict[int, Commit]
    memory_used: int | None = None
    """The current GPU memory in bytes, or None if unknown."""
    device_warnings: Sequence[str] = ()
    """What is wrong with the devices on which the job runs."""

    @property
    def results(self) -> JobResults | None:
        return self.snapshot.results.get(self.job.id)

    @property
    def silent_since(self) -> float | None:
        return self.snapshot.silent_since(self.job, self.now)


def state_look(job: Job) -> Look:
    if isinstance(job.state, Ended):
        return Look.PAST if isinstance(job.state, Succeeded) else Look.FAILURE
    return Look.TEXT if isinstance(job.state, Waiting) else Look.RUNNING


class Remark(NamedTuple):
    """One line on what is unusual about the job: a claim, the evidence for it, and the keys that help."""

    sign: str
    claim: str
    evidence: str
    look: Look
    keys: Sequence[tuple[str, str]] = ()


MOST_REMARKS = 3


def remark_rows(subject: Subject, width: int) -> list[Line]:
    """Return the most important remarks, worst first. The keys of the first one are at its right end."""
    remarks = list(_remarks(subject))[:MOST_REMARKS]
    claims = min(max((len(remark.claim) for remark in remarks), default=0), width // 2)
    lines = []
    for number, remark in enumerate(remarks):
        claim = (f" {remark.sign} {ljust(remark.claim, claims)}", bold(remark.look))
        keys = _keys(*remark.keys) if not number and width >= 100 else []
        lines.append(Line([claim, (f"   {plain(remark.evidence)}", Look.TEXT)], Ground.PAUSE, keys, marked=True))
    return lines


def _remarks(subject: Subject) -> Iterator[Remark]:
    job, now = subject.job, subject.now
    if isinstance(job.state, Ended) and not isinstance(job.state, Succeeded) and job.state.name != "killed":
        keys = (("r", "Rerun"), ("l", "Log at error"), ("F", "Similar failures"))
        message = error_message(job) if job.attempts else describe_end(job.state)
        yield Remark("✗", WORDS[job.state.name], message, Look.FAILURE, keys)
    if (since := subject.silent_since) is not None:
        hangs = isinstance(job.state, Running) and job.state.silent_since is not None
        what = "it has done nothing" if hangs else "it has printed nothing"
        on_hang = f"; on_hang = {job.spec.on_hang}" if hangs else ""
        evidence = f"{what} since {moment(since, now, seconds=True)}{on_hang}"
        keys = (("l", "Log"), ("B", "Requeue"), ("K", "Kill"))
        yield Remark("!", silence(subject.snapshot, job, now), evidence, Look.WARNING, keys)
    for warning in subject.device_warnings:
        yield Remark("!", "its GPU", warning, Look.WARNING)
    if isinstance(job.state, Waiting) and subject.details.why and subject.details.job.state == job.state:
        keys = (("h", "Hold or release"), ("e", "Edit"), ("+", "Priority"))
        yield Remark(SIGNS[job.state.name], WORDS[job.state.name], subject.details.why, Look.WARNING, keys)
    if subject.details.remark and subject.silent_since is None and job.active is not None:
        yield Remark("!", "idle" if "idle" in subject.details.remark else "unusual", subject.details.remark,
                     Look.WARNING, (("l", "Log"), ("K", "Kill")))  # fmt: skip
    if (behind := subject.snapshot.behind.get(job.id)) is not None and subject.snapshot.metric is not None:
        values = f"{plain(subject.snapshot.metric.name)} {value_text(behind.value)} at {behind.step:g}"
        evidence = f"{values}, median of {behind.siblings} others {value_text(behind.median)}"
        yield Remark("«", "behind its siblings", evidence, Look.WARNING, (("l", "Log"), ("K", "Kill")))


def _keys(*keys: tuple[str, str]) -> list[Piece]:
    return [piece for key, label in keys for piece in ((key, Look.BEST), (f" {label}   ", Look.TEXT))]


Fact = tuple[str, Sequence[Piece]]


def fact_rows(subject: Subject, width: int) -> list[Line]:
    """Return the lines of all facts. A fact that consists of a single piece is wrapped."""
    rows: list[Line] = []
    for label, pieces in _facts(subject):
        wrapped: list[Sequence[Piece]] = [pieces]
        if len(pieces) == 1:
            ((text, look),) = pieces
            room = max(20, width - LABEL - 1)
            lines = wrap(text, room, break_on_hyphens=False, max_lines=MOST_LINES, placeholder=" …") or [""]
            wrapped = [[(line, look)] for line in lines]
        labels = (label, *[""] * len(wrapped))
        rows += [
            Line([(f" {label:<{LABEL - 1}}", Look.PAST), *line]) for label, line in zip(labels, wrapped, strict=False)
        ]
    return rows


def brief_facts(subject: Subject, width: int, lines: int) -> list[Line]:
    """Return the most important facts in a few lines."""
    rows: list[list[Piece]] = [[]]
    for label, pieces in _progress_facts(subject):
        fact = [(f" {label} ", Look.PAST), *pieces, blank(2)]
        if rows[-1] and width_of([*rows[-1], *fact]) > width:
            rows.append([])
        rows[-1] += fact
    return [Line(row) for row in rows[:lines]]


def _facts(subject: Subject) -> Iterator[Fact]:
    job, details, text = subject.job, subject.details, Look.TEXT
    yield from _progress_facts(subject)
    yield "requests", [(_request(job), text)]
    yield "priority", [(str(job.priority), text)]
    for label, value in _settings(subject):
        yield label, [(plain(value), text)]
    yield "directory", [(plain(details.directory), text)]
    yield "cwd", [(plain(job.spec.cwd), text)]
    if job.spec.code is not None:
        yield "code", [(plain(code_words(job.spec.code)), text)]
    newest = job.active.attempt if job.active is not None else job.attempts[-1].number if job.attempts else 0
    if (commit := subject.commits.get(newest)) is not None:
        changed = f" with {counted(commit.changed, 'changed file', 'changed files')}" if commit.changed else ""
        yield "commit", [(commit.name[:9], text), (changed, Look.PAST)]
    yield "command", [(plain(job.spec.command), text)]


def _progress_facts(subject: Subject) -> Iterator[Fact]:
    job, now, text = subject.job, subject.now, Look.TEXT
    results = subject.results
    if (progress := progress_of(job, results)) is not None:
        yield "progress", [*bar(progress, BAR, Look.RUNNING), (f"  {progress:.0%}", Look.RUNNING)]
    if results is not None and results.note:
        yield "note", [(plain(results.note), text)]
    if subject.silent_since is not None:
        yield "ends", [("unknown while silent", Look.WARNING)]
    elif (eta := subject.snapshot.job_eta(job, now)) is not None and job.active is not None:
        remaining = f"  in {duration_words(eta - now)}" if eta > now + 1 else "  any moment"
        yield "ends", [(f"≈{moment(max(eta, now), now)}", text), (remaining, Look.PAST)]
    if job.active is not None:
        yield "on", [(format_gpus(job.active.gpus) or "the CPU", text), (f"   {plain(subject.host)}", Look.PAST)]
        yield "pid", [(str(subject.details.pid or NO_PID), Look.BOLD if subject.details.pid else text)]
        since = [(moment(job.active.since, now), text), ("   for ", Look.PAST)]
        yield "since", [*since, (duration_exact(now - job.active.since), Look.BOLD)]
        if subject.memory_used is not None:
            yield "memory", [(memory(subject.memory_used), text), (" on its GPUs", Look.PAST)]
    elif isinstance(job.state, Delayed):
        yield "starts", [(f"{moment(job.state.until, now)}: {plain(job.state.why)}", text)]
    else:
        yield "state", [(state_words(job), state_look(job))]


def _request(job: Job) -> str:
    request = job.request
    request_words = (
        "one slot" if request.gpus is None else counted(request.gpus, "GPU", "GPUs") if request.gpus else "no GPU"
    )
    if request.memory is not None:
        request_words += f" with {memory_words(request.memory)} each"
    elif request.memory_share is not None:
        request_words += f" with {request.memory_share:.0%} of its memory"
    elif request.learns:
        request_words += ", memory learned from its group"
    request_words += ", exclusive" if request.alone else ""
    return request_words + (f" from {', '.join(map(plain, request.devices))}" if request.devices else "")


def _settings(subject: Subject) -> list[tuple[str, str]]:
    job, spec = subject.job, subject.job.spec
    parameters = " ".join(f"{key}={value}" for key, value in spec.params.items())
    settings = [
        ("group", spec.group),
        ("params", parameters),
        ("after", _after(subject)),
        ("retries", str(spec.retries or "")),
        ("retry on", ", ".join(spec.retry_on)),
        ("timeout", duration_words(spec.timeout) if spec.timeout else ""),
        ("outfile", spec.outfile or ""),
        ("shell", spec.shell),
        ("notify", "when it ends (b: off)" if wants_notification(job) else ""),
    ]
    return [(label, setting) for label, setting in settings if setting]


def _after(subject: Subject) -> str:
    others = [f"#{other} {_state_of(subject.snapshot, other)}".rstrip() for other in subject.job.after]
    return ", ".join(others) + (" (in any state)" if others and subject.job.spec.after_any else "")


def _state_of(snapshot: Snapshot, job: int) -> str:
    return f"{SIGNS[snapshot[job].state.name]} {WORDS[snapshot[job].state.name]}" if job in snapshot else ""


def history_rows(subject: Subject, width: int) -> list[Line]:
    rows: list[Line] = []
    times = [at for at, _ in subject.details.history]
    brief = bool(times) and max(times) - min(times) < SHORT_HISTORY and subject.now - min(times) < DAY / 2
    for at, sentence in subject.details.history:
        when = f" {moment(at, subject.now, seconds=brief):<9} "
        bad = any(word in sentence for word in (" failed", " lost", " refused", " timed out"))
        style = Look.FAILURE if bad else Look.TEXT
        lines = wrap(plain(sentence), max(20, width - len(when) - 1)) or [""]
        rows += [
            Line([(when if not number else " " * len(when), Look.PAST), (line, style)])
            for number, line in enumerate(lines)
        ]
    return rows


# Environments


def environment_text(environment: Mapping[str, str]) -> Text:
    text = Text()
    text.append(("Environment of the next attempt; likely secrets are masked.\n\n"), "dim")
    for name in sorted(environment):
        text.append(plain(name), "bold").append(f"={_masked(name, environment[name])}\n")
    return text


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return `+NAME=value` for a new variable, `-NAME` for a removed one, and `NAME=value` for a changed one."""
    changes = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sign = "+" if name not in before else "-" if name not in after else ""
            changes.append(f"{sign}{plain(name)}" + (f"={_masked(name, after[name])}" if name in after else ""))
    return changes


def _masked(name: str, value: str) -> str:
    return plain(masked(name, value))


# Attempts, each followed by its differences from the previous one

MOST_DIFFERENCES = 4
LEAST_END = 18


class _AttemptInputs(NamedTuple):
    command: str
    environment: str
    commit: str


class _AttemptRow(NamedTuple):
    number: int
    since: float
    ran: float
    gpus: Sequence[str]
    peak: int | None
    inputs: _AttemptInputs
    end: str
    look: Look


def attempt_rows(subject: Subject, results: Mapping[int, JobResults], metric: str | None, width: int) -> list[Line]:
    """Return a table of the attempts, each followed by what has changed since the previous one. `results` contains the
    results of each attempt by its number. Columns without a value are omitted.
    """
    attempts = list(_attempts(subject))
    if not attempts:
        return [Line([(" Not run yet.", Look.PAST)])]

    def column(title: str, value: Callable[[_AttemptRow], str], *, to_right: bool = True, rank: int = 0) -> Column:
        return Column(title, [(value(attempt), attempt.look) for attempt in attempts], to_right, rank)

    columns = [
        column("n", lambda attempt: str(attempt.number), to_right=False),
        column("started", lambda attempt: moment(attempt.since, subject.now), to_right=False),
        column("ran", lambda attempt: duration_cell(attempt.ran)),
        column("gpu", lambda attempt: ",".join(attempt.gpus)),
        column("peak", lambda attempt: memory(attempt.peak) if attempt.peak is not None else "", rank=1),
        column("commit", lambda attempt: attempt.inputs.commit, rank=2),
        column(plain(metric or ""), lambda attempt: _best(subject, results, attempt.number, metric)),
    ]
    columns = [column for column in columns if any(text for text, _ in column.cells)]
    end = Column("end", [(attempt.end, attempt.look) for attempt in attempts], fixed_width=LEAST_END)
    heading, *rows = table([*columns, end], width - 2)
    lines = [Line([blank(1), *heading])]
    before: _AttemptInputs | None = None
    for attempt, row in zip(attempts, rows, strict=True):
        changes = _changes(subject, before, attempt.inputs)
        lines.append(Line([blank(1), *row]))
        lines += [Line([(f"     {cut(change, max(10, width - 6))}", Look.PAST)]) for change in changes]
        before = attempt.inputs
    return lines


def _attempts(subject: Subject) -> Iterator[_AttemptRow]:
    job = subject.job
    for attempt in job.attempts:
        peak = attempt.usage.gpu_peak_memory if attempt.usage is not None else None
        command = attempt.command or job.spec.command
        inputs = _AttemptInputs(command, attempt.environment, _commit(subject, attempt.number))
        look = Look.PAST if isinstance(attempt.end, Succeeded) else Look.FAILURE
        ran = attempt.ended - attempt.started
        yield _AttemptRow(attempt.number, attempt.started, ran, attempt.gpus, peak, inputs, _end(attempt), look)
    if (active := job.active) is not None:
        inputs = _AttemptInputs(job.spec.command, active.environment, _commit(subject, active.attempt))
        ran, state = subject.now - active.since, state_words(job)
        yield _AttemptRow(active.attempt, active.since, ran, active.gpus, None, inputs, state, Look.RUNNING)


def _commit(subject: Subject, attempt: int) -> str:
    commit = subject.commits.get(attempt)
    return "" if commit is None else commit.name[:7] + ("+" if commit.changed else "")


def _end(attempt: Attempt) -> str:
    assert isinstance(attempt.end, Ended)
    why = "" if isinstance(attempt.end, Succeeded) else plain(attempt.reason or describe_end(attempt.end))
    return f"{SIGNS[attempt.end.name]} {why or attempt.end.name}"


def _best(subject: Subject, results: Mapping[int, JobResults], attempt: int, metric: str | None) -> str:
    if metric is None or attempt not in results:
        return ""
    metric_result = results[attempt].get(metric, subject.snapshot.direction(metric))
    return value_text(metric_result.best) if metric_result is not None else ""


def _changes(subject: Subject, before: _AttemptInputs | None, inputs: _AttemptInputs) -> list[str]:
    """Return the changes of the command, commit and environment since the previous attempt."""
    if before is None:
        return []
    changes = []
    if before.command != inputs.command:
        changes.append(f"command  {_changed_words(before.command, inputs.command)}")
    if before.commit and inputs.commit and before.commit != inputs.commit:
        changes.append(f"commit  {before.commit} → {inputs.commit}")
    if before.environment != inputs.environment:
        environments = subject.details.environments
        variables = differences(environments.get(before.environment, {}), environments.get(inputs.environment, {}))
        more = f" and {len(variables) - MOST_DIFFERENCES} more" if len(variables) > MOST_DIFFERENCES else ""
        if variables:
            changes.append(f"environment  {' '.join(variables[:MOST_DIFFERENCES])}{more}")
    return changes


def _changed_words(before: str, after: str) -> str:
    """Return how two commands differ, such as `--bs 256 → --bs 128`, from the first changed word to the last."""
    old, new = before.split(), after.split()
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start = max(0, start - 1) if start and old[start - 1].startswith("-") else start
    was, became = (plain(" ".join(line[start : len(line) - end])) for line in (old, new))
    return f"{was or '–'} → {became or '–'}"


# The logs of two attempts

MOST_DIFF_LINES = 300
CONTEXT = 3
_NUMBER = lazy_regex(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|nan|inf")
_VARYING = lazy_regex(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b|0x[0-9a-f]+|\bpid[= ]\d+"
)
"""A pattern for times, addresses and pids, which always differ between attempts."""

LogPair = tuple[str, list[str], list[str]]
"""The name of a stream, and the last lines of its two logs."""
Stamps = list[tuple[str, int, int]]
"""The paths, sizes and modification times of log files."""


class TailDiffView(FullView):
    """The view with the differences between the ends of two attempts' logs. The key is `d` in the details view."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "act('back')", show=False)]
    DEFAULT_CSS = "TailDiffView #diff { height: 1fr; }"

    def __init__(self, main: MainScreen, job: JobId, earlier: int, later: int) -> None:
        super().__init__(main, "d", "Compare")
        self._job, self._earlier, self._later = job, earlier, later
        self._stamps: Stamps | None = None
        """The stamps of the logs that were compared last."""
        self._reading = False
        self.diff = LinesView(id="diff")

    def body(self) -> ComposeResult:
        yield self.diff

    def chosen(self) -> list[Job]:
        return [self.snapshot[self._job]] if self._job in self.snapshot else []

    def scrolled(self) -> LinesView:
        return self.diff

    def renew(self) -> None:
        if self._job not in self.snapshot:
            self.go_back()
            return
        job = self.snapshot[self._job]
        title = f"   #{job.id} {plain(self.main.names.of(job))}: log ends of attempts {self._earlier} and {self._later}"
        self.band.show([(title, Look.PAST)])
        if not self._reading and (self._stamps is None or job.active is not None):
            self._reading = True
            files = [self.main.bridge.files(job, number) for number in (self._earlier, self._later)]
            self.run_worker(lambda: self._compare(*files), thread=True)

    def _compare(self, before: Files | None, after: Files | None) -> None:
        """Compare the logs. They are read in a thread because they may be long and the disk slow."""
        stamps = _stamps(before, after)
        pairs = list(_log_pairs(before, after)) if stamps != self._stamps else None
        self.main.bridge.post(lambda: self._compared(stamps, pairs))

    def _compared(self, stamps: Stamps, pairs: list[LogPair] | None) -> None:
        self._reading = False
        if pairs is not None and self.is_attached:
            self._stamps, attempts = stamps, (self._earlier, self._later)
            self.diff.show([line for name, old, new in pairs for line in diff_rows(name, old, new, attempts)])


def _stamps(*files: Files | None) -> Stamps:
    stamps = []
    for path in (path for each in files if each is not None for path in (each.out, each.err) if path is not None):
        with suppress(OSError):
            facts = os.stat(path)
            stamps.append((path, facts.st_size, facts.st_mtime_ns))
    return stamps


def _log_pairs(before: Files | None, after: Files | None) -> Iterator[LogPair]:
    if before is None or after is None:
        return
    if before.err is None or after.err is None:
        yield "OUT and ERR", _tail(before.out), _tail(after.out)
        return
    yield "ERR", _tail(before.err), _tail(after.err)
    yield "OUT", _tail(before.out), _tail(after.out)


def _tail(path: str) -> list[str]:
    lines = [plain(line.text) for line in cleaned(read_tail(path, FAR_TAIL_BYTES))]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines[-MOST_DIFF_LINES:]


def diff_rows(name: str, old: Sequence[str], new: Sequence[str], attempts: tuple[int, int]) -> list[Line]:
    """Compare two logs. Identical lines and lines that differ only in numbers are folded."""
    legend = f"- attempt {attempts[0]}   + attempt {attempts[1]}"
    rows = [heading((f" {name}", Look.TEXT), right=[(legend, Look.PAST)])]
    keys_old, keys_new = ([_NUMBER.sub("0", line) for line in lines] for lines in (old, new))
    matcher = difflib.SequenceMatcher(None, keys_old, keys_new, autojunk=False)
    if not old and not new:
        rows.append(Line([("   both are empty", Look.PAST)]))
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            rows += _folded(old[i1:i2], new[j1:j2])
        else:
            rows += [Line([(f" - {line}", Look.FAILURE)]) for line in old[i1:i2]]
            rows += [Line([(f" + {line}", Look.RUNNING)]) for line in new[j1:j2]]
    return [*rows, Line()]


def _folded(old: Sequence[str], new: Sequence[str]) -> list[Line]:
    """Return lines that differ only in numbers. For many, show only how many there are and the last one."""
    rows: list[Line] = []
    pairs = list(zip(old, new, strict=True))
    for same, group in groupby(pairs, key=lambda pair: _VARYING.sub("…", pair[0]) == _VARYING.sub("…", pair[1])):
        run = list(group)
        if same and len(run) > 2 * CONTEXT:
            rows += [Line([(f"   {line}", Look.PAST)]) for _, line in run[:CONTEXT]]
            rows.append(Line([(f"   ⋮ {counted(len(run) - 2 * CONTEXT, 'line', 'lines')} unchanged", Look.LINE)]))
            rows += [Line([(f"   {line}", Look.PAST)]) for _, line in run[-CONTEXT:]]
        elif same:
            rows += [Line([(f"   {line}", Look.PAST)]) for _, line in run]
        elif len(run) <= CONTEXT:
            for before, after in run:
                rows += [Line([(f" - {before}", Look.FAILURE)]), Line([(f" + {after}", Look.RUNNING)])]
        else:
            rows.append(Line([(f"   ⋮ {len(run)} lines differ only in numbers; last:", Look.PAST)]))
            rows += [Line([(f" - {run[-1][0]}", Look.FAILURE)]), Line([(f" + {run[-1][1]}", Look.RUNNING)])]
    return rows
