"""run on a session that another process has, or whose machine is gone: join it, or adopt it."""

from __future__ import annotations

import argparse
import signal
import sys

from gputui.cli.command import again_in, ask_one_key
from gputui.cli.output import USAGE, Exit, say
from gputui.cli.progress import EventLines
from gputui.core.amounts import counted
from gputui.core.job import Ended, JobId, Succeeded
from gputui.logs.plain import plain
from gputui.process.watch import Wakeup
from gputui.session.client import Client
from gputui.session.control.connection import OwnerStopped, RequestRefused
from gputui.session.messages import Follow, Followed
from gputui.session.owner.requests import Begin, Load, OpenSession
from gputui.session.ownership import old_sessions
from gputui.session.ownership.acquisition import Owned
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft

from .inputs import STDIN, Inputs
from .jobs import Feeder, told, write
from .session_options import agree

# ---- `run` on a session that an app or another `run` has ----


LOOK_EVERY = 0.2
AT_ONCE = 2000


class JoinedRun:
    """Its jobs are those it named; its exit status covers them alone."""

    def __init__(
        self,
        options: argparse.Namespace,
        inputs: Inputs,
        environment: dict[str, str],
        owned: Owned,
        wanted: Begin,
    ) -> None:
        self._options = options
        self._inputs = inputs
        self._environment = environment
        self._client = Client(options.output_dir, say)
        self._begin = agree(self._client, owned, wanted, yes=options.yes)
        self._reporter = EventLines()
        self._left = Wakeup()
        self._unfinished: dict[JobId, None] = {}
        """In their order; filled by the thread that reads standard input, emptied by the one that looks."""
        self._failed = self._ended = 0
        self._paused: str | None = None
        self._awaits: str | None = None
        self._stopped_told = False
        say(f"this session is open in gputui {owned.kind} (pid {owned.pid}): jobs are added there")

    def run(self) -> int:
        signal.signal(signal.SIGINT, lambda *_: self._left.set())
        for notice in self._inputs.notices:
            say(notice)
        self._open()
        if self._inputs.lasting:
            say(f"{', '.join(source.path for source in self._inputs.lasting)}: read there from now on")
        feeder = Feeder(STDIN, self._feed, lambda: len(self._unfinished))
        if self._inputs.follows_stdin:
            feeder.start()
        else:
            feeder.ended.set()
        if self._inputs.nothing:
            raise Exit(2, "no jobs given; what the session holds is scheduled there")
        self._wait(feeder)
        self._tell_tally()
        if feeder.trouble is not None:
            raise Exit(2, f"{feeder.trouble}; what came before it was added")
        return 1 if self._failed or self._unfinished else 0

    def _tell_tally(self) -> None:
        not_run = len(self._unfinished)
        total = self._ended + not_run
        tally = {"total": total, "succeeded": self._ended - self._failed, "failed": self._failed, "not_run": not_run}
        write(self._options.tally, tally)
        sentence = told(tally)
        if sentence is not None:
            say(sentence)

    def _wait(self, feeder: Feeder) -> None:
        """Until its jobs have ended or none of them goes on without somebody's help."""
        goes_on = True
        while goes_on:
            if self._left.wait(LOOK_EVERY):
                raise Exit(130, f"left; {len(self._unfinished)} of its jobs go on or wait in {self._client.root}")
            more_may_come = not feeder.ended.is_set()
            goes_on = self._look() or more_may_come or (self._options.wait_when_paused and bool(self._unfinished))
        if self._unfinished:
            wait = counted(len(self._unfinished), "job waits", "jobs wait")
            if self._paused is not None:
                say(f"paused: {self._paused}. {wait}; to go on: {again_in(self._client.root, 'gputui resume')}")
            else:
                see = again_in(self._client.root, "gputui ls")
                say(f"{wait}: {self._awaits or f'nothing starts by itself; {see} tells why'}")

    def _open(self) -> None:
        """What was named and all jobs that are there already: one request, as of whoever opens a session itself."""
        loads = self._inputs.loads(self._client.root, self._environment)
        opened = self._client.ask(OpenSession(self._begin, loads), work=True)
        for loaded in opened.loaded:
            self._unfinished.update(dict.fromkeys(loaded.jobs))
            if loaded.sentence:
                say(loaded.sentence)
            if loaded.warning:
                say(f"warning: {plain(loaded.warning)}")
        if opened.refused is not None:
            raise RequestRefused(opened.refused)

    def _feed(self, drafts: list[Draft]) -> None:
        load = Load(self._inputs.from_drafts(drafts), self._environment, "standard input")
        self._unfinished.update(dict.fromkeys(self._client.ask(load, work=True).jobs))

    def _look(self) -> bool:
        """Reports what happened; False: nothing more will."""
        ids = list(self._unfinished)
        goes_on = False
        try:
            for start in range(0, len(ids), AT_ONCE):
                # An owner that is needed is started: these jobs were promised to be scheduled.
                followed = self._client.ask(Follow(ids[start : start + AT_ONCE]), work=True)
                goes_on = followed.goes_on or goes_on
                self._take_in(followed)
        except OwnerStopped as stopped:
            self._tell_stopped(str(stopped))
            return True
        return goes_on and bool(self._unfinished)

    def _take_in(self, followed: Followed) -> None:
        cause = followed.scheduler.cause
        self._paused = cause.message if cause is not None else None
        self._awaits = followed.scheduler.awaits
        self._stopped_told = False
        for job in followed.jobs:
            self._reporter.tell(job)
            if isinstance(job.state, Ended):
                del self._unfinished[job.id]
                self._ended += 1
                self._failed += not isinstance(job.state, Succeeded)

    def _tell_stopped(self, sentence: str) -> None:
        if not self._stopped_told:
            self._stopped_told = True
            say(sentence)


# ---- `--adopt` ----


def adopt(paths: Paths, *, yes: bool) -> None:
    """Nothing is asked about a session that can be opened anyhow. `yes`: the user has answered already (-y)."""
    if not paths.exists():
        return
    foreign = old_sessions.refusal(paths)
    if foreign is None:
        return

    def question() -> None:
        say(str(foreign))
        if foreign.in_cluster:
            print(
                "Its jobs go on in Slurm. A gputui that still runs there could start jobs a second time.",
                file=sys.stderr,
            )
            print("[y] none runs there, continue it here  [n] leave it", file=sys.stderr, flush=True)
        else:
            print("Whatever still runs there could run a second time. Is all of it gone?", file=sys.stderr)
            print("[y] all is gone, adopt it  [n] leave it", file=sys.stderr, flush=True)

    if not yes and ask_one_key(question) != "y":
        raise Exit(USAGE, f"{paths.root} was not adopted; --adopt asks on a terminal, or give -y to answer yes")
    old_sessions.adopt(paths)
