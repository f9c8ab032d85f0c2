"""What a client may ask of a session's results: the table, and the summary, made from a snapshot in any thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gputui.core.events import Refusal
from gputui.core.metric_names import direction_of
from gputui.core.results import MainMetric
from gputui.core.results.wanted import wanted_of
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.spans import RecordedSpan
from gputui.core.views.results_table import results_table
from gputui.core.views.summary import Summary, summarize

__all__ = ["asked_metric", "told_results", "told_summary"]


def asked_metric(snapshot: Snapshot, written: str) -> MainMetric | None:
    """None: the session's own. Refusal: nobody printed it, with the names that were."""
    if not written:
        return None
    try:
        wanted = wanted_of(written)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if wanted.name is None:
        raise Refusal(f'{written!r} names no result; an expression belongs to a job: metric = "…"')
    metric_names = {metric.name for results in snapshot.results.values() for metric in results.metrics}
    if wanted.name not in metric_names:
        names = ", ".join(sorted(metric_names)[:20]) or "nothing"
        raise Refusal(f"no job has printed {wanted.name}; what was read: {names}")
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)


def told_results(snapshot: Snapshot, metric: str, top: int | None) -> Any:
    table = results_table(snapshot, asked_metric(snapshot, metric))
    return replace(table, rows=table.rows[:top] if top is not None else table.rows)


def told_summary(snapshot: Snapshot, metric: str, left: float | None, spans: Sequence[RecordedSpan]) -> Summary:
    return summarize(snapshot, time.time(), spans, left, asked_metric(snapshot, metric))
