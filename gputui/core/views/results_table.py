"""The results of all jobs as a table, best first, with the parameters in which they differ. Pure; for every view."""

from __future__ import annotations

from collections import Counter
from math import isfinite

from msgspec import Struct

from gputui.core.job import Job, JobId, StateName
from gputui.core.results import Direction, JobResults, MainMetric
from gputui.core.snapshot import Snapshot
from gputui.core.states import BAD_ENDS

from .in_common import learnt_parameters
from .parameter_columns import ParameterColumn, Parameters
from .result_values import decimals_of

__all__ = ["ResultsRow", "ResultsTable", "results_table", "seconds_of"]


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
    others = tuple(name for name, _ in names.most_common() if metric is None or name != metric.name)
    rows = [_row(job, results, metric, columns, parameters) for job, results in jobs]
    rows = [row for row in rows if _has_main(row) or metric is None or metric.name not in names]
    rows.sort(key=lambda row: _order(row, metric))
    values = [row.best for row in rows if row.best is not None]
    return ResultsTable(metric, columns, others, tuple(rows), decimals_of(values), parameters.common())


def _has_main(row: ResultsRow) -> bool:
    return row.best is not None or bool(row.not_finite)


def _row(
    job: Job,
    results: JobResults,
    metric: MainMetric | None,
    columns: tuple[ParameterColumn, ...],
    parameters: Parameters,
) -> ResultsRow:
    main = results.get(metric.name) if metric is not None else None
    values = ((column.name, parameters.value(job, column.name)) for column in columns)
    beside = {
        result.name: _finite(results.at_best(result.name, main.name) if main is not None else result.last)
        for result in results.metrics
        if result is not main
    }
    best = main.best_by(metric.direction) if main is not None and metric is not None else None
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
