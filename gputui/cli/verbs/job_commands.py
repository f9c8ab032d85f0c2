"""Verbs that ask one thing of each of some jobs: hold, release, suspend, continue, kill, requeue, rerun, rm."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.cli.command import again, carry_out, confirm, picked, report, seen, session
from gputui.cli.output import say
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.cli.progress import pause_words
from gputui.core.events import (
    Continue,
    Hold,
    JobCommand,
    Kill,
    Release,
    Remove,
    Requeue,
    Rerun,
    Resume,
    Suspend,
    TryFirst,
    UserCommand,
)
from gputui.core.job import ACTIVE, ENDS, WAITING, EngineName, JobId
from gputui.session.client import Client
from gputui.session.messages import Commands, PickedJob, StatusQuestion

GIVES_WORK = ("rerun", "release")
HELP = {
    "hold": (
        "hold JOBS … [--all]",
        "Keeps waiting jobs from starting until they are released. --all: all waiting jobs.",
        "gputui hold 12\ngputui hold 3-9 baseline\ngputui hold --all -y",
    ),
    "release": (
        "release JOBS … [--all]",
        "Lets held jobs start. --all: all held jobs.",
        "gputui release 12\ngputui release --all -y",
    ),
    "suspend": (
        "suspend JOBS … [--all]",
        "Stops running jobs where they are (SIGSTOP); they keep their GPU memory. --all: all running jobs.",
        "gputui suspend 12\ngputui continue 12",
    ),
    "continue": (
        "continue JOBS … [--all]",
        "Lets suspended jobs run on. --all: all suspended jobs.",
        "gputui continue 12\ngputui continue --all -y",
    ),
    "kill": (
        "kill JOBS … [--now] [--all]",
        "Ends jobs: SIGTERM to the whole process tree and, after the grace period, SIGKILL. A waiting job will not "
        "start any more. --all: all running jobs; the queue stays.",
        "gputui kill 12\ngputui kill 12 --now\ngputui kill --all -y",
    ),
    "requeue": (
        "requeue JOBS … [--all]",
        "Ends running jobs gracefully and puts them back where they were in the queue, with the same checkpoint "
        "folder. --all: all running jobs.",
        "gputui requeue 12\ngputui requeue --all -y",
    ),
    "rerun": (
        "rerun JOBS … | --failed | --all-failed [--all-at-once]",
        "Runs ended jobs again, each as a new attempt with the environment of this shell. Of several failed jobs one "
        "is tried first; the others start when it succeeds, or has run three times as long as they did and at least a "
        "minute. If a job is being tried already, they start after it. --all: all ended jobs.",
        "gputui rerun 12\ngputui rerun --failed\ngputui rerun --all-failed --all-at-once -y",
    ),
    "rm": (
        "rm JOBS … | --succeeded",
        "Takes jobs off the list; their files stay. --all: all ended jobs.",
        "gputui rm 12\ngputui rm --succeeded -y",
    ),
}
"""Usage, summary and examples."""


APPLIES_TO = {
    "hold": ("queued", "blocked", "delayed"),
    "release": ("held",),
    "suspend": ("running",),
    "continue": ("suspended",),
    "kill": ACTIVE,
    "requeue": ("starting", "running", "suspended"),
    "rerun": ENDS,
    "rm": ENDS,
}
DONE = {
    "hold": "held",
    "release": "released",
    "suspend": "suspended; GPU memory stays taken",
    "continue": "goes on",
    "kill": "killed",
    "requeue": "stops, and waits again",
    "rerun": "waits to run again",
    "rm": "removed; files stay",
}


def parser(verb: str) -> Parser:
    usage, summary, examples = HELP[verb]
    verb_parser = Parser(verb, summary, usage=usage, examples=examples)
    verb_parser.add_jobs()
    if verb == "kill":
        verb_parser.switch("--now", help="SIGKILL at once, without a grace period")
    if verb == "rerun":
        verb_parser.switch("--all-at-once", help="try none first; also resumes the scheduler")
    if verb == "rm":
        verb_parser.switch("--succeeded", help="all jobs that succeeded")
    verb_parser.add_common(*SELECTION)
    if verb in GIVES_WORK:
        verb_parser.add_common("no_start")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    verb, client = options.verb, session(options)
    jobs = picked(client, options, options.words, _applies_to(client, options))
    confirm(client, options, jobs, verb)
    outcomes = client.ask(request(options, jobs), work=needs_engine(options, jobs))[: len(jobs)]
    status = report(outcomes, jobs, done(options, jobs))
    if verb in GIVES_WORK:
        say_if_paused(client, options, {job.id for job in jobs})
    return status


def _applies_to(client: Client, options: Options) -> Sequence[str]:
    """The states that `--all` means. On a cluster a job that has not begun waits, though it was submitted."""
    if options.verb == "hold" and options.all and client.ask(StatusQuestion()).engine is not EngineName.LOCAL:
        return (*APPLIES_TO["hold"], "starting")
    return APPLIES_TO[options.verb]


def needs_engine(options: Options, jobs: list[PickedJob]) -> bool:
    """Work is given, or a running job is meant."""
    if options.verb in GIVES_WORK:
        return not options.no_start
    return options.verb != "rm" and any(job.state in ACTIVE for job in jobs)


EVENTS: dict[str, type[JobCommand]] = {
    "hold": Hold,
    "release": Release,
    "suspend": Suspend,
    "continue": Continue,
    "requeue": Requeue,
    "rm": Remove,
}


def request(options: Options, jobs: list[PickedJob]) -> Commands:
    environment = None
    if options.verb == "rerun":
        from gputui.session.environment import captured

        environment = captured()
    events = [event(options, job) for job in jobs]
    if options.verb == "rerun":
        events += [Resume()] if options.all_at_once else _one_first(jobs)
    return Commands(tuple(events), environment)


def _one_first(jobs: list[PickedJob]) -> list[UserCommand]:
    return [TryFirst(tuple(job.id for job in jobs))] if len(jobs) > 1 else []


def event(options: Options, job: PickedJob) -> UserCommand:
    if options.verb == "kill":
        return Kill(job=job.id, seen=seen(job), now=bool(options.now))
    if options.verb == "rerun":
        return Rerun(job=job.id, seen=seen(job), environment="")
    command: UserCommand = EVENTS[options.verb](job=job.id, seen=seen(job))  # type: ignore[assignment]  # one of its kinds
    return command


def done(options: Options, jobs: list[PickedJob]) -> str:
    if options.verb == "kill" and not options.now and any(job.state not in WAITING for job in jobs):
        return "told to end; killed when its grace is over"
    return DONE[options.verb]


def say_if_paused(client: Client, options: Options, jobs: set[JobId]) -> None:
    words = pause_words(client.ask(StatusQuestion()).scheduler, jobs, resume=again(options, "gputui resume"))
    if words:
        say(words)
