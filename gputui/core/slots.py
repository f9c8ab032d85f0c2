"""Slots, the board that records which slots are in use, and the state of the devices. A slot runs one job at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .job import EngineName, JobId, Request, SlotId

# Devices


class DeviceFacts(Struct, frozen=True):
    """The state of a device in the last sample."""

    blocked: str | None = None
    """Why no job may start on the device, for example `used by alice (pid 4121, 5 h)`, or None if jobs may start."""
    memory_total: int | None = None
    memory_used: int | None = None
    """Bytes used by all processes, or None if unknown."""
    ours: dict[JobId, int] = {}
    """Bytes used by each job of the session."""
    crowded: bool = False
    """Whether external processes use the device as well."""


_UNKNOWN = DeviceFacts()


class Devices:
    """The state of all devices, which decides which jobs fit on them. A device without a sample counts as free."""

    def __init__(self) -> None:
        self._facts: Mapping[str, DeviceFacts] = {}
        self._declared: dict[str, dict[JobId, Request]] = {}

    def update(self, facts: Mapping[str, DeviceFacts]) -> None:
        self._facts = facts

    def reserve(self, job: JobId, request: Request, devices: Iterable[str]) -> None:
        """From now on, treat the memory that a job requests as used, even before the job has allocated it."""
        if request.memory is not None or request.memory_share is not None:
            for device in devices:
                self._declared.setdefault(device, {})[job] = request

    def release(self, job: JobId, devices: Iterable[str]) -> None:
        for device in devices:
            self._declared.get(device, {}).pop(job, None)

    def without(self, jobs: Collection[JobId]) -> Devices:
        """Return a copy in which the memory that these jobs use or have requested is free."""
        devices = Devices()
        devices._facts = {device: _without(facts, jobs) for device, facts in self._facts.items()}
        devices._declared = {
            device: {job: request for job, request in declared.items() if job not in jobs}
            for device, declared in self._declared.items()
        }
        return devices

    def total(self, device: str) -> int | None:
        return self._facts.get(device, _UNKNOWN).memory_total

    def crowded(self, device: str) -> bool:
        return self._facts.get(device, _UNKNOWN).crowded

    def blocked(self, device: str) -> str | None:
        return self._facts.get(device, _UNKNOWN).blocked

    def lacks(self, device: str, request: Request) -> bool:
        """Return whether the device is known to have too little free memory now."""
        if request.larger_than is not None and (self.total(device) or 0) <= request.larger_than:
            return True
        needed, free = self._needed(device, request), self.free_memory(device)
        return needed is not None and free is not None and needed > free

    def too_small(self, device: str, request: Request) -> bool:
        """Return whether the device is known to have too little memory in total."""
        needed, total = self._needed(device, request), self.total(device)
        if request.larger_than is not None and total is not None and total <= request.larger_than:
            return True
        return needed is not None and total is not None and needed > total

    def free_memory(self, device: str) -> int | None:
        """Return the free bytes, or None if unknown. Memory that our jobs have requested does not count as free."""
        facts = self._facts.get(device, _UNKNOWN)
        if facts.memory_total is None or facts.memory_used is None:
            return None
        free = facts.memory_total - facts.memory_used
        for job, request in self._declared.get(device, {}).items():
            free -= max(0, (self._needed(device, request) or 0) - facts.ours.get(job, 0))
        return free

    def _needed(self, device: str, request: Request) -> int | None:
        if request.memory is not None:
            return request.memory
        total = self._facts.get(device, _UNKNOWN).memory_total
        if request.memory_share is None or total is None:
            return None
        return int(request.memory_share * total)


def _without(facts: DeviceFacts, jobs: Collection[JobId]) -> DeviceFacts:
    freed = sum(used for job, used in facts.ours.items() if job in jobs)
    if not freed or facts.memory_used is None:
        return facts
    ours = {job: used for job, used in facts.ours.items() if job not in jobs}
    return replace(facts, memory_used=max(0, facts.memory_used - freed), ours=ours)


# Slots


NO_GPU = "-1"
"""The value of CUDA_VISIBLE_DEVICES with which some tools hide all GPUs."""


class DeviceKind(StrEnum):
    GPU = "gpu"
    CPU = "cpu"
    SIMULATED = "sim"
    SLURM = "slurm"


class Slot(Struct, frozen=True):
    """One or more devices that run one job at a time. A device may be part of several slots."""

    id: SlotId
    devices: tuple[str, ...]
    """The devices as in CUDA_VISIBLE_DEVICES: `0`, `GPU-…`, `MIG-…`. A slot without a GPU has none."""
    kind: DeviceKind = DeviceKind.GPU

    @property
    def device_keys(self) -> tuple[str, ...]:
        """The keys of what the slot occupies: its devices, or the slot itself if it has none."""
        return self.devices or (f"slot {self.id}",)


class NodeState(StrEnum):
    """Whether a node accepts jobs."""

    UP = "up"
    DRAINING = "draining"
    """The node accepts no new jobs, but jobs are still running on it."""
    DRAINED = "drained"
    DOWN = "down"

    @property
    def closed(self) -> bool:
        return self is not NodeState.UP


class NodeSize(Struct, frozen=True):
    """The name and size of the cluster's node with the most GPUs."""

    name: str
    gpus: int


def engine_of(slots: Iterable[Slot]) -> EngineName:
    """Return the engine that runs the jobs of these slots."""
    return EngineName.SLURM if any(slot.kind is DeviceKind.SLURM for slot in slots) else EngineName.LOCAL


class Board:
    """A record of which job holds which slot. A busy slot that is removed stays until its job has ended."""

    def __init__(self, slots: Iterable[Slot] = (), leaving: Iterable[Slot] = ()) -> None:
        self.slots: tuple[Slot, ...] = ()
        self.holders: dict[SlotId, JobId] = {}
        self._known: dict[SlotId, Slot] = {}
        self.devices = Devices()
        self._load: Counter[str] = Counter()
        self._capacity: Counter[str] = Counter()
        self.engine = EngineName.LOCAL
        self.largest: NodeSize | None = None
        """The largest node of the cluster, or None if it is unknown."""
        self._alone: set[str] = set()
        """Devices used by a job that does not share them."""
        self._set(tuple(slots))
        self._known |= {slot.id: slot for slot in leaving}

    def replace(self, wanted: Iterable[Slot], *, these: bool = False) -> None:
        """Replace the slots. A new slot gets the id of an old slot with the same devices, if there is one.

        If several old slots match, busy slots are preferred. With `these`, only the ids in `wanted` are used again.
        """
        wanted = tuple(wanted)
        meant = {slot.id for slot in wanted} if these else set()
        free_ids: dict[tuple[tuple[str, ...], DeviceKind], list[SlotId]] = {}
        for slot in sorted(self._known.values(), key=lambda slot: (slot.id not in self.holders, slot.id)):
            if slot.id in meant or not these:
                free_ids.setdefault((slot.devices, slot.kind), []).append(slot.id)
        fresh = max(self._known, default=-1) + 1
        slots = []
        for slot in wanted:
            ids = free_ids.get((slot.devices, slot.kind))
            if ids:
                slot_id = ids.pop(0)
            else:
                slot_id, fresh = fresh, fresh + 1
            slots.append(Slot(slot_id, slot.devices, slot.kind))
        self._set(tuple(slots))

    def _set(self, slots: tuple[Slot, ...]) -> None:
        leaving = {id: slot for id, slot in self._known.items() if id in self.holders}
        self.slots = slots
        self.engine = engine_of(slots)
        self._known = leaving | {slot.id: slot for slot in slots}
        self._capacity = Counter(device_key for slot in slots for device_key in slot.device_keys)

    def leaving(self) -> list[Slot]:
        """Return the removed slots whose jobs are still running."""
        wanted = {slot.id for slot in self.slots}
        return [self._known[id] for id in self.holders if id in self._known and id not in wanted]

    @property
    def on_cluster(self) -> bool:
        """Whether the slots are places in a cluster's queue. The cluster decides which GPUs the jobs are given."""
        return self.engine is EngineName.SLURM

    def takes_slot(self, request: Request) -> bool:
        return request.gpus != 0 or self.on_cluster

    def is_free(self, slot: Slot) -> bool:
        if slot.id in self.holders or not self._alone.isdisjoint(slot.device_keys):
            return False
        return all(self._load[device_key] < self._capacity[device_key] for device_key in slot.device_keys)

    def neighbours(self, slots: Iterable[Slot]) -> set[JobId]:
        """Return the jobs that use the devices of these slots."""
        devices = {device for slot in slots for device in slot.devices}
        if not any(self._load[device] for device in devices):
            return set()
        return {job for slot, job in self.holders.items() if not devices.isdisjoint(self._known[slot].devices)}

    def any_free(self) -> bool:
        return any(self.is_free(slot) for slot in self.slots)

    def fit(
        self, request: Request, reserved: Collection[SlotId] = (), most_devices: int | None = None
    ) -> tuple[Slot, ...] | None:
        """Return free slots for the request, on the least loaded devices, or None if the request has to wait."""
        if self.on_cluster:
            # All slots are alike, and there may be very many.
            if self.not_on_cluster(request) or (most_devices is not None and len(self.holders) >= most_devices):
                return None
            unused = (slot for slot in self.slots if slot.id not in self.holders and slot.id not in reserved)
            first = next(unused, None)
            return (first,) if first is not None else None
        free = [slot for slot in self.slots if slot.id not in reserved and self.is_free(slot)]
        allowed = [slot for slot in _allowed(free, request) if self._admits(slot, request)]
        if most_devices is not None:
            allowed = [slot for slot in allowed if self._in_use((slot,)) <= most_devices]
        for used_first in (False, True):
            chosen = _choose(self._least_loaded(allowed, used_first=used_first), request.gpus)
            if chosen is None or most_devices is None or self._in_use(chosen) <= most_devices:
                return chosen
        return None

    def not_on_cluster(self, request: Request) -> str:
        """Return why the cluster can never run the request, or an empty string if it can or there is no cluster."""
        if not self.on_cluster:
            return ""
        if request.devices:
            return "Slurm assigns the GPUs; jobs cannot name them"
        if self.largest is not None and (request.gpus or 0) > self.largest.gpus:
            return f"the largest node ({self.largest.name}) has {self.largest.gpus}"
        return ""

    def _least_loaded(self, slots: list[Slot], *, used_first: bool) -> list[Slot]:
        def load(slot: Slot) -> tuple[bool, int]:
            most = max(self._load[device_key] for device_key in slot.device_keys)
            return used_first and most == 0, most

        return sorted(slots, key=load)

    def _admits(self, slot: Slot, request: Request) -> bool:
        if request.alone and any(self._load[device] for device in slot.devices):
            return False
        devices = self.devices
        return all(devices.blocked(name) is None and not devices.lacks(name, request) for name in slot.devices)

    def _in_use(self, more: tuple[Slot, ...] = ()) -> int:
        """Return how many devices would be in use if the slots in `more` were used too."""
        busy = {device_key for device_key, load in self._load.items() if load > 0}
        return len(busy.union(*(slot.device_keys for slot in more)))

    def most_devices(self, max_gpus: int | None, keep_free: int) -> int | None:
        """Return how many devices may be in use at the same time, or None for no limit."""
        limits = [max_gpus] if max_gpus is not None else []
        if keep_free:
            device_keys = {device_key for slot in self.slots for device_key in slot.device_keys}
            limits.append(sum(self.devices.blocked(device_key) is None for device_key in device_keys) - keep_free)
        return min(limits, default=None)

    def could_ever_fit(self, request: Request) -> bool:
        return bool(self.serving(request))

    def serving(self, request: Request, *, unblocked: bool = False) -> list[Slot]:
        """Return all slots, free or not, that can serve the request. With `unblocked`, none has a blocked device."""
        if self.on_cluster:
            return [] if self.not_on_cluster(request) else list(self.slots)
        slots = _allowed(self.slots, request)
        if unblocked:
            slots = [slot for slot in slots if not any(map(self.devices.blocked, slot.devices))]
        allowed = [slot for slot in slots if not any(self.devices.too_small(each, request) for each in slot.devices)]
        if request.gpus is None:
            return allowed
        singles = [slot for slot in allowed if len(slot.device_keys) == 1]
        enough = len({slot.device_keys for slot in singles}) >= request.gpus
        groups = [slot for slot in allowed if len(slot.device_keys) >= max(2, request.gpus)]
        return groups + singles if enough else groups

    def on_quietest_device(self, slots: list[Slot]) -> list[Slot]:
        """Return the slots on the least loaded device. It is likely to be the first device without any jobs."""
        quietest = min(slots, key=lambda slot: max(self._load[device_key] for device_key in slot.device_keys))
        return [slot for slot in slots if not set(quietest.device_keys).isdisjoint(slot.device_keys)]

    def take(self, job: JobId, slots: Iterable[Slot], request: Request) -> None:
        for slot in slots:
            self.holders[slot.id] = job
            self._load.update(slot.device_keys)
            self._alone.update(slot.devices if request.alone else ())
            self.devices.reserve(job, request, slot.devices)

    def hold(self, job: JobId, slot_ids: tuple[SlotId, ...], devices: tuple[str, ...], request: Request) -> None:
        """Record the slots of a job that an earlier scheduler placed, even if they have been removed since then."""
        for number, slot_id in enumerate(slot_ids):
            if slot_id not in self._known:
                share = devices if len(slot_ids) == 1 else devices[number : number + 1]
                self._known[slot_id] = Slot(slot_id, share)
        self.take(job, [self._known[slot_id] for slot_id in slot_ids], request)

    def release(self, slot_ids: Iterable[SlotId]) -> None:
        wanted = {slot.id for slot in self.slots}
        for slot_id in slot_ids:
            slot = self._known[slot_id]
            self.devices.release(self.holders.pop(slot_id), slot.devices)
            self._load.subtract(slot.device_keys)
            self._alone.difference_update(slot.devices)
            if slot_id not in wanted:
                del self._known[slot_id]

    def without(self, jobs: Collection[JobId]) -> Board:
        """Return a copy of the board as it will be when these jobs have ended."""
        board = Board(self.slots)
        freed = {slot for slot, job in self.holders.items() if job in jobs}
        board.holders = {slot: job for slot, job in self.holders.items() if slot not in freed}
        board._known = dict(self._known)
        board._load = self._load.copy()
        for slot in freed:
            board._load.subtract(self._known[slot].device_keys)
        board._alone = self._alone.difference(*(self._known[slot].devices for slot in freed))
        board.devices, board.largest = self.devices.without(jobs), self.largest
        return board


def _allowed(slots: Iterable[Slot], request: Request) -> list[Slot]:
    if not request.devices:
        return list(slots)
    return [slot for slot in slots if slot.devices and set(slot.devices) <= set(request.devices)]


def _choose(slots: list[Slot], count: int | None) -> tuple[Slot, ...] | None:
    """Choose slots with `count` devices: one slot with exactly as many, several with one device each, or a larger slot.

    Return None if there are none.
    """
    if count is None:
        return (slots[0],) if slots else None
    exact = next((slot for slot in slots if len(slot.device_keys) == count), None)
    if exact is not None:
        return (exact,)
    by_device: dict[str, Slot] = {}
    for slot in slots:
        if len(slot.device_keys) == 1:
            by_device.setdefault(slot.device_keys[0], slot)
    if len(by_device) >= count:
        return tuple(by_device.values())[:count]
    larger = [slot for slot in slots if len(slot.device_keys) > count]
    return (min(larger, key=lambda slot: len(slot.device_keys)),) if larger else None
