"""The summary of a session: counts, times, best jobs, effects of parameters; also as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gputui.core.amounts import counted, duration_cell, duration_words, gpu_time, moment
from gputui.core.job import FAILURES, Attempt, Job, JobId, Placed, StateName, Succeeded
from gputui.core.lanes import NO_GPU, DeviceKind
from gputui.core.parameter_columns import Parameters
from gputui.core.results import Direction, MainMetric
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan, SpanKind

from .failures import FailureGroup, failure_groups, learnt_parameters
from .format import result_text
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
from .status import Word, standing

# ---- What came of a session ----


BEST = 5
LANE = "lane "
"""What a lane without a GPU is called by."""


class DeviceTime(Struct, frozen=True):
    """What one device did for the session."""

    device: str
    jobs: int
    busy: float
    """Seconds."""
    share: float
    """Of the session's wall time."""

    @property
    def named(self) -> str:
        """`GPU 0`; lanes without a GPU and the cards of a cluster have names of their own."""
        return f"GPU {self.device}" if self.device.isdecimal() else self.device

    @property
    def is_gpu(self) -> bool:
        return not self.device.startswith(LANE)


class SinceLeft(Struct, frozen=True):
    """What happened while the user was away."""

    left: float
    succeeded: int
    failed: int
    kinds: int
    best_before: tuple[JobId, float] | None
    """The best when they left, as far as it is still known."""
    strangers: tuple[tuple[str, str, float], ...] = ()
    """User, device and seconds of those who held cards for longest."""


class Summary(Struct, frozen=True):
    """All that the screen, the verb, `run` and the report tell of the end."""

    word: Word
    succeeded: int
    failed: int
    killed: int
    skipped: int
    running: int
    waiting: int
    total: int
    began: float | None
    until: float
    """The end of the time that the summary covers: when the last attempt ended, or now while something runs."""
    ended: float | None
    """When the last attempt did; None: something still runs, or nothing ever ran."""
    gpu_seconds: float
    devices: tuple[DeviceTime, ...]
    paused: float
    """Seconds in which the scheduler was paused while jobs waited."""
    strangers: tuple[tuple[str, float], ...]
    """Users and the seconds for which they held cards of the session."""
    table: ResultsTable
    effects: tuple[ParameterEffect, ...]
    noise: float | None
    """Median distance of jobs that differ in nothing but their seed."""
    failures: tuple[FailureGroup, ...]
    longest: tuple[JobId, float] | None
    shortest: tuple[JobId, float] | None
    median: float | None
    """Seconds that succeeded jobs took."""
    since: SinceLeft | None = None

    @property
    def wall(self) -> float:
        return max(0.0, self.until - self.began) if self.began is not None else 0.0

    @property
    def busy(self) -> float | None:
        """The share of their time in which the devices had work."""
        shares = [device.share for device in self.devices]
        return sum(shares) / len(shares) if shares else None

    def device_words(self, count: int) -> str:
        """So many of what it ran on: `4 GPUs`, `2 CPU lanes`."""
        if all(device.is_gpu for device in self.devices):
            return counted(count, "GPU", "GPUs")
        only_cpu = not any(device.is_gpu for device in self.devices)
        return counted(count, "CPU lane", "CPU lanes") if only_cpu else counted(count, "lane", "lanes")

    @property
    def best(self) -> tuple[ResultsRow, ...]:
        return tuple(row for row in self.table.rows if row.counts and row.best is not None)[:BEST]

    @property
    def not_finite(self) -> tuple[ResultsRow, ...]:
        """Jobs whose result is no number: nan or inf."""
        return tuple(row for row in self.table.rows if row.not_finite)


def summarize(
    snapshot: Snapshot,
    now: float,
    spans: Sequence[RecordedSpan] = (),
    left: float | None = None,
    metric: MainMetric | None = None,
) -> Summary:
    """`left`: when the user last looked; `metric`: another one than the session's."""
    parameters = learnt_parameters(snapshot)
    table = results_table(snapshot, metric, parameters)
    jobs = list(snapshot)
    attempts = [(job, attempt) for job in jobs for attempt in job.attempts]
    began = min(_starts(jobs), default=None)
    ended = None if snapshot.running else max((attempt.ended for _, attempt in attempts), default=None)
    until = ended if ended is not None else now
    succeeded = sorted((_seconds(job), job.id) for job in jobs if isinstance(job.state, Succeeded))
    failures = tuple(failure_groups(snapshot, parameters))
    return Summary(
        word=standing(snapshot).word,
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
        gpu_seconds=sum(
            seconds * sum(not device.startswith(LANE) for device in devices) for seconds, devices in _uses(jobs, until)
        ),
        devices=_devices(snapshot, jobs, began, until),
        paused=_within((span for span in spans if span.kind is SpanKind.PAUSE), began, until),
        strangers=_strangers(spans, began, until),
        table=table,
        effects=effects(table),
        noise=noise_of_seeds(table),
        failures=failures,
        longest=(succeeded[-1][1], succeeded[-1][0]) if succeeded else None,
        shortest=(succeeded[0][1], succeeded[0][0]) if succeeded else None,
        median=succeeded[len(succeeded) // 2][0] if succeeded else None,
        since=_since(jobs, table, failures, spans, left, now, parameters) if left is not None else None,
    )


def _seconds(job: Job) -> float:
    return job.attempts[-1].ended - job.attempts[-1].started


def _starts(jobs: Iterable[Job]) -> Iterable[float]:
    for job in jobs:
        if job.attempts:
            yield job.attempts[0].started
        elif job.active is not None and not job.submitted:
            yield job.active.since


def _uses(jobs: Iterable[Job], until: float) -> Iterable[tuple[float, tuple[str, ...]]]:
    """Seconds of every attempt and what it was on, the one under way too."""
    for job in jobs:
        yield from ((attempt.ended - attempt.started, ran_on(attempt)) for attempt in job.attempts)
        if job.active is not None and not job.submitted:
            yield max(0.0, until - job.active.since), ran_on(job.active)


def ran_on(attempt: Attempt | Placed) -> tuple[str, ...]:
    """Its devices, or its lanes where these have none."""
    gpus = tuple(gpu for gpu in attempt.gpus if gpu != NO_GPU)
    return gpus or tuple(f"{LANE}{lane}" for lane in attempt.lanes)


def _devices(snapshot: Snapshot, jobs: Iterable[Job], began: float | None, until: float) -> tuple[DeviceTime, ...]:
    lanes = (lane for lane in snapshot.lanes if lane.devices or lane.kind is DeviceKind.CPU)
    busy: dict[str, list[float]] = {device: [] for lane in lanes for device in lane.labels}
    for seconds, gpus in _uses(jobs, until):
        for device in gpus:
            busy.setdefault(device, []).append(seconds)
    wall = max(1e-9, until - (began if began is not None else until))
    slots = {device: sum(device in lane.labels for lane in snapshot.lanes) or 1 for device in busy}
    return tuple(
        DeviceTime(device, len(each), sum(each), min(1.0, sum(each) / wall / slots[device]))
        for device, each in sorted(busy.items(), key=lambda item: (len(item[0]), item[0]))
    )  # fmt: skip


def _within(spans: Iterable[RecordedSpan], began: float | None, until: float) -> float:
    if began is None:
        return 0.0
    return sum(max(0.0, min(span.lasts_until(until), until) - max(span.since, began)) for span in spans)


def _strangers(spans: Iterable[RecordedSpan], began: float | None, until: float) -> tuple[tuple[str, float], ...]:
    held: dict[str, float] = {}
    for span in spans:
        if span.kind is SpanKind.STRANGER:
            held[span.user] = held.get(span.user, 0.0) + _within((span,), began, until)
    return tuple(sorted(((user, s) for user, s in held.items() if s >= 60), key=lambda holder: -holder[1]))


def _since(
    jobs: Iterable[Job],
    table: ResultsTable,
    failures: Iterable[FailureGroup],
    spans: Iterable[RecordedSpan],
    left: float,
    now: float,
    parameters: Parameters,
) -> SinceLeft:
    ends = [(job, last) for job in jobs if (last := _last(job)) is not None and last.ended > left]
    failed = {job.id for job, _ in ends if job.state.name in FAILURES}
    ended_before = {job.id for job in jobs if (last := _last(job)) is not None and last.ended <= left}
    before = [row for row in table.rows if row.counts and row.best is not None and row.job in ended_before]
    held: dict[tuple[str, str], float] = {}
    for span in spans:
        if span.kind is SpanKind.STRANGER and (seconds := _within((span,), left, now)) >= 60:
            held[span.user, span.device] = held.get((span.user, span.device), 0.0) + seconds
    ranked = sorted(((user, device, s) for (user, device), s in held.items()), key=lambda holder: -holder[2])
    return SinceLeft(
        left=left,
        succeeded=sum(isinstance(job.state, Succeeded) for job, _ in ends),
        failed=len(failed),
        kinds=sum(bool(failed & set(group.jobs)) for group in failures),
        best_before=(before[0].job, before[0].best)
        if before and before[0].best is not None and _ranks(table)
        else None,
        strangers=tuple(ranked[:3]),
    )


def _ranks(table: ResultsTable) -> bool:
    return table.metric is not None and table.metric.direction is not Direction.UNKNOWN


def _last(job: Job) -> Attempt | None:
    return job.attempts[-1] if job.attempts and job.active is None else None


# ---- The summary as lines of text ----


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
    if summary.busy is not None and any(device.busy for device in summary.devices):
        what = summary.device_words(2).partition(" ")[2]
        times.append(f"{what} {summary.busy * 100:.0f} % busy")
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
    """`22:33 – 23:45`; `since 22:33` while something runs."""
    if summary.began is None:
        return ""
    if summary.ended is None:
        return f"since {moment(summary.began, now)}"
    return f"{moment(summary.began, now)} – {moment(summary.ended, now)}"
