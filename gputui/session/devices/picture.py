"""Construction of the picture of the devices from a sample and the session's jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from gputui.core.job import JobId, Running, SlotId, Stopping, Suspended
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceFacts, DeviceKind, NodeState, Slot
from gputui.gpus.external_processes import HeldByExternalProcesses, Resting, Verdict, ours_in
from gputui.gpus.hardware import find
from gputui.gpus.history import EMPTY, DeviceHistories, DeviceShare, DeviceWarning
from gputui.gpus.picture import DevicePicture, DevicesPicture, Leftover, SlotState, why_blocked
from gputui.gpus.sample import DeviceSample, Sample, Status, node_of
from gputui.gpus.usage import DeviceHolding


class SessionSlots(Struct, frozen=True):
    """The slots of a session, including those that were drained."""

    slots: tuple[Slot, ...]
    leaving: tuple[Slot, ...]
    holders: Mapping[SlotId, JobId]
    taken_off: tuple[Slot, ...] = ()

    def all_slots(self) -> tuple[Slot, ...]:
        return (*self.slots, *self.leaving, *self.taken_off)


class DeviceKnowledge(Struct, frozen=True, kw_only=True):
    """What the owner knows about the devices of a sample."""

    verdicts: Mapping[str, Verdict] = {}
    """Verdicts on the use of devices by external processes, by device key."""
    blocked: Mapping[str, str] = {}
    """Reasons why devices are blocked, by the device names that slots use."""
    pids: Mapping[int, JobId] = {}
    leftovers: tuple[Leftover, ...] = ()
    idle_since: Mapping[JobId, float] = {}
    shares: Mapping[str, DeviceShare] = {}
    """How each device is shared between our jobs and others, by device key. `warnings` has the same keys."""
    warnings: Mapping[str, tuple[DeviceWarning, ...]] = {}
    history: DeviceHistories = EMPTY


NOTHING_KNOWN = DeviceKnowledge()


def without_session(sample: Sample | None, kind: DeviceKind, facts: DeviceKnowledge = NOTHING_KNOWN) -> DevicesPicture:
    """Return the picture that a monitor without a session shows: all devices with the processes of all users."""
    pictures = tuple(
        DevicePicture(
            sample=device,
            share=facts.shares.get(device.key, DeviceShare()),
            warnings=facts.warnings.get(device.key, ()),
        )
        for device in (sample.devices if sample is not None else ())
    )
    return DevicesPicture(
        kind=sample.kind if sample else kind, sample=sample, devices=pictures, looking=True, history=facts.history
    )


def make_picture(
    kind: DeviceKind, sample: Sample | None, session: SessionSlots, facts: DeviceKnowledge, *, looking: bool
) -> DevicesPicture:
    """Return a picture with every device of the sample, and a stand-in for each device that the session's slots name
    but the sample lacks.
    """
    devices = sample.devices if sample is not None else ()
    by_key: dict[str, DeviceSample] = {device.key: device for device in devices}
    over: dict[str, list[Slot]] = {}
    blocked: dict[str, str] = {}
    for slot in session.all_slots():
        if slot.kind is DeviceKind.CPU:
            key = f"CPU-{slot.id}"
            shown = [(key, by_key.get(key) or DeviceSample(index=slot.id, uuid=key, name="CPU"))]
        else:
            shown = [(word, find(devices, word) or _stand_in(word, sample)) for word in slot.devices]
        for word, device in shown:
            by_key.setdefault(device.key, device)
            over.setdefault(device.key, []).append(slot)
            if word in facts.blocked:
                blocked[device.key] = facts.blocked[word]
    return DevicesPicture(
        kind=kind,
        sample=sample,
        devices=tuple(
            _device(each, over.get(key, ()), session, facts, blocked.get(key)) for key, each in by_key.items()
        ),
        pids=facts.pids,
        idle_since=facts.idle_since,
        looking=looking,
        history=facts.history,
    )


def _stand_in(word: str, sample: Sample | None) -> DeviceSample:
    """Return a stand-in for a device that is not in the sample. It is reported as missing once the sample is
    complete.
    """
    index = int(word) if word.isdecimal() else 0
    if sample is None or not sample.complete or sample.trouble is not None:
        return DeviceSample(index=index, uuid=word, name="GPU")
    return DeviceSample(index=index, uuid=word, name="GPU", status=Status.ERROR, message=f"GPU {word} not found")


def _device(
    sample: DeviceSample, slots: Iterable[Slot], session: SessionSlots, facts: DeviceKnowledge, blocked: str | None
) -> DevicePicture:
    ids = {slot.id for slot in session.slots}
    here = tuple(slot for slot in dict.fromkeys(slots) if slot.id in ids or slot in session.leaving)
    jobs = (session.holders.get(slot.id) for slot in here)
    verdict = facts.verdicts.get(sample.key)
    on_it = {process.pid for process in sample.processes}
    return DevicePicture(
        sample=sample,
        state=_state(here, ids, session.holders),
        jobs=tuple(dict.fromkeys(job for job in jobs if job is not None)),
        slots=here,
        taken_off=tuple(slot for slot in dict.fromkeys(slots) if slot in session.taken_off),
        blocked=blocked,
        external_processes=verdict.by if isinstance(verdict, HeldByExternalProcesses) else (),
        free_at=verdict.until if isinstance(verdict, Resting) else None,
        leftovers=tuple(each for each in facts.leftovers if each.pid in on_it),
        share=facts.shares.get(sample.key, DeviceShare()),
        warnings=facts.warnings.get(sample.key, ()),
    )


def _state(slots: tuple[Slot, ...], wanted: set[SlotId], holders: Mapping[SlotId, JobId]) -> SlotState:
    if not slots:
        return SlotState.OFF
    if not any(slot.id in wanted for slot in slots):
        return SlotState.DRAINING
    return SlotState.BUSY if any(slot.id in holders for slot in slots) else SlotState.FREE


# Processes and devices of jobs


def find_our_processes(scheduler: Scheduler, sample: Sample, token: Callable[[JobId, int], str]) -> dict[int, JobId]:
    """Return the processes of running attempts. They are recognized by their token, or by belonging to the kernel
    session of a wrapper.
    """
    runs: dict[str, JobId] = {}
    wrappers: dict[int, JobId] = {}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        runs[token(job_id, job.active.attempt)] = job_id
        if isinstance(job.state, Running | Suspended | Stopping) and job.state.pid is not None:
            wrappers[job.state.pid] = job_id
    return ours_in(sample, runs, wrappers)


def find_leftovers(sample: Sample, session: str, ours: dict[int, JobId]) -> tuple[Leftover, ...]:
    """Return the processes on devices that carry the token of an attempt that has ended."""
    leftovers: dict[int, Leftover] = {}
    for process in (process for device in sample.devices for process in device.processes):
        match (process.run or "").split("."):
            case [name, job, attempt] if name == session and job.isdecimal() and attempt.isdecimal():
                if process.alive and process.pid not in ours:
                    leftovers[process.pid] = Leftover(process.pid, int(job), int(attempt))
    return tuple(leftovers.values())


def list_holdings(scheduler: Scheduler, sample: Sample) -> list[DeviceHolding]:
    """Return every running attempt with the devices assigned to it, whether it uses them or not."""
    held = []
    for job_id in scheduler.book.active:
        placed = scheduler.book[job_id].active
        assert placed is not None
        keys = tuple(device.key for word in placed.gpus if (device := find(sample.devices, word)) is not None)
        held.append(DeviceHolding(job_id, placed.attempt, keys, placed.since))
    return held


def list_wrappers(scheduler: Scheduler) -> dict[tuple[JobId, int], tuple[int, float]]:
    """Return the wrapper's pid and the start of every attempt that runs on this machine."""
    wrappers = {}
    for job_id in scheduler.book.active:
        state = scheduler.book[job_id].state
        if isinstance(state, Running | Suspended | Stopping) and state.pid is not None:
            placed = state.placed
            if not any(":" in word for word in placed.gpus):
                wrappers[job_id, placed.attempt] = (state.pid, placed.since)
    return wrappers


def describe_device(
    sample: Sample, word: str, verdicts: dict[str, Verdict], pids: dict[int, JobId], leased: str | None, now: float
) -> DeviceFacts:
    if sample.trouble is not None:
        return DeviceFacts(blocked=f"unavailable: {sample.trouble.message}; {sample.trouble.advice}")
    device = find(sample.devices, word)
    if device is None:
        return DeviceFacts(blocked="not found")
    used: dict[JobId, int] = {}
    for process in device.processes:
        job = pids.get(process.pid)
        if job is not None:
            used[job] = used.get(job, 0) + (process.memory or 0)
    return DeviceFacts(
        blocked=why_blocked(verdicts[device.key], now) or leased,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        ours=used,
        crowded=isinstance(verdicts[device.key], HeldByExternalProcesses),
    )


# Clusters


def make_cluster_picture(sample: Sample | None, held: Mapping[str, JobId], facts: DeviceKnowledge) -> DevicesPicture:
    """Return the picture of a cluster. `held` gives our job on each GPU, by the GPU's name (`node:index`)."""
    cluster = sample.cluster if sample is not None else None
    closed = {node.name: node.standing for node in cluster.nodes if node.standing.closed} if cluster is not None else {}
    devices = sample.devices if sample is not None else ()
    return DevicesPicture(
        kind=DeviceKind.SLURM,
        sample=sample,
        devices=tuple(
            _cluster_device(each, held.get(each.key), closed.get(node_of(each.key)), facts) for each in devices
        ),
        idle_since=facts.idle_since,
        looking=True,
        history=facts.history,
    )


def _cluster_device(
    sample: DeviceSample, job: JobId | None, closed: NodeState | None, facts: DeviceKnowledge
) -> DevicePicture:
    return DevicePicture(
        sample=sample,
        state=SlotState.BUSY if job is not None else None,
        jobs=() if job is None else (job,),
        elsewhere=True,
        blocked=None if closed is None else f"its node is {closed}",
        share=facts.shares.get(sample.key, DeviceShare()),
    )
