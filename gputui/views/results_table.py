"""The results of all jobs as a table, and what each parameter did to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import floor, isclose, isfinite, log10

from msgspec import Struct

from gputui.core.job import BAD_ENDS, Job, JobId, StateName
from gputui.core.parameter_columns import ParameterColumn, Parameters, number_of, sort_key
from gputui.core.results import Direction, JobResults, MainMetric, words_of
from gputui.core.snapshot import Snapshot

from .failures import learnt_parameters
from .format import decimals_of

# ---- The results of all jobs as a table, best first, with the parameters in which they differ ----


class ResultsRow(Struct, frozen=True):
    """One job; None: it printed no such thing, or nothing finite."""

    job: JobId
    name: str
    state: StateName
    attempt: int
    params: dict[str, str]
    """Those in which jobs differ, by their full names."""
    best: float | None
    step: float | None
    """Where it was best."""
    last: float | None
    beside: dict[str, float | None]
    """The other metrics, at the same checkpoint."""
    trend: tuple[float, ...] = ()
    seconds: float | None = None
    gpus: tuple[str, ...] = ()
    counts: bool = True
    """It may be the best: it has not failed."""
    not_finite: str = ""
    """`nan` or `inf`, where it printed nothing else as its main metric."""


class ResultsTable(Struct, frozen=True):
    metric: MainMetric | None
    columns: tuple[ParameterColumn, ...]
    others: tuple[str, ...]
    """Names of the other metrics, those first that most jobs printed."""
    rows: tuple[ResultsRow, ...]
    """Best first; those that failed after the others, those without a finite value last."""
    decimals: int
    """Of the main metric, for `result_text`."""
    common: str = ""
    """What the commands share."""


def results_table(
    snapshot: Snapshot, metric: MainMetric | None = None, parameters: Parameters | None = None
) -> ResultsTable:
    """By this metric; None: by the session's."""
    metric, parameters = metric or snapshot.metric, parameters or learnt_parameters(snapshot)
    columns = parameters.columns()
    jobs = [(job, results) for job in snapshot if (results := snapshot.results.get(job.id)) is not None]
    jobs = [(job, results) for job, results in jobs if results.metrics]
    names = Counter(result.name for _, results in jobs for result in results.metrics)
    echoes = _printed_back(jobs, columns, parameters)
    others = tuple(
        name for name, _ in names.most_common() if (metric is None or name != metric.name) and name not in echoes
    )
    rows = [_row(job, results, metric, columns, others, parameters) for job, results in jobs]
    rows = [row for row in rows if _has_main(row) or metric is None or metric.name not in names]
    rows.sort(key=lambda row: _order(row, metric))
    values = [row.best for row in rows if row.best is not None]
    return ResultsTable(metric, columns, others, tuple(rows), decimals_of(values), parameters.common())


def _printed_back(
    jobs: Iterable[tuple[Job, JobResults]], columns: Iterable[ParameterColumn], parameters: Parameters
) -> set[str]:
    """Results that are parameters, such as the learning rate that a job prints: they have their column already."""
    by_words = {words: column.name for column in columns for words in (words_of(column.name), words_of(column.title))}
    same: dict[str, bool] = {}
    for job, results in jobs:
        for result in results.metrics:
            column = by_words.get(words_of(result.name))
            if column is not None and same.get(result.name, True):
                given = number_of(parameters.value(job, column) or "")
                printed = (value for value in (result.low, result.high, result.last) if value is not None)
                same[result.name] = given is not None and any(isclose(given, value, rel_tol=1e-3) for value in printed)
    return {name for name, is_same in same.items() if is_same}


def _has_main(row: ResultsRow) -> bool:
    return row.best is not None or bool(row.not_finite)


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
        name=parameters.of(job),
        state=job.state.name,
        attempt=results.attempt,
        params={name: value for name, value in values if value is not None},
        best=_finite(best),
        step=main.best_step if main is not None else None,
        last=_finite(main.last) if main is not None else None,
        beside=beside,
        trend=main.trend if main is not None else (),
        seconds=seconds_of(job),
        gpus=_gpus(job),
        counts=job.state.name not in BAD_ENDS,
        not_finite=str(best) if best is not None and not isfinite(best) else "",
    )


def _order(row: ResultsRow, metric: MainMetric | None) -> tuple[bool, bool, float, JobId]:
    if row.best is None or metric is None or metric.direction is Direction.UNKNOWN:
        return row.best is None, not row.counts, 0.0, row.job
    return False, not row.counts, row.best if metric.direction is Direction.DOWN else -row.best, row.job


def seconds_of(job: Job) -> float | None:
    """How long its last attempt that is over took."""
    return job.attempts[-1].ended - job.attempts[-1].started if job.attempts and job.active is None else None


def _gpus(job: Job) -> tuple[str, ...]:
    return job.active.gpus if job.active is not None else job.attempts[-1].gpus if job.attempts else ()


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


# ---- What each parameter did to the result ----


MOST_VALUES = 8
SEEDS = ("seed", "random_seed", "rng_seed", "seed_everything", "random_state")


class ValueEffect(Struct, frozen=True):
    value: str
    count: int
    best: float
    median: float
    low: float
    lower: float
    """Quartiles."""
    upper: float
    high: float
    has_best: bool
    """The best of these jobs has this value."""


class ParameterEffect(Struct, frozen=True):
    name: str
    title: str
    values: tuple[ValueEffect, ...]
    """Numbers in their own order, largest first; words by their median."""
    more: int = 0
    """Further values, which are not shown."""


def effects(table: ResultsTable) -> tuple[ParameterEffect, ...]:
    """Of every parameter in which jobs that succeeded differ; what moves the median most comes first, seeds last."""
    rows = compared(table)
    if table.metric is None or table.metric.direction is Direction.UNKNOWN or not rows:
        return ()
    is_down = table.metric.direction is Direction.DOWN
    candidates = [_effect(column.name, column.title, column.is_number, rows, is_down) for column in table.columns]
    shown = [effect for effect in candidates if effect is not None and len(effect.values) > 1]
    return tuple(sorted(shown, key=lambda effect: (is_seed(effect.name), -_spread(effect))))


def _effect(
    name: str, title: str, is_number: bool, rows: Sequence[ResultsRow], is_down: bool
) -> ParameterEffect | None:
    by_value: dict[str, list[float]] = {}
    for row in rows:
        if (value := row.params.get(name)) is not None and row.best is not None:
            by_value.setdefault(value, []).append(row.best)
    if len(by_value) > max(MOST_VALUES, len(rows) // 2):
        return None  # nearly every job has a value of its own
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
    """The median distance between jobs that differ in nothing but their seed; None: there are no such jobs."""
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
    """Round ends of the one scale that all ranges stand on; a few hopeless values do not make the others a dot."""
    values = [value for effect in shown for value in effect.values]
    low = min((value.low for value in values), default=0.0)
    high = max((value.high for value in values), default=1.0)
    uppers = sorted(value.upper for value in values)
    if uppers and high - low > 8 * (quantile(uppers, 0.75) - low) > 0:
        high = low + 4 * (quantile(uppers, 0.75) - low)
    if high <= low:
        return low - 0.5, high + 0.5
    unit = _round_unit((high - low) / 4)
    return unit * (low // unit), unit * -(-high // unit)


def _round_unit(size: float) -> float:
    power = 10.0 ** floor(log10(size))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= size)


def compared(table: ResultsTable) -> list[ResultsRow]:
    """Jobs that came to their end: what one has reached that runs or was killed says little of its parameters."""
    return [row for row in table.rows if row.state is StateName.SUCCEEDED and row.best is not None]


def _spread(effect: ParameterEffect) -> float:
    medians = [value.median for value in effect.values]
    return max(medians) - min(medians)
