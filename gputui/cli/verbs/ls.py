"""`gputui ls`: the queue as a table, as JSON, or redrawn each second."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from msgspec.structs import replace

from gputui.cli.command import again, carry_out, parted, print_json, session
from gputui.cli.output import Exit, out, refuse
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Column, Paper, colour, meant, table, told
from gputui.core.amounts import duration_cell, duration_exact
from gputui.core.events import PauseKind
from gputui.core.job import ACTIVE, ALL, WAITING, WORDS, EngineName, JobId, StateName
from gputui.session.client import Client
from gputui.session.messages import (
    JobRow,
    Listed,
    ListedJob,
    ListedRows,
    Listing,
    PausedShown,
    PickJobs,
    RowListing,
    RunShown,
)
from gputui.views import format
from gputui.views.format import SIGNS
from gputui.views.status import told_outlook

STATE_HELP = "only these; failed: also crashed (by a signal), timed_out, lost, refused; or waiting, active, ended"

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("pri", right=True),
    Column("gpu", least=3),
    Column("time", right=True),
    Column("job", least=12),
    Column("why", least=0),
)
SUBMITTED = f"{format.SIGN} {format.WORD}"
"""What starts and says why it has not: it waits in a cluster's queue."""
MOST_NAMED = 5_000
"""Jobs; of more than these nobody reads what tells them apart."""
STATE_CELLS = {state: f"{SIGNS.get(state, ' ')} {WORDS[state]}" for state in ALL}


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows the jobs, the scheduler's state and why each job waits.",
        usage="ls [-l] [JOBS …] [--state S] [--group G] [--watch] [--json]",
        examples="gputui ls\ngputui ls --state failed\ngputui ls 3-9 --json\ngputui ls --watch",
    )
    verb_parser.add_jobs()
    states = (*ALL, "waiting", "active", "ended")
    verb_parser.add_argument("--state", action="append", default=[], choices=states, metavar="STATE", help=STATE_HELP)
    verb_parser.add_argument(
        "--group",
        "--project",
        dest="group",
        action="append",
        default=[],
        metavar="NAME",
        help="only jobs of this group; may be repeated",
    )
    verb_parser.switch("-l", "--long", help="with the pid of each command that runs, by which it can be signalled")
    verb_parser.switch("-w", "--watch", help="redraw each second, until Ctrl-C")
    verb_parser.add_common("json", "session")
    return verb_parser


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
        out("\n".join(drawn(listing, Paper(), time.time(), again(options, "gputui resume"), long=options.long)))
    return 0


def asked(client: Client, options: Options) -> Listed | ListedRows:
    states = meant(options.state) if options.state else None
    jobs = named(client, options.words) if options.words else None
    listing: Listed | ListedRows
    if options.json or options.long:
        listing = client.ask(Listing(jobs, states))
    else:
        listing = client.ask(RowListing(jobs, states))
    if options.group:
        return replace(listing, jobs=[job for job in listing.jobs if job.group in options.group])
    return listing


def named(client: Client, words: list[str]) -> list[JobId]:
    answer = client.ask(PickJobs(*parted(words)))
    if answer.missing:
        raise Exit(1, f"there is no job {', '.join(answer.missing)} in {client.root}")
    return [job.id for job in answer.jobs]


def watch(client: Client, options: Options) -> int:
    """Writes only when something changed; a job's time does each second."""
    before: list[str] = []
    sys.stdout.write("\x1b[2J")
    try:
        while True:
            paper = Paper()
            listing = urgent_first(asked(client, options))
            lines = cut(drawn(listing, paper, time.time(), again(options, "gputui resume"), long=options.long), paper)
            if lines != before:
                sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
                sys.stdout.flush()
                before = lines
            time.sleep(1.0)
    except KeyboardInterrupt:
        return 0


def urgent_first(listing: Listed | ListedRows) -> Listed | ListedRows:
    """What runs, then what waits, then what is over: the end of a long list is cut off."""
    ranks = dict.fromkeys(ACTIVE, 0) | dict.fromkeys(WAITING, 1)
    return replace(listing, jobs=sorted(listing.jobs, key=lambda job: ranks.get(job.state, 2)))


def cut(lines: list[str], paper: Paper) -> list[str]:
    room = (paper.height or len(lines) + 1) - 1
    return lines if len(lines) <= room else [*lines[: room - 1], f"… and {len(lines) - room + 1} more"]


def drawn(
    listing: Listed | ListedRows, paper: Paper, now: float, resume: str = "gputui resume", *, long: bool = False
) -> list[str]:
    jobs: Sequence[JobRow] = listing.jobs
    head = header(listing, resume)
    lines = [paper.painted(paper.cut(line), code) for line, code in head]
    if not jobs:
        return [*lines, "no jobs"]
    several = len({job.group for job in jobs}) > 1
    columns = (*COLUMNS[:-2], Column("group", least=8), *COLUMNS[-2:]) if several else COLUMNS
    names = short_names(jobs) if paper.width is not None else {}
    rows = [row(job, now, names, listing.engine, group=several) for job in jobs]
    if long:
        columns = (*columns[:1], Column("pid", right=True), *columns[1:])
        pids = [str(job.pid or "") if isinstance(job, ListedJob) else "" for job in jobs]
        rows = [[cells[0], pid, *cells[1:]] for pid, cells in zip(pids, rows, strict=True)]
    return lines + table(columns, rows, paper, [colour(job.state) for job in jobs])


def header(listing: Listed | ListedRows, resume: str = "gputui resume") -> list[tuple[str, str]]:
    """Lines and their colours: the state of things, above all why nothing starts, and the command that helps."""
    from gputui.logs.plain import plain

    scheduler, owner = listing.scheduler, listing.owner
    who = f"{owner.kind} {owner.pid}" if owner is not None else "no owner"
    parts = [plain(listing.session), scheduler.word.upper(), told(listing.counts, listing.engine), who]
    if scheduler.word in ("running", "waiting"):
        parts += outlook_parts(listing)
    lines = [(" · ".join(part for part in parts if part), "1")]
    if scheduler.awaits and not scheduler.paused:
        advice = f"; {resume} starts a keeper" if listing.owner is None else ""
        lines.append((f"  {scheduler.word}: {plain(scheduler.awaits)}{advice}", "33"))
    lines += [(f"! {plain(paused_words(pause, time.time()))} ({resume} goes on)", "1;33") for pause in scheduler.paused]
    if scheduler.cause is not None and not (scheduler.paused and scheduler.cause.kind is PauseKind.CRASHES):
        lines.append((f"! {plain(scheduler.cause.message)} ({resume} goes on)", "1;33"))
    if listing.trouble:
        lines.append((f"! {plain(listing.trouble)}", "1;31"))
    return lines


def outlook_parts(listing: Listed | ListedRows) -> list[str]:
    seen, counts = listing.outlook, listing.counts
    remaining = sum(counts.get(state, 0) for state in (*ACTIVE, *WAITING))
    never = [(each.job, each.needs) for each in seen.never]
    return told_outlook(seen.at, seen.jobs, remaining, seen.unknown, never, time.time())


def paused_words(paused: PausedShown, now: float) -> str:
    """`bad.txt is paused: 3 jobs: exit code 3; tries #41 in 8:12`."""
    whose = f"{paused.group or 'the group without a name'} is paused: " if paused.group is not None else ""
    if paused.trying:
        return f"{whose}{paused.message}; tries #{paused.job} alone"
    if paused.job is None or paused.at is None:
        return f"{whose}{paused.message}"
    return f"{whose}{paused.message}; tries #{paused.job} in {duration_exact(paused.at - now)}"


def short_names(jobs: Sequence[JobRow]) -> dict[JobId, str]:
    """On a terminal, where sixty long commands would be cut where they differ: just that, as on the screen."""
    if len(jobs) > MOST_NAMED:
        return {}
    from gputui.core.job import Job, JobSpec, Queued
    from gputui.core.parameter_columns import Parameters

    parameters = Parameters()
    bare_jobs = [
        Job(job.id, JobSpec(command=job.command, cwd="", environment="", group=job.group), 0.0, 0, 0.0, Queued(0.0))
        for job in jobs
    ]
    for job in bare_jobs:
        parameters.learn(job)
    return {job.id: parameters.of(job) for job in bare_jobs}


def row(job: JobRow, now: float, names: dict[JobId, str], engine: EngineName, *, group: bool = False) -> list[str]:
    submitted = job.state is StateName.STARTING and engine is not EngineName.LOCAL
    return [
        str(job.id),
        SUBMITTED if submitted else STATE_CELLS[job.state],
        str(job.priority),
        ",".join(job.gpus),
        "" if submitted else took(job, now),
        *([job.group] if group else []),
        names.get(job.id, job.command) if not job.name or job.name == f"job_{job.id}" else job.name,
        job.why or ending(job),
    ]


def took(run: RunShown, now: float) -> str:
    if run.started is None or run.state in WAITING:
        return ""
    return duration_cell((run.ended if run.ended is not None else now) - run.started)


def ending(job: JobRow) -> str:
    """How it ended, when that is worth a word."""
    if job.end:
        return job.end
    if job.state is StateName.FAILED:
        return f"exit {job.exit_code}"
    return f"signal {job.signal}" if job.state is StateName.CRASHED else ""
