"""What is different where lanes are jobs in the queue of a cluster: pure rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .amounts import counted
from .events import Instruction, Mode, Refusal, Remark, Submitted, Withdraw
from .job import EngineName, Job, Request, Starting, Stopping
from .lanes import Board, DeviceKind, Lane, engine_of

if TYPE_CHECKING:
    from .scheduler import Scheduler


_PLACES = {EngineName.LOCAL: "on this machine", EngineName.SLURM: "in Slurm"}


def check_lanes(scheduler: Scheduler, lanes: Iterable[Lane]) -> None:
    """Refuses lanes of two engines, and another engine while attempts of the one before are under way."""
    lanes = tuple(lanes)
    kinds = {lane.kind for lane in lanes}
    if DeviceKind.SLURM in kinds and len(kinds) > 1:
        raise Refusal("lanes in Slurm and lanes on this machine cannot be mixed in one session; take two sessions")
    wanted = engine_of(lanes)
    book = scheduler.book
    placed = (job.active for job in map(book.__getitem__, book.active))
    others = [each for each in placed if each is not None and each.engine is not wanted]
    if lanes and others:
        there, here = _PLACES[others[0].engine], _PLACES[wanted]
        are = counted(len(others), "job is", "jobs are")
        raise Refusal(f"{are} under way {there}: let them end (drain) or kill them, then the session can go on {here}")


def check_request(board: Board, request: Request) -> None:
    """Refuses what no node of the cluster can ever give."""
    if board.on_cluster and (why := not_on_cluster(board, request)):
        raise Refusal(f"a job asks for {_asked(request)}: {why}")


def not_on_cluster(board: Board, request: Request) -> str:
    """Why the cluster cannot run it; empty: it can, or there is no cluster."""
    if not board.on_cluster:
        return ""
    if request.devices:
        return "Slurm itself chooses the devices, so a job cannot name them; leave them out"
    if board.largest is not None and (request.gpus or 0) > board.largest.gpus:
        return f"the largest node, {board.largest.name}, has {board.largest.gpus}"
    return ""


def _asked(request: Request) -> str:
    if request.devices:
        return f"GPU {', '.join(request.devices)}"
    return counted(request.gpus or 0, "GPU", "GPUs")


def submitted(scheduler: Scheduler, job: Job, event: Submitted, now: float) -> list[Instruction]:
    """It waits there for a reason that others see; nothing that is stored changes."""
    if scheduler.submitted.get(job.id) != event:
        scheduler.submitted[job.id] = event
        scheduler.book.changed.add(job.id)
    assert isinstance(job.state, Starting | Stopping)
    return [] if isinstance(job.state, Stopping) else withdrawals(scheduler, (job,))


def remarked(scheduler: Scheduler, job: Job, event: Remark, now: float) -> list[Instruction]:
    """Nothing that is stored changes."""
    if scheduler.remarks.get(job.id, "") != event.text:
        scheduler.remarks[job.id] = event.text
        scheduler.book.changed.add(job.id)
    return []


def withdrawals(scheduler: Scheduler, jobs: Iterable[Job] | None = None) -> list[Instruction]:
    """Of what waits in the cluster although nothing is to start now: it is the user's again, to be moved or changed."""
    if jobs is None:
        jobs = [scheduler.book[job_id] for job_id in sorted(scheduler.book.active)]
    return [Withdraw(job.id, job.issued) for job in jobs if job.submitted and not _may_begin(scheduler, job)]


def _may_begin(scheduler: Scheduler, job: Job) -> bool:
    """Not while nothing is to start, but for the one job that the breaker tries; nor one that is to be held."""
    if isinstance(job.state, Starting) and job.state.hold:
        return False
    breaker = scheduler.breaker
    crashes = breaker.over(job.spec.group) is not None and breaker.trying(job.id) is None
    return scheduler.wanted_mode is Mode.RUNNING and not crashes
