"""The summary as lines of text: for the verb, for `run` when it ends, and for the shell after the screen. Pure.

What jobs said is in it as they said it: whoever prints a line lets it pass the gate for text from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .amounts import counted, duration_cell, duration_words, gpu_time, moment
from .parameter_effects import ParameterEffect, ValueEffect, scale_of
from .result_values import result_text
from .results_table import ResultsRow, ResultsTable
from .summary import SinceLeft, Summary

__all__ = ["brief_lines", "not_finite_lines", "range_cells", "summary_lines", "told_job", "told_value"]

RANGE = 24
MOST_FAILURES = 5


def brief_lines(summary: Summary, now: float) -> list[str]:
    """Three or four lines: how it ended, what was best, what took longest and what failed."""
    lines = [headline(summary)]
    best = summary.best
    if best and summary.table.metric is not None:
        shown = (f"{told_job(row, summary.table)}   {told_value(row.best, summary.table)}" for row in best[:2])
        lines.append(f"best {summary.table.metric.name}   " + "     ".join(shown))
    rest = [_longest(summary), *_failed_in_short(summary)]
    if any(rest):
        lines.append(" · ".join(part for part in rest if part))
    if summary.since is not None:
        lines.append(since_line(summary.since, summary, now))
    return lines


def summary_lines(summary: Summary, now: float) -> list[str]:
    """All of it."""
    lines = [headline(summary)]
    lines += [since_line(summary.since, summary, now)] if summary.since is not None else []
    lines += [*_best(summary), *_effects(summary), *_failures(summary), *_times(summary)]
    return lines


def headline(summary: Summary) -> str:
    ended = [f"{summary.succeeded} ok", f"{summary.failed} failed" if summary.failed else ""]
    ended += [
        f"{summary.killed} killed" if summary.killed else "",
        f"{summary.skipped} skipped" if summary.skipped else "",
    ]
    ended += [f"{summary.running} run" if summary.running else "", f"{summary.waiting} wait" if summary.waiting else ""]
    times = [f"{duration_words(summary.wall)} wall" if summary.began is not None else ""]
    times += [gpu_time(summary.gpu_seconds) if summary.gpu_seconds else ""]
    times += [f"GPUs {busy * 100:.0f} % busy" if (busy := summary.busy) is not None and summary.gpu_seconds else ""]
    return f"{_word(summary)}  " + " · ".join(part for part in (*ended, *times) if part)


def _word(summary: Summary) -> str:
    if summary.running or summary.waiting or not summary.total:
        return summary.word.upper()
    return "✓ DONE" if not summary.failed else f"DONE, {summary.failed} ✗"


def told_job(row: ResultsRow, table: ResultsTable) -> str:
    """`#31 convnext lr=0.03 bs=256`."""
    titles = {column.name: column for column in table.columns}
    words = [f"{titles[name].title}={value}" if titles[name].is_number else value for name, value in row.params.items()]
    return f"#{row.job} " + (" ".join(words) or row.name)


def told_value(value: float | None, table: ResultsTable) -> str:
    return "–" if value is None else result_text(value, table.decimals)


def since_line(since: SinceLeft, summary: Summary, now: float) -> str:
    """`62 h: 187 ok, 9 failed in 2 kinds, best #141`."""
    parts = [f"{since.succeeded} ok"]
    if since.failed:
        parts.append(f"{since.failed} failed" + (f" in {since.kinds} kinds" if since.kinds > 1 else ""))
    if summary.best:
        parts.append(f"best #{summary.best[0].job}")
    return f"{duration_words(now - since.left)}: {', '.join(parts)}"


def _longest(summary: Summary) -> str:
    return f"longest #{summary.longest[0]} {duration_cell(summary.longest[1])}" if summary.longest is not None else ""


def _failed_in_short(summary: Summary) -> Iterator[str]:
    for number, group in enumerate(summary.failures[:3]):
        yield f"{'failed ' if not number else ''}{group.count} × {group.message}"
    if len(summary.failures) > 3:
        yield f"{len(summary.failures) - 3} more kinds"


def _best(summary: Summary) -> list[str]:
    metric, rows = summary.table.metric, summary.best
    if metric is None or not rows:
        return not_finite_lines(summary)
    width = max(len(told_job(row, summary.table)) for row in rows)
    lines = ["", f"best {metric.name} ({'lower' if metric.direction == 'min' else 'higher'} is better)"]
    for number, row in enumerate(rows):
        step = f"   at {row.step:g}" if row.step is not None else ""
        sign = "★" if not number else str(number + 1)
        lines.append(f"  {sign} {told_job(row, summary.table):{width}}   {told_value(row.best, summary.table)}{step}")
    return [*lines, *not_finite_lines(summary)]


def not_finite_lines(summary: Summary) -> list[str]:
    """Which jobs printed nothing but nan or inf, in one line, if any did."""
    if summary.table.metric is None or not summary.not_finite:
        return []
    jobs, name = summary.not_finite, summary.table.metric.name
    named = " ".join(f"#{row.job}" for row in jobs[:6]) + (" …" if len(jobs) > 6 else "")
    return [f"  {counted(len(jobs), 'job', 'jobs')} printed {name} only as {jobs[0].not_finite}: {named}"]


def _effects(summary: Summary) -> list[str]:
    lines: list[str] = []
    scale = scale_of(summary.effects)
    for effect in summary.effects:
        lines += ["", *_effect(effect, summary.table, scale)]
    if summary.noise is not None:
        lines += ["", f"same job, other seed: {told_value(summary.noise, summary.table)} apart (median)"]
    return lines


def _effect(effect: ParameterEffect, table: ResultsTable, scale: tuple[float, float]) -> Iterable[str]:
    width = max(len(effect.title) + 3, *(len(value.value) for value in effect.values))
    digits = max(len(told_value(value.median, table)) for value in effect.values) + 2
    ends = f"{scale[0]:g}".ljust(RANGE - len(f"{scale[1]:g}")) + f"{scale[1]:g}"
    yield f"{'by ' + effect.title:{width}}  {'n':>4}{'best':>{digits}}{'median':>{max(digits, 8)}}  {ends}"
    for value in effect.values:
        best, median = told_value(value.best, table), told_value(value.median, table)
        drawn = range_cells(value, scale, RANGE, is_down=table.metric is not None and table.metric.direction == "min")
        yield f"{value.value:{width}}  {value.count:>4}{best:>{digits}}{median:>{max(digits, 8)}}  {drawn.rstrip()}"
    if effect.more:
        yield f"and {counted(effect.more, 'value', 'values')} more"


def range_cells(effect: ValueEffect, scale: tuple[float, float], cells: int, *, is_down: bool) -> str:
    """A thin line from the lowest to the highest, thick between the quartiles, a dot at the median."""

    def at(value: float) -> int:
        share = (value - scale[0]) / (scale[1] - scale[0])
        return min(cells - 1, max(0, int(share * cells)))

    drawn = [" "] * cells
    for cell in range(at(effect.low), at(effect.high) + 1):
        drawn[cell] = "─"
    for cell in range(at(effect.lower), at(effect.upper) + 1):
        drawn[cell] = "━"
    drawn[at(effect.median)] = "●"
    if effect.has_best:
        drawn[at(effect.low if is_down else effect.high)] = "★"
    return "".join(drawn)


def _failures(summary: Summary) -> Iterator[str]:
    if summary.failures:
        yield ""
        yield f"failed {summary.failed}"
    for group in summary.failures[:MOST_FAILURES]:
        jobs = " ".join(f"#{job}" for job in group.jobs[:6]) + (" …" if group.count > 6 else "")
        shared = " · ".join(part for part in (jobs, group.common.told, group.common.where) if part)
        yield f"  {group.count} × {group.message}"
        yield f"      {shared}"
    if len(summary.failures) > MOST_FAILURES:
        yield f"  and {counted(len(summary.failures) - MOST_FAILURES, 'kind', 'kinds')} more"


def _times(summary: Summary) -> Iterator[str]:
    if summary.longest is None or summary.shortest is None or summary.median is None:
        return
    yield ""
    figures = (
        f"median {duration_cell(summary.median)} · longest {duration_cell(summary.longest[1])} #{summary.longest[0]}"
    )
    yield f"time   {figures} · shortest {duration_cell(summary.shortest[1])} #{summary.shortest[0]}"
    for device in summary.devices:
        yield f"  {device.named:8} {device.share * 100:3.0f} %   {counted(device.jobs, 'run', 'runs')}"
    held = [f"{duration_words(seconds)} {user}" for user, seconds in summary.strangers]
    held += [f"{duration_words(summary.paused)} paused"] if summary.paused >= 60 else []
    if held:
        yield "  " + ", ".join(held)


def ended_at(summary: Summary, now: float) -> str:
    """`22:33 – 23:45`."""
    if summary.began is None or summary.ended is None:
        return ""
    return f"{moment(summary.began, now)} – {moment(summary.ended, now)}"
