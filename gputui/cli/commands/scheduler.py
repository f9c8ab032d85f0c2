"""Commands that control the scheduler as a whole: pause, resume and drain."""

from __future__ import annotations

import time

from msgspec import Struct

from gputui.cli.command import find_session, suggest
from gputui.cli.output import (
    INTERRUPTED,
    JSON,
    Exit,
    StatusLine,
    format_counts,
    print_json,
    say,
)
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import counted
from gputui.core.events import Drain, Mode, Pause, Resume, UserCommand
from gputui.core.job import EngineName, StateName
from gputui.session.client import Client
from gputui.session.messages import Commands, SchedulerShown, SessionStatus, StatusQuestion

HELP = {
    "pause": ("pause", "Start no more jobs; running jobs continue.", "gputui pause\ngputui resume"),
    "resume": (
        "resume",
        "Start jobs again, whatever paused them; starts a daemon if none is running.",
        "gputui resume\ngputui rerun --failed --all-at-once",
    ),
    "drain": (
        "drain [--no-wait]",
        "Start no more jobs and wait for the running ones to end.",
        "gputui drain\ngputui drain --no-wait",
    ),
}
"""Usage, summary and examples of each command."""


class SchedulerAnswer(Struct, frozen=True):
    """The state of the scheduler after a command."""

    session: str
    scheduler: SchedulerShown
    counts: dict[StateName, int]
    running: int
    waiting: int


ANSWERS = {"pause": SchedulerAnswer, "resume": SchedulerAnswer, "drain": SchedulerAnswer}


def answer(client: Client, status: SessionStatus, text: str) -> int:
    """Print the state of the scheduler, as JSON or as this text."""
    say(text)
    if JSON.on:
        running, waiting = _running_and_waiting(status)
        print_json(SchedulerAnswer(client.root, status.scheduler, status.counts, running, waiting))
    return 0


def parser(subcommand: str) -> Parser:
    usage, summary, examples = HELP[subcommand]
    parser = Parser(subcommand, summary, usage=usage, examples=examples)
    match subcommand:
        case "drain":
            parser.switch("--no-wait", help="return at once")
        case "resume":
            parser.add_common("no_start")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    return {"pause": pause, "resume": resume, "drain": drain}[options.subcommand](client, options)


def send(client: Client, event: UserCommand, *, work: bool = False) -> None:
    """Send one command to the scheduler. Exit with the message if it is refused."""
    (outcome,) = client.ask(Commands((event,)), work=work)
    if outcome.refused is not None:
        raise Exit(1, outcome.refused)


def pause(client: Client, options: Options) -> int:
    send(client, Pause())
    status = client.ask(StatusQuestion())
    running, waiting = _running_and_waiting(status)
    wait = counted(waiting, "job waiting", "jobs waiting")
    resume = suggest(options, "gputui resume")
    return answer(client, status, f"paused: {_describe_running(running)}, {wait}; to resume: {resume}")


def resume(client: Client, options: Options) -> int:
    send(client, Resume(), work=not options.no_start)
    status = client.ask(StatusQuestion())
    counts = format_counts(status.counts, status.engine) or "no jobs"
    return answer(client, status, f"scheduler resumed: {counts}")


def drain(client: Client, options: Options) -> int:
    send(client, Drain())
    if options.no_wait:
        status = client.ask(StatusQuestion())
        running, _ = _running_and_waiting(status)
        return answer(client, status, f"draining: {_describe_running(running)}, no new jobs start")
    with StatusLine() as line:
        try:
            nap = Nap()
            while (status := client.ask(StatusQuestion())).scheduler.state is Mode.DRAINING:
                running, waiting = _running_and_waiting(status)
                line.show(f"draining: {running} running, {waiting} waiting")
                nap.sleep(owned=status.process is not None)
        except KeyboardInterrupt:
            line.clear()
            say(f"still draining; cancel with: {suggest(options, 'gputui resume')}")
            return INTERRUPTED
    if status.scheduler.state is not Mode.PAUSED:
        raise Exit(1, f"not drained: the scheduler was resumed meanwhile; see {suggest(options, 'gputui ls')}")
    wait = counted(status.waiting, "job waiting", "jobs waiting")
    return answer(client, status, f"drained: {wait}; to resume: {suggest(options, 'gputui resume')}")


def _running_and_waiting(status: SessionStatus) -> tuple[int, int]:
    """Count active and waiting jobs.

    Jobs that were submitted to a cluster but have not started count as waiting, because they return to the queue.
    """
    submitted = status.counts.get(StateName.STARTING, 0) if status.engine is not EngineName.LOCAL else 0
    return len(status.active) - submitted, status.waiting + submitted


def _describe_running(running: int) -> str:
    return counted(running, "running job continues", "running jobs continue") if running else "nothing running"


class Nap:
    """Sleeps between polls, longer each time up to half a second."""

    def __init__(self) -> None:
        self._seconds = 0.05

    def sleep(self, *, owned: bool) -> None:
        """Sleep until the next poll. Without an owner, the pause is always 2 s, because a poll briefly takes the
        session's lock.
        """
        time.sleep(self._seconds if owned else 2.0)
        self._seconds = min(0.5, self._seconds * 1.5)
