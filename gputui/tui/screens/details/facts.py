"""What is to be said of one job, label by label, as rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.style import Style

from gputui.core.attempts.end_words import words
from gputui.core.job import Delayed, Ended, Job, Running, Succeeded, Waiting
from gputui.core.results import JobResults
from gputui.core.snapshot import Snapshot
from gputui.core.states import WORDS
from gputui.core.views.alerts import is_wanted
from gputui.core.views.amounts import DAY, counted, duration_exact, duration_words, memory, memory_words, moment
from gputui.core.views.eta import job_eta
from gputui.core.views.failures import said_of
from gputui.core.views.in_common import places_told
from gputui.core.views.signs import SIGNS
from gputui.logs.plain import plain
from gputui.session.control.job_details import Details
from gputui.session.files.commits import Commit
from gputui.tui.looks.palette import Palette
from gputui.tui.model.words import state_words
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow

SHORT_STORY = 3600
"""Seconds that minutes alone would not tell apart."""

__all__ = ["Subject", "fact_rows", "state_style", "story_rows", "warning_rows"]

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
    if isinstance(job.state, Running) and job.state.silent_since is not None:
        since = job.state.silent_since
        said = f"silent for {duration_words(now - since)}: it does nothing since {moment(since, now)}"
        does = f"on_hang = {job.spec.on_hang}   "
        return said, [(does, palette.past), *_keys(palette, ("l", "Log"), ("B", "Requeue"), ("K", "Kill"))]
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
    if job.active is not None and results is not None and results.progress is not None:
        done = round(min(1.0, results.progress) * BAR)
        bar = [("━" * done, palette.running), ("─" * (BAR - done), palette.line)]
        yield "progress", [*bar, (f"  {results.progress:.0%}", palette.running)]
    if results is not None and results.note:
        yield "note", [(plain(results.note), text)]
    if isinstance(job.state, Running) and job.state.silent_since is not None:
        yield "ends", [("unknown while silent", palette.warning)]
    elif (eta := job_eta(job, results)) is not None and job.active is not None:
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
