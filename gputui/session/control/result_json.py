"""Results in the shapes that are answered (`session/messages/replies.py`). What is no number in JSON is null."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

from gputui.core.job import Job
from gputui.core.results import Curve, JobResults, MainMetric, MetricResult
from gputui.core.snapshot import Snapshot
from gputui.core.views.eta import job_eta
from gputui.session.messages.replies import CurvePoint, MainMetricShown, MetricShown

__all__ = ["attempt_results", "job_results", "main_metric", "points_of"]


def main_metric(metric: MainMetric | None) -> MainMetricShown | None:
    """What jobs are compared by."""
    return MainMetricShown(metric.name, metric.direction, metric.is_chosen) if metric is not None else None


def job_results(snapshot: Snapshot, job: Job) -> dict[str, Any]:
    """Fields of what a job's newest attempt that printed anything has come to; none where none has."""
    results = snapshot.results.get(job.id)
    if results is None:
        return {}
    eta, metrics = job_eta(job, results), attempt_results(results)
    return {"progress": results.progress, "note": results.note, "eta": eta, "results": metrics}


def attempt_results(results: JobResults | None) -> dict[str, MetricShown]:
    return {metric.name: _metric(metric) for metric in results.metrics} if results is not None else {}


def _metric(metric: MetricResult) -> MetricShown:
    return MetricShown(
        _number(metric.last), _number(metric.best), metric.best_step, metric.low, metric.high, metric.count
    )


def points_of(curves: Iterable[Curve], metric: str | None) -> dict[str, list[CurvePoint]]:
    """Of each metric, or of this one."""
    return {
        curve.name: [CurvePoint(point.step, point.at, _number(point.value)) for point in curve.points]
        for curve in curves
        if metric is None or curve.name == metric
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
