"""What came of a session: counts, times, the best jobs, what each parameter did to the result, and failures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gputui.core.job import Attempt, Job, JobId, Placed, StateName, Succeeded
from gputui.core.results import Direction, MainMetric
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES
from gputui.core.timeline.spans import RecordedSpan, SpanKind

from .failures import FailureGroup, failure_groups
from .in_common import learnt_parameters
from .parameter_columns import Parameters
from .parameter_effects import ParameterEffect, effects, noise_of_seeds
from .results_table import ResultsRow, ResultsTable, results_table
from .standing import Word, standing

__all__ = ["DeviceTime", "SinceLeft", "Summary", "summarize"]

BEST = 5


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
    ended: float | None
    """When the last attempt did; None: something still runs."""
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
        return max(0.0, (self.ended or self.began or 0.0) - (self.began or 0.0))

    @property
    def busy(self) -> float | None:
        """The share of their time in which the devices had work."""
        shares = [device.share for device in self.devices]
        return sum(shares) / len(shares) if shares else None

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
    ended = None if snapshot.active else max((attempt.ended for _, attempt in attempts), default=None)
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
        waiting=snapshot.waiting,
        total=sum(snapshot.counts.values()),
        began=began,
        ended=until if began is not None else None,
        gpu_seconds=sum(seconds * len(gpus) for seconds, gpus in _uses(jobs, until)),
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
        elif job.active is not None:
            yield job.active.since


def _uses(jobs: Iterable[Job], until: float) -> Iterable[tuple[float, tuple[str, ...]]]:
    """Seconds of every attempt and what it was on, the one under way too."""
    for job in jobs:
        yield from ((attempt.ended - attempt.started, _on(attempt)) for attempt in job.attempts)
        if job.active is not None:
            yield max(0.0, until - job.active.since), _on(job.active)


def _on(attempt: Attempt | Placed) -> tuple[str, ...]:
    """Its devices, or its lanes where these have none."""
    return attempt.gpus or tuple(f"lane {lane}" for lane in attempt.lanes)


def _devices(snapshot: Snapshot, jobs: Iterable[Job], began: float | None, until: float) -> tuple[DeviceTime, ...]:
    busy: dict[str, list[float]] = {device: [] for lane in snapshot.lanes for device in lane.devices}
    for seconds, gpus in _uses(jobs, until):
        for device in gpus:
            busy.setdefault(device, []).append(seconds)
    wall = max(1e-9, until - (began if began is not None else until))
    slots = {device: sum(device in lane.slots for lane in snapshot.lanes) or 1 for device in busy}
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
