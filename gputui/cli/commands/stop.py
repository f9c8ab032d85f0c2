"""`gputui stop`: end everything in a session except its queue, and check in /proc that nothing is left."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from gputui.cli.command import find_session, suggest
from gputui.cli.output import INTERRUPTED, JSON, StatusLine, print_answer, say
from gputui.cli.parser import Options, Parser
from gputui.core.amounts import counted
from gputui.core.events import Mode, Pause, PauseKind
from gputui.core.job import EngineName, JobId, StateName, SurvivingProcess
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.control.connection import ClientError
from gputui.session.lock import OwnerKind, find_leftover_processes, is_alive
from gputui.session.messages import Leave, ListedJob, Listing, OwnerShown, SessionStatus, StatusQuestion
from gputui.session.owner.requests import Sources
from gputui.views.status import StatusWord

from .scheduler import send

NAP = 0.1
CLUSTER_REPORTS_WITHIN = 10.0
"""Seconds that a cluster has, after the kill time, to report that a job ended."""
OWNER_EXITS_WITHIN = 10.0
MAY_HAVE_LEFTOVERS = (StateName.HELD, StateName.KILLED, StateName.TIMED_OUT, StateName.LOST)
"""States of jobs that may have leftover processes."""


class OutOfReach(Exception):
    """Raised when jobs cannot be stopped now. The message names them and says why."""


class StopAnswer(Struct, frozen=True):
    """Whether everything was stopped."""

    session: str
    stopped: bool
    """Whether nothing is left running."""
    leftovers: list[str]
    """The processes that are still running."""
    waiting: int


ANSWERS = {"stop": StopAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Stop all running jobs gracefully and put them back in the queue, stop the scheduler (TUI, run or daemon), and "
        "check that nothing is left running.",
        usage="stop",
        examples="gputui stop\ngputui stop --dry-run\ngputui resume",
    )
    parser.add_common("dry_run", "yes", "json", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    if options.dry_run:
        from gputui.cli.dry_run import print_preview

        status = client.ask(StatusQuestion())
        if not is_over(client, status):
            send(client, Pause(PauseKind.STOPPED))
        return print_preview(client, status.active)
    try:
        status = until_nothing_runs(client)
    except KeyboardInterrupt:
        say(f"jobs are still stopping; to keep watching: {suggest(options, 'gputui stop')}")
        return INTERRUPTED
    except OutOfReach as error:
        say(plain(f"{error}; gputui keeps retrying; to watch: {suggest(options, 'gputui stop')}"))
        return 1
    given_up = client.ask(Listing(states=list(MAY_HAVE_LEFTOVERS))).jobs
    if status.process is not None:
        try:
            client.ask(Leave(stop=True))  # the owner and its daemon exit
        except ClientError as error:
            say(str(error))
    left_processes = [process for job in given_up for process in job.leftovers]
    return verified(client, status, left_processes, options)


def until_nothing_runs(client: Client) -> SessionStatus:
    """Stop the session, which requeues its running jobs, and show a countdown until all of them have ended.

    A session with nothing left to do is not stopped, so that jobs added later run.
    """
    began = time.monotonic()
    status = client.ask(StatusQuestion())
    if is_over(client, status):
        return status
    send(client, Pause(PauseKind.STOPPED))
    with StatusLine() as line:
        while (status := client.ask(StatusQuestion())).active:
            if status.process is None:
                client.ask(StatusQuestion(), work=True)  # a daemon must end the jobs
            jobs = client.ask(Listing(jobs=status.active)).jobs
            if is_out_of_reach(status, jobs):
                raise OutOfReach(f"{status.trouble}: could not stop {job_list([job.id for job in jobs])} there")
            line.show(countdown(jobs, time.monotonic() - began))
            time.sleep(NAP)
    return status


def is_over(client: Client, status: SessionStatus) -> bool:
    """Return whether nothing runs or waits and no source can add jobs."""
    if status.active or status.waiting or status.scheduler.word not in (StatusWord.DONE, StatusWord.IDLE):
        return False
    return not any(source.lasts for source in client.ask(Sources()))


def is_out_of_reach(status: SessionStatus, jobs: list[ListedJob]) -> bool:
    """Return whether jobs are running in a cluster that has not answered since they should have been killed."""
    if status.engine is EngineName.LOCAL or not status.trouble or not jobs:
        return False
    return all(job.kill_at is not None and time.time() > job.kill_at + CLUSTER_REPORTS_WITHIN for job in jobs)


def job_list(jobs: Sequence[JobId]) -> str:
    return ", ".join(f"#{job}" for job in jobs[:5]) + (" …" if len(jobs) > 5 else "")


def countdown(jobs: list[ListedJob], waited: float) -> str:
    names = job_list([job.id for job in jobs])
    deadlines = [job.kill_at for job in jobs if job.kill_at is not None]
    until_then = f"SIGKILL in {max(0, int(max(deadlines) - time.time()))} s" if deadlines else f"for {int(waited)} s"
    return f"stopping {len(jobs)} running: {names} · {until_then}"


def verified(client: Client, status: SessionStatus, leftovers: list[SurvivingProcess], options: Options) -> int:
    """Report whether anything is left after giving the owner some time to exit. Return the exit status."""
    deadline = time.monotonic() + OWNER_EXITS_WITHIN
    while (
        there := [*find_leftover_processes(client.root), *running_scheduler(status.process)]
    ) and time.monotonic() < deadline:
        time.sleep(NAP)
    left = [f"pid {pid}, {what}" for pid, what in there]
    left += [process.words for process in leftovers if is_alive(process.pid, process.started)]
    for sentence in left:
        say(plain(f"still running: {sentence}"))
    answer = StopAnswer(client.root, not left, left, status.waiting)
    if left:
        print_answer(lambda: answer, lambda _: [])
        return 1
    stopped = f"stopped, nothing left running; {counted(status.waiting, 'job waiting', 'jobs waiting')}"
    can_resume = status.waiting or status.scheduler.state is Mode.PAUSED
    unsaved = can_resume and status.trouble is not None and not is_kept(client)
    if unsaved:
        stop = suggest(options, "gputui stop")
        notices = [f"could not save the stopped state: the next gputui will resume. Free disk space, then: {stop}"]
    else:
        notices = [] if status.engine is EngineName.LOCAL else left_in_slurm(client)
        stopped += f". To continue: {suggest(options, 'gputui resume')}" if can_resume else ""
    if JSON.on:
        JSON.messages += notices
    print_answer(lambda: answer, lambda _: [stopped])
    for notice in notices:
        say(notice)
    return int(bool(notices))


def left_in_slurm(client: Client) -> list[str]:
    """Return notices about jobs that are still in Slurm's queue because they could not be canceled."""
    from gputui.engines.claims import jobs_in_queue

    jobs = jobs_in_queue(client.private)
    if not jobs:
        return []
    return [
        f"Slurm did not answer: {job_list(jobs)} may still be in its queue. They will not run,",
        "and the next gputui to open the session cancels them; check with squeue --me",
    ]


def is_kept(client: Client) -> bool:
    """Return whether the next owner will find the session stopped, even though its queue could not be written."""
    from gputui.session.store.commit import read_pause

    if read_pause(client.private):
        return True
    try:
        return client.ask(StatusQuestion()).scheduler.state is Mode.PAUSED
    except ClientError:
        return False


def running_scheduler(owner: OwnerShown | None) -> list[tuple[int, str]]:
    if owner is None or owner.kind == OwnerKind.DAEMON or not is_alive(owner.pid):
        return []
    return [(owner.pid, f"gputui {owner.kind}, the scheduler of this session")]
