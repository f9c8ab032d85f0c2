"""Changing lanes while the session runs: commands on devices, and --gpu-file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.core.events import Kill, Refusal, Requeue, Seen, SetLanes
from gputui.core.job import Job, JobId, StateName
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.snapshot import Snapshot
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import BadGpus, lanes, parse_gpus
from gputui.gpus.picture import DevicePicture, label
from gputui.process.watch import NoThread, begin
from gputui.session.event_loop import Act, Loop, Ticket
from gputui.session.session_dir import Journal

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


# ---- What can be done about a device while the session runs ----


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


# ---- `--gpu-file` ----


LOOK_EVERY = 1.0
LARGEST = 65536
Mark = tuple[int, int, int]


class GpuFile:
    """Looks once a second. A file that is empty, gone or nonsense changes nothing: the last good list stays."""

    def __init__(
        self, loop: Loop, path: Callable[[], str | None], change: Callable[[tuple[Lane, ...]], None], journal: Journal
    ) -> None:
        self._loop = loop
        self._path = path
        self._change = change
        self._journal = journal
        self._seen: tuple[str, Mark] | None = None
        loop.call_later(LOOK_EVERY, self._look)

    def look_again(self) -> None:
        """What it said came to nothing."""
        self._seen = None

    def _look(self) -> None:
        self._loop.call_later(LOOK_EVERY, self._look)
        path = self._path()
        if path is None:
            return
        mark = _mark(path)
        if mark is None or self._seen == (path, mark):
            return
        self._seen = (path, mark)
        try:
            begin(lambda: self._read(path), "gputui-gpu-file")  # the driver may have to be asked for its GPUs
        except NoThread:
            self._seen = None

    def _read(self, path: str) -> None:
        try:
            lanes = read(path)
        except (BadGpus, OSError, UnicodeDecodeError) as error:
            self._journal.write(f"{path} is not followed, the lanes stay as they are: {error}")
        else:
            self._loop.call_soon_threadsafe(lambda: self._change(lanes))


def read(path: str) -> tuple[Lane, ...]:
    """Raises BadGpus for an empty file too: a writer that truncates first must not take all lanes away."""
    lines = (line.partition("#")[0].strip() for line in _text(path).splitlines())
    words = " ".join(line for line in lines if line)
    if not words:
        raise BadGpus("it is empty; write the GPUs into it: 0,1")
    return lanes(parse_gpus(words), find_hardware()).lanes


def _text(path: str) -> str:
    """The owner's thread reads it, so it must not be one that waits for a writer."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadGpus("it is not a regular file; give one that can be read again and again")
        return os.read(fd, LARGEST).decode()
    finally:
        os.close(fd)


def _mark(path: str) -> Mark | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
