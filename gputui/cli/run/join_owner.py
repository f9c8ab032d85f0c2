"""`run` on a session that another process owns, or whose machine is gone.

It joins the owner or, with `--adopt`, adopts the session.
"""

from __future__ import annotations

import signal
import sys

from gputui.cli.command import ask_key, suggest_in
from gputui.cli.output import JSON, USAGE, Exit, print_json, say
from gputui.cli.parser import Options
from gputui.cli.progress import EventLines
from gputui.core.amounts import counted
from gputui.core.job import Ended, JobId, Succeeded
from gputui.process.watch import Wakeup
from gputui.session.client import Client
from gputui.session.control.connection import OwnerStopped, RequestRefused
from gputui.session.messages import Follow, Followed
from gputui.session.owner.requests import OpenSession
from gputui.session.ownership import acquisition
from gputui.session.ownership.acquisition import AlreadyOwned
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft

from .inputs import STDIN, Inputs
from .jobs import RunAnswer, StdinReader, load_messages, report_tally
from .session_options import SessionOptions, WantedSlots, confirm_conflicts

LOOK_EVERY = 0.2
JOBS_PER_REQUEST = 2000


class JoinedRun:
    """A run whose jobs another process executes. Its exit status covers only the jobs that it added."""

    def __init__(
        self,
        options: Options,
        inputs: Inputs,
        environment: dict[str, str],
        owned: AlreadyOwned,
        session: SessionOptions,
        slots: WantedSlots,
    ) -> None:
        self._options = options
        self._inputs = inputs
        self._environment = environment
        self._client = Client(session.output_dir, say)
        self._begin = confirm_conflicts(self._client, owned, session, slots, yes=options.yes)
        self._reporter = EventLines() if not JSON.on else None
        self._added: list[JobId] = []
        self._left = Wakeup()
        self._unfinished: dict[JobId, None] = {}
        """The unfinished jobs in order.

        The thread that reads standard input adds ids, and the main thread removes them.
        """
        self._failed = self._ended = 0
        self._paused: str | None = None
        self._waiting_reason: str | None = None
        self._reported_stop = False
        say(f"session is open in gputui {owned.kind} (pid {owned.pid}); adding the jobs there")

    def run(self) -> int:
        signal.signal(signal.SIGINT, lambda *_: self._left.set())
        for notice in self._inputs.notices:
            say(notice)
        self._open()
        if self._inputs.ongoing:
            say(f"{', '.join(source.path for source in self._inputs.ongoing)}: now read by that process")
        stdin = StdinReader(STDIN, self._add, lambda: len(self._unfinished))
        stdin.start(wanted=self._inputs.follows_stdin)
        if self._inputs.nothing:
            raise Exit(2, "no jobs given; that process runs the queued ones")
        self._wait(stdin)
        not_run = len(self._unfinished)
        total = self._ended + not_run
        tally = {"total": total, "succeeded": self._ended - self._failed, "failed": self._failed, "not_run": not_run}
        report_tally(tally, self._options.tally, say)
        if JSON.on:
            print_json(RunAnswer(self._client.root, sorted(self._added), **tally))
        if stdin.trouble is not None:
            raise Exit(2, f"{stdin.trouble}; all lines before it were added")
        return 1 if self._failed or self._unfinished else 0

    def _wait(self, stdin: StdinReader) -> None:
        """Wait until all jobs have ended, or until none of them can continue without the user."""
        has_work = True
        while has_work:
            if self._left.wait(LOOK_EVERY):
                raise Exit(130, f"detached; {len(self._unfinished)} of its jobs unfinished in {self._client.root}")
            more_may_come = not stdin.ended.is_set()
            has_work = self._poll() or more_may_come or (self._options.wait_when_paused and bool(self._unfinished))
        if self._unfinished:
            wait = counted(len(self._unfinished), "job waiting", "jobs waiting")
            if self._paused is not None:
                say(f"paused: {self._paused}. {wait}; to resume: {suggest_in(self._client.root, 'gputui resume')}")
            else:
                see = suggest_in(self._client.root, "gputui ls")
                say(f"{wait}: {self._waiting_reason or f'nothing starts on its own; see {see}'}")

    def _open(self) -> None:
        """Send the options and all jobs known so far in one request."""
        loads = self._inputs.loads(self._client.root, self._environment)
        opened = self._client.ask(OpenSession(self._begin, loads), work=True)
        for loaded in opened.loaded:
            self._follow(loaded.jobs)
        for message in load_messages(opened.loaded):
            say(message)
        if opened.refused is not None:
            raise RequestRefused(opened.refused)

    def _add(self, drafts: list[Draft]) -> None:
        load = self._inputs.load_lines(drafts, self._client.root, self._environment)
        self._follow(self._client.ask(load, work=True).jobs)

    def _follow(self, jobs: list[JobId]) -> None:
        self._added += jobs
        self._unfinished.update(dict.fromkeys(jobs))

    def _poll(self) -> bool:
        """Report what happened, and return whether more can happen."""
        ids = list(self._unfinished)
        has_work = False
        try:
            for start in range(0, len(ids), JOBS_PER_REQUEST):
                # If the owner exited, another one is started for these jobs.
                followed = self._client.ask(Follow(ids[start : start + JOBS_PER_REQUEST]), work=True)
                has_work = followed.has_work or has_work
                self._update(followed)
        except OwnerStopped as stopped:
            if not self._reported_stop:
                self._reported_stop = True
                say(str(stopped))
            return True
        return has_work and bool(self._unfinished)

    def _update(self, followed: Followed) -> None:
        cause = followed.scheduler.cause
        self._paused = cause.message if cause is not None else None
        self._waiting_reason = followed.scheduler.waiting_for
        self._reported_stop = False
        for job in followed.jobs:
            if self._reporter is not None:
                self._reporter.print_new(job)
            if isinstance(job.state, Ended):
                del self._unfinished[job.id]
                self._ended += 1
                self._failed += not isinstance(job.state, Succeeded)


def adopt(paths: Paths, *, yes: bool) -> None:
    """Adopt a session whose machine or container is gone. Ask the user first unless `yes` is true."""
    if not paths.exists():
        return
    foreign = acquisition.foreign_session(paths)
    if foreign is None:
        return

    def question() -> None:
        say(str(foreign))
        if foreign.in_cluster:
            print(
                "Its jobs continue in Slurm. A gputui that still runs there could start jobs a second time.",
                file=sys.stderr,
            )
            print("[y] none runs there, continue it here  [n] leave it", file=sys.stderr, flush=True)
        else:
            print("Jobs still running there could run twice. Have they all ended?", file=sys.stderr)
            print("[y] yes, adopt it  [n] no", file=sys.stderr, flush=True)

    if not yes and ask_key(question) != "y":
        raise Exit(USAGE, f"{paths.root} was not adopted; --adopt needs a terminal and the answer y, or -y")
    acquisition.adopt(paths)
