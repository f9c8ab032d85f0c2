"""`gputui ls`: print the queue as a table or as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from gputui.cli.command import find_session, parse_job_words, suggest
from gputui.cli.output import (
    NOT_FOUND,
    Column,
    Exit,
    OutputFormat,
    colour,
    expand_states,
    format_counts,
    print_answer,
    table,
)
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import duration_cell, duration_exact
from gputui.core.events import PauseKind
from gputui.core.job import ACTIVE, ALL, WAITING, WORDS, EngineName, Job, JobId, JobSpec, Queued, StateName
from gputui.logs.plain import plain
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
from gputui.views.status import StatusWord, format_outlook

STATE_HELP = "filter by state; failed includes timed_out, lost, refused; also waiting, active, ended"

COLUMNS = (
    Column("id", right=True),
    Column("state"),
    Column("pri", right=True),
    Column("gpu", least=3),
    Column("time", right=True),
    Column("job", least=12),
    Column("why", least=0),
)
SUBMITTED = f"{format.SUBMITTED_SIGN} {format.SUBMITTED_WORD}"
"""Text of the state cell of a job that waits in a cluster's queue."""
MOST_NAMED = 5_000
"""Maximum number of jobs for which names are shortened to the differing parameters. With more jobs it would be slow."""
STATE_CELLS = {state: f"{SIGNS.get(state, ' ')} {WORDS[state]}" for state in ALL}

ANSWERS = {"ls": Listed}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "List jobs, the scheduler's state and why each job waits.",
        usage="ls [-l] [JOBS …] [--state S] [--group G] [--json]",
        examples="gputui ls\ngputui ls --state failed\ngputui ls 3-9 --json\nwatch -n1 gputui ls",
    )
    parser.add_jobs()
    states = (*ALL, "waiting", "active", "ended", "crashed")
    parser.add_argument("--state", action="append", default=[], choices=states, metavar="STATE", help=STATE_HELP)
    parser.add_argument(
        "--group",
        "--project",
        dest="group",
        action="append",
        default=[],
        metavar="NAME",
        help="only this group; repeatable",
    )
    parser.switch("-l", "--long", help="include the pid of each running command")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    listing, resume = fetch(find_session(options), options), suggest(options, "gputui resume")
    return print_answer(lambda: listing, lambda fmt: render(listing, fmt, time.time(), resume, long=options.long))


def fetch(client: Client, options: Options) -> Listed | ListedRows:
    """Request the selected jobs. All of their fields are requested only if they are printed."""
    states = expand_states(options.state) if options.state else None
    jobs: list[JobId] | None = None
    if options.words:
        answer = client.ask(PickJobs(*parse_job_words(options.words)))
        if answer.missing:
            raise Exit(NOT_FOUND, f"no job {', '.join(answer.missing)} in {client.root}")
        jobs = [job.id for job in answer.jobs]
    listing: Listed | ListedRows
    if options.json or options.long:
        listing = client.ask(Listing(jobs, states))
    else:
        listing = client.ask(RowListing(jobs, states))
    if options.group:
        return replace(listing, jobs=[job for job in listing.jobs if job.group in options.group])
    return listing


def render(
    listing: Listed | ListedRows, fmt: OutputFormat, now: float, resume: str = "gputui resume", *, long: bool = False
) -> list[str]:
    jobs: Sequence[JobRow] = listing.jobs
    lines = [fmt.paint(fmt.cut(line), code) for line, code in header(listing, resume, now)]
    if not jobs:
        return [*lines, "no jobs"]
    several = len({job.group for job in jobs}) > 1
    columns = (*COLUMNS[:-2], Column("group", least=8), *COLUMNS[-2:]) if several else COLUMNS
    names = short_names(jobs) if fmt.width is not None else {}
    rows = [row(job, now, names, listing.engine, group=several) for job in jobs]
    if long:
        columns = (*columns[:1], Column("pid", right=True), *columns[1:])
        pids = [str(job.pid or "") if isinstance(job, ListedJob) else "" for job in jobs]
        rows = [[cells[0], pid, *cells[1:]] for pid, cells in zip(pids, rows, strict=True)]
    return lines + table(columns, rows, fmt, [colour(job.state) for job in jobs])


def header(listing: Listed | ListedRows, resume: str, now: float) -> list[tuple[str, str]]:
    """Return the lines above the table, with their colours.

    They show the state of the scheduler, why no job starts, and the command that helps.
    """
    scheduler, owner = listing.scheduler, listing.process
    who = f"{owner.kind} {owner.pid}" if owner is not None else "no scheduler"
    parts = [plain(listing.session), scheduler.word.upper(), format_counts(listing.counts, listing.engine), who]
    if scheduler.word in ("running", "waiting"):
        seen, counts = listing.outlook, listing.counts
        remaining = sum(counts.get(state, 0) for state in (*ACTIVE, *WAITING))
        never = [(entry.job, entry.needs) for entry in seen.never]
        parts += format_outlook(seen.at, seen.jobs, remaining, seen.unknown, never, now)
    lines = [(" · ".join(part for part in parts if part), "1")]
    if scheduler.waiting_for and not scheduler.paused:
        advice = f"; {resume} starts a daemon" if scheduler.word == StatusWord.IDLE else ""
        lines.append((f"  {scheduler.word}: {plain(scheduler.waiting_for)}{advice}", "33"))
    lines += [(f"! {plain(pause_text(pause, now))} (to resume: {resume})", "1;33") for pause in scheduler.paused]
    if scheduler.cause is not None and not (scheduler.paused and scheduler.cause.kind is PauseKind.CRASHES):
        lines.append((f"! {plain(scheduler.cause.message)} (to resume: {resume})", "1;33"))
    if listing.trouble:
        lines.append((f"! {plain(listing.trouble)}", "1;31"))
    return lines


def pause_text(paused: PausedShown, now: float) -> str:
    """Describe a pause, for example `bad.txt is paused: 3 jobs: exit code 3; probe: #41 in 8:12`."""
    whose = f"{paused.group or 'the unnamed group'} is paused: " if paused.group is not None else ""
    if paused.probing:
        return f"{whose}{paused.message}; probe: #{paused.job}"
    if paused.job is None or paused.at is None:
        return f"{whose}{paused.message}"
    return f"{whose}{paused.message}; probe: #{paused.job} in {duration_exact(paused.at - now)}"


def short_names(jobs: Sequence[JobRow]) -> dict[JobId, str]:
    """Return the part of each command that differs between the jobs, because the table truncates long commands."""
    if len(jobs) > MOST_NAMED:
        return {}
    from gputui.views.parameters import Parameters

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
    """Return how a job ended, or "" if its state already says so."""
    if job.end:
        return job.end
    if job.state is not StateName.FAILED:
        return ""
    return f"signal {job.signal}" if job.signal is not None else f"exit {job.exit_code}"
