"""The attempts of a job side by side, and below each in what it differs from the one before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.style import Style

from gputui.core.attempts.end_words import words
from gputui.core.job import Attempt, Ended, Succeeded
from gputui.core.results import JobResults
from gputui.core.views.amounts import duration_cell, memory, moment
from gputui.core.views.cells import cut
from gputui.core.views.result_values import value_text
from gputui.core.views.signs import SIGNS
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.model.words import state_words
from gputui.tui.widgets.view_rows import ViewRow

from .environment import differences
from .facts import Subject

__all__ = ["attempt_rows"]

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
            _Told(cells, _value(results, attempt.number, metric), style, _differs(subject, before, ran))
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
            cells, _value(results, placed.attempt, metric), palette.running, _differs(subject, before, ran)
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


def _value(results: Mapping[int, JobResults], attempt: int, metric: str | None) -> str:
    metric_result = results[attempt].get(metric) if metric is not None and attempt in results else None
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
