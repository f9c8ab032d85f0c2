"""`gputui show`: print one job with its settings, files, attempts and history."""

from __future__ import annotations

import time
from typing import Any

from gputui.cli.command import find_session, parse_job_words
from gputui.cli.output import NOT_FOUND, Column, Exit, OutputFormat, colour, print_answer, table
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import moment
from gputui.core.job import ACTIVE, WORDS
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.control.connection import RequestRefused
from gputui.session.messages import PickJobs, Show, ShownJob
from gputui.sources.values import gpu_time_text
from gputui.views.format import SIGNS, code_words

from .ls import ending, took

NOT_SETTINGS = (
    "command", "cwd", "environment", "name", "group", "request", "priority", "hold", "outfile", "occurrence",
    "terminal",
    "snapshot", "code",
)  # fmt: skip
"""Fields of a spec that are printed on their own line or are not set by the user."""
UNITS = (("d", 86400), ("h", 3600), ("m", 60))

ANSWERS = {"show": ShownJob}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Show a job's settings, why it waits, its attempts, files and history.",
        usage="show JOB [--json] [--env]",
        examples="gputui show 12\ngputui show baseline --json\ngputui show 12 --env",
    )
    parser.add_job()
    parser.switch("--env", help="include the environment it was added with")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    shown = show(find_session(options), options.job, environment=bool(options.env))
    return print_answer(lambda: shown, lambda fmt: describe(shown, fmt, time.time()))


def show(client: Client, word: str, *, environment: bool = False) -> ShownJob:
    """Return the job selected by an id or a name. Exit unless it selects exactly one."""
    ids, names = parse_job_words([word])
    if len(ids) == 1 and ids[0][0] == ids[0][1]:
        job_id = ids[0][0]
    else:
        jobs = client.ask(PickJobs(ids, names)).jobs
        if not jobs:
            raise Exit(NOT_FOUND, f"no job {word!r} in {client.root}")
        if len(jobs) > 1:
            ids_text = ", ".join(str(job.id) for job in jobs[:10])
            raise Exit(1, f"{word!r} matches {len(jobs)} jobs ({ids_text}) in {client.root}; use one id")
        job_id = jobs[0].id
    try:
        return client.ask(Show(job_id, environment))
    except RequestRefused as error:
        raise Exit(NOT_FOUND, f"{error} in {client.root}") from None


def describe(shown: ShownJob, fmt: OutputFormat, now: float) -> list[str]:
    state = shown.state
    title = f"#{shown.id} {plain(shown.name)}  {SIGNS.get(state, '')} {WORDS[state]}"
    lines = [fmt.paint(title, f"1;{colour(state)}".rstrip(";"))]
    lines += [f"  {name:<10} {plain(str(value))}" for name, value in _facts(shown, now) if value not in (None, "")]
    lines += _attempts(shown, fmt, now)
    lines += ["", "history:"] if shown.history else []
    lines += [f"  {moment(line.time, now, seconds=True)}  {plain(line.text)}" for line in shown.history]
    if shown.environment:
        lines += ["", "environment:"]
        lines += [f"  {plain(name)}={plain(value)}" for name, value in sorted(shown.environment.items())]
    return lines


def _facts(shown: ShownJob, now: float) -> list[tuple[str, Any]]:
    request = shown.spec.request
    keys = (key for key in shown.spec.__struct_fields__ if key not in NOT_SETTINGS)
    settings = [f"{key}={_format_setting(key, value)}" for key in keys if (value := getattr(shown.spec, key))]
    settings += [f"gpus={request.gpus}"] if request.gpus is not None else []
    settings += [f"devices={','.join(request.devices)}"] if request.devices else []
    settings += [f"budget={gpu_time_text(request.budget)}"] if request.budget is not None else []
    active = shown.state in ACTIVE
    return [
        ("command", shown.command),
        ("cwd", shown.cwd),
        ("code", code_words(shown.spec.code) if shown.spec.code is not None else None),
        ("group", shown.group),
        ("priority", shown.priority),
        ("terminal", shown.spec.terminal.where if shown.spec.terminal is not None else None),
        ("settings", " ".join(settings)),
        ("why", shown.why),
        ("end", ending(shown)),
        ("GPU", ",".join(shown.gpus)),
        ("pid", "none: not started yet, or just ended" if shown.pid is None and active else shown.pid),
        ("time", took(shown, now)),
        ("out", shown.out),
        ("err", shown.err),
    ]


def _format_setting(key: str, value: Any) -> str:
    """Format a setting in the form in which a user would write it."""
    if key in ("hang_after", "timeout"):
        unit, size = next((unit for unit in UNITS if value % unit[1] == 0), ("s", 1))
        return f"{value / size:g}{unit}"
    if key == "not_before":
        return moment(value, time.time())
    if value is True:
        return "yes"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


ATTEMPTS = (
    Column("attempt", right=True),
    Column("state"),
    Column("gpu"),
    Column("started"),
    Column("time", right=True),
    Column("out", least=20),
)


def _attempts(shown: ShownJob, fmt: OutputFormat, now: float) -> list[str]:
    attempts = shown.attempts
    if len(attempts) < 2:
        return []
    rows = [
        [
            str(attempt.number),
            WORDS[attempt.state],
            ",".join(attempt.gpus),
            moment(attempt.started, now, seconds=True) if attempt.started is not None else "",
            took(attempt, now),
            attempt.out or "",
        ]
        for attempt in attempts
    ]
    return ["", *table(ATTEMPTS, rows, fmt, [colour(attempt.state) for attempt in attempts])]
