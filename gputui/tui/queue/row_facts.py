"""The texts and values that a row of the queue shows for a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gputui.core.eta import job_eta, progress_of, silent_since
from gputui.core.job import WORDS, Active, Ended, Job, JobId, StateName, Stopping, Suspended, Waiting, describe_end
from gputui.core.parameters import parameters_of
from gputui.core.results import NO_PACES, NO_RESULTS, Direction, JobResults, MetricResult, direction_of, name_words
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.tui.theme import STEPS
from gputui.views import format
from gputui.views.format import SIGNS
from gputui.views.parameters import Parameters
from gputui.views.waiting import Reason

LONG_STATES = WORDS | {StateName.SUCCEEDED: "ok"}
SHORT_STATES = {
    StateName.QUEUED: "wait", StateName.HELD: "held", StateName.BLOCKED: "dep", StateName.DELAYED: "late",
    StateName.STARTING: "init", StateName.RUNNING: "run", StateName.SUSPENDED: "susp", StateName.STOPPING: "stop",
    StateName.SUCCEEDED: "ok", StateName.FAILED: "fail", StateName.KILLED: "kill",
    StateName.TIMED_OUT: "time", StateName.LOST: "lost", StateName.REFUSED: "no", StateName.SKIPPED: "skip",
}  # fmt: skip


INTERACTIVE_SIGN, INTERACTIVE_WORD = "●", "exec"


def is_interactive(job: Job) -> bool:
    """Return whether the job runs in somebody's terminal now."""
    return job.spec.terminal is not None and job.state.name is StateName.RUNNING


def state_words(job: Job) -> str:
    if is_interactive(job):
        return f"{INTERACTIVE_SIGN} {INTERACTIVE_WORD}"
    return f"{sign_of(job)} {format.SUBMITTED_WORD if job.submitted else WORDS[job.state.name]}"


def sign_of(job: Job) -> str:
    if is_interactive(job):
        return INTERACTIVE_SIGN
    return format.SUBMITTED_SIGN if job.submitted else SIGNS[job.state.name]


def state_word(job: Job, *, short: bool) -> str:
    if job.submitted:
        return format.SUBMITTED_SHORT_WORD if short else format.SUBMITTED_WORD
    if is_interactive(job):
        return INTERACTIVE_WORD
    return (SHORT_STATES if short else LONG_STATES)[job.state.name]


def seconds_of(job: Job, now: float) -> float | None:
    """Return how many seconds a job has run, or None if it has not run."""
    if job.active is not None:
        return now - job.active.since
    if isinstance(job.state, Ended) and job.attempts:
        return job.attempts[-1].seconds
    return None


def gpus_of(job: Job) -> str:
    """Return the GPUs of a running or ended job. Long UUIDs are shortened."""
    ran = job.attempts[-1].gpus if job.attempts and isinstance(job.state, Ended) else ()
    gpus = job.active.gpus if job.active is not None else ran
    return ",".join(gpu if len(gpu) <= 4 or ":" in gpu else f"{gpu[:8]}…" for gpu in gpus)


def note_of(job: Job, now: float) -> str:
    """Return an additional note for the row of a running or ended job, such as how it is being stopped or its error."""
    if isinstance(job.state, Stopping):
        remaining = max(0, int(job.state.deadline - now + 0.999))
        return f"SIGKILL in {remaining} s" if remaining and not job.state.hard else "killing"
    if isinstance(job.state, Suspended):
        return "keeps its GPU memory"
    if is_interactive(job) and job.spec.terminal is not None:
        return f"in terminal {plain(job.spec.terminal.where)}"
    if isinstance(job.state, Ended):
        return plain(_end(job))
    return ""


def _end(job: Job) -> str:
    assert isinstance(job.state, Ended)
    if job.state.name in (StateName.SUCCEEDED, StateName.KILLED):
        return ""
    said = job.attempts[-1].reason if job.attempts and job.state.name is not StateName.SKIPPED else None
    return said or describe_end(job.state)


# Results


NO_NAME = "result"
"""The title of the result column if no metric is known."""
TREND = 8
FINEST = 0.06
"""Minimum range of a trend as a share of the value, so that noise looks flat."""
FALLING, RISING = "▾", "▴"
LONGEST_TITLE = 12
SMALL = 0.001
"""Value below which numbers are written in scientific notation."""


@dataclass(frozen=True)
class NumberShape:
    """The number format of a column."""

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
    """The metrics that have columns, and their number formats."""

    main: str | None = None
    second: str | None = None
    main_number: NumberShape = NumberShape()
    second_number: NumberShape = NumberShape(1)
    main_unit: str = ""
    second_unit: str = ""
    direction: Direction | None = None
    """Whether high or low values of the main metric are better."""

    @property
    def main_title(self) -> str:
        return _title(self.main, self.main_unit) if self.main is not None else NO_NAME

    @property
    def second_title(self) -> str:
        return _title(self.second, self.second_unit) if self.second is not None else ""


NO_RESULT_SHAPE = ResultShape()


def best_result(snapshot: Snapshot) -> str:
    """Return the best value of the main metric, or an empty text if there is none."""
    results = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    metric = snapshot.metric
    metric_result = results.get(metric.name, metric.direction) if results is not None and metric is not None else None
    return NumberShape.of(metric_result.best).text(metric_result.best) if metric_result is not None else ""


def result_shape(snapshot: Snapshot, some_results: JobResults | None, before: ResultShape) -> ResultShape:
    """Choose metrics and formats from the results of the best job. If there is none, use `some_results`."""
    metric = snapshot.metric
    if metric is None:
        return ResultShape()
    best = snapshot.results.get(snapshot.best) if snapshot.best is not None else None
    results = best or some_results
    main = results.get(metric.name, metric.direction) if results is not None else None
    if results is None or main is None:
        return ResultShape(metric.name, direction=metric.direction)
    keeps = before.main == metric.name and before.second is not None
    second = before.second if keeps else second_metric(results, metric.name, metric.direction)
    number, unit = before.second_number, before.second_unit
    if second is not None and (result := results.get(second)) is not None:
        number, unit = NumberShape.of(result.last), result.unit
        if not number.scientific:
            number = NumberShape(3 if abs(result.last) < 2 else 1)
    return ResultShape(metric.name, second, NumberShape.of(main.best), number, main.unit, unit, metric.direction)


def second_metric(results: JobResults, main: str, direction: Direction) -> str | None:
    """Return the best metric for a second column, preferably of the other direction and measured on the same data."""
    phase = set(name_words(main)) & {"val", "valid", "validation", "eval", "test", "dev"}

    def rank(metric: MetricResult) -> tuple[bool, bool]:
        return direction_of(metric.name) is direction, bool(phase) and not phase & set(name_words(metric.name))

    others = [metric for metric in results.metrics if metric.name != main]
    known = [metric for metric in others if direction_of(metric.name) is not Direction.UNKNOWN]
    return min(known, key=rank).name if known else None


def _title(name: str, unit: str) -> str:
    """Return a short title with the unit, such as `accuracy %` for `eval/cls/accuracy`."""
    name = plain(name)
    name = name if len(name) <= LONGEST_TITLE else name.replace("/", ".").rpartition(".")[2][-LONGEST_TITLE:]
    return f"{name} {plain(unit)}".rstrip()


def trend_line(trend: Sequence[float], cells: int = TREND) -> str:
    """Draw the latest values as a sparkline."""
    values = [value for value in trend if math.isfinite(value)][-cells:]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = max(high - low, FINEST * max(abs(low), abs(high)))
    if scale <= 0:
        return STEPS[0] * len(values)
    return "".join(STEPS[min(len(STEPS) - 1, int((value - low) / scale * len(STEPS)))] for value in values)


def trend_glyph(trend: Sequence[float]) -> str:
    """Return a sign for a value that is still falling or rising, or an empty text if it is neither."""
    values = [value for value in trend if math.isfinite(value)]
    if len(values) < 3:
        return ""
    recent, size = values[-1] - values[len(values) // 2], max(map(abs, values))
    if abs(recent) < FINEST / 3 * size:
        return ""
    return RISING if recent > 0 else FALLING


# Rows


@dataclass
class RowContext:
    """The facts that rows show besides the jobs themselves."""

    parameters: Parameters
    reasons: Mapping[JobId, Reason] = field(default_factory=dict)
    pids: Mapping[JobId, int] = field(default_factory=dict)
    """The pids of running commands if there is a column for them."""
    now: float = 0.0
    results: Mapping[JobId, JobResults] = field(default_factory=lambda: NO_RESULTS)
    paces: Mapping[str, float] = field(default_factory=lambda: NO_PACES)
    """The usual number of seconds between two outputs, by group."""
    shape: ResultShape = NO_RESULT_SHAPE
    best: JobId | None = None
    behind: Collection[JobId] = ()
    """Running jobs that are clearly behind their siblings."""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove the reasons of changed jobs because they are outdated. For example, a running job does not wait."""
        outdated = self.reasons.keys() & jobs
        if outdated:
            self.reasons = {job: reason for job, reason in self.reasons.items() if job not in outdated}


class RowFacts:
    """A job as its row shows it. The object is created anew for each painting."""

    __slots__ = ("_parameters", "context", "job", "results")

    def __init__(self, job: Job, context: RowContext) -> None:
        self.job, self.context = job, context
        self.results = context.results.get(job.id)
        self._parameters: dict[str, str] | None = None

    @property
    def bad(self) -> bool:
        state = self.job.state
        return isinstance(state, Ended) and state.name not in (StateName.SUCCEEDED, StateName.KILLED)

    @property
    def best(self) -> bool:
        return self.job.id == self.context.best

    @property
    def behind(self) -> bool:
        return self.job.id in self.context.behind

    def parameter(self, name: str) -> str:
        if self._parameters is None:
            self._parameters = parameters_of(self.job.spec)
        return plain(self._parameters.get(name, ""))

    @property
    def main(self) -> MetricResult | None:
        results, shape = self.results, self.context.shape
        return results.get(shape.main, shape.direction) if results is not None and shape.main is not None else None

    @property
    def second(self) -> float | None:
        """The value of the second metric at the checkpoint that is best for the main metric."""
        results, main, second = self.results, self.main, self.context.shape.second
        if results is None or main is None or second is None:
            return None
        return results.at_best(second, main)

    @property
    def progress(self) -> float | None:
        return progress_of(self.job, self.results)

    @property
    def ends(self) -> tuple[float, bool] | None:
        """The time at which the job ended or is expected to end, and whether that time is an estimate."""
        job = self.job
        if isinstance(job.state, Ended):
            return (job.attempts[-1].ended, False) if job.attempts else None
        if job.active is None or isinstance(job.state, Suspended | Stopping):
            return None
        pace = self.context.paces.get(job.spec.group)
        if silent_since(job, self.results, pace, self.context.now) is not None:
            return None
        eta = job_eta(job, self.results, self.context.now, pace)
        return (eta, True) if eta is not None else None

    @property
    def waits(self) -> bool:
        """Whether the job is waiting in our queue or in the queue of a cluster."""
        return isinstance(self.job.state, Waiting) or self.job.submitted

    @property
    def message(self) -> str:
        """The text shown instead of progress and results: the error, or why the job is waiting."""
        note = note_of(self.job, self.context.now)
        if note or not self.waits:
            return note
        reason = self.context.reasons.get(self.job.id)
        return reason.text if reason is not None and not reason.routine else ""

    @property
    def brief_message(self) -> str:
        """The message for a row that has no room for the full text."""
        reason = self.context.reasons.get(self.job.id)
        return reason.brief if reason is not None and reason.brief and reason.text == self.message else self.message

    @property
    def remark(self) -> str:
        """A note about what is unusual about a running job. It is shown in addition to the results."""
        reason = self.context.reasons.get(self.job.id)
        return reason.text if reason is not None and isinstance(self.job.state, Active) and not self.waits else ""
