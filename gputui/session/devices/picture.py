"""The picture of the devices, put together from a sample and the session's jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from gputui.core.job import JobId, LaneId, Running, Stopping, Suspended
from gputui.core.lanes import DeviceFacts, DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.gpus.hardware import find
from gputui.gpus.history import EMPTY, DeviceHistories, DeviceShare, DeviceWarning
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState, Leftover, why_not
from gputui.gpus.sample import DeviceSample, NodeStanding, Sample, Status, node_of
from gputui.gpus.strangers import HeldByStrangers, Resting, Verdict, ours_in
from gputui.gpus.usage import DeviceHolding

# ---- Puts the picture of the devices together from a sample and what the session makes of it ----


class SessionLanes(Struct, frozen=True):
    """The lanes of a session at one moment, and those that were drained."""

    lanes: tuple[Lane, ...]
    leaving: tuple[Lane, ...]
    holders: Mapping[LaneId, JobId]
    taken_off: tuple[Lane, ...] = ()

    @classmethod
    def of(cls, snapshot: Snapshot, taken_off: tuple[Lane, ...]) -> SessionLanes:
        return cls(snapshot.lanes, snapshot.leaving, snapshot.holders, taken_off)

    def all_lanes(self) -> tuple[Lane, ...]:
        return (*self.lanes, *self.leaving, *self.taken_off)


class Known(Struct, frozen=True, kw_only=True):
    """What the owner found out about the devices of a sample."""

    verdicts: Mapping[str, Verdict] = {}
    """By device key."""
    blocked: Mapping[str, str] = {}
    """By the words that lanes use."""
    pids: Mapping[int, JobId] = {}
    leftovers: tuple[Leftover, ...] = ()
    idle_since: Mapping[JobId, float] = {}
    shares: Mapping[str, DeviceShare] = {}
    """By device key, as the warnings."""
    warnings: Mapping[str, tuple[DeviceWarning, ...]] = {}
    history: DeviceHistories = EMPTY


NOTHING_KNOWN = Known()


def without_session(sample: Sample | None, kind: DeviceKind, facts: Known = NOTHING_KNOWN) -> DevicesPicture:
    """All a monitor can say: processes are just processes."""
    devices = sample.devices if sample is not None else ()
    pictures = tuple(
        DevicePicture(
            sample=device,
            share=facts.shares.get(device.key, DeviceShare()),
            warnings=facts.warnings.get(device.key, ()),
        )
        for device in devices
    )
    return DevicesPicture(
        kind=sample.kind if sample else kind, sample=sample, devices=pictures, looking=True, history=facts.history
    )


def pictured(
    kind: DeviceKind, sample: Sample | None, session: SessionLanes, facts: Known, *, looking: bool
) -> DevicesPicture:
    """Every device of the sample, and a stand-in for each that the session has and no sample shows."""
    devices = sample.devices if sample is not None else ()
    by_key: dict[str, DeviceSample] = {device.key: device for device in devices}
    over: dict[str, list[Lane]] = {}
    blocked: dict[str, str] = {}
    for lane in session.all_lanes():
        for word, device in _devices_of(lane, devices, _missing(sample)):
            by_key.setdefault(device.key, device)
            over.setdefault(device.key, []).append(lane)
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


def _missing(sample: Sample | None) -> Callable[[str], DeviceSample]:
    """How a device is shown that no sample holds: as not there, once all that are there have answered."""
    is_gone = sample is not None and sample.complete and sample.trouble is None

    def stand_in(word: str) -> DeviceSample:
        status = Status.ERROR if is_gone else Status.OK
        message = f"GPU {word} is not there" if is_gone else ""
        index = int(word) if word.isdecimal() else 0
        return DeviceSample(index=index, uuid=word, name="GPU", status=status, message=message)

    return stand_in


def _devices_of(
    lane: Lane, devices: tuple[DeviceSample, ...], stand_in: Callable[[str], DeviceSample]
) -> list[tuple[str, DeviceSample]]:
    if lane.kind is DeviceKind.CPU:
        key = f"CPU-{lane.id}"
        own = DeviceSample(index=lane.id, uuid=key, name="CPU")
        return [(key, next((device for device in devices if device.key == key), own))]
    return [(word, find(devices, word) or stand_in(word)) for word in lane.devices]


def _device(
    sample: DeviceSample, lanes: Iterable[Lane], session: SessionLanes, facts: Known, blocked: str | None
) -> DevicePicture:
    ids = {lane.id for lane in session.lanes}
    here = tuple(lane for lane in dict.fromkeys(lanes) if lane.id in ids or lane in session.leaving)
    jobs = (session.holders.get(lane.id) for lane in here)
    verdict = facts.verdicts.get(sample.key)
    on_it = {process.pid for process in sample.processes}
    return DevicePicture(
        sample=sample,
        state=_state(here, ids, session.holders),
        jobs=tuple(dict.fromkeys(job for job in jobs if job is not None)),
        lanes=here,
        taken_off=tuple(lane for lane in dict.fromkeys(lanes) if lane in session.taken_off),
        blocked=blocked,
        strangers=verdict.by if isinstance(verdict, HeldByStrangers) else (),
        free_at=verdict.until if isinstance(verdict, Resting) else None,
        leftovers=tuple(each for each in facts.leftovers if each.pid in on_it),
        share=facts.shares.get(sample.key, DeviceShare()),
        warnings=facts.warnings.get(sample.key, ()),
    )


def _state(lanes: tuple[Lane, ...], wanted: set[LaneId], holders: Mapping[LaneId, JobId]) -> LaneState:
    if not lanes:
        return LaneState.OFF
    if not any(lane.id in wanted for lane in lanes):
        return LaneState.DRAINING
    return LaneState.BUSY if any(lane.id in holders for lane in lanes) else LaneState.FREE


# ---- Which processes and devices of a sample are which job's ----


def ours(scheduler: Scheduler, sample: Sample, token: Callable[[JobId, int], str]) -> dict[int, JobId]:
    """The processes of attempts under way, by their token or by the wrapper that leads their kernel session."""
    runs: dict[str, JobId] = {}
    wrappers: dict[int, JobId] = {}
    for job_id in scheduler.book.active:
        job = scheduler.book[job_id]
        assert job.active is not None
        runs[token(job_id, job.active.attempt)] = job_id
        if isinstance(job.state, Running | Suspended | Stopping) and job.state.pid is not None:
            wrappers[job.state.pid] = job_id
    return ours_in(sample, runs, wrappers)


def left_behind(sample: Sample, session: str, ours: dict[int, JobId]) -> tuple[Leftover, ...]:
    """Processes on a device that carry the token of an attempt that is over."""
    leftovers: dict[int, Leftover] = {}
    for process in (process for device in sample.devices for process in device.processes):
        match (process.run or "").split("."):
            case [name, job, attempt] if name == session and job.isdecimal() and attempt.isdecimal():
                if process.alive and process.pid not in ours:
                    leftovers[process.pid] = Leftover(process.pid, int(job), int(attempt))
    return tuple(leftovers.values())


def holdings(scheduler: Scheduler, sample: Sample) -> list[DeviceHolding]:
    """Every attempt under way with the devices it was given, whether it uses them or not."""
    held = []
    for job_id in scheduler.book.active:
        placed = scheduler.book[job_id].active
        assert placed is not None
        keys = tuple(device.key for word in placed.gpus if (device := find(sample.devices, word)) is not None)
        held.append(DeviceHolding(job_id, placed.attempt, keys, placed.since))
    return held


# ---- What a sample says of one device to the scheduler ----


def device_fact(
    sample: Sample, word: str, verdicts: dict[str, Verdict], pids: dict[int, JobId], leased: str | None, now: float
) -> DeviceFacts:
    if sample.trouble is not None:
        return DeviceFacts(blocked=f"unavailable: {sample.trouble.message}; {sample.trouble.advice}")
    device = find(sample.devices, word)
    if device is None:
        return DeviceFacts(blocked="not there")
    return DeviceFacts(
        blocked=why_not(verdicts[device.key], now) or leased,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        ours=_memory_of_ours(device, pids),
        crowded=isinstance(verdicts[device.key], HeldByStrangers),
    )


def _memory_of_ours(device: DeviceSample, pids: dict[int, JobId]) -> dict[JobId, int]:
    used: dict[JobId, int] = {}
    for process in device.processes:
        job = pids.get(process.pid)
        if job is not None:
            used[job] = used.get(job, 0) + (process.memory or 0)
    return used


def user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


# ---- The picture of a cluster's GPUs ----


def cluster_pictured(sample: Sample | None, held: Mapping[str, JobId], facts: Known) -> DevicesPicture:
    """`held`: the job of ours that has each GPU, by its word."""
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
    sample: DeviceSample, job: JobId | None, closed: NodeStanding | None, facts: Known
) -> DevicePicture:
    return DevicePicture(
        sample=sample,
        state=LaneState.BUSY if job is not None else None,
        jobs=() if job is None else (job,),
        elsewhere=True,
        blocked=None if closed is None else f"its node is {closed}",
        share=facts.shares.get(sample.key, DeviceShare()),
    )


# ---- gpu use ----


FILE = "gpu_use.csv"
FRESH = 15.0
"""Seconds after which figures are too old to be shown: clocks of nodes and the cache of a shared disk differ."""
_MOST = 64 * 1024
"""Bytes; a job may write whatever it likes into its own folder."""


class UsedGpu(Struct, frozen=True, kw_only=True):
    """None: nvidia-smi cannot say."""

    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: float | None = None


def gpu_use(held: Mapping[str, str]) -> dict[str, UsedGpu]:
    """By the words of the GPUs that jobs hold; files that are not there, old or damaged tell nothing."""
    now = time.time()
    read = {path: _read(path, now) for path in set(held.values())}
    return {word: used for word, path in held.items() if (used := read[path].get(word.rpartition(":")[2])) is not None}


def _read(path: str, now: float) -> dict[str, UsedGpu]:
    try:
        with open(path, encoding="ascii", errors="replace", opener=_opener) as file:
            if now - os.fstat(file.fileno()).st_mtime > FRESH:
                return {}
            lines = file.read(_MOST).splitlines()
    except OSError:
        return {}
    fields = (line.split(",") for line in lines)
    return {each[0].strip(): _used(each) for each in fields if len(each) == 6}


def _opener(path: str, flags: int) -> int:
    """A job could put a pipe there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _used(fields: list[str]) -> UsedGpu:
    _, load, used, total, heat, power = (_number(field) for field in fields)
    return UsedGpu(
        utilization=None if load is None else round(load),
        memory_used=None if used is None else round(used * 1024**2),
        memory_total=None if total is None else round(total * 1024**2),
        temperature=None if heat is None else round(heat),
        power=power,
    )


def _number(text: str) -> float | None:
    """`[N/A]`, `[Not Supported]` and the like are no numbers; neither is infinity."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
