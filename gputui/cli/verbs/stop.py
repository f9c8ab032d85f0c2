"""`gputui stop`: everything of a session ends, its queue stays, and what is claimed about it is looked up in /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence

from gputui.cli.command import INTERRUPTED, again, carry_out, session
from gputui.cli.output import out, say
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import counted
from gputui.core.events import Mode, Pause, PauseKind, Requeue
from gputui.core.job import EngineName, JobId, StateName
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.control.connection import ClientError
from gputui.session.lock import OwnerKind, is_alive, left_of, unknown_since
from gputui.session.messages import (
    Commands,
    Leave,
    LeftShown,
    ListedJob,
    Listing,
    OwnerShown,
    SessionStatus,
    StatusQuestion,
)
from gputui.session.owner.requests import Sources
from gputui.views.status import Word

from .pause_resume_drain import DrainProgress, command

Stopped = dict[tuple[int, int], ListedJob]
"""The attempts that were told to stop, by job and number."""

NAP = 0.1
HEARD_WITHIN = 10.0
"""Seconds after which a job in a cluster that should have been killed was not heard of."""
OWNERS_GO_WITHIN = 10.0
GIVEN_UP = (StateName.HELD, StateName.KILLED, StateName.TIMED_OUT, StateName.LOST)
"""What a job is of which something could not be ended."""


class OutOfReach(Exception):
    """Jobs that cannot be told to stop now; the message says which, and why."""


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Ends all running jobs gracefully and requeues them, ends the session's owner (screen, run or keeper) and its "
        "keeper, and verifies that nothing is left running. The queue stays; gputui resume goes on with it.",
        usage="stop",
        examples="gputui stop\ngputui resume",
    )
    verb_parser.add_common("yes", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    client = session(options)
    try:
        status, stopped_jobs = until_nothing_runs(client)
    except KeyboardInterrupt:
        say(f"the jobs are still being stopped; {again(options, 'gputui stop')} watches on")
        return INTERRUPTED
    except OutOfReach as error:
        say(plain(f"{error}; it is told again until it is heard, and {again(options, 'gputui stop')} watches on"))
        return 1
    given_up = client.ask(Listing(states=list(GIVEN_UP))).jobs
    if status.owner is not None:
        dismiss(client)
    left_processes = [process for job in given_up for process in job.left]
    return verified(client, status, left_processes, stopped_jobs.values(), options)


def until_nothing_runs(client: Client) -> tuple[SessionStatus, Stopped]:
    """Pauses, tells each running job to stop, once, and counts down what is left of their grace.

    Where nothing is left to do there is nothing to keep from starting, and what is added later runs.
    """
    progress = DrainProgress()
    stopped_jobs: Stopped = {}
    begun = time.monotonic()
    paused = False
    try:
        while True:
            status = client.ask(StatusQuestion())
            if not paused and not is_over(client, status):
                command(client, Pause(PauseKind.STOPPED))
                paused = True
                continue
            if not status.active:
                return status, stopped_jobs
            jobs = client.ask(Listing(jobs=status.active)).jobs
            requeue(client, [job for job in jobs if (job.id, job.attempt) not in stopped_jobs])
            stopped_jobs |= {(job.id, job.attempt): job for job in jobs if job.started is not None}
            if is_out_of_reach(status, jobs):
                raise OutOfReach(f"{status.trouble}: {named([job.id for job in jobs])} could not be stopped there")
            progress.show(countdown(jobs, time.monotonic() - begun))
            time.sleep(NAP)
    finally:
        progress.clear()


def is_over(client: Client, status: SessionStatus) -> bool:
    """Nothing runs or waits, and no source can bring more."""
    if status.active or status.waiting or status.scheduler.word not in (Word.DONE, Word.IDLE):
        return False
    return not any(source.lasts for source in client.ask(Sources()))


def requeue(client: Client, jobs: list[ListedJob]) -> None:
    """A refusal says that the job ended or is being stopped already, which is as good."""
    events = tuple(Requeue(job=job.id) for job in jobs if job.state is not StateName.STOPPING)
    if events:
        client.ask(Commands(events), work=True)


def is_out_of_reach(status: SessionStatus, jobs: list[ListedJob]) -> bool:
    """They run in a cluster that has not answered since they were to be killed."""
    if status.engine is EngineName.LOCAL or not status.trouble or not jobs:
        return False
    return all(job.kill_at is not None and time.time() > job.kill_at + HEARD_WITHIN for job in jobs)


def named(jobs: Sequence[JobId]) -> str:
    return ", ".join(f"#{job}" for job in jobs[:5]) + (" …" if len(jobs) > 5 else "")


def countdown(jobs: list[ListedJob], waited: float) -> str:
    names = named([job.id for job in jobs])
    deadlines = [job.kill_at for job in jobs if job.kill_at is not None]
    until_then = f"killed in {max(0, int(max(deadlines) - time.time()))} s" if deadlines else f"for {int(waited)} s"
    return f"stopping {len(jobs)} running: {names} · {until_then}"


def dismiss(client: Client) -> None:
    """Whoever owns the session goes, and its keeper with it."""
    try:
        client.ask(Leave(stop=True))
    except ClientError as error:
        say(str(error))


def verified(
    client: Client,
    status: SessionStatus,
    leftovers: list[LeftShown],
    stopped_jobs: Collection[ListedJob],
    options: Options,
) -> int:
    """Looks until nothing is left, for an owner needs a moment to go."""
    deadline = time.monotonic() + OWNERS_GO_WITHIN
    while (there := [*left_of(client.root), *still_owning(status.owner)]) and time.monotonic() < deadline:
        time.sleep(NAP)
    foreign = [process.words for process in leftovers if is_alive(process.pid, process.started)]
    for sentence in [*(f"pid {pid}, {what}" for pid, what in there), *foreign]:
        say(plain(f"still there: {sentence}"))
    for pid, words in _unknown(client.root, stopped_jobs):
        say(plain(f"not known: pid {pid} ({words}) began where these jobs ran and may be theirs; look: ps -fp {pid}"))
    if there or foreign:
        return 1
    wait = counted(status.waiting, "job waits", "jobs wait")
    to_go_on = status.waiting or status.scheduler.state is Mode.PAUSED
    if to_go_on and status.trouble is not None and not is_kept(client):
        out(f"nothing of gputui runs here any more; {wait}")
        stop = again(options, "gputui stop")
        say(f"that it is stopped could not be stored: the next gputui goes on. With room on the disk: {stop}")
        return 1
    out(
        f"nothing of gputui runs here any more; {wait}"
        + (f". To go on: {again(options, 'gputui resume')}" if to_go_on else "")
    )
    return 0 if status.engine is EngineName.LOCAL else left_in_slurm(client)


def _unknown(root: str, jobs: Collection[ListedJob]) -> Iterator[tuple[int, str]]:
    began = min((job.started for job in jobs if job.started is not None), default=None)
    if began is None:
        return iter(())
    return unknown_since(began, os.path.realpath(root), {os.path.realpath(job.cwd) for job in jobs})


def left_in_slurm(client: Client) -> int:
    """Places in its queue that could not be given back."""
    from gputui.engines.claims import jobs_in_queue

    jobs = jobs_in_queue(client.private)
    if jobs:
        say(f"Slurm did not answer: {named(jobs)} may still stand in its queue. Nothing of it will run there,")
        say("and the next gputui that works on the session takes it out; squeue --me shows it")
    return int(bool(jobs))


def is_kept(client: Client) -> bool:
    """The next owner finds the session stopped, though its queue could not be written."""
    from gputui.session.store.commit import noted

    if noted(client.private):
        return True
    try:
        return client.ask(StatusQuestion()).scheduler.state is Mode.PAUSED
    except ClientError:
        return False


def still_owning(owner: OwnerShown | None) -> list[tuple[int, str]]:
    if owner is None or owner.kind == OwnerKind.KEEPER or not is_alive(owner.pid):
        return []
    return [(owner.pid, f"gputui {owner.kind}, which owns the session")]
