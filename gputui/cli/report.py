"""The page of gputui report: its contents, style and script in one HTML file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from msgspec import to_builtins

from gputui.core.amounts import gpu_time
from gputui.core.job import FAILURES, Job
from gputui.core.lanes import NO_GPU
from gputui.gpus.history import DeviceHistories, LoadOwner, between, read_history
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import Curves, Follow, ListedJob, Listing
from gputui.session.result_requests import SummaryQuestion
from gputui.session.session_dir import Paths, session_name
from gputui.views.format import result_text
from gputui.views.results_table import scale_of
from gputui.views.summary import Summary, ended_at, headline, ran_on, told_job

# ---- What the page holds, as plain data ----


MOST_ROWS = 5000
MOST_CURVES = 40
MOST_BARS = 5000
LOAD_COLUMNS = 240
AT_ONCE = 2000


def contents(client: Client, page: str, metric: str = "") -> dict[str, Any]:
    """`page`: where it will stand, for the links to logs."""
    summary = client.ask(SummaryQuestion(metric))
    jobs = client.ask(Listing()).jobs
    now, histories = time.time(), read_history(Paths(client.root).history)
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
        "rows": _rows(summary, jobs, page, histories.labels),
        "left_out": max(0, len(jobs) - MOST_ROWS),
        "effects": _clean(to_builtins(summary.effects)),
        "scale": scale_of(summary.effects),
        "noise": summary.noise,
        "failures": _failures(summary),
        "curves": _curves(client, summary),
        "bars": _bars(client, [job.id for job in jobs], histories.labels),
        "load": _load(histories, summary),
        "devices": [
            {"label": _label(device.device, histories.labels), "jobs": device.jobs, "share": device.share}
            for device in summary.devices
        ],
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
        "wall": summary.wall, "busy": summary.busy, "began": summary.began,
        "gpu_time": gpu_time(summary.gpu_seconds) if summary.gpu_seconds else "",
        "ran_on": summary.device_words(len(summary.devices)),
    }  # fmt: skip


def _metric(summary: Summary) -> dict[str, str] | None:
    metric = summary.table.metric
    return {"name": plain(metric.name), "direction": metric.direction} if metric is not None else None


def _rows(summary: Summary, jobs: list[ListedJob], page: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
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
                "gpus": ",".join(_label(gpu, labels).removeprefix("GPU ") for gpu in job.gpus if gpu != NO_GPU),
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


def _bars(client: Client, ids: list[int], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Attempts on their lanes."""
    bars: list[dict[str, Any]] = []
    for start in range(0, len(ids), AT_ONCE):
        for job in client.ask(Follow(ids[start : start + AT_ONCE])).jobs:
            bars += _attempts(job, labels)
    bars.sort(key=lambda bar: float(bar["from"]), reverse=True)
    return bars[:MOST_BARS]


def _attempts(job: Job, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    bars = [
        {"job": job.id, "lane": _label(place, labels), "from": past.started, "to": past.ended,
         "bad": past.end.name in FAILURES, "mean": past.usage.gpu_mean if past.usage is not None else None}
        for past in job.attempts
        for place in ran_on(past) or ("CPU",)
    ]  # fmt: skip
    if job.active is not None:
        since = job.active.since
        bars += [
            {"job": job.id, "lane": _label(place, labels), "from": since, "to": None, "bad": False, "mean": None}
            for place in ran_on(job.active) or ("CPU",)
        ]
    return bars


def _label(device: str, labels: Mapping[str, str]) -> str:
    """`GPU 0`, also of a card that was given by its UUID; lanes without a GPU have names of their own."""
    return f"GPU {device}" if device.isdecimal() else plain(labels.get(device, device))


def _load(histories: DeviceHistories, summary: Summary) -> dict[str, Any]:
    """Utilisation of every device over the session's time, as far as anybody looked, and whose it was."""
    if summary.began is None:
        return {}
    seconds = max(1.0, (summary.until - summary.began) / LOAD_COLUMNS)
    labels = {key: label for key, label in histories.labels.items() if key in histories.tracks}
    tracks = []
    for key, label in sorted(labels.items(), key=lambda entry: (len(entry[1]), entry[1])):
        track = between(histories, key, summary.began, seconds, LOAD_COLUMNS)
        others = [column.owner is LoadOwner.OTHERS for column in track]
        tracks.append({"label": plain(label), "load": [column.load for column in track], "others": others})
    return {"from": summary.began, "to": summary.until, "tracks": tracks}


def _clean(value: Any) -> Any:
    """Every text in it has passed the gate."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return {key: _clean(entry) for key, entry in value.items()} if isinstance(value, dict) else value


# ---- The page itself ----


HERE = os.path.dirname(os.path.abspath(__file__))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself lets it load nothing."""
MOST_STATIC = 500
"""Rows for whoever runs no scripts."""


def written_page(data: dict[str, Any]) -> str:
    title = escape(f"gputui · {data['session']}")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{title}</title>",
            f"<style>{_file('report.css')}</style></head>",
            f"<body><main id=page><noscript>{_without_script(data)}</noscript></main>",
            f'<script type="application/json" id="data">{_embedded(data)}</script>',
            f"<script>{_file('report.js')}</script></body></html>",
            "",
        ]
    )


def _without_script(data: dict[str, Any]) -> str:
    """The facts and the results, for whoever runs no scripts."""
    metric = data["metric"]["name"] if data["metric"] is not None else "result"
    head = ["id", "state", *(parameter["title"] for parameter in data["params"]), metric, "at", "name"]
    rows = [_cells(row, data["decimals"]) for row in data["rows"][:MOST_STATIC]]
    more = max(0, len(data["rows"]) - MOST_STATIC) + data["left_out"]
    return "\n".join(
        [
            f"<h1>{escape(data['session'])}</h1><p>{escape(data['headline'])}</p>",
            f"<table>{_table_row('th', head)}",
            *(_table_row("td", row) for row in rows),
            f"</table>{f'<p>and {more:,} more jobs</p>' if more else ''}",
            "<p>With JavaScript this page has curves, a timeline and a table to sort and filter.</p>",
        ]
    )


def _cells(row: dict[str, Any], decimals: int) -> list[str]:
    best = row["not_finite"] if row["best"] is None else result_text(row["best"], decimals)
    step = "" if row["step"] is None else f"{row['step']:g}"
    return [str(row["id"]), row["state"], *row["params"], best, step, row["name"]]


def _table_row(kind: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _embedded(data: dict[str, Any]) -> str:
    """No `</script>` and no `<!--` can stand in it; what is no number in JSON is null already."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()
