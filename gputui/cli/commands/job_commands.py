"""Commands that act on selected jobs: hold, release, suspend, continue, kill, requeue, rerun, rm, priority, move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gputui.cli.command import confirm, find_session, report_outcomes, seen, select_jobs, suggest
from gputui.cli.output import refuse, say
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.cli.progress import describe_pause
from gputui.core.events import (
    Continue,
    Hold,
    Kill,
    Move,
    MoveTarget,
    Release,
    Remove,
    Requeue,
    Rerun,
    Resume,
    SetPriority,
    Suspend,
    TryFirst,
    UserCommand,
)
from gputui.core.job import ACTIVE, ENDS, HIGHEST_PRIORITY, LOWEST_PRIORITY, WAITING, EngineName
from gputui.session.client import Client
from gputui.session.messages import Commands, PickedJob, StatusQuestion

GIVES_WORK = ("rerun", "release")


class JobCommandHelp(NamedTuple):
    usage: str
    summary: str
    examples: str
    applies_to: Sequence[str] = WAITING
    """States of the jobs that `--all` selects."""
    done: str = ""
    """Text printed after success."""


HELP = {
    "hold": JobCommandHelp(
        "hold JOBS … [--all]",
        "Keep waiting jobs from starting until released. --all: every waiting job.",
        "gputui hold 12\ngputui hold 3-9 baseline\ngputui hold --all -y",
        ("queued", "blocked", "delayed"),
        "held",
    ),
    "release": JobCommandHelp(
        "release JOBS … [--all]",
        "Let held jobs start. --all: every held job.",
        "gputui release 12\ngputui release --all -y",
        ("held",),
        "released",
    ),
    "suspend": JobCommandHelp(
        "suspend JOBS … [--all]",
        "Freeze running jobs (SIGSTOP). They keep their GPU memory. --all: every running job.",
        "gputui suspend 12\ngputui continue 12",
        ("running",),
        "suspended; it keeps its GPU memory",
    ),
    "continue": JobCommandHelp(
        "continue JOBS … [--all]",
        "Continue suspended jobs. --all: every suspended job.",
        "gputui continue 12\ngputui continue --all -y",
        ("suspended",),
        "continued",
    ),
    "kill": JobCommandHelp(
        "kill JOBS … [--now] [--all]",
        "Stop jobs: SIGTERM to the process tree, then SIGKILL after the grace period. Waiting jobs will not start. "
        "--all: every running job; the queue stays.",
        "gputui kill 12\ngputui kill 12 --now\ngputui kill --all -y",
        ACTIVE,
        "killed",
    ),
    "requeue": JobCommandHelp(
        "requeue JOBS … [--all]",
        "Stop running jobs gracefully and requeue them in the same position, with the same checkpoint directory. "
        "--all: every running job.",
        "gputui requeue 12\ngputui requeue --all -y",
        ("starting", "running", "suspended"),
        "stopping, then requeued",
    ),
    "rerun": JobCommandHelp(
        "rerun JOBS … | --failed | --all-failed [--all-at-once]",
        "Run ended jobs again, each as a new attempt with this shell's environment. If several failed, one runs first; "
        "the rest start once it succeeds or runs three times as long as they did, at least one minute. If a probe is "
        "already running, they start after it. --all: every ended job.",
        "gputui rerun 12\ngputui rerun --failed\ngputui rerun --all-failed --all-at-once -y",
        ENDS,
        "queued again",
    ),
    "rm": JobCommandHelp(
        "rm JOBS … | --succeeded",
        "Remove jobs from the list; their files stay. --all: every ended job.",
        "gputui rm 12\ngputui rm --succeeded -y",
        ENDS,
        "removed; files stay",
    ),
    "priority": JobCommandHelp(
        "priority N|+N|-N JOBS …",
        "Set or change the priority of jobs (0 to 99, higher first, default 30). --all: every waiting job.",
        "gputui priority 50 12\ngputui priority +5 3-9\ngputui priority -5 baseline",
    ),
    "move": JobCommandHelp(
        "move JOBS … --up | --down | --top | --bottom | --before ID",
        "Move waiting jobs in the queue, among jobs of the same priority.",
        "gputui move 12 --top\ngputui move 3-5 --before 2",
    ),
}


def parser(subcommand: str) -> Parser:
    row = HELP[subcommand]
    parser = Parser(subcommand, row.summary, usage=row.usage, examples=row.examples, signed=subcommand == "priority")
    if subcommand == "priority":
        parser.add_argument("priority", metavar="N|+N|-N", help="0 to 99, or +N, -N")
    parser.add_jobs()
    match subcommand:
        case "kill":
            parser.switch("--now", help="SIGKILL at once, no grace period")
        case "rerun":
            parser.switch("--all-at-once", help="start all at once; also resumes the scheduler")
        case "rm":
            parser.switch("--succeeded", help="all succeeded jobs")
        case "move":
            parser.switch("--up", help="one place")
            parser.switch("--down", help="one place")
            parser.switch("--top", help="to the front")
            parser.switch("--bottom", help="to the end")
            parser.add_argument("--before", metavar="ID", help="before this job")
    parser.add_common(*(("yes", "session") if subcommand == "move" else SELECTION))
    if subcommand in GIVES_WORK:
        parser.add_common("no_start")
    return parser


def work(options: Options) -> int:
    subcommand = options.subcommand
    if subcommand == "priority":
        return set_priority(options)
    if subcommand == "move":
        return move(options)
    client = find_session(options)
    jobs = select_jobs(client, options, options.words, _applies_to(client, options))
    confirm(client, options, jobs, subcommand)
    gives_work = subcommand in GIVES_WORK
    # Only an engine can act on a running job, so start an owner if there is none.
    needs_engine = (
        not options.no_start if gives_work else subcommand != "rm" and any(job.state in ACTIVE for job in jobs)
    )
    done = HELP[subcommand].done
    if subcommand == "kill" and not options.now and any(job.state not in WAITING for job in jobs):
        done = "SIGTERM sent; SIGKILL after the grace period"
    status = report_outcomes(client.ask(_request(options, jobs), work=needs_engine)[: len(jobs)], jobs, done)
    if gives_work:
        scheduler = client.ask(StatusQuestion()).scheduler
        if words := describe_pause(scheduler, {job.id for job in jobs}, resume=suggest(options, "gputui resume")):
            say(words)
    return status


def _applies_to(client: Client, options: Options) -> Sequence[str]:
    """Return the states that `--all` selects.

    For `hold` on a cluster, a submitted job that has not started counts as waiting.
    """
    states = HELP[options.subcommand].applies_to
    if options.subcommand == "hold" and options.all and client.ask(StatusQuestion()).engine is not EngineName.LOCAL:
        return (*states, "starting")
    return states


_EVENTS: dict[str, Callable[..., UserCommand]] = {
    "hold": Hold,
    "release": Release,
    "suspend": Suspend,
    "continue": Continue,
    "kill": Kill,
    "requeue": Requeue,
    "rerun": Rerun,
    "rm": Remove,
}


def _request(options: Options, jobs: list[PickedJob]) -> Commands:
    fields: dict[str, Any] = {"now": bool(options.now)} if options.subcommand == "kill" else {}
    if options.subcommand == "rerun":
        fields = {"environment": ""}
    events = [_EVENTS[options.subcommand](job=job.id, seen=seen(job), **fields) for job in jobs]
    if options.subcommand != "rerun":
        return Commands(tuple(events))
    from gputui.session.environment import captured

    if options.all_at_once:
        events.append(Resume())
    elif len(jobs) > 1:
        events.append(TryFirst(tuple(job.id for job in jobs)))
    return Commands(tuple(events), captured())


def set_priority(options: Options) -> int:
    wanted = options.priority
    if not wanted.lstrip("+-").isdecimal():
        refuse(f"invalid priority {wanted!r}: use 50, +5 or -5")
    client = find_session(options)
    jobs = select_jobs(client, options, options.words, WAITING)
    confirm(client, options, jobs, "change the priority of")
    events = [SetPriority(job=job.id, priority=_new_priority(wanted, job.priority)) for job in jobs]
    outcomes = client.ask(Commands(tuple(events)))
    new = {event.priority for event in events}
    return report_outcomes(outcomes, jobs, f"priority {new.pop()}" if len(new) == 1 else f"priority {wanted}")


def _new_priority(wanted: str, current: int) -> int:
    """Return the new priority.

    A relative change is limited to the valid range, and the owner refuses an absolute value outside it.
    """
    if wanted[0] in "+-":
        return min(HIGHEST_PRIORITY, max(LOWEST_PRIORITY, current + int(wanted)))
    return int(wanted)


def move(options: Options) -> int:
    ways = [way for way in ("up", "down", "top", "bottom", "before") if getattr(options, way) not in (None, False)]
    if len(ways) != 1:
        refuse("no target: use --up, --down, --top, --bottom or --before ID")
    client = find_session(options)
    jobs = select_jobs(client, options, options.words, WAITING)
    confirm(client, options, jobs, "move")
    target = None
    if options.before is not None:
        before = select_jobs(client, options, [options.before], None)
        if len(before) != 1:
            refuse(f"--before {options.before}: name one job")
        target = before[0].id
    ordered = jobs[::-1] if ways[0] in ("down", "top") else jobs
    moves = tuple(Move(job=job.id, seen=seen(job), where=MoveTarget(ways[0]), before=target) for job in ordered)
    outcomes = client.ask(Commands(moves))
    return report_outcomes(outcomes, ordered, "moved")
