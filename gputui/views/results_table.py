"""The results of all jobs as a table, and the effect of each parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import floor, isclose, isfinite, log10

from msgspec import Struct

from gputui.core.job import BAD_ENDS, Job, JobId, StateName
from gputui.core.results import Direction, JobResults, MainMetric, name_words
from gputui.core.snapshot import Snapshot

from .consumption import Consumption, consumption, use_of
from .failures import learn_parameters
from .format import decimals_of
from .parameters import ParameterColumn, Parameters, number_of, sort_key


class ResultFacts(Struct, frozen=True, kw_only=True):
    """The results of one job as `results --json` prints them. A value is None if the job printed no finite number."""

    name: str
    label: str
    """The parameters in which the job differs from others, as text."""
    state: StateName
    attempt: int
    params: dict[str, str]
    """Values of the parameters in which jobs differ, by the parameter's full name."""
    best: float | None
    step: float | None
    """The step at which the best value was printed, or None."""
    last: float | None
    beside: dict[str, float | None]
    """Values of the other metrics at the same checkpoint."""
    seconds: float | None = None
    gpus: tuple[str, ...] = ()
    used: Consumption = Consumption()
    """What the ended attempts of the job used."""
    not_finite: str = ""
    """`nan` or `inf` if the job printed no finite value of its main metric, else empty."""


class ResultsRow(ResultFacts, frozen=True, kw_only=True):
    job: JobId
    trend: tuple[float, ...] = ()
    counts: bool = True
    """Whether the job may be the best one. Failed jobs may not."""


class ResultsTable(Struct, frozen=True):
    metric: MainMetric | None
    columns: tuple[ParameterColumn, ...]
    others: tuple[str, ...]
    """The other metrics, most frequent first."""
    rows: tuple[ResultsRow, ...]
    """Rows from best to worst. Failed jobs follow the others, and jobs without a finite value come last."""
    decimals: int
    """Number of decimals of the main metric."""
    common: str = ""
    """The common part of all commands."""


def results_table(
    snapshot: Snapshot, metric: MainMetric | None = None, parameters: Parameters | None = None
) -> ResultsTable:
    """Return the table for a metric, or for the session's main metric if none is given."""
    metric, parameters = metric or snapshot.metric, parameters or learn_parameters(snapshot)
    columns = parameters.columns()
    jobs = [(job, results) for job in snapshot if (results := snapshot.results.get(job.id)) is not None]
    jobs = [(job, results) for job, results in jobs if results.metrics]
    names = Counter(result.name for _, results in jobs for result in results.metrics)
    echoes = _printed_back(jobs, columns, parameters)
    others = tuple(
        name for name, _ in names.most_common() if (metric is None or name != metric.name) and name not in echoes
    )
    rows = [_row(job, results, metric, columns, others, parameters) for job, results in jobs]
    if metric is not None and metric.name in names:
        rows = [row for row in rows if row.best is not None or row.not_finite]
    rows.sort(key=lambda row: _order(row, metric))
    values = [row.best for row in rows if row.best is not None]
    return ResultsTable(metric, columns, others, tuple(rows), decimals_of(values), parameters.common())


def _printed_back(
    jobs: Iterable[tuple[Job, JobResults]], columns: Iterable[ParameterColumn], parameters: Parameters
) -> set[str]:
    """Return the metrics that only repeat a parameter, for example a learning rate that the job prints."""
    by_words = {
        words: column.name for column in columns for words in (name_words(column.name), name_words(column.title))
    }
    same: dict[str, bool] = {}
    for job, results in jobs:
        for result in results.metrics:
            column = by_words.get(name_words(result.name))
            if column is not None and same.get(result.name, True):
                given = number_of(parameters.value(job, column) or "")
                printed = (value for value in (result.low, result.high, result.last) if value is not None)
                same[result.name] = given is not None and any(isclose(given, value, rel_tol=1e-3) for value in printed)
    return {name for name, is_same in same.items() if is_same}


def _row(
    job: Job,
    results: JobResults,
    metric: MainMetric | None,
    columns: tuple[ParameterColumn, ...],
    others: Collection[str],
    parameters: Parameters,
) -> ResultsRow:
    main = results.get(metric.name, metric.direction) if metric is not None else None
    values = ((column.name, parameters.value(job, column.name)) for column in columns)
    beside = {
        result.name: _finite(results.at_best(result.name, main) if main is not None else result.last)
        for result in results.metrics
        if result.name in others
    }
    best = main.best if main is not None else None
    return ResultsRow(
        job=job.id,
        name=job.name,
        label=parameters.of(job),
        state=job.state.name,
        attempt=results.attempt,
        params={name: value for name, value in values if value is not None},
        best=_finite(best),
        step=main.best_step if main is not None else None,
        last=_finite(main.last) if main is not None else None,
        beside=beside,
        trend=main.trend if main is not None else (),
        seconds=seconds_of(job),
        gpus=job.active.gpus if job.active is not None else job.attempts[-1].gpus if job.attempts else (),
        used=consumption(map(use_of, job.attempts)),
        counts=job.state.name not in BAD_ENDS,
        not_finite=str(best) if best is not None and not isfinite(best) else "",
    )


def _order(row: ResultsRow, metric: MainMetric | None) -> tuple[bool, bool, float, JobId]:
    if row.best is None or metric is None or metric.direction is Direction.UNKNOWN:
        return row.best is None, not row.counts, 0.0, row.job
    return False, not row.counts, row.best if metric.direction is Direction.DOWN else -row.best, row.job


def seconds_of(job: Job) -> float | None:
    """Return the duration, in seconds, of the last attempt of a job, or None if the job is active or never ran."""
    return job.attempts[-1].seconds if job.attempts and job.active is None else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


# Effects of parameters


MOST_VALUES = 8
SEEDS = ("seed", "random_seed", "rng_seed", "seed_everything", "random_state")


class ValueEffect(Struct, frozen=True):
    value: str
    count: int
    best: float
    median: float
    low: float
    lower: float
    """The lower quartile of the results. `upper` is the upper quartile."""
    upper: float
    high: float
    has_best: bool
    """Whether the best job has this value."""


class ParameterEffect(Struct, frozen=True):
    name: str
    title: str
    values: tuple[ValueEffect, ...]
    """The effects of the values. Numbers are sorted by size, largest first. Other values are sorted by median."""
    more: int = 0
    """Number of values that are not listed."""


def effects(table: ResultsTable) -> tuple[ParameterEffect, ...]:
    """Return the effects of the parameters in which succeeded jobs differ, largest effect first, seeds last."""
    rows = compared(table)
    if table.metric is None or table.metric.direction is Direction.UNKNOWN or not rows:
        return ()
    is_down = table.metric.direction is Direction.DOWN
    candidates = [_effect(column.name, column.title, column.is_number, rows, is_down) for column in table.columns]
    shown = [effect for effect in candidates if effect is not None and len(effect.values) > 1]

    def order(effect: ParameterEffect) -> tuple[bool, float]:
        medians = [value.median for value in effect.values]
        return is_seed(effect.name), min(medians) - max(medians)

    return tuple(sorted(shown, key=order))


def _effect(
    name: str, title: str, is_number: bool, rows: Sequence[ResultsRow], is_down: bool
) -> ParameterEffect | None:
    by_value: dict[str, list[float]] = {}
    for row in rows:
        if (value := row.params.get(name)) is not None and row.best is not None:
            by_value.setdefault(value, []).append(row.best)
    if len(by_value) > max(MOST_VALUES, len(rows) // 2):
        return None  # nearly every job has a different value
    values = [_value(value, results, rows[0].params.get(name), is_down) for value, results in by_value.items()]
    if is_number:
        values.sort(key=lambda effect: sort_key(effect.value), reverse=True)
    else:
        values.sort(key=lambda effect: effect.median, reverse=not is_down)
    return ParameterEffect(name, title, tuple(values[:MOST_VALUES]), max(0, len(values) - MOST_VALUES))


def _value(value: str, results: list[float], winner: str | None, is_down: bool) -> ValueEffect:
    ordered = sorted(results)
    best = ordered[0] if is_down else ordered[-1]
    median, low, lower, upper, high = (quantile(ordered, part) for part in (0.5, 0.0, 0.25, 0.75, 1.0))
    return ValueEffect(value, len(results), best, median, low, lower, upper, high, value == winner)


def quantile(ordered: Sequence[float], part: float) -> float:
    place = (len(ordered) - 1) * part
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def noise_of_seeds(table: ResultsTable) -> float | None:
    """Return the median spread of the results of jobs that differ only in their seed, or None if there are none."""
    groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for row in compared(table):
        if any(is_seed(name) for name in row.params) and row.best is not None:
            rest = tuple(sorted((name, value) for name, value in row.params.items() if not is_seed(name)))
            groups.setdefault(rest, []).append(row.best)
    apart = sorted(max(results) - min(results) for results in groups.values() if len(results) > 1)
    return quantile(apart, 0.5) if apart else None


def is_seed(name: str) -> bool:
    return name.rpartition(".")[2].replace("-", "_").lower() in SEEDS


def scale_of(shown: Iterable[ParameterEffect]) -> tuple[float, float]:
    """Return the rounded ends of a scale that fits all ranges. A few very bad values may be cut off."""
    values = [value for effect in shown for value in effect.values]
    low = min((value.low for value in values), default=0.0)
    high = max((value.high for value in values), default=1.0)
    uppers = sorted(value.upper for value in values)
    if uppers and high - low > 8 * (quantile(uppers, 0.75) - low) > 0:
        high = low + 4 * (quantile(uppers, 0.75) - low)
    if high <= low:
        return low - 0.5, high + 0.5
    size = (high - low) / 4
    power = 10.0 ** floor(log10(size))
    unit = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= size)
    return unit * (low // unit), unit * -(-high // unit)


def compared(table: ResultsTable) -> list[ResultsRow]:
    """Return the succeeded jobs with a result. The results of other jobs say little about their parameters."""
    return [row for row in table.rows if row.state is StateName.SUCCEEDED and row.best is not None]
