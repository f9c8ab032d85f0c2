"""`gputui show`: one job, where its files are, its attempts, and how it came to where it is."""

from __future__ import annotations

import time
from typing import Any

from gputui.cli.command import carry_out, parted, print_json, session
from gputui.cli.output import Exit, out
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Column, Paper, colour, table
from gputui.core.amounts import moment
from gputui.core.job import ACTIVE, WORDS
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import PickJobs, Show, ShownJob
from gputui.views.format import SIGNS

from .ls import ending, took

TOLD_OTHERWISE = (
    "command", "cwd", "environment", "name", "group", "request", "priority", "hold", "outfile", "occurrence",
)  # fmt: skip
"""What has a line of its own, or is not a setting of the user's."""
UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows one job: its settings, why it waits, its attempts, its files and its story.",
        usage="show JOB [--json] [--env]",
        examples="gputui show 12\ngputui show baseline --json\ngputui show 12 --env",
    )
    verb_parser.add_job()
    verb_parser.switch("--env", help="also show the environment it was added with")
    verb_parser.add_common("json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    client = session(options)
    shown = show(client, options.job, environment=bool(options.env))
    if options.json:
        print_json(shown)
        return 0
    out("\n".join(described(shown, Paper(), time.time())))
    return 0


def show(client: Client, word: str, *, environment: bool = False) -> ShownJob:
    """The one job that a word means."""
    ids, names = parted([word])
    if len(ids) == 1 and ids[0][0] == ids[0][1]:
        job_id = ids[0][0]
    else:
        jobs = client.ask(PickJobs(ids, names)).jobs
        if len(jobs) != 1:
            meaning = f"means {len(jobs)} jobs ({', '.join(str(job.id) for job in jobs[:10])})" if jobs else "is no job"
            raise Exit(1, f"{word!r} {meaning} in {client.root}; give one id")
        job_id = jobs[0].id
    return client.ask(Show(job_id, environment))


def described(shown: ShownJob, paper: Paper, now: float) -> list[str]:
    state = shown.state
    title = f"#{shown.id} {plain(shown.name)}  {SIGNS.get(state, '')} {WORDS[state]}"
    lines = [paper.painted(title, f"1;{colour(state)}".rstrip(";"))]
    lines += [f"  {name:<10} {plain(str(value))}" for name, value in facts(shown, now) if value not in (None, "")]
    lines += _attempts(shown, paper, now)
    lines += ["", "story:"] if shown.story else []
    lines += [f"  {moment(line.time, now, seconds=True)}  {plain(line.text)}" for line in shown.story]
    if shown.environment:
        lines += ["", "environment:"]
        lines += [f"  {plain(name)}={plain(value)}" for name, value in sorted(shown.environment.items())]
    return lines


def facts(shown: ShownJob, now: float) -> list[tuple[str, Any]]:
    request = shown.spec.request
    keys = (key for key in shown.spec.__struct_fields__ if key not in TOLD_OTHERWISE)
    settings = [f"{key}={_written(key, value)}" for key in keys if (value := getattr(shown.spec, key))]
    settings += [f"gpus={request.gpus}"] if request.gpus is not None else []
    settings += [f"devices={','.join(request.devices)}"] if request.devices else []
    return [
        ("command", shown.command),
        ("cwd", shown.cwd),
        ("group", shown.group),
        ("priority", shown.priority),
        ("settings", " ".join(settings)),
        ("why", shown.why),
        ("end", ending(shown)),
        ("GPU", ",".join(shown.gpus)),
        ("pid", _pid(shown)),
        ("time", took(shown, now)),
        ("out", shown.out),
        ("err", shown.err),
    ]


def _written(key: str, value: Any) -> str:
    """As the user could write it."""
    if key in ("hang_after", "timeout"):
        unit, size = next((each for each in UNITS if value % each[1] == 0), ("s", 1))
        return f"{value / size:g}{unit}"
    if key == "not_before":
        return moment(value, time.time())
    if value is True:
        return "yes"
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _pid(shown: ShownJob) -> Any:
    """The command's; its wrapper's would not pass signals on."""
    if shown.pid is None and shown.state in ACTIVE:
        return "none: its command has not begun, or has just ended"
    return shown.pid


ATTEMPTS = (
    Column("attempt", right=True),
    Column("state"),
    Column("gpu"),
    Column("started"),
    Column("time", right=True),
    Column("out", least=20),
)


def _attempts(shown: ShownJob, paper: Paper, now: float) -> list[str]:
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
    return ["", *table(ATTEMPTS, rows, paper, [colour(attempt.state) for attempt in attempts])]
