"""Results in the shapes that `--json` promises: stable, additions only. What is no number in JSON is null."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

from gputui.core.job import Job
from gputui.core.results import Curve, JobResults, MainMetric, MetricResult
from gputui.core.snapshot import Snapshot
from gputui.core.views.eta import job_eta

__all__ = ["attempt_results_json", "curves_json", "metric_json", "results_json"]


def metric_json(metric: MainMetric | None) -> dict[str, Any] | None:
    """What jobs are compared by."""
    if metric is None:
        return None
    return {"name": metric.name, "direction": metric.direction, "chosen": metric.is_chosen}


def results_json(snapshot: Snapshot, job: Job) -> dict[str, Any]:
    """What a job's newest attempt that printed anything has come to; nothing where none has."""
    results = snapshot.results.get(job.id)
    if results is None:
        return {}
    eta = job_eta(job, results)
    return {"progress": results.progress, "note": results.note, "eta": eta, **attempt_results_json(results)}


def attempt_results_json(results: JobResults | None) -> dict[str, Any]:
    if results is None:
        return {"results": {}}
    return {"results": {metric.name: _metric(metric) for metric in results.metrics}}


def _metric(metric: MetricResult) -> dict[str, Any]:
    return {
        "last": _number(metric.last),
        "best": _number(metric.best),
        "best_step": metric.best_step,
        "low": metric.low,
        "high": metric.high,
        "count": metric.count,
    }


def curves_json(curves: Iterable[Curve], metric: str | None) -> dict[str, list[list[float | None]]]:
    """Of each metric, or of this one: step, time and value of its points."""
    return {
        curve.name: [[point.step, point.at, _number(point.value)] for point in curve.points]
        for curve in curves
        if metric is None or curve.name == metric
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
