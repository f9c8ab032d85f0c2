"""What the details view says: facts, and attempts side by side with environment and logs compared."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.style import Style
from rich.text import Text
from textual import on
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
from gputui.core.events import words
from gputui.core.job import WORDS, Attempt, Delayed, Ended, Job, JobId, Running, Succeeded, Waiting
from gputui.core.results import JobResults
from gputui.core.snapshot import Snapshot
from gputui.logs.crashes.lines import cleaned
from gputui.logs.line_index import FAR_TAIL_BYTES, read_tail
from gputui.logs.plain import plain
from gputui.session.control.answers import Details
from gputui.session.job_folders import Commit, Files
from gputui.tui.chrome import BandPart, OfferedKeys
from gputui.tui.queue.row_facts import state_words
from gputui.tui.theme import Palette, palette_of
from gputui.views.failures import places_told, said_of
from gputui.views.format import SIGNS, cut, silence, value_text
from gputui.views.status import is_wanted

from .base import ALWAYS, FullView, ViewRow, ViewRows

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- What is to be said of one job, label by label, as rows ----


SHORT_STORY = 3600
"""Seconds that minutes alone would not tell apart."""


LABEL = 11
BOLD = Style(bold=True)
BAR = 12
MOST_LINES = 6
"""Of one fact; a whole command is copied with `y`."""
NO_PID = "none: its command has not begun, or has just ended"


@dataclass(frozen=True)
class Subject:
    """All that the view tells of."""

    details: Details
    job: Job
    """The newest; details may be a moment older."""
    snapshot: Snapshot
    now: float
    host: str
    commits: dict[int, Commit]
    memory_used: int | None = None
    """Bytes on its GPUs now."""

    @property
    def results(self) -> JobResults | None:
        return self.snapshot.results.get(self.job.id)

    @property
    def silent_since(self) -> float | None:
        return self.snapshot.silent_since(self.job, self.now)


def state_style(job: Job, palette: Palette) -> Style:
    if isinstance(job.state, Ended):
        return palette.past if isinstance(job.state, Succeeded) else palette.failure
    return palette.text if isinstance(job.state, Waiting) else palette.running


def warning_rows(subject: Subject, width: int, palette: Palette) -> list[ViewRow]:
    """What is wrong with it, and the keys that help; none: nothing is."""
    job = subject.job
    warning = _warning(subject, palette)
    if warning is None:
        return []
    said, ways = warning
    first, *rest = wrap(plain(said), max(20, width - 3))[:2] or [""]
    sign, style = ("✗", palette.failure) if isinstance(job.state, Ended) else ("!", palette.warning)
    rows = [ViewRow([(f" {sign} {first}", style + BOLD)], ground=palette.pause, marked=True)]
    rows += [ViewRow([(f"   {line}", style)], ground=palette.pause, marked=True) for line in rest]
    return [*rows, ViewRow([("   ", palette.text), *ways], ground=palette.pause, marked=True)]


def _warning(subject: Subject, palette: Palette) -> tuple[str, list[BandPart]] | None:
    job, now = subject.job, subject.now
    if (since := subject.silent_since) is not None:
        hangs = isinstance(job.state, Running) and job.state.silent_since is not None
        what = "it does nothing" if hangs else "it has printed nothing"
        said = f"{silence(subject.snapshot, job, now)}: {what} since {moment(since, now)}"
        does = [(f"on_hang = {job.spec.on_hang}   ", palette.past)] if hangs else []
        return said, [*does, *_keys(palette, ("l", "Log"), ("B", "Requeue"), ("K", "Kill"))]
    if isinstance(job.state, Ended) and not isinstance(job.state, Succeeded) and job.state.name != "killed":
        keys = _keys(palette, ("r", "Rerun"), ("l", "Log at the error"), ("F", "Failures like it"))
        return (said_of(job) if job.attempts else words(job.state)), keys
    if isinstance(job.state, Waiting) and subject.details.why and subject.details.job.state == job.state:
        return subject.details.why, _keys(palette, ("h", "Hold or release"), ("e", "Edit"), ("+", "Priority"))
    if subject.details.remark:
        return subject.details.remark, _keys(palette, ("l", "Log"), ("K", "Kill"))
    return None


def _keys(palette: Palette, *keys: tuple[str, str]) -> list[BandPart]:
    parts: list[BandPart] = []
    for key, label in keys:
        parts += [(key, palette.best), (f" {label}   ", palette.text)]
    return parts


Fact = tuple[str, Sequence[BandPart]]


def fact_rows(subject: Subject, width: int, palette: Palette) -> list[ViewRow]:
    rows: list[ViewRow] = []
    for label, parts in _facts(subject, palette):
        rows += _rows(label, parts, width, palette)
    return rows


def _rows(label: str, parts: Sequence[BandPart], width: int, palette: Palette) -> list[ViewRow]:
    """A text that is too long goes on below; several pieces are short."""
    begin = (f" {label:<{LABEL - 1}}", palette.past)
    if len(parts) > 1:
        return [ViewRow([begin, *parts])]
    ((text, style),) = parts
    lines = wrap(text, max(20, width - LABEL - 1), break_on_hyphens=False, max_lines=MOST_LINES, placeholder=" …") or [
        ""
    ]
    return [ViewRow([begin if not at else (" " * LABEL, palette.past), (line, style)]) for at, line in enumerate(lines)]


def _facts(subject: Subject, palette: Palette) -> Iterator[Fact]:
    job, details, text = subject.job, subject.details, palette.text
    yield from _under_way(subject, palette)
    yield "asks for", [(_request(job), text)]
    yield "priority", [(str(job.priority), text)]
    for label, written in _settings(subject):
        yield label, [(plain(written), text)]
    yield "folder", [(plain(details.folder), text)]
    yield "cwd", [(plain(job.spec.cwd), text)]
    newest = job.active.attempt if job.active is not None else job.attempts[-1].number if job.attempts else 0
    if (commit := subject.commits.get(newest)) is not None:
        changed = f" with {counted(commit.changed, 'changed file', 'changed files')}" if commit.changed else ""
        yield "commit", [(commit.name[:9], text), (changed, palette.past)]
    yield "command", [(plain(job.spec.command), text)]


def _under_way(subject: Subject, palette: Palette) -> Iterator[Fact]:
    """Where it is with its work."""
    job, now, text = subject.job, subject.now, palette.text
    results = subject.results
    if (progress := progress_of(job, results)) is not None:
        done = round(progress * BAR)
        bar = [("━" * done, palette.running), ("─" * (BAR - done), palette.line)]
        yield "progress", [*bar, (f"  {progress:.0%}", palette.running)]
    if results is not None and results.note:
        yield "note", [(plain(results.note), text)]
    if subject.silent_since is not None:
        yield "ends", [("unknown while silent", palette.warning)]
    elif (eta := subject.snapshot.job_eta(job, now)) is not None and job.active is not None:
        remaining = f"  in {duration_words(eta - now)}" if eta > now + 1 else "  any moment"
        yield "ends", [(f"≈{moment(max(eta, now), now)}", text), (remaining, palette.past)]
    if job.active is not None:
        yield "on", [(places_told(job.active.gpus) or "the CPU", text), (f"   {plain(subject.host)}", palette.past)]
        yield "pid", [(str(subject.details.pid or NO_PID), text + BOLD if subject.details.pid else text)]
        since = [(moment(job.active.since, now), text), ("   for ", palette.past)]
        yield "since", [*since, (duration_exact(now - job.active.since), text + BOLD)]
        if subject.memory_used is not None:
            yield "memory", [(memory(subject.memory_used), text), (" on its GPUs", palette.past)]
    elif isinstance(job.state, Delayed):
        yield "starts", [(f"{moment(job.state.until, now)}: {plain(job.state.why)}", text)]
    else:
        yield "state", [(state_words(job), state_style(job, palette))]


def _request(job: Job) -> str:
    request = job.request
    request_words = (
        "one lane" if request.gpus is None else counted(request.gpus, "GPU", "GPUs") if request.gpus else "no GPU"
    )
    if request.memory is not None:
        request_words += f" with {memory_words(request.memory)} each"
    elif request.memory_share is not None:
        request_words += f" with {request.memory_share:.0%} of its memory"
    elif request.learns:
        request_words += ", memory as its group is seen to use"
    request_words += ", alone on it" if request.alone else ""
    return request_words + (f" among {', '.join(map(plain, request.devices))}" if request.devices else "")


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
        ("tells you", "at its end (b: no more)" if is_wanted(job) else ""),
    ]
    return [(label, setting) for label, setting in settings if setting]


def _after(subject: Subject) -> str:
    others = [f"#{other} {_state_of(subject.snapshot, other)}".rstrip() for other in subject.job.after]
    return ", ".join(others) + (" (however they end)" if others and subject.job.spec.after_any else "")


def _state_of(snapshot: Snapshot, job: int) -> str:
    return f"{SIGNS[snapshot[job].state.name]} {WORDS[snapshot[job].state.name]}" if job in snapshot else ""


def story_rows(subject: Subject, width: int, palette: Palette) -> list[ViewRow]:
    rows: list[ViewRow] = []
    times = [at for at, _ in subject.details.story]
    brief = bool(times) and max(times) - min(times) < SHORT_STORY and subject.now - min(times) < DAY / 2
    for at, sentence in subject.details.story:
        when = f" {moment(at, subject.now, seconds=brief):<9} "
        bad = any(word in sentence for word in (" failed", " lost", " refused", " timed out"))
        style = palette.failure if bad else palette.text
        lines = wrap(plain(sentence), max(20, width - len(when) - 1)) or [""]
        rows += [
            ViewRow([(when if not number else " " * len(when), palette.past), (line, style)])
            for number, line in enumerate(lines)
        ]
    return rows


# ---- The environment of a job as text, and in what two environments differ ----


SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")
MASK = "••••••"


def environment_text(environment: Mapping[str, str]) -> Text:
    text = Text()
    text.append("The environment its next attempt gets; what looks secret is masked.\n\n", "dim")
    for name in sorted(environment):
        text.append(plain(name), "bold").append(f"={_shown(name, environment[name])}\n")
    return text


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """`+NAME=value`, `-NAME`, `NAME=value` for one that was another."""
    changes = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sign = "+" if name not in before else "-" if name not in after else ""
            changes.append(f"{sign}{plain(name)}" + (f"={_shown(name, after[name])}" if name in after else ""))
    return changes


def _shown(name: str, value: str) -> str:
    return MASK if any(word in name.upper() for word in SECRET) else plain(value)


# ---- The attempts of a job side by side, and below each in what it differs from the one before ----


MOST_DIFFERENCES = 4
LEAST_END = 18
_HEADS = ("n", "started", "ran", "gpu", "peak", "commit", "end")


class _Ran(NamedTuple):
    """What an attempt was made of."""

    command: str
    environment: str
    commit: str


class _Told(NamedTuple):
    cells: tuple[str, ...]
    result: str
    style: Style
    below: list[str]


def attempt_rows(
    subject: Subject, results: Mapping[int, JobResults], metric: str | None, width: int, palette: Palette
) -> list[ViewRow]:
    """`results` by attempt; `metric` has a column where any attempt printed it."""
    shown_attempts = _all(subject, results, metric, palette)
    if not shown_attempts:
        return [ViewRow([(" It has not run yet.", palette.past)])]
    heads = list(_HEADS)
    if metric is not None and any(shown.result for shown in shown_attempts):
        heads.insert(-1, plain(metric))
        shown_attempts = [
            shown._replace(cells=(*shown.cells[:-1], shown.result, shown.cells[-1])) for shown in shown_attempts
        ]
    used = [
        at for at, head in enumerate(heads) if head in ("n", "end") or any(shown.cells[at] for shown in shown_attempts)
    ]
    widths = {at: max(len(heads[at]), *(len(shown.cells[at]) for shown in shown_attempts)) for at in used}
    for least_needed in ("commit", "peak"):
        if _left(used, widths, width) < LEAST_END:
            used = [at for at in used if heads[at] != least_needed]
    widths[used[-1]] = max(4, _left(used, widths, width))
    rows = [ViewRow([(_line(heads, used, widths), palette.past)])]
    for shown in shown_attempts:
        rows.append(ViewRow([(_line(shown.cells, used, widths), shown.style)]))
        rows += [ViewRow([(f"     {cut(line, max(10, width - 6))}", palette.past)]) for line in shown.below]
    return rows


def _left(used: list[int], widths: dict[int, int], width: int) -> int:
    """Cells for the last column."""
    return width - 2 - sum(widths[at] + 2 for at in used[:-1])


def _line(cells: tuple[str, ...] | list[str], used: list[int], widths: dict[int, int]) -> str:
    padded = []
    for at in used:
        text = cut(cells[at], widths[at])
        blanks = " " * (widths[at] - len(text))
        padded.append(text + blanks if at in (0, 1, used[-1]) else blanks + text)
    return " " + "  ".join(padded)


def _all(subject: Subject, results: Mapping[int, JobResults], metric: str | None, palette: Palette) -> list[_Told]:
    job, now = subject.job, subject.now
    shown_attempts: list[_Told] = []
    before: _Ran | None = None
    for attempt in job.attempts:
        peak = attempt.usage.gpu_peak_memory if attempt.usage is not None else None
        cells = (
            str(attempt.number), moment(attempt.started, now), duration_cell(attempt.ended - attempt.started),
            ",".join(attempt.gpus), memory(peak) if peak is not None else "", _commit(subject, attempt.number),
            _end(attempt),
        )  # fmt: skip
        ran = _Ran(attempt.command or job.spec.command, attempt.environment, _commit(subject, attempt.number))
        style = palette.past if isinstance(attempt.end, Succeeded) else palette.failure
        shown_attempts.append(
            _Told(cells, _value(subject, results, attempt.number, metric), style, _differs(subject, before, ran))
        )
        before = ran
    if job.active is not None:
        placed = job.active
        cells = (
            str(placed.attempt), moment(placed.since, now), duration_cell(now - placed.since), ",".join(placed.gpus),
            "", _commit(subject, placed.attempt), state_words(job),
        )  # fmt: skip
        ran = _Ran(job.spec.command, placed.environment, _commit(subject, placed.attempt))
        under_way = _Told(
            cells, _value(subject, results, placed.attempt, metric), palette.running, _differs(subject, before, ran)
        )
        shown_attempts.append(under_way)
    return shown_attempts


def _commit(subject: Subject, attempt: int) -> str:
    commit = subject.commits.get(attempt)
    return "" if commit is None else commit.name[:7] + ("+" if commit.changed else "")


def _end(attempt: Attempt) -> str:
    assert isinstance(attempt.end, Ended)
    why = "" if isinstance(attempt.end, Succeeded) else plain(attempt.said or words(attempt.end))
    return f"{SIGNS[attempt.end.name]} {why or attempt.end.name}"


def _value(subject: Subject, results: Mapping[int, JobResults], attempt: int, metric: str | None) -> str:
    if metric is None or attempt not in results:
        return ""
    metric_result = results[attempt].get(metric, subject.snapshot.direction(metric))
    return value_text(metric_result.best) if metric_result is not None else ""


def _differs(subject: Subject, before: _Ran | None, ran: _Ran) -> list[str]:
    """In its command, its commit and its environment, if anything."""
    if before is None:
        return []
    changes = []
    if before.command != ran.command:
        changes.append(f"command  {_changed_words(before.command, ran.command)}")
    if before.commit and ran.commit and before.commit != ran.commit:
        changes.append(f"commit  {before.commit} → {ran.commit}")
    if before.environment != ran.environment:
        environments = subject.details.environments
        variables = differences(environments.get(before.environment, {}), environments.get(ran.environment, {}))
        more = f" and {len(variables) - MOST_DIFFERENCES} more" if len(variables) > MOST_DIFFERENCES else ""
        if variables:
            changes.append(f"environment  {' '.join(variables[:MOST_DIFFERENCES])}{more}")
    return changes


def _changed_words(before: str, after: str) -> str:
    """`--bs 256 → --bs 128`: from the first word that differs to the last."""
    old, new = before.split(), after.split()
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start = max(0, start - 1) if start and old[start - 1].startswith("-") else start
    was, became = (plain(" ".join(line[start : len(line) - end])) for line in (old, new))
    return f"{was or '–'} → {became or '–'}"


# ---- `d` ----


MOST_DIFF_LINES = 300
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|nan|inf")
CONTEXT = 3
_VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b|0x[0-9a-f]+|\bpid[= ]\d+"
)


class TailDiffView(FullView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("ctrl+d,pagedown", "half(1)", show=False),
        Binding("ctrl+u,pageup", "half(-1)", show=False),
        Binding("d", "act('back')", show=False),
    ]
    DEFAULT_CSS = "TailDiffView #diff { height: 1fr; }"

    def __init__(self, main: MainScreen, job: JobId, earlier: int, later: int) -> None:
        super().__init__(main, "d", "Compare")
        self._job, self._earlier, self._later = job, earlier, later
        self._read: tuple[Stamps, list[LogPair]] | None = None
        """What was compared last."""
        self._reading = False
        self._theme = ""
        self.diff = ViewRows(id="diff")

    def body(self) -> ComposeResult:
        yield self.diff

    def chosen(self) -> list[Job]:
        return [self.snapshot[self._job]] if self._job in self.snapshot else []

    def renew(self) -> None:
        palette = palette_of(self.app.theme)
        if self._job not in self.snapshot:
            self.go_back()
            return
        job = self.snapshot[self._job]
        title = f"   #{job.id} {plain(self.main.names.of(job))}: the ends of attempts {self._earlier} and {self._later}"
        self.band.show([(title, palette.past)])
        if self._read is not None and self._theme != self.app.theme:
            self._show(self._read[1])
        if not self._reading and (self._read is None or job.active is not None):
            self._reading = True
            files = [self.main.bridge.files(job, number) for number in (self._earlier, self._later)]
            self.run_worker(lambda: self._compare(*files), thread=True)

    def _compare(self, before: Files | None, after: Files | None) -> None:
        """In a thread: logs may be long, and their disk slow."""
        stamps = _stamps(before, after)
        changed = self._read is None or self._read[0] != stamps
        pairs = list(_streams(before, after)) if changed else []
        self.main.bridge.post(lambda: self._compared(stamps, pairs if changed else None))

    def _compared(self, stamps: Stamps, pairs: list[LogPair] | None) -> None:
        self._reading = False
        if pairs is None or not self.is_attached:
            return
        self._read = (stamps, pairs)
        self._show(pairs)

    def _show(self, pairs: list[LogPair]) -> None:
        self._theme = self.app.theme
        palette, attempts = palette_of(self._theme), (self._earlier, self._later)
        self.diff.show([row for name, old, new in pairs for row in diff_rows(name, old, new, attempts, palette)])

    def offers(self) -> OfferedKeys:
        return OfferedKeys(always=ALWAYS)

    def action_scroll(self, by: int) -> None:
        self.diff.scroll_by(by)

    def action_half(self, pages: int) -> None:
        self.diff.scroll_by(pages * max(1, self.diff.size.height // 2))

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        event.rows.scroll_by(event.by)


LogPair = tuple[str, list[str], list[str]]
"""The name of a log, and the ends of the two that are compared."""
Stamps = list[tuple[str, int, int]]
"""Paths, sizes and times of change."""


def _stamps(*files: Files | None) -> Stamps:
    stamps = []
    for path in (path for each in files if each is not None for path in (each.out, each.err) if path is not None):
        with suppress(OSError):
            facts = os.stat(path)
            stamps.append((path, facts.st_size, facts.st_mtime_ns))
    return stamps


def _streams(before: Files | None, after: Files | None) -> Iterator[LogPair]:
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


def diff_rows(
    name: str, old: Sequence[str], new: Sequence[str], attempts: tuple[int, int], palette: Palette
) -> list[ViewRow]:
    """Times and addresses do not count; what is the same, or another only in its numbers, is folded."""
    legend = f"- attempt {attempts[0]}   + attempt {attempts[1]}"
    rows = [ViewRow([(f" {name}", palette.text)], [(legend, palette.past)], band=True)]
    keys_old, keys_new = ([_NUMBER.sub("0", line) for line in lines] for lines in (old, new))
    matcher = difflib.SequenceMatcher(None, keys_old, keys_new, autojunk=False)
    if not old and not new:
        rows.append(ViewRow([("   both are empty", palette.past)]))
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            rows += _alike(old[i1:i2], new[j1:j2], palette)
        else:
            rows += [ViewRow([(f" - {line}", palette.failure)]) for line in old[i1:i2]]
            rows += [ViewRow([(f" + {line}", palette.running)]) for line in new[j1:j2]]
    return [*rows, ViewRow()]


def _alike(old: Sequence[str], new: Sequence[str], palette: Palette) -> list[ViewRow]:
    """Few lines that differ in their numbers are shown both; of many, only how many they are."""
    rows: list[ViewRow] = []
    pairs = list(zip(old, new, strict=True))
    for same, group in groupby(pairs, key=lambda pair: _VARYING.sub("…", pair[0]) == _VARYING.sub("…", pair[1])):
        run = list(group)
        if same and len(run) > 2 * CONTEXT:
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run[:CONTEXT]]
            rows.append(
                ViewRow([(f"   ⋮ {counted(len(run) - 2 * CONTEXT, 'line is', 'lines are')} the same", palette.line)])
            )
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run[-CONTEXT:]]
        elif same:
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run]
        elif len(run) <= CONTEXT:
            for before, after in run:
                rows += [ViewRow([(f" - {before}", palette.failure)]), ViewRow([(f" + {after}", palette.running)])]
        else:
            rows.append(ViewRow([(f"   ⋮ {len(run)} lines differ only in their numbers; the last:", palette.past)]))
            rows += [ViewRow([(f" - {run[-1][0]}", palette.failure)]), ViewRow([(f" + {run[-1][1]}", palette.running)])]
    return rows
