"""What the page holds, as plain data: the summary, the table, curves, attempts on their lanes, load, links to logs."""

from __future__ import annotations

import os
import time
from typing import Any
from urllib.parse import quote

from msgspec import to_builtins

from gputui.core.job import Job
from gputui.core.states import FAILURES
from gputui.core.views.amounts import gpu_time
from gputui.core.views.summary import Summary
from gputui.core.views.summary_text import ended_at, headline, told_job
from gputui.gpus.history.columns import between
from gputui.gpus.history.file import read_history
from gputui.logs.plain import plain
from gputui.session.control.client import Client
from gputui.session.files.paths import Paths, session_name
from gputui.session.messages.replies import ListedJob
from gputui.session.messages.result_requests import SummaryQuestion
from gputui.session.messages.socket_requests import Curves, Follow, Listing

__all__ = ["contents"]

MOST_ROWS = 5000
MOST_CURVES = 40
MOST_BARS = 5000
LOAD_COLUMNS = 240
AT_ONCE = 2000


def contents(client: Client, page: str, metric: str = "") -> dict[str, Any]:
    """`page`: where it will stand, for the links to logs."""
    summary = client.ask(SummaryQuestion(metric))
    jobs = client.ask(Listing()).jobs
    now = time.time()
    return {
        "session": plain(session_name(client.root)),
        "path": plain(client.root),
        "host": plain(os.uname().nodename),
        "made": now,
        "headline": plain(headline(summary)),
        "when": ended_at(summary, now),
        "facts": _facts(summary),
        "metric": _metric(summary),
        "params": [{"name": plain(column.name), "title": plain(column.title)} for column in summary.table.columns],
        "others": [plain(name) for name in summary.table.others],
        "decimals": summary.table.decimals,
        "rows": _rows(summary, jobs, page),
        "left_out": max(0, len(jobs) - MOST_ROWS),
        "effects": _clean(to_builtins(summary.effects)),
        "noise": summary.noise,
        "failures": _failures(summary),
        "curves": _curves(client, summary),
        "bars": _bars(client, [job.id for job in jobs]),
        "load": _load(client, summary, now),
        "devices": _clean(to_builtins(summary.devices)),
    }


def _facts(summary: Summary) -> dict[str, Any]:
    names = (
        "succeeded",
        "failed",
        "killed",
        "skipped",
        "running",
        "waiting",
        "total",
        "gpu_seconds",
        "median",
        "paused",
    )
    return {name: getattr(summary, name) for name in names} | {
        "wall": summary.wall, "busy": summary.busy, "began": summary.began, "gpu_time": gpu_time(summary.gpu_seconds),
    }  # fmt: skip


def _metric(summary: Summary) -> dict[str, str] | None:
    metric = summary.table.metric
    return {"name": plain(metric.name), "direction": metric.direction} if metric is not None else None


def _rows(summary: Summary, jobs: list[ListedJob], page: str) -> list[dict[str, Any]]:
    """All jobs; those with a result first, best first."""
    results = {row.job: row for row in summary.table.rows}
    places = {row.job: place for place, row in enumerate(summary.table.rows)}
    ordered = sorted(jobs, key=lambda job: (places.get(job.id, len(places)), job.id))
    names = [column.name for column in summary.table.columns]
    rows = []
    for job in ordered[:MOST_ROWS]:
        row = results.get(job.id)
        ended = job.ended if job.ended is not None else None
        rows.append(
            {
                "id": job.id,
                "name": plain(job.name),
                "command": plain(job.command),
                "state": job.state,
                "ok": row.counts if row is not None else job.state not in FAILURES,
                "params": [plain(job.params.get(name, "")) for name in names],
                "best": row.best if row is not None else None,
                "not_finite": row.not_finite if row is not None else "",
                "last": row.last if row is not None else None,
                "step": row.step if row is not None else None,
                "beside": [row.beside.get(name) if row is not None else None for name in summary.table.others],
                "seconds": ended - job.started if ended is not None and job.started is not None else None,
                "gpus": plain(",".join(job.gpus)),
                "end": plain(job.end or ""),
                "note": plain(job.note),
                "out": _link(job.out, page),
                "err": _link(job.err, page),
            }
        )
    return rows


def _link(log: str | None, page: str) -> str | None:
    """Relative, so that the folder can be moved with its page."""
    if log is None or not os.path.exists(log):
        return None
    return quote(os.path.relpath(log, os.path.dirname(os.path.abspath(page))))


def _failures(summary: Summary) -> list[dict[str, Any]]:
    return [
        {
            "count": group.count,
            "message": plain(group.message),
            "kind": group.kind,
            "jobs": list(group.jobs[:200]),
            "common": plain(group.common.told),
            "where": plain(group.common.where),
            "first": group.first,
            "last": group.last,
        }
        for group in summary.failures
    ]


def _curves(client: Client, summary: Summary) -> list[dict[str, Any]]:
    """Of the best jobs, all metrics."""
    rows = [row for row in summary.table.rows if row.counts][:MOST_CURVES]
    if not rows:
        return []
    curves = client.ask(Curves([row.job for row in rows]))
    return [
        {
            "id": row.job,
            "label": plain(told_job(row, summary.table)),
            "series": {
                plain(name): [[point.step, point.at, point.value] for point in points]
                for name, points in curves.get(row.job, {}).items()
            },
        }
        for row in rows
    ]


def _bars(client: Client, ids: list[int]) -> list[dict[str, Any]]:
    """Attempts on their lanes."""
    bars: list[dict[str, Any]] = []
    for start in range(0, len(ids), AT_ONCE):
        for job in client.ask(Follow(ids[start : start + AT_ONCE])).jobs:
            bars += _attempts(job)
    bars.sort(key=lambda bar: float(bar["from"]), reverse=True)
    return bars[:MOST_BARS]


def _attempts(job: Job) -> list[dict[str, Any]]:
    bars = [
        {"job": job.id, "lane": plain(gpu), "from": past.started, "to": past.ended, "bad": past.end.name in FAILURES,
         "mean": past.usage.gpu_mean if past.usage is not None else None}
        for past in job.attempts
        for gpu in past.gpus or ("CPU",)
    ]  # fmt: skip
    if job.active is not None:
        placed = job.active
        bars += [{"job": job.id, "lane": plain(gpu), "from": placed.since, "to": None, "bad": False, "mean": None}
                 for gpu in placed.gpus or ("CPU",)]  # fmt: skip
    return bars


def _load(client: Client, summary: Summary, now: float) -> dict[str, Any]:
    """Utilisation of every device over the session's time, as far as anybody looked."""
    if summary.began is None:
        return {}
    histories = read_history(Paths(client.root).history)
    until = summary.ended or now
    seconds = max(1.0, (until - summary.began) / LOAD_COLUMNS)
    loads = {key: between(histories, key, summary.began, seconds, LOAD_COLUMNS) for key in histories.tracks}
    return {
        "from": summary.began,
        "to": until,
        "tracks": {plain(key): [column.load for column in track] for key, track in loads.items()},
    }


def _clean(value: Any) -> Any:
    """Every text in it has passed the gate."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return {key: _clean(entry) for key, entry in value.items()} if isinstance(value, dict) else value
