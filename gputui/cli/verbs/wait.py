"""`gputui wait`: blocks until jobs have ended, and says by its exit status how."""

from __future__ import annotations

import time

from gputui.cli.command import again, carry_out, parted, session
from gputui.cli.output import Exit, say
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import counted as by_state
from gputui.cli.tables import told
from gputui.core.amounts import counted
from gputui.core.job import ACTIVE, ENDS
from gputui.session.client import Client
from gputui.session.messages import PickedJob, PickJobs, StatusQuestion

from .pause_resume_drain import FIRST_NAP, GONE_NAP, LONGEST_NAP, DrainProgress


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Waits until these jobs have ended, or all jobs of the session if none is named. Exit status: 0 all "
        "succeeded, 1 some did not.",
        usage="wait [JOBS …] [--any]",
        examples="gputui wait && echo all good\ngputui wait 12 13\ngputui wait --any 3-9",
    )
    verb_parser.add_jobs()
    verb_parser.switch("--any", help="return when the first of them has ended, with its status")
    verb_parser.add_common("session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    client = session(options)
    wait = Wait(client, options)
    try:
        return wait.until_over()
    finally:
        wait.progress.clear()


class Wait:
    """Looks at the jobs, ever less often, and says once what keeps them from going on."""

    def __init__(self, client: Client, options: Options) -> None:
        self.progress = DrainProgress()
        self._client = client
        self._any = bool(options.any)
        self._resume = again(options, "gputui resume")
        ids, names = parted(options.words)
        self._meant = PickJobs(ids, names, all=not options.words)
        self._told_pause = False

    def until_over(self) -> int:
        nap = FIRST_NAP
        while True:
            jobs = self._look()
            ended = [job for job in jobs if job.state in ENDS]
            if len(ended) == len(jobs) or (self._any and ended):
                return self._status(ended)
            owned = self._explain([job for job in jobs if job.state not in ENDS])
            self.progress.show(f"{len(ended)}/{len(jobs)} ended · {told(by_state(job.state for job in jobs))}")
            time.sleep(nap if owned else GONE_NAP)
            nap = min(LONGEST_NAP, nap * 1.5)

    def _look(self) -> list[PickedJob]:
        answer = self._client.ask(self._meant)
        if answer.missing:
            raise Exit(1, f"there is no job {', '.join(answer.missing)} in {self._client.root}")
        if not answer.jobs:
            raise Exit(1, f"there are no jobs in {self._client.root}")
        return answer.jobs

    def _explain(self, open_jobs: list[PickedJob]) -> bool:
        """Whether somebody owns the session; ends the verb when nobody does and nothing runs."""
        status = self._client.ask(StatusQuestion())
        runs = any(job.state in ACTIVE for job in open_jobs)
        if status.owner is None and not runs:
            raise Exit(1, f"{_wait(len(open_jobs))} and nobody schedules them; {self._resume} starts a keeper")
        cause = status.scheduler.cause
        if cause is not None and not runs and not self._told_pause:
            self._told_pause = True
            self.progress.clear()
            say(f"the scheduler is paused ({cause.message}); this waits until somebody resumes it")
        return status.owner is not None

    def _status(self, ended: list[PickedJob]) -> int:
        bad = [job for job in ended if job.state != "succeeded"]
        if bad:
            self.progress.clear()
            say(f"{len(ended) - len(bad)} of {len(ended)} succeeded; {told(by_state(job.state for job in bad))}")
        return 1 if bad else 0


def _wait(jobs: int) -> str:
    return counted(jobs, "job waits", "jobs wait")
