"""The summary of a session, as data and as text: counts, times, best jobs, effects of parameters, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from gputui.core.amounts import HOUR, counted, duration_cell, duration_words, gpu_time, moment
from gputui.core.job import FAILURES, Attempt, Job, JobId, StateName, Succeeded
from gputui.core.results import Direction, MainMetric
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan, SpanKind

from .consumption import Consumption, GroupConsumption, by_group, consumption, uses
from .failures import FailureGroup, failure_groups, has_failed, learn_parameters
from .format import natural_order, result_text
from .heat_map import HeatCell, HeatMap, heat_maps
from .results_table import (
    ParameterEffect,
    ResultsRow,
    ResultsTable,
    ValueEffect,
    effects,
    noise_of_seeds,
    results_table,
    scale_of,
)
from .status import StatusWord, queue_status
from .timeline import places_of

Key = TypeVar("Key")

BEST = 5
SHORTEST_USE = 60.0
"""Minimum number of seconds for which another user must have used a device to be mentioned."""


class DeviceTime(Struct, frozen=True):
    """The use of one device."""

    device: str
    """The name of the GPU, or for example `slot 3` for a slot without a GPU."""
    is_gpu: bool
    jobs: int
    busy: float
    """Seconds during which the device was used, summed over all attempts."""
    share: float
    """Share of the session's wall time in which the device was busy."""

    @property
    def label(self) -> str:
        """The displayed name: `GPU 0`, or the name of a slot without a GPU or of a GPU in a cluster."""
        return f"GPU {self.device}" if self.device.isdecimal() else self.device


class SinceLeft(Struct, frozen=True):
    """What has happened since the user last looked at the session."""

    left: float
    succeeded: int
    failed: int
    kinds: int
    best_before: tuple[JobId, float] | None
    """The job that was best when the user last looked, with its value, or None if it is no longer known."""
    external_processes: tuple[tuple[str, str, float], ...] = ()
    """The longest uses of devices by others, each as user, device and seconds."""


class SummaryFacts(Struct, frozen=True, kw_only=True):
    """The facts of a Summary without the table, as `summary --json` prints them."""

    word: StatusWord
    succeeded: int
    failed: int
    killed: int
    skipped: int
    running: int
    waiting: int
    total: int
    began: float | None
    until: float
    """When the last attempt ended, or the current time while a job is running."""
    ended: float | None
    """When the last attempt ended, or None if a job is running or none ever ran."""
    gpu_seconds: float
    used: Consumption
    runs: int
    """Number of attempts that have run or are running."""
    groups: tuple[GroupConsumption, ...]
    """What each group has used. Empty if there is only one."""
    devices: tuple[DeviceTime, ...]
    paused: float
    """Seconds for which the scheduler was paused since the first start."""
    external_processes: tuple[tuple[str, float], ...]
    """Other users, each with the seconds for which they used GPUs of the session."""
    effects: tuple[ParameterEffect, ...]
    maps: tuple[HeatMap, ...]
    """The heat maps of pairs of parameters, those with the largest effects first."""
    noise: float | None
    """The median spread of the results of jobs that differ only in their seed, or None if there are no such jobs."""
    failures: tuple[FailureGroup, ...]
    longest: tuple[JobId, float] | None
    shortest: tuple[JobId, float] | None
    median: float | None
    """Median duration of the succeeded jobs in seconds, or None."""
    since: SinceLeft | None = None


class Summary(SummaryFacts, frozen=True, kw_only=True):
    """The facts about a session that the TUI, `run`, `summary` and `report` show."""

    table: ResultsTable

    @property
    def wall(self) -> float:
        return max(0.0, self.until - self.began) if self.began is not None else 0.0

    @property
    def busy(self) -> float | None:
        """Mean of the devices' busy shares, or None if there are no devices."""
        shares = [device.share for device in self.devices]
        return sum(shares) / len(shares) if shares else None

    @property
    def device_nouns(self) -> tuple[str, str]:
        """The word for what the session ran on, in the singular and plural."""
        if all(device.is_gpu for device in self.devices):
            return "GPU", "GPUs"
        return ("slot", "slots") if any(device.is_gpu for device in self.devices) else ("CPU slot", "CPU slots")

    def device_words(self) -> str:
        """Return what the session ran on: `4 GPUs` or `2 CPU slots`."""
        return counted(len(self.devices), *self.device_nouns)

    @property
    def best(self) -> tuple[ResultsRow, ...]:
        return tuple(row for row in self.table.rows if row.counts and row.best is not None)[:BEST]

    @property
    def not_finite(self) -> tuple[ResultsRow, ...]:
        """Rows of the jobs with nan or inf as their result."""
        return tuple(row for row in self.table.rows if row.not_finite)


def summarize(
    snapshot: Snapshot,
    now: float,
    spans: Sequence[RecordedSpan] = (),
    left: float | None = None,
    metric: MainMetric | None = None,
) -> Summary:
    """Summarize a session. `left` is when the user last looked at it. `metric` replaces the session's metric."""
    parameters = learn_parameters(snapshot)
    table = results_table(snapshot, metric, parameters)
    jobs = list(snapshot)
    attempts = [(job, attempt) for job in jobs for attempt in job.attempts]
    began = min(_starts(jobs), default=None)
    ended = None if snapshot.running else max((attempt.ended for _, attempt in attempts), default=None)
    until = ended if ended is not None else now
    used = consumption(uses(jobs, until))
    shown = effects(table)
    failed = [
        {effect.name: value for effect in shown if (value := parameters.value(job, effect.name)) is not None}
        for job in jobs if shown and has_failed(job)
    ]  # fmt: skip
    succeeded = sorted((job.attempts[-1].seconds, job.id) for job in jobs if isinstance(job.state, Succeeded))
    failures = tuple(failure_groups(snapshot, parameters))
    return Summary(
        word=queue_status(snapshot).word,
        succeeded=snapshot.count(StateName.SUCCEEDED),
        failed=snapshot.count(*FAILURES),
        killed=snapshot.count(StateName.KILLED),
        skipped=snapshot.count(StateName.SKIPPED),
        running=snapshot.running,
        waiting=snapshot.not_begun,
        total=sum(snapshot.counts.values()),
        began=began,
        until=until,
        ended=ended,
        gpu_seconds=used.gpu_hours * HOUR,
        used=used,
        runs=sum(1 for _ in uses(jobs, until)),
        groups=by_group(jobs, until),
        devices=_devices(snapshot, jobs, began, until),
        paused=_within((span for span in spans if span.kind is SpanKind.PAUSE), began, until),
        external_processes=tuple(_external_use(spans, began, until, lambda span: span.user)),
        table=table,
        effects=shown,
        maps=heat_maps(table, shown, failed),
        noise=noise_of_seeds(table),
        failures=failures,
        longest=(succeeded[-1][1], succeeded[-1][0]) if succeeded else None,
        shortest=(succeeded[0][1], succeeded[0][0]) if succeeded else None,
        median=succeeded[len(succeeded) // 2][0] if succeeded else None,
        since=_since(jobs, table, failures, spans, left, now) if left is not None else None,
    )


def _starts(jobs: Iterable[Job]) -> Iterable[float]:
    for job in jobs:
        if job.attempts:
            yield job.attempts[0].started
        elif job.active is not None and not job.submitted:
            yield job.active.since


def _devices(snapshot: Snapshot, jobs: Iterable[Job], began: float | None, until: float) -> tuple[DeviceTime, ...]:
    slots = (slot for slot in snapshot.slots if slot.devices or slot.kind is DeviceKind.CPU)
    offered = [place for slot in slots for place in places_of(slot)]
    is_gpu = {place.label: place.has_device for place in offered}
    busy: dict[str, list[float]] = {device: [] for device in is_gpu}
    for use in uses(jobs, until):
        for place in use.places:
            is_gpu[place.label] = place.has_device
            busy.setdefault(place.label, []).append(use.seconds)
    wall = max(1e-9, until - (began if began is not None else until))
    slots_on = Counter(place.label for place in offered)
    return tuple(
        DeviceTime(device, is_gpu[device], len(busy[device]), sum(busy[device]),
                   min(1.0, sum(busy[device]) / wall / max(1, slots_on[device])))
        for device in sorted(busy, key=natural_order)
    )  # fmt: skip


def _within(spans: Iterable[RecordedSpan], began: float | None, until: float) -> float:
    if began is None:
        return 0.0
    return sum(max(0.0, min(span.lasts_until(until), until) - max(span.since, began)) for span in spans)


def _external_use(
    spans: Iterable[RecordedSpan], began: float | None, until: float, key: Callable[[RecordedSpan], Key]
) -> list[tuple[Key, float]]:
    """Return for how many seconds others used devices, by user or by user and device, longest first."""
    held: dict[Key, float] = {}
    for span in spans:
        if span.kind is SpanKind.EXTERNAL:
            held[key(span)] = held.get(key(span), 0.0) + _within((span,), began, until)
    long_uses = ((holder, seconds) for holder, seconds in held.items() if seconds >= SHORTEST_USE)
    return sorted(long_uses, key=lambda use: -use[1])


def _since(
    jobs: Iterable[Job],
    table: ResultsTable,
    failures: Iterable[FailureGroup],
    spans: Iterable[RecordedSpan],
    left: float,
    now: float,
) -> SinceLeft:
    ends = [(job, last) for job in jobs if (last := _last(job)) is not None and last.ended > left]
    failed = {job.id for job, _ in ends if job.state.name in FAILURES}
    ended_before = {job.id for job in jobs if (last := _last(job)) is not None and last.ended <= left}
    before = [row for row in table.rows if row.counts and row.best is not None and row.job in ended_before]
    held = _external_use(spans, left, now, lambda span: (span.user, span.device))
    return SinceLeft(
        left=left,
        succeeded=sum(isinstance(job.state, Succeeded) for job, _ in ends),
        failed=len(failed),
        kinds=sum(bool(failed & set(group.jobs)) for group in failures),
        best_before=(before[0].job, before[0].best)
        if before and before[0].best is not None and table.metric and table.metric.direction is not Direction.UNKNOWN
        else None,
        external_processes=tuple((user, device, seconds) for (user, device), seconds in held[:3]),
    )


def _last(job: Job) -> Attempt | None:
    return job.attempts[-1] if job.attempts and job.active is None else None


# Text


RANGE = 24
MOST_FAILURES = 5


def brief_lines(summary: Summary, now: float) -> list[str]:
    """Return a summary of three or four lines."""
    lines = [headline(summary)]
    best = summary.best
    if best and summary.table.metric is not None:
        shown = (f"{format_job(row, summary.table)}   {format_result(row.best, summary.table)}" for row in best[:2])
        lines.append(f"best {summary.table.metric.name}   " + "     ".join(shown))
    rest = [f"longest #{summary.longest[0]} {duration_cell(summary.longest[1])}"] if summary.longest else []
    for number, group in enumerate(summary.failures[:3]):
        rest.append(f"{'failed ' if not number else ''}{group.count} × {group.message}")
    if len(summary.failures) > 3:
        rest.append(counted(len(summary.failures) - 3, "more error", "more errors"))
    if rest:
        lines.append(" · ".join(rest))
    if summary.since is not None:
        lines.append(since_line(summary.since, summary, now))
    return lines


def summary_lines(summary: Summary, now: float, heat_map: HeatMap | None = None) -> list[str]:
    """Return the lines of the whole summary. `heat_map`, if given, is shown instead of the summary's first heat map."""
    shown = heat_map or next(iter(summary.maps), None)
    lines = [headline(summary)]
    lines += [since_line(summary.since, summary, now)] if summary.since is not None else []
    lines += [*_best(summary), *_effects(summary)]
    lines += _map(summary, shown) if shown is not None else ()
    lines += [*_failures(summary), *_times(summary)]
    return lines


def headline(summary: Summary) -> str:
    counts = {
        "failed": summary.failed, "killed": summary.killed, "skipped": summary.skipped,
        "running": summary.running, "waiting": summary.waiting,
    }  # fmt: skip
    parts = [f"{summary.succeeded} ok", *(f"{count} {word}" for word, count in counts.items() if count)]
    if summary.began is not None:
        parts.append(f"{duration_words(summary.wall)} wall")
    if summary.gpu_seconds:
        parts.append(gpu_time(summary.gpu_seconds))
    if summary.used.kwh is not None:
        parts.append(summary.used.energy_text)
    if summary.busy is not None and any(device.busy for device in summary.devices):
        parts.append(f"{summary.device_nouns[1]} {summary.busy * 100:.0f}% busy")
    return f"{_word(summary)}  {' · '.join(parts)}"


def _word(summary: Summary) -> str:
    if summary.running or summary.waiting or not summary.total:
        return summary.word.upper()
    return "✓ DONE" if not summary.failed else f"DONE, {summary.failed} ✗"


def format_job(row: ResultsRow, table: ResultsTable) -> str:
    """Format a job with its parameters: `#31 convnext lr=0.03 bs=256`."""
    titles = {column.name: column for column in table.columns}
    words = [f"{titles[name].title}={value}" if titles[name].is_number else value for name, value in row.params.items()]
    return f"#{row.job} " + (" ".join(words) or row.label)


def format_result(value: float | None, table: ResultsTable) -> str:
    return "–" if value is None else result_text(value, table.decimals)


def since_line(since: SinceLeft, summary: Summary, now: float) -> str:
    """Format what happened since the user last looked: `62 h: 187 ok, 9 failed (2 errors), best #141`."""
    parts = [f"{since.succeeded} ok"]
    if since.failed:
        parts.append(f"{since.failed} failed" + (f" ({since.kinds} errors)" if since.kinds > 1 else ""))
    if summary.best:
        parts.append(f"best #{summary.best[0].job}")
    return f"{duration_words(now - since.left)}: {', '.join(parts)}"


def _best(summary: Summary) -> list[str]:
    metric, rows = summary.table.metric, summary.best
    if metric is None or not rows:
        return not_finite_lines(summary)
    width = max(len(format_job(row, summary.table)) for row in rows)
    lines = ["", f"best {metric.name} ({'lower' if metric.direction == 'min' else 'higher'} is better)"]
    for number, row in enumerate(rows):
        step = f"   at {row.step:g}" if row.step is not None else ""
        sign = "★" if not number else str(number + 1)
        used = [gpu_time(row.used.gpu_hours * HOUR), row.used.energy_text] if row.used.gpu_hours else []
        value = "   ".join([f"{format_result(row.best, summary.table)}{step}", *filter(None, used)])
        lines.append(f"  {sign} {format_job(row, summary.table):{width}}   {value}")
    return [*lines, *not_finite_lines(summary)]


def not_finite_lines(summary: Summary) -> list[str]:
    """Return a line about the jobs that printed only nan or inf, or no lines if there are none."""
    if summary.table.metric is None or not summary.not_finite:
        return []
    jobs, name = summary.not_finite, summary.table.metric.name
    named = " ".join(f"#{row.job}" for row in jobs[:6]) + (" …" if len(jobs) > 6 else "")
    return [f"  {counted(len(jobs), 'job', 'jobs')} printed {name} as {jobs[0].not_finite} only: {named}"]


def _effects(summary: Summary) -> list[str]:
    lines: list[str] = []
    scale = scale_of(summary.effects)
    for effect in summary.effects:
        lines += ["", *_effect(effect, summary.table, scale)]
    if summary.noise is not None:
        lines += [
            "",
            f"runs that differ only in their seed: {format_result(summary.noise, summary.table)} apart (median)",
        ]
    return lines


def _effect(effect: ParameterEffect, table: ResultsTable, scale: tuple[float, float]) -> Iterable[str]:
    width = max(len(effect.title) + 3, *(len(value.value) for value in effect.values))
    digits = max(len(format_result(value.median, table)) for value in effect.values) + 2
    ends = f"{scale[0]:g}".ljust(RANGE - len(f"{scale[1]:g}")) + f"{scale[1]:g}"
    yield f"{'by ' + effect.title:{width}}  {'n':>4}{'best':>{digits}}{'median':>{max(digits, 8)}}  {ends}"
    for value in effect.values:
        best, median = format_result(value.best, table), format_result(value.median, table)
        drawn = range_cells(value, scale, RANGE, is_down=table.metric is not None and table.metric.direction == "min")
        yield f"{value.value:{width}}  {value.count:>4}{best:>{digits}}{median:>{max(digits, 8)}}  {drawn.rstrip()}"
    if effect.more:
        yield f"and {counted(effect.more, 'value', 'values')} more"


def _map(summary: Summary, heat_map: HeatMap) -> Iterator[str]:
    metric = summary.table.metric.name if summary.table.metric is not None else ""
    yield ""
    yield f"median {metric} by {heat_map.title} (★ best, n runs, ✗ failed)"
    lines = [
        [cell_words(cell, summary.table, is_best=(row, column) == heat_map.best) for column, cell in enumerate(cells)]
        for row, cells in enumerate(heat_map.cells)
    ]
    titles = [f"{heat_map.columns.title}={value}" for value in heat_map.columns.values]
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    first = max(len(heat_map.rows.title), *map(len, heat_map.rows.values))
    for name, words in zip((heat_map.rows.title, *heat_map.rows.values), (titles, *lines), strict=True):
        yield f"  {name:>{first}}   {'   '.join(map(str.ljust, words, widths))}".rstrip()


def cell_words(cell: HeatCell, table: ResultsTable, *, is_best: bool) -> str:
    """Format a cell of a heat map: `★0.6730 n 2  1 ✗`."""
    median = "" if cell.median is None else f"{'★' if is_best else ' '}{format_result(cell.median, table)}"
    return f"{median} {count_words(cell)}".rstrip()


def count_words(cell: HeatCell) -> str:
    """Format how many jobs are in a cell: `n 2`, `n 1  1 ✗`, or an empty string if there are none."""
    return "  ".join([f"n {cell.runs}"] * (cell.runs > 0) + [f"{cell.failed} ✗"] * (cell.failed > 0))


def range_cells(effect: ValueEffect, scale: tuple[float, float], cells: int, *, is_down: bool) -> str:
    """Draw a range of values: a thin line for the range, a thick line between the quartiles, a dot at the median."""

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
        shared = " · ".join(part for part in (jobs, group.common.parameters_text, group.common.where) if part)
        yield f"  {group.count} × {group.message}"
        yield f"      {shared}"
    if len(summary.failures) > MOST_FAILURES:
        yield f"  and {counted(len(summary.failures) - MOST_FAILURES, 'more error', 'more errors')}"


def _times(summary: Summary) -> Iterator[str]:
    if summary.longest is None or summary.shortest is None or summary.median is None:
        return
    yield ""
    figures = (
        f"median {duration_cell(summary.median)} · longest {duration_cell(summary.longest[1])} #{summary.longest[0]}"
    )
    yield f"time   {figures} · shortest {duration_cell(summary.shortest[1])} #{summary.shortest[0]}"
    for device in summary.devices:
        yield f"  {device.label:8} {device.share * 100:3.0f}%   {counted(device.jobs, 'run', 'runs')}"
    width = max((len(each.group) for each in summary.groups), default=0)
    for each in summary.groups if summary.gpu_seconds else ():
        used = f"{gpu_time(each.used.gpu_hours * HOUR):>12}   {each.used.energy_text}"
        yield f"  {each.group:{width}}   {counted(each.jobs, 'job', 'jobs'):>8}{used}".rstrip()
    held = [f"{duration_words(seconds)} {user}" for user, seconds in summary.external_processes]
    held += [f"{duration_words(summary.paused)} paused"] if summary.paused >= 60 else []
    if held:
        yield "  " + ", ".join(held)


def ended_at(summary: Summary, now: float) -> str:
    """Return the time in which the session ran: `22:33 – 23:45`, or `since 22:33` while a job is running."""
    if summary.began is None:
        return ""
    if summary.ended is None:
        return f"since {moment(summary.began, now)}"
    return f"{moment(summary.began, now)} – {moment(summary.ended, now)}"
