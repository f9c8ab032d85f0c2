"""`gputui report`: write the session as a self-contained HTML page."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from math import prod
from typing import Any
from urllib.parse import quote

from msgspec import Struct, to_builtins

from gputui.cli.command import find_session
from gputui.cli.output import JSON, Exit, out, print_answer, refuse
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import HOUR, gpu_time
from gputui.core.job import FAILURES, Attempt, Job, JobId, Placed
from gputui.core.results import Direction
from gputui.core.slots import NO_GPU
from gputui.gpus.history import DeviceHistories, LoadOwner, between, read_history
from gputui.gpus.sample import short_model
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import Curves, Follow, ListedJob, Listing
from gputui.session.owner.requests import SummaryQuestion
from gputui.session.session_dir import Paths, session_name
from gputui.sources.sweep import pattern_of, with_field
from gputui.views.consumption import Consumption
from gputui.views.format import result_text
from gputui.views.heat_map import around
from gputui.views.results_table import compared, scale_of
from gputui.views.summary import Summary, ended_at, format_job, format_result, headline
from gputui.views.timeline import places_of_attempt

MOST_ROWS = 5000
MOST_CURVES = 40
MOST_BARS = 5000
MOST_STATIC = 500
"""Maximum number of rows in the table shown without JavaScript."""
LOAD_COLUMNS = 240
JOBS_PER_REQUEST = 2000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content security policy that keeps the browser from loading anything else."""


class ReportAnswer(Struct, frozen=True):
    page: str


ANSWERS = {"report": ReportAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Write a self-contained HTML page: best job, heat map, curves, sortable job table, timeline, failures, energy.",
        usage="report [-o PAGE.html] [--metric NAME]",
        examples="gputui report\ngputui report -o sweep.html --metric 'val_acc max'",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file or directory (default: SESSION.html next to the session; - for stdout)",
    )
    parser.add_metric()
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    page = options.output or f"{client.root}.html"
    if os.path.isdir(page):
        page = os.path.join(page, "report.html")
    elif page.endswith("/"):
        raise Exit(1, f"no such directory: {page}; create it or choose another -o")
    data = page_data(client, os.getcwd() + "/-" if page == "-" else page, options.metric)
    text = render_page(data)
    if page == "-":
        if JSON.on:
            refuse("use either --json or -o -")
        out(text)
        return 0
    try:
        _write(page, text)
    except OSError as error:
        raise Exit(1, f"cannot write {page}: {error.strerror}; choose another -o") from None
    return print_answer(lambda: ReportAnswer(os.path.abspath(page)), lambda _: [os.path.abspath(page)])


def _write(page: str, text: str) -> None:
    """Write the page atomically, with the permissions that a new file would get."""
    directory = os.path.dirname(os.path.abspath(page))
    descriptor, part = tempfile.mkstemp(prefix=".report-", dir=directory)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, page)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


# The data of the page


def page_data(client: Client, page: str, wanted: str = "") -> dict[str, Any]:
    """Return all data of the page.

    `page`: its path, to which the links to logs are relative.
    """
    summary = client.ask(SummaryQuestion(wanted))
    jobs = client.ask(Listing()).jobs
    now, histories, metric = time.time(), read_history(Paths(client.root).history), summary.table.metric
    return {
        "session": plain(session_name(client.root)),
        "path": plain(client.root),
        "host": plain(os.uname().nodename),
        "made": now,
        "headline": plain(headline(summary)),
        "when": ended_at(summary, now),
        "facts": _facts(summary),
        "answer": _answer(summary, jobs),
        "metric": {"name": plain(metric.name), "direction": metric.direction} if metric is not None else None,
        "params": [{"name": plain(column.name), "title": plain(column.title)} for column in summary.table.columns],
        "others": [plain(name) for name in summary.table.others],
        "decimals": summary.table.decimals,
        "rows": _rows(summary, jobs, page, histories.labels),
        "left_out": max(0, len(jobs) - MOST_ROWS),
        "effects": _clean(to_builtins(summary.effects)),
        "scale": scale_of(summary.effects),
        "maps": _maps(summary, jobs),
        "noise": summary.noise,
        "failures": _failures(summary),
        "curves": _curves(client, summary),
        "bars": _bars(client, [job.id for job in jobs], histories.labels),
        "load": _load(histories, summary),
        "names": {
            plain(label): short_model(plain(histories.models.get(key, ""))) for key, label in histories.labels.items()
        },
        "devices": [
            {"label": _label(device.device, histories.labels), "jobs": device.jobs, "busy": device.busy,
             "share": device.share}
            for device in summary.devices
        ],
        "users": [{"name": plain(user), "seconds": seconds} for user, seconds in summary.external_processes],
        "groups": [
            {"name": plain(group.group), "jobs": group.jobs, "used": _used(group.used)} for group in summary.groups
        ],
    }  # fmt: skip


def _facts(summary: Summary) -> dict[str, Any]:
    names = (
        "succeeded", "failed", "killed", "running", "waiting", "total", "paused", "wall", "busy", "began", "runs",
    )  # fmt: skip
    return {name: getattr(summary, name) for name in names} | {
        "gpu_time": gpu_time(summary.gpu_seconds) if summary.gpu_seconds else "",
        "energy": summary.used.energy_text,
        "kwh": summary.used.kwh,
        "ran_on": summary.device_words(),
    }


def _used(used: Consumption) -> str:
    return " · ".join(filter(None, (gpu_time(used.gpu_hours * HOUR), used.energy_text)))


def _answer(summary: Summary, jobs: list[ListedJob]) -> dict[str, str]:
    """Return what the session found out, in sentences, and the command of the best job."""
    table, more = summary.table, []
    if not summary.best or table.metric is None or table.metric.direction is Direction.UNKNOWN:
        return {"first": plain(headline(summary)), "more": "", "command": ""}
    best = summary.best[0]
    best_words = "Best so far" if summary.running or summary.waiting else "Best"
    first = f"{best_words}: {format_job(best, table)}, {table.metric.name} {format_result(best.best, table)}"
    if best.step is not None:
        first += f" at {best.step:g}"
    for effect in summary.effects[:1]:
        by_median = sorted(
            effect.values, key=lambda value: value.median, reverse=table.metric.direction is Direction.UP
        )
        good, bad = by_median[0], by_median[-1]
        more.append(
            f" {effect.title}={good.value} is {format_result(abs(good.median - bad.median), table)} better than"
            f" {bad.value} (medians, n = {good.count} and {bad.count})."
        )
    for group in summary.failures[:2]:
        common = f", all {group.common.parameters_text}" if group.common.parameters_text else ""
        more.append(f" {group.count} failed{common}: {group.message}.")
    command = next(job.command for job in jobs if job.id == best.job)
    return {"first": plain(f"{first}."), "more": plain("".join(more)), "command": plain(command)}


def _maps(summary: Summary, jobs: list[ListedJob]) -> list[dict[str, Any]]:
    """Return the heat maps. Each cell has the command of a finer sweep around it."""
    commands = {job.id: job.command for job in jobs}
    succeeded = compared(summary.table)
    maps: list[dict[str, Any]] = []
    for heat_map in summary.maps:
        rows, columns = heat_map.rows, heat_map.columns
        best: dict[tuple[str | None, str | None], JobId] = {}
        for each in succeeded:
            best.setdefault((each.params.get(rows.name), each.params.get(columns.name)), each.job)
        shown = _clean(to_builtins(heat_map))
        for row, cells in enumerate(shown["cells"]):
            for column, cell in enumerate(cells):
                job = best.get((rows.values[row], columns.values[column]))
                values = {rows.name: around(rows, row), columns.name: around(columns, column)}
                cell |= {"job": job} | _sweep(commands[job] if job is not None else "", values)
        maps.append(shown)
    return maps


def _sweep(command: str, values: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the `gputui sweep` command for these values and its number of jobs.

    They are "" and 0 if the values are not in the job's command.
    """
    pattern: str | None = pattern_of(command)
    for name in values:
        pattern = with_field(pattern, name) if pattern else None
    if not pattern:
        return {"sweep": "", "jobs": 0}
    words = ["gputui", "sweep", pattern, *(word for name in values for word in ("-p", name, *values[name])), "--add"]
    return {"sweep": plain(shlex.join(words)), "jobs": prod(map(len, values.values()))}


def _rows(summary: Summary, jobs: list[ListedJob], page: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one row per job. Jobs with results come first, sorted from best to worst."""
    results = {row.job: row for row in summary.table.rows}
    places = {row.job: place for place, row in enumerate(summary.table.rows)}
    ordered = sorted(jobs, key=lambda job: (places.get(job.id, len(places)), job.id))
    names = [column.name for column in summary.table.columns]
    rows = []
    for job in ordered[:MOST_ROWS]:
        row, seconds = results.get(job.id), None
        if job.ended is not None and job.started is not None:
            seconds = job.ended - job.started
        rows.append(
            {
                "id": job.id,
                "name": plain(job.name),
                "command": plain(job.command),
                "state": job.state,
                "failed": job.state in FAILURES,
                "ok": row.counts if row is not None else job.state not in FAILURES,
                "params": [plain(job.params.get(name, "")) for name in names],
                "best": row.best if row is not None else None,
                "not_finite": row.not_finite if row is not None else "",
                "last": row.last if row is not None else None,
                "step": row.step if row is not None else None,
                "beside": [row.beside.get(name) if row is not None else None for name in summary.table.others],
                "trend": list(row.trend) if row is not None else [],
                "seconds": seconds,
                "wh": row.used.kwh * 1000 if row is not None and row.used.kwh is not None else None,
                "gpus": ",".join(_label(gpu, labels).removeprefix("GPU ") for gpu in job.gpus if gpu != NO_GPU),
                "end": plain(job.end or ""),
                "note": plain(job.note),
                "out": _link(job.out, page),
                "err": _link(job.err, page),
            }
        )
    return rows


def _link(log: str | None, page: str) -> str | None:
    """Return a link relative to the page, so that the directory can be moved together with its page."""
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
            "common": plain(group.common.parameters_text),
            "where": plain(group.common.where),
            "first": group.first,
            "last": group.last,
        }
        for group in summary.failures
    ]


def _curves(client: Client, summary: Summary) -> list[dict[str, Any]]:
    """Return the history of every metric of the best jobs."""
    rows = [row for row in summary.table.rows if row.counts][:MOST_CURVES]
    if not rows:
        return []
    curves = client.ask(Curves([row.job for row in rows]))
    return [
        {
            "id": row.job,
            "label": plain(format_job(row, summary.table)),
            "series": {
                plain(name): [[point.step, point.at, point.value] for point in points]
                for name, points in curves.get(row.job, {}).items()
            },
        }
        for row in rows
    ]


def _bars(client: Client, ids: list[int], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the attempts for the timeline, newest first."""
    bars: list[dict[str, Any]] = []
    for start in range(0, len(ids), JOBS_PER_REQUEST):
        for job in client.ask(Follow(ids[start : start + JOBS_PER_REQUEST])).jobs:
            bars += _attempts(job, labels)
    bars.sort(key=lambda bar: float(bar["from"]), reverse=True)
    return bars[:MOST_BARS]


def _attempts(job: Job, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    bars = [
        {"job": job.id, "slot": _label(place, labels), "from": past.started, "to": past.ended,
         
         "end": "failed" if past.end.name in FAILURES else past.end.name,
         "mean": past.usage.gpu_mean if past.usage is not None else None}
        for past in job.attempts
        for place in _ran_on(past)
    ]  # fmt: skip
    if job.active is not None:
        since = job.active.since
        bars += [
            {"job": job.id, "slot": _label(place, labels), "from": since, "to": None, "end": "", "mean": None}
            for place in _ran_on(job.active)
        ]
    return bars


def _ran_on(attempt: Attempt | Placed) -> list[str]:
    return [place.label for place in places_of_attempt(attempt)] or ["CPU"]


def _label(device: str, labels: Mapping[str, str]) -> str:
    """Return `GPU 0` for an index or a UUID, otherwise the slot's own name."""
    return f"GPU {device}" if device.isdecimal() else plain(labels.get(device, device))


def _load(histories: DeviceHistories, summary: Summary) -> dict[str, Any]:
    """Return the recorded utilization of every device during the session, and whether it was caused by others."""
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
    """Remove control sequences from all text in a value."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return {key: _clean(entry) for key, entry in value.items()} if isinstance(value, dict) else value


# The page


def render_page(data: dict[str, Any]) -> str:
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
    """Render the headline and the results as a static table for browsers without JavaScript."""
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
            "<p>Enable JavaScript for curves, a timeline and a sortable table.</p>",
        ]
    )


def _cells(row: dict[str, Any], decimals: int) -> list[str]:
    best = row["not_finite"] if row["best"] is None else result_text(row["best"], decimals)
    step = "" if row["step"] is None else f"{row['step']:g}"
    return [str(row["id"]), row["state"], *row["params"], best, step, row["name"]]


def _table_row(kind: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _embedded(data: dict[str, Any]) -> str:
    """Encode as JSON without `</script>` and `<!--`."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()
