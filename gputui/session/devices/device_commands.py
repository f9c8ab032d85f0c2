"""What can be done about a device while the session runs: take it off and put it back, end what is on it.

Each command is carried out in the owner's turn, on the lanes as they are then, and answers in one sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core.events import Kill, Refusal, Requeue, Seen, SetLanes
from gputui.core.job import Job, JobId, StateName
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture
from gputui.gpus.words import label
from gputui.session.owner.ticket import Act, Ticket

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


def title(device: DevicePicture) -> str:
    """As sentences call it: `GPU 3`, `CPU lane 0`."""
    sample = device.sample
    return f"CPU lane {sample.index}" if sample.uuid.startswith("CPU-") else label(sample)


def word_of(device: DevicePicture) -> str | None:
    """As a job names it that wants no other; None: jobs cannot."""
    sample = device.sample
    if sample.uuid.startswith("CPU-") or not sample.schedulable:
        return None
    named = {word for lane in device.lanes for word in lane.devices}
    own = {sample.uuid, str(sample.index)} if sample.mig is None else {sample.uuid}
    return next(iter(named & own), sample.uuid if sample.mig is not None else str(sample.index))


def drain(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Its lanes go, those with a job when the job has ended."""
    ids = {lane.id for lane in device.lanes}

    def work(act: Act) -> str:
        board = act.scheduler.board
        going = tuple(lane for lane in board.lanes if lane.id in ids)
        if not going:
            raise Refusal(f"{title(device)} has no lane in this session")
        act.handle(SetLanes(tuple(lane for lane in board.lanes if lane.id not in ids), these=True))
        owner.devices.taken_off = tuple(dict.fromkeys((*owner.devices.taken_off, *going)))
        return _drained(device, going, [board.holders[lane.id] for lane in going if lane.id in board.holders])

    return owner.do(work)


def _drained(device: DevicePicture, going: tuple[Lane, ...], jobs: list[JobId]) -> str:
    devices = list(dict.fromkeys(word for lane in going for word in lane.devices))
    what = f"GPUs {', '.join(devices)} are" if len(devices) > 1 else f"{title(device)} is"
    if not jobs:
        return f"{what} drained: nothing starts there"
    return f"{what} draining: {', '.join(f'#{job}' for job in dict.fromkeys(jobs))} may end, then nothing starts there"


def enable(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Its lanes as they were before it was drained; one lane for a device that had none."""

    def work(act: Act) -> str:
        board = act.scheduler.board
        leaving = board.leaving()
        back = tuple(dict.fromkeys((*(lane for lane in device.lanes if lane in leaving), *device.taken_off)))
        back = back or (_new_lane(device),)
        act.handle(SetLanes((*board.lanes, *(lane for lane in back if lane not in board.lanes)), these=True))
        owner.devices.taken_off = tuple(lane for lane in owner.devices.taken_off if lane not in back)
        return f"{title(device)} takes jobs again"

    return owner.do(work)


def _new_lane(device: DevicePicture) -> Lane:
    sample = device.sample
    if not sample.visible:
        raise Refusal(f"{title(device)} is left out by CUDA_VISIBLE_DEVICES")
    if not sample.schedulable:
        raise Refusal(f"{title(device)} cannot be given to jobs")
    if sample.uuid.startswith("CPU-"):
        return Lane(0, (), DeviceKind.CPU)
    kind = DeviceKind.SIMULATED if sample.uuid.startswith("SIM-") else DeviceKind.GPU
    return Lane(0, (sample.uuid if sample.mig is not None else str(sample.index),), kind)


def requeued(device: DevicePicture, snapshot: Snapshot) -> tuple[Requeue, ...]:
    """The commands that put its jobs back into the queue, as they were seen."""
    return tuple(Requeue(job=job.id, seen=_seen(job)) for job in stoppable(device, snapshot))


def killed(device: DevicePicture, snapshot: Snapshot) -> tuple[Kill, ...]:
    """The commands that kill its jobs, as they were seen."""
    return tuple(Kill(job=job.id, seen=_seen(job)) for job in stoppable(device, snapshot))


def stoppable(device: DevicePicture, snapshot: Snapshot) -> list[Job]:
    """The jobs on it that are not being stopped already."""
    jobs = [snapshot[job] for job in device.jobs if job in snapshot]
    return [job for job in jobs if job.active is not None and job.state.name is not StateName.STOPPING]


def _seen(job: Job) -> Seen:
    return Seen(job.issued, job.state.name)


def kill_leftovers(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Ends all that attempts now over have left, on this device or off it; never anything of a running one."""
    attempts = dict.fromkeys((each.job, each.attempt) for each in device.leftovers)

    def work(act: Act) -> str:
        over = [each for each in attempts if not _under_way(act, *each)]
        if not over:
            raise Refusal(f"nothing is left over on {title(device)}")
        for job, attempt in over:
            owner.engine.kill_leftovers(job, attempt)
        return f"ending what {', '.join(f'#{job}' for job, _ in over)} left on {title(device)}"

    return owner.do(work)


def _under_way(act: Act, job: JobId, attempt: int) -> bool:
    book = act.scheduler.book
    placed = book[job].active if job in book else None
    return placed is not None and placed.attempt == attempt
