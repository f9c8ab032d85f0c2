"""Changes of slots while the session runs: by commands on devices and by `--gpu-file`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.core.events import Kill, Refusal, Requeue, Seen, SetSlots
from gputui.core.job import Job, JobId, StateName
from gputui.core.slots import DeviceKind, Slot
from gputui.core.snapshot import Snapshot
from gputui.gpus.hardware import find_hardware
from gputui.gpus.picture import DevicePicture
from gputui.gpus.slots import BadGpus, parse_gpus, slots
from gputui.process.watch import NoThread, start_thread
from gputui.session.event_loop import Loop, Ticket, TurnContext
from gputui.session.session_dir import Journal

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


def device_name(device: DevicePicture) -> str | None:
    """Return the name by which a job can request this device, or None if jobs cannot use it."""
    sample = device.sample
    if sample.uuid.startswith("CPU-") or not sample.schedulable:
        return None
    named = {word for slot in device.slots for word in slot.devices}
    own = {sample.uuid, str(sample.index)} if sample.mig is None else {sample.uuid}
    return next(iter(named & own), sample.uuid if sample.mig is not None else str(sample.index))


def drain(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Remove the slots of the device. A slot that runs a job is removed when the job has ended."""
    ids = {slot.id for slot in device.slots}

    def work(act: TurnContext) -> str:
        board = act.scheduler.board
        going = tuple(slot for slot in board.slots if slot.id in ids)
        if not going:
            raise Refusal(f"{device.sample.label} has no slot in this session")
        act.handle(SetSlots(tuple(slot for slot in board.slots if slot.id not in ids), these=True))
        owner.devices.taken_off = tuple(dict.fromkeys((*owner.devices.taken_off, *going)))
        return _drained(device, going, [board.holders[slot.id] for slot in going if slot.id in board.holders])

    return owner.do(work)


def _drained(device: DevicePicture, going: tuple[Slot, ...], jobs: list[JobId]) -> str:
    devices = list(dict.fromkeys(word for slot in going for word in slot.devices))
    what = f"GPUs {', '.join(devices)}" if len(devices) > 1 else device.sample.label
    if not jobs:
        return f"{what} drained: no jobs start there"
    return f"{what} draining: {', '.join(f'#{job}' for job in dict.fromkeys(jobs))} may finish, no new jobs start there"


def enable(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Restore the slots that the device had before it was drained, or add one slot if it had none."""

    def work(act: TurnContext) -> str:
        board = act.scheduler.board
        leaving = board.leaving()
        back = tuple(dict.fromkeys((*(slot for slot in device.slots if slot in leaving), *device.taken_off)))
        back = back or (_new_slot(device),)
        act.handle(SetSlots((*board.slots, *(slot for slot in back if slot not in board.slots)), these=True))
        owner.devices.taken_off = tuple(slot for slot in owner.devices.taken_off if slot not in back)
        return f"{device.sample.label} accepts jobs again"

    return owner.do(work)


def _new_slot(device: DevicePicture) -> Slot:
    sample = device.sample
    if not sample.visible:
        raise Refusal(f"{device.sample.label} is excluded by CUDA_VISIBLE_DEVICES")
    if not sample.schedulable:
        raise Refusal(f"{device.sample.label} cannot run jobs")
    if sample.uuid.startswith("CPU-"):
        return Slot(0, (), DeviceKind.CPU)
    kind = DeviceKind.SIMULATED if sample.uuid.startswith("SIM-") else DeviceKind.GPU
    return Slot(0, (sample.uuid if sample.mig is not None else str(sample.index),), kind)


def stop_commands(device: DevicePicture, snapshot: Snapshot, kind: type[Kill | Requeue]) -> tuple[Kill | Requeue, ...]:
    """Return commands that kill or requeue the jobs on the device. Each command is refused if its job has changed since
    the snapshot.
    """
    jobs = stoppable(device, snapshot)
    return tuple(kind(job=job.id, seen=Seen(job.issued, job.state.name)) for job in jobs)


def stoppable(device: DevicePicture, snapshot: Snapshot) -> list[Job]:
    """Return the jobs on the device that are not already being stopped."""
    jobs = [snapshot[job] for job in device.jobs if job in snapshot]
    return [job for job in jobs if job.active is not None and job.state.name is not StateName.STOPPING]


def kill_leftovers(owner: Owner, device: DevicePicture) -> Ticket[str]:
    """Kill the processes that ended attempts have left on this device. Processes that the same attempts have left
    elsewhere are killed too.
    """
    attempts = dict.fromkeys((each.job, each.attempt) for each in device.leftovers)

    def work(act: TurnContext) -> str:
        active = {job: act.scheduler.book[job].active for job, _ in attempts if job in act.scheduler.book}
        over = [
            (job, attempt)
            for job, attempt in attempts
            if (placed := active.get(job)) is None or placed.attempt != attempt
        ]
        if not over:
            raise Refusal(f"no leftover processes on {device.sample.label}")
        for job, attempt in over:
            owner.engine.kill_leftovers(job, attempt)
        return f"killing leftovers of {', '.join(f'#{job}' for job, _ in over)} on {device.sample.label}"

    return owner.do(work)


LOOK_EVERY = 1.0
LARGEST = 65536


class GpuFile:
    """The file named by `--gpu-file`, checked once a second. A missing, empty or invalid file changes nothing."""

    def __init__(
        self, loop: Loop, path: Callable[[], str | None], change: Callable[[tuple[Slot, ...]], None], journal: Journal
    ) -> None:
        self._loop = loop
        self._path = path
        self._change = change
        self._journal = journal
        self._seen: tuple[str, tuple[int, int, int]] | None = None
        loop.call_later(LOOK_EVERY, self._look)

    def read_again(self) -> None:
        """Apply the file again, because the last change could not be stored."""
        self._seen = None

    def _look(self) -> None:
        self._loop.call_later(LOOK_EVERY, self._look)
        path = self._path()
        if path is None:
            return
        try:
            status = os.stat(path)
        except OSError:
            return
        mark = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._seen == (path, mark):
            return
        self._seen = (path, mark)
        try:
            start_thread(lambda: self._read(path), "gputui-gpu-file")  # it may have to query the driver
        except NoThread:
            self._seen = None

    def _read(self, path: str) -> None:
        try:
            slots = read(path)
        except (BadGpus, OSError, UnicodeDecodeError) as error:
            self._journal.write(f"cannot follow {path}, keeping the current slots: {error}")
        else:
            self._loop.call_soon_threadsafe(lambda: self._change(slots))


def read(path: str) -> tuple[Slot, ...]:
    """Read the slots from the file. An empty file is an error, because a program that rewrites the file may truncate it
    first.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadGpus("not a regular file; it must be readable repeatedly")
        text = os.read(fd, LARGEST).decode()
    finally:
        os.close(fd)
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    words = " ".join(line for line in lines if line)
    if not words:
        raise BadGpus("empty; list the GPUs in it: 0,1")
    return slots(parse_gpus(words), find_hardware()).slots
