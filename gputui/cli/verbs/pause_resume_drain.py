"""Verbs about the scheduler as a whole: pause, resume, drain."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from gputui.cli.command import INTERRUPTED, again, carry_out, session
from gputui.cli.output import Exit, say
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import told
from gputui.core.amounts import counted
from gputui.core.events import Drain, Mode, Pause, Resume, UserCommand
from gputui.core.job import EngineName, StateName
from gputui.session.client import Client
from gputui.session.messages import Commands, SessionStatus, StatusQuestion

FIRST_NAP, LONGEST_NAP = 0.05, 0.5
GONE_NAP = 2.0
"""Between looks at a session that nobody owns: each look takes its lock for a moment."""
HELP = {
    "pause": ("pause", "Starts no more jobs; running jobs go on.", "gputui pause\ngputui resume"),
    "resume": (
        "resume",
        "Lets the scheduler start jobs again, whatever paused it. Starts a keeper if the session has no owner.",
        "gputui resume\ngputui rerun --failed --all-at-once",
    ),
    "drain": (
        "drain [--no-wait]",
        "Starts no more jobs, and waits until the running ones have ended.",
        "gputui drain\ngputui drain --no-wait",
    ),
}
"""Usage, summary and examples."""


def parser(verb: str) -> Parser:
    usage, summary, examples = HELP[verb]
    verb_parser = Parser(verb, summary, usage=usage, examples=examples)
    if verb == "drain":
        verb_parser.switch("--no-wait", help="do not wait for them")
    if verb == "resume":
        verb_parser.add_common("no_start")
    verb_parser.add_common("session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, {"pause": pause, "resume": resume, "drain": drain}[verb])


def command(client: Client, event: UserCommand, *, work: bool = False) -> None:
    """One event about the scheduler; a refusal ends the verb with its sentence."""
    (outcome,) = client.ask(Commands((event,)), work=work)
    if outcome.refused is not None:
        raise Exit(1, outcome.refused)


def pause(options: Options) -> int:
    client = session(options)
    command(client, Pause())
    status = client.ask(StatusQuestion())
    back = taken_back(status)
    wait = counted(status.waiting + back, "job waits", "jobs wait")
    say(f"paused: {_go_on(len(status.active) - back)}, {wait}; {again(options, 'gputui resume')} goes on")
    return 0


def resume(options: Options) -> int:
    client = session(options)
    command(client, Resume(), work=not options.no_start)
    status = client.ask(StatusQuestion())
    say(f"the scheduler starts jobs again: {told(status.counts, status.engine) or 'there are none'}")
    return 0


def drain(options: Options) -> int:
    client = session(options)
    command(client, Drain())
    status = client.ask(StatusQuestion())
    if options.no_wait:
        say(f"draining: {_go_on(len(status.active) - taken_back(status))}, nothing new starts")
        return 0
    try:
        status = watched(client, lambda status: status.scheduler.state is not Mode.DRAINING, draining)
    except KeyboardInterrupt:
        say(f"still draining; {again(options, 'gputui resume')} undoes it")
        return INTERRUPTED
    if status.scheduler.state is not Mode.PAUSED:
        raise Exit(1, f"not drained: somebody resumed the scheduler meanwhile; see {again(options, 'gputui ls')}")
    say(f"drained: {counted(status.waiting, 'job waits', 'jobs wait')}; {again(options, 'gputui resume')} goes on")
    return 0


def taken_back(status: SessionStatus) -> int:
    """How many stand in a cluster's queue and have not begun: where nothing is to start, they wait here again."""
    return status.counts.get(StateName.STARTING, 0) if status.engine is not EngineName.LOCAL else 0


def _go_on(running: int) -> str:
    return counted(running, "running job goes on", "running jobs go on") if running else "nothing runs"


def draining(status: SessionStatus) -> str:
    back = taken_back(status)
    return f"draining: {len(status.active) - back} running, {status.waiting + back} waiting"


def watched(
    client: Client, over: Callable[[SessionStatus], bool], line: Callable[[SessionStatus], str]
) -> SessionStatus:
    """Looks at the status, ever less often, until it is over; tells how it goes on a terminal."""
    progress = DrainProgress()
    nap = FIRST_NAP
    try:
        while True:
            status = client.ask(StatusQuestion())
            if over(status):
                return status
            progress.show(line(status))
            time.sleep(nap if status.owner is not None else GONE_NAP)
            nap = min(LONGEST_NAP, nap * 1.5)
    finally:
        progress.clear()


class DrainProgress:
    """One line on a terminal, rewritten when it changes; nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = ""
        self._terminal = sys.stderr.isatty()

    def show(self, line: str) -> None:
        if self._terminal and line != self._shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
            self._shown = line

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = ""
