"""`gputui ls`: the queue as a table, as JSON, or redrawn each second."""

from __future__ import annotations

import sys
import time
from typing import Any

from gputui.cli.calling import carry_out, print_json, session
from gputui.cli.output.states import colour, meant, told
from gputui.cli.output.table import Column, Paper, table
from gputui.cli.output.words import Exit, out, refuse
from gputui.cli.parsing.parser import Options, Parser
from gputui.cli.parsing.selection import parted
from gputui.core.states import ACTIVE, ALL, WAITING
from gputui.core.views.amounts import duration_cell, moment
from gputui.core.views.signs import SIGNS
from gputui.session.control.client import Client

Listing = dict[str, Any]

STATE_HELP = "only these; failed: also crashed, timed_out, lost, refused; or waiting, active, ended"

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("pri", right=True),
    Column("gpu", least=3),
    Column("time", right=True),
    Column("job", least=12),
    Column("why", least=0),
)
STATE_CELLS = {state: f"{SIGNS.get(state, ' ')} {state.replace('_', ' ')}" for state in ALL}


def parser(verb: str) -> Parser:
    made = Parser(
        verb,
        "Shows the jobs, the scheduler's state and why each job waits.",
        usage="ls [-l] [JOBS …] [--state S] [--project P] [--watch] [--json]",
        examples="gputui ls\ngputui ls --state failed\ngputui ls 3-9 --json\ngputui ls --watch",
    )
    made.add_jobs()
    states = (*ALL, "waiting", "active", "ended")
    made.add_argument("--state", action="append", default=[], choices=states, metavar="STATE", help=STATE_HELP)
    made.add_argument(
        "--project",
        "--group",
        action="append",
        default=[],
        metavar="NAME",
        help="only jobs of this project; may be repeated",
    )
    made.switch("-l", "--long", help="with the pid of each command that runs, by which it can be signalled")
    made.switch("-w", "--watch", help="redraw each second, until Ctrl-C")
    made.add_common("json", "session")
    return made


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.watch and (options.json or not sys.stdout.isatty()):
        refuse("--watch needs a terminal")
    client = session(options)
    if options.watch:
        return watch(client, options)
    listing = asked(client, options)
    if options.json:
        print_json(listing)
    else:
        out("\n".join(drawn(listing, Paper(), time.time(), long=options.long)))
    return 0


def asked(client: Client, options: Options) -> Listing:
    fields: dict[str, Any] = {"rows": not (options.json or options.long)}
    if options.state:
        fields["states"] = meant(options.state)
    if options.words:
        ids, names = parted(options.words)
        answer = client.ask("pick", ids=ids, names=names)
        if answer["missing"]:
            raise Exit(1, f"there is no job {', '.join(answer['missing'])} in {client.root}")
        fields["jobs"] = [job["id"] for job in answer["jobs"]]
    listing: Listing = client.ask("listing", **fields)
    if options.project:
        listing["jobs"] = [job for job in listing["jobs"] if job["group"] in options.project]
    return listing


def watch(client: Client, options: Options) -> int:
    """Writes only when something changed; a job's time does each second."""
    before: list[str] = []
    sys.stdout.write("\x1b[2J")
    try:
        while True:
            paper = Paper()
            lines = cut(drawn(urgent_first(asked(client, options)), paper, time.time(), long=options.long), paper)
            if lines != before:
                sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
                sys.stdout.flush()
                before = lines
            time.sleep(1.0)
    except KeyboardInterrupt:
        return 0


def urgent_first(listing: Listing) -> Listing:
    """What runs, then what waits, then what is over: the end of a long list is cut off."""
    ranks = dict.fromkeys(ACTIVE, 0) | dict.fromkeys(WAITING, 1)
    return listing | {"jobs": sorted(listing["jobs"], key=lambda job: ranks.get(job["state"], 2))}


def cut(lines: list[str], paper: Paper) -> list[str]:
    room = (paper.height or len(lines) + 1) - 1
    return lines if len(lines) <= room else [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]


def drawn(listing: Listing, paper: Paper, now: float, *, long: bool = False) -> list[str]:
    jobs = listing["jobs"]
    head = header(listing)
    lines = [paper.painted(paper.cut(line), code) for line, code in head]
    if not jobs:
        return [*lines, "no jobs"]
    several = len({job["group"] for job in jobs}) > 1
    columns = (*COLUMNS[:-2], Column("project", least=8), *COLUMNS[-2:]) if several else COLUMNS
    rows = [row(job, now, project=several) for job in jobs]
    if long:
        columns = (*columns[:1], Column("pid", right=True), *columns[1:])
        rows = [[cells[0], str(job.get("pid") or ""), *cells[1:]] for job, cells in zip(jobs, rows, strict=True)]
    return lines + table(columns, rows, paper, [colour(job["state"]) for job in jobs])


def header(listing: Listing) -> list[tuple[str, str]]:
    """Lines and their colours: the state of things, and above all why nothing starts."""
    from gputui.logs.plain import plain

    scheduler, owner = listing["scheduler"], listing["owner"]
    who = f"{owner['kind']} {owner['pid']}" if owner else "no owner"
    parts = [plain(listing["session"]), standing(scheduler).upper(), told(listing["counts"]), who]
    if listing.get("eta") and standing(scheduler) == "running" and listing["eta"] > time.time():
        parts.append(f"done ≈ {moment(listing['eta'], time.time())}")
    lines = [(" · ".join(part for part in parts if part), "1")]
    if scheduler.get("awaits"):
        lines.append((f"  {standing(scheduler)}: {plain(scheduler['awaits'])}", "33"))
    if scheduler["cause"] is not None:
        lines.append((f"! {plain(scheduler['cause']['message'])} (gputui resume goes on)", "1;33"))
    if listing.get("trouble"):
        lines.append((f"! {plain(listing['trouble'])}", "1;31"))
    return lines


def standing(scheduler: dict[str, Any]) -> str:
    """The word for it; an owner of an older version knows none."""
    return str(scheduler.get("standing") or scheduler["state"])


def row(job: dict[str, Any], now: float, *, project: bool = False) -> list[str]:
    id, state, name = job["id"], job["state"], job["name"]
    return [
        str(id),
        STATE_CELLS.get(state, state),
        str(job["priority"]),
        ",".join(job.get("gpus", ())),
        took(job, now),
        *([job["group"]] if project else []),
        job["command"] if not name or name == f"job_{id}" else name,
        job["why"] or ending(job),
    ]


def took(job: dict[str, Any], now: float) -> str:
    if job.get("started") is None or job["state"] in WAITING:
        return ""
    return duration_cell((job["ended"] if job["ended"] is not None else now) - job["started"])


def ending(job: dict[str, Any]) -> str:
    """How it ended, when that is worth a word."""
    if job.get("end"):
        return str(job["end"])
    if job["state"] == "failed":
        return f"exit {job['exit_code']}"
    return f"signal {job['signal']}" if job["state"] == "crashed" else ""
