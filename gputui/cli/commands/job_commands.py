"""Commands that act on selected jobs: hold, release, suspend, continue, kill, requeue, rerun, rm, priority, move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gputui.cli.command import ChangedJobs, confirm, find_session, report_outcomes, seen, select_jobs, suggest
from gputui.cli.output import refuse
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.cli.progress import describe_pause
from gputui.core import events
from gputui.core.events import MoveTarget, SetPriority, UserCommand
from gputui.core.job import ACTIVE, ENDS, HIGHEST_PRIORITY, LOWEST_PRIORITY, WAITING, EngineName
from gputui.session.client import Client
from gputui.session.messages import Commands, PickedJob, StatusQuestion

GIVES_WORK = ("rerun", "release")
ONLY_QUEUE = ("rm", "priority", "move")
"""Commands that change only the queue, so that they need no engine."""


class JobCommand(NamedTuple):
    usage: str
    summary: str
    examples: str
    event: Callable[..., UserCommand]
    done: str
    """Text printed after success."""
    applies_to: Sequence[str] = WAITING
    """States of the jobs that `--all` selects."""


JOB_COMMANDS = {
    "hold": JobCommand(
        "hold JOBS … [--all]",
        "Keep waiting jobs from starting until released. --all: every waiting job.",
        "gputui hold 12\ngputui hold 3-9 baseline\ngputui hold --all -y",
        events.Hold,
        "held",
        ("queued", "blocked", "delayed"),
    ),
    "release": JobCommand(
        "release JOBS … [--all]",
        "Let held jobs start. --all: every held job.",
        "gputui release 12\ngputui release --all -y",
        events.Release,
        "released",
        ("held",),
    ),
    "suspend": JobCommand(
        "suspend JOBS … [--all]",
        "Freeze running jobs (SIGSTOP). They keep their GPU memory. --all: every running job.",
        "gputui suspend 12\ngputui continue 12",
        events.Suspend,
        "suspended; it keeps its GPU memory",
        ("running",),
    ),
    "continue": JobCommand(
        "continue JOBS … [--all]",
        "Continue suspended jobs. --all: every suspended job.",
        "gputui continue 12\ngputui continue --all -y",
        events.Continue,
        "continued",
        ("suspended",),
    ),
    "kill": JobCommand(
        "kill JOBS … [--now] [--all]",
        "Stop jobs: SIGTERM to the process tree, then SIGKILL after the grace period. Waiting jobs will not start. "
        "--all: every running job; the queue stays.",
        "gputui kill 12\ngputui kill 12 --now\ngputui kill --all --dry-run",
        events.Kill,
        "killed",
        ACTIVE,
    ),
    "requeue": JobCommand(
        "requeue JOBS … [--all]",
        "Stop running jobs gracefully and requeue them in the same position, with the same checkpoint directory. "
        "--all: every running job.",
        "gputui requeue 12\ngputui requeue --all -y",
        events.Requeue,
        "stopping, then requeued",
        ("starting", "running", "suspended"),
    ),
    "rerun": JobCommand(
        "rerun JOBS … | --failed | --all-failed [--all-at-once]",
        "Run ended jobs again, each as a new attempt with this shell's environment. If several failed, one runs first; "
        "the rest start once it succeeds or runs three times as long as they did, at least one minute. If a probe is "
        "already running, they start after it. --all: every ended job.",
        "gputui rerun 12\ngputui rerun --failed\ngputui rerun --all-failed --all-at-once -y\n"
        "gputui rerun --failed --dry-run --json",
        events.Rerun,
        "queued again",
        ENDS,
    ),
    "rm": JobCommand(
        "rm JOBS … | --succeeded",
        "Remove jobs from the list; their files stay. --all: every ended job.",
        "gputui rm 12\ngputui rm --succeeded -y",
        events.Remove,
        "removed; files stay",
        ENDS,
    ),
    "priority": JobCommand(
        "priority N|+N|-N JOBS …",
        "Set or change the priority of jobs (0 to 99, higher first, default 30). --all: every waiting job.",
        "gputui priority 50 12\ngputui priority +5 3-9\ngputui priority -5 baseline",
        SetPriority,
        "priority",
    ),
    "move": JobCommand(
        "move JOBS … --up | --down | --top | --bottom | --before ID",
        "Move waiting jobs in the queue, among jobs of the same priority.",
        "gputui move 12 --top\ngputui move 3-5 --before 2",
        events.Move,
        "moved",
    ),
}


ANSWERS = dict.fromkeys(JOB_COMMANDS, ChangedJobs)


def parser(subcommand: str) -> Parser:
    row = JOB_COMMANDS[subcommand]
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
    parser.add_common(*(("yes", "json", "session") if subcommand == "move" else SELECTION), "dry_run")
    if subcommand in GIVES_WORK:
        parser.add_common("no_start")
    return parser


def work(options: Options) -> int:
    subcommand = options.subcommand
    _check_usage(options)
    client = find_session(options)
    jobs = select_jobs(client, options, options.words, _applies_to(client, options))
    confirm(client, options, jobs, "change the priority of" if subcommand == "priority" else subcommand)
    if subcommand == "move" and (options.down or options.top):
        jobs.reverse()  # each job moves past the one before, so this keeps their order
    gives_work = subcommand in GIVES_WORK
    # Only an engine can act on a running job, so start an owner if there is none.
    needs_engine = subcommand not in ONLY_QUEUE and any(job.state in ACTIVE for job in jobs)
    made = _events(client, options, jobs)
    environment = None
    if subcommand == "rerun":
        from gputui.session.environment import captured

        environment = captured()
    commands = Commands(tuple(made), environment)
    outcomes = client.ask(commands, work=not options.no_start if gives_work else needs_engine)
    if options.dry_run:
        from gputui.cli.dry_run import print_preview, refused_commands

        refused = refused_commands(outcomes, jobs)
        return print_preview(client, {job.id for job in jobs} - {refusal.job for refusal in refused}, refused)
    pause = ""
    if gives_work:
        scheduler = client.ask(StatusQuestion()).scheduler
        pause = describe_pause(scheduler, {job.id for job in jobs}, resume=suggest(options, "gputui resume"))
    return report_outcomes(
        outcomes[: len(jobs)], jobs, _describe_success(options, made, jobs), [pause] if pause else []
    )


def _check_usage(options: Options) -> None:
    if options.subcommand == "priority" and not options.priority.lstrip("+-").isdecimal():
        refuse(f"invalid priority {options.priority!r}: use 50, +5 or -5")
    if options.subcommand == "move" and sum(getattr(options, way) not in (None, False) for way in MoveTarget) != 1:
        refuse("no target: use --up, --down, --top, --bottom or --before ID")


def _applies_to(client: Client, options: Options) -> Sequence[str]:
    """Return the states that `--all` selects.

    For `hold` on a cluster, a submitted job that has not started counts as waiting.
    """
    states = JOB_COMMANDS[options.subcommand].applies_to
    if options.subcommand == "hold" and options.all and client.ask(StatusQuestion()).engine is not EngineName.LOCAL:
        return (*states, "starting")
    return states


def _events(client: Client, options: Options, jobs: Sequence[PickedJob]) -> list[UserCommand]:
    event = JOB_COMMANDS[options.subcommand].event
    fields: dict[str, Any] = {}
    match options.subcommand:
        case "priority":
            return [event(job=job.id, priority=_new_priority(options.priority, job.priority)) for job in jobs]
        case "move":
            fields = _target(client, options)
        case "kill":
            fields = {"now": options.now}
        case "rerun":
            fields = {"environment": ""}
    made = [event(job=job.id, seen=seen(job), **fields) for job in jobs]
    if options.subcommand == "rerun" and options.all_at_once:
        made.append(events.Resume())
    elif options.subcommand == "rerun" and len(jobs) > 1:
        made.append(events.TryFirst(tuple(job.id for job in jobs)))
    return made


def _new_priority(wanted: str, current: int) -> int:
    """Return the new priority.

    A relative change is limited to the valid range, and the owner refuses an absolute value outside it.
    """
    if wanted[0] in "+-":
        return min(HIGHEST_PRIORITY, max(LOWEST_PRIORITY, current + int(wanted)))
    return int(wanted)


def _target(client: Client, options: Options) -> dict[str, Any]:
    if options.before is None:
        return {"where": next(way for way in MoveTarget if getattr(options, way))}
    before = select_jobs(client, options, [options.before], None)
    if len(before) != 1:
        refuse(f"--before {options.before}: name one job")
    return {"where": MoveTarget.BEFORE, "before": before[0].id}


def _describe_success(options: Options, made: Sequence[UserCommand], jobs: Sequence[PickedJob]) -> str:
    if options.subcommand == "priority":
        new = {event.priority for event in made if isinstance(event, SetPriority)}
        return f"priority {new.pop() if len(new) == 1 else options.priority}"
    if options.subcommand == "kill" and not options.now and any(job.state not in WAITING for job in jobs):
        return "SIGTERM sent; SIGKILL after the grace period"
    return JOB_COMMANDS[options.subcommand].done
