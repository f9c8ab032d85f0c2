"""What a row of the queue says about its job, results included."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gputui.core.eta import NO_PACES, job_eta, progress_of, silent_since
from gputui.core.events import words as end_words
from gputui.core.job import WORDS, Active, Delayed, Ended, Job, JobId, StateName, Stopping, Suspended, Waiting
from gputui.core.parameter_columns import Parameters, parameters_of
from gputui.core.results import Direction, JobResults, MetricResult, direction_of, words_of
from gputui.core.snapshot import NO_RESULTS, Snapshot
from gputui.logs.plain import plain
from gputui.views import format
from gputui.views.format import SIGNS, is_submitted

# ---- The words and signs by which the screen tells of jobs ----


LONG_STATES = WORDS | {StateName.SUCCEEDED: "ok"}
SHORT_STATES = {
    StateName.QUEUED: "wait", StateName.HELD: "held", StateName.BLOCKED: "dep", StateName.DELAYED: "late",
    StateName.STARTING: "init", StateName.RUNNING: "run", StateName.SUSPENDED: "susp", StateName.STOPPING: "stop",
    StateName.SUCCEEDED: "ok", StateName.FAILED: "fail", StateName.CRASHED: "fail", StateName.KILLED: "kill",
    StateName.TIMED_OUT: "time", StateName.LOST: "lost", StateName.REFUSED: "no", StateName.SKIPPED: "skip",
}  # fmt: skip
"""Where there is little room."""


def state_words(job: Job) -> str:
    return f"{sign_of(job)} {format.WORD if format.is_submitted(job) else WORDS[job.state.name]}"


def sign_of(job: Job) -> str:
    return format.SIGN if format.is_submitted(job) else SIGNS[job.state.name]


def state_word(job: Job, *, short: bool) -> str:
    """Of a row; one that waits in a cluster's queue has not begun to start."""
    if format.is_submitted(job):
        return format.SHORT_WORD if short else format.WORD
    return (SHORT_STATES if short else LONG_STATES)[job.state.name]


def clock(seconds: float) -> str:
    """`2:11:04`, `3:07`; days are told as days."""
    whole = max(0, int(seconds))
    if whole >= 86400:
        return f"{whole // 86400}d {whole // 3600 % 24:02d}h"
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def stake(seconds: float) -> str:
    """How much work is at stake, as one says it: `9 h 12 m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m"
    return f"{whole // 3600} h {whole // 60 % 60:02d} m"


def moment(at: float, now: float) -> str:
    """The time of day, with the day when it is another."""
    then, today = time.localtime(at), time.localtime(now)
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", then)


def time_of(job: Job, now: float) -> str:
    """How long it runs or ran; for a job that waits for a moment, how long still."""
    if isinstance(job.state, Delayed):
        return _soon(job.state.until - now)
    seconds = seconds_of(job, now)
    return clock(seconds) if seconds is not None else ""


def seconds_of(job: Job, now: float) -> float | None:
    """How long it runs or ran; None: it waits."""
    if job.active is not None:
        return now - job.active.since
    if isinstance(job.state, Ended) and job.attempts:
        return job.attempts[-1].ended - job.attempts[-1].started
    return None


def _soon(seconds: float) -> str:
    """`in 9:05`, `in 25 m`, `in 3 h`, `in 12d`: no wider than a clock."""
    whole = max(0, int(seconds))
    if whole < 600:
        return f"in {clock(whole)}"
    if whole < 3600:
        return f"in {whole // 60} m"
    return f"in {whole // 3600} h" if whole < 86400 else f"in {whole // 86400}d"


def gpus_of(job: Job) -> str:
    """Where it runs or ran; one that waits again has no GPU. UUIDs are cut to what tells them apart."""
    ran = job.attempts[-1].gpus if job.attempts and isinstance(job.state, Ended) else ()
    gpus = job.active.gpus if job.active is not None else ran
    return ",".join(gpu if len(gpu) <= 4 or ":" in gpu else f"{gpu[:8]}…" for gpu in gpus)


def note_of(job: Job, now: float) -> str:
    """What else is to be said of a job that runs or has ended; why one waits is the owner's to say."""
    if isinstance(job.state, Stopping):
        remaining = max(0, int(job.state.deadline - now + 0.999))
        return f"killed in {remaining} s" if remaining and not job.state.hard else "being killed"
    if isinstance(job.state, Suspended):
        return "stands still, keeps its GPU memory"
    if isinstance(job.state, Ended):
        return plain(_end(job))
    return ""


def _end(job: Job) -> str:
    assert isinstance(job.state, Ended)
    if job.state.name in (StateName.SUCCEEDED, StateName.KILLED):
        return ""
    said = job.attempts[-1].said if job.attempts and job.state.name is not StateName.SKIPPED else None
    return said or end_words(job.state)


# ---- What jobs printed as numbers, as cells of the queue ----


NO_NAME = "result"
"""The heading before the first name is read."""
STEPS = "▁▂▃▄▅▆"
TREND = 8
FINEST = 0.06
"""A trend is never drawn finer than this share of the value: what is flat looks flat."""
FALLING, RISING = "▾", "▴"
LONGEST_TITLE = 12
SMALL = 0.001
"""Below it decimals tell nothing."""


@dataclass(frozen=True)
class NumberShape:
    """How the values of one column are written: all alike."""

    decimals: int = 4
    scientific: bool = False

    @classmethod
    def of(cls, value: float, most: int = 4) -> NumberShape:
        size = abs(value)
        if not math.isfinite(size):
            return cls(most)
        if 0 < size < SMALL or size >= 1e6:
            return cls(2, True)
        return cls(max(0, min(most, 4 if size < 10 else 3 if size < 100 else 2 if size < 1000 else 1)))

    @property
    def width(self) -> int:
        return 8 if self.scientific else 6

    def text(self, value: float) -> str:
        if not math.isfinite(value):
            return str(value)
        written = f"{value:.{self.decimals}e}" if self.scientific else f"{value:.{self.decimals}f}"
        return written if len(written) <= self.width + 1 else f"{value:.1e}"


@dataclass(frozen=True)
class ResultShape:
    """Which metrics are columns, and how their values are written."""

    main: str | None = None
    second: str | None = None
    main_number: NumberShape = NumberShape()
    second_number: NumberShape = NumberShape(1)
    main_unit: str = ""
    second_unit: str = ""
    direction: Direction | None = None
    """Of the main one."""

    @property
    def main_title(self) -> str:
        return _title(self.main, self.main_unit) if self.main is not None else NO_NAME

    @property
    def second_title(self) -> str:
        return _title(self.second, self.second_unit) if self.second is not None else ""


NO_RESULT_SHAPE = ResultShape()
"""Before the first name is read."""


@dataclass(frozen=True)
class BestResult:
    job: JobId
    text: str


def best_result(snapshot: Snapshot) -> BestResult | None:
    results = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    metric = snapshot.metric
    metric_result = results.get(metric.name, metric.direction) if results is not None and metric is not None else None
    if metric_result is None or snapshot.best is None:
        return None
    return BestResult(snapshot.best, NumberShape.of(metric_result.best).text(metric_result.best))


def result_shape(snapshot: Snapshot, seen: JobResults | None, before: ResultShape) -> ResultShape:
    """`seen`: of any job that has results, where the best is not known yet."""
    metric = snapshot.metric
    if metric is None:
        return ResultShape()
    best = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    results = best or seen
    main = results.get(metric.name, metric.direction) if results is not None else None
    if results is None or main is None:
        return ResultShape(metric.name, direction=metric.direction)
    keeps = before.main == metric.name and before.second is not None
    second = before.second if keeps else second_metric(results, metric.name, metric.direction)
    beside = results.get(second) if second is not None else None
    other = _second_shape(beside.last) if beside is not None else before.second_number
    second_unit = beside.unit if beside is not None else before.second_unit
    numbers = NumberShape.of(main.best), other
    return ResultShape(metric.name, second, *numbers, main.unit, second_unit, metric.direction)


def second_metric(results: JobResults, main: str, direction: Direction) -> str | None:
    """The one that tells most beside the main one: of the other direction, and measured on the same data."""
    phase = set(words_of(main)) & {"val", "valid", "validation", "eval", "test", "dev"}

    def rank(metric: MetricResult) -> tuple[bool, bool, bool]:
        good = direction_of(metric.name)
        return good is Direction.UNKNOWN, good is direction, bool(phase) and not phase & set(words_of(metric.name))

    others = [metric for metric in results.metrics if metric.name != main]
    telling = [metric for metric in others if direction_of(metric.name) is not Direction.UNKNOWN]
    return min(telling, key=rank).name if telling else None


def _second_shape(value: float) -> NumberShape:
    shape = NumberShape.of(value)
    return shape if shape.scientific else NumberShape(3 if abs(value) < 2 else 1)


def _title(name: str, unit: str) -> str:
    """Short enough for a heading: of `eval/cls/accuracy` the end; with its unit, which cells do not repeat."""
    name = plain(name)
    name = name if len(name) <= LONGEST_TITLE else name.replace("/", ".").rpartition(".")[2][-LONGEST_TITLE:]
    return f"{name} {plain(unit)}".rstrip()


def trend_line(trend: Sequence[float], cells: int = TREND) -> str:
    """The course of a run's second half, from low to high."""
    values = [value for value in trend if math.isfinite(value)][-cells:]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = max(high - low, FINEST * max(abs(low), abs(high)))
    if scale <= 0:
        return STEPS[0] * len(values)
    return "".join(STEPS[min(len(STEPS) - 1, int((value - low) / scale * len(STEPS)))] for value in values)


def trend_glyph(trend: Sequence[float]) -> str:
    """Still falling, or rising; nothing for what is flat."""
    values = [value for value in trend if math.isfinite(value)]
    if len(values) < 3:
        return ""
    recent, size = values[-1] - values[len(values) // 2], max(map(abs, values))
    if abs(recent) < FINEST / 3 * size:
        return ""
    return RISING if recent > 0 else FALLING


# ---- All that a row of the queue tells of its job, worked out once for every row that is painted ----


JUST_THE_LINE = re.compile(
    r".* ahead of it|held by you; release it to let it run|a lane is free: it starts next"
    r"|waiting for (a lane|a GPU|\d+ GPUs): (all \d+|[\d ]+|lane \d+) busy"
)
"""The reason of a job that waits for nothing but its turn, or for what its state says already."""


@dataclass
class Told:
    """What rows say besides what the job itself knows."""

    parameters: Parameters
    whys: Mapping[JobId, str] = field(default_factory=dict)
    pids: Mapping[JobId, int] = field(default_factory=dict)
    """Of the commands that run, where there is a column for them."""
    now: float = 0.0
    results: Mapping[JobId, JobResults] = field(default_factory=lambda: NO_RESULTS)
    paces: Mapping[str, float] = field(default_factory=lambda: NO_PACES)
    """The usual pause between two outputs in each group."""
    shape: ResultShape = NO_RESULT_SHAPE
    best: JobId | None = None

    def forget(self, jobs: Iterable[JobId]) -> None:
        """What was said of jobs that are no longer what they were: why one waits is wrong of one that runs."""
        outdated = self.whys.keys() & jobs
        if outdated:
            self.whys = {job: words for job, words in self.whys.items() if job not in outdated}


class RowFacts:
    """One job at one moment."""

    __slots__ = ("_parameters", "_results", "job", "told")

    def __init__(self, job: Job, told: Told) -> None:
        self.job, self.told = job, told
        self._parameters: dict[str, str] | None = None
        self._results: JobResults | bool | None = False

    @property
    def bad(self) -> bool:
        state = self.job.state
        return isinstance(state, Ended) and state.name not in (StateName.SUCCEEDED, StateName.KILLED)

    @property
    def best(self) -> bool:
        return self.job.id == self.told.best

    def parameter(self, name: str) -> str:
        if self._parameters is None:
            self._parameters = parameters_of(self.job.spec)
        return plain(self._parameters.get(name, ""))

    @property
    def results(self) -> JobResults | None:
        if self._results is False:
            self._results = self.told.results.get(self.job.id)
        return self._results  # type: ignore[return-value]  # True is never put there

    @property
    def main(self) -> MetricResult | None:
        results, shape = self.results, self.told.shape
        return results.get(shape.main, shape.direction) if results is not None and shape.main is not None else None

    @property
    def second(self) -> float | None:
        """At the checkpoint where the main one was best, so that a row is one checkpoint."""
        results, main, second = self.results, self.main, self.told.shape.second
        if results is None or main is None or second is None:
            return None
        return results.at_best(second, main)

    @property
    def progress(self) -> float | None:
        """Of a running job only: an ended one has its end."""
        return progress_of(self.job, self.results)

    @property
    def ends(self) -> tuple[float, bool] | None:
        """When it ended, or will by its progress; True: an estimate."""
        job = self.job
        if isinstance(job.state, Ended):
            return (job.attempts[-1].ended, False) if job.attempts else None
        if job.active is None or isinstance(job.state, Suspended | Stopping):
            return None
        pace = self.told.paces.get(job.spec.group)
        if silent_since(job, self.results, pace, self.told.now) is not None:
            return None  # unknown while silent
        eta = job_eta(job, self.results, self.told.now, pace)
        return (eta, True) if eta is not None else None

    @property
    def waits(self) -> bool:
        """Nothing of it runs: in our queue, or in a cluster's."""
        return isinstance(self.job.state, Waiting) or is_submitted(self.job)

    @property
    def message(self) -> str:
        """What a row says instead of progress and results: its crash, or why it waits if that is more than the line."""
        note = note_of(self.job, self.told.now)
        if note or not self.waits:
            return note
        why = self.told.whys.get(self.job.id, "")
        return "" if JUST_THE_LINE.fullmatch(why) else why

    @property
    def remark(self) -> str:
        """What is odd about a job that runs; its results stay in sight beside it."""
        return self.told.whys.get(self.job.id, "") if isinstance(self.job.state, Active) and not self.waits else ""
