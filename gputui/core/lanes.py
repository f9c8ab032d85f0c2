"""Lanes: what runs one job at a time, the board of free ones, and what is known of their devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .job import EngineName, JobId, LaneId, Request

# ---- What is known of the devices at this moment ----


class DeviceFacts(Struct, frozen=True):
    """One device as the last sample showed it."""

    blocked: str | None = None
    """Why it takes no job of ours, in words that follow its name: `used by alice (pid 4121, 38.0G, 5 h)`."""
    memory_total: int | None = None
    memory_used: int | None = None
    """By everybody."""
    ours: dict[JobId, int] = {}
    """What of it each of our jobs uses."""
    crowded: bool = False
    """Somebody else is on it too."""


_UNKNOWN = DeviceFacts()


class Cards:
    """Admits jobs to devices. A device of which nothing is known is taken at its word: nothing is in the way."""

    def __init__(self) -> None:
        self._facts: Mapping[str, DeviceFacts] = {}
        self._declared: dict[str, dict[JobId, Request]] = {}

    def see(self, facts: Mapping[str, DeviceFacts]) -> None:
        self._facts = facts

    def declare(self, job: JobId, request: Request, devices: Iterable[str]) -> None:
        """The job counts with what it asked for from the moment it was placed, allocated or not."""
        if request.memory is not None or request.memory_share is not None:
            for device in devices:
                self._declared.setdefault(device, {})[job] = request

    def forget(self, job: JobId, devices: Iterable[str]) -> None:
        for device in devices:
            self._declared.get(device, {}).pop(job, None)

    def without(self, jobs: Collection[JobId]) -> Cards:
        """Other ones, with the memory that these jobs use given back."""
        cards = Cards()
        cards._facts = {device: _emptied(facts, jobs) for device, facts in self._facts.items()}
        cards._declared = {
            device: {job: request for job, request in declared.items() if job not in jobs}
            for device, declared in self._declared.items()
        }
        return cards

    def total(self, device: str) -> int | None:
        return self._facts.get(device, _UNKNOWN).memory_total

    def crowded(self, device: str) -> bool:
        return self._facts.get(device, _UNKNOWN).crowded

    def blocked(self, device: str) -> str | None:
        return self._facts.get(device, _UNKNOWN).blocked

    def admits(self, device: str, request: Request) -> bool:
        return self.blocked(device) is None and not self.lacks(device, request)

    def lacks(self, device: str, request: Request) -> bool:
        """The memory that the request needs is known not to be there now."""
        if request.larger_than is not None and (self.total(device) or 0) <= request.larger_than:
            return True
        needed, free = self._needed(device, request), self.left(device)
        return needed is not None and free is not None and needed > free

    def too_small(self, device: str, request: Request) -> bool:
        """The memory that the request needs can never be there."""
        needed, total = self._needed(device, request), self.total(device)
        if request.larger_than is not None and total is not None and total <= request.larger_than:
            return True
        return needed is not None and total is not None and needed > total

    def left(self, device: str) -> int | None:
        """Bytes free for us: what nobody uses, less what our jobs declared and have not allocated yet."""
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


def _emptied(facts: DeviceFacts, jobs: Collection[JobId]) -> DeviceFacts:
    given_back = sum(used for job, used in facts.ours.items() if job in jobs)
    if not given_back or facts.memory_used is None:
        return facts
    ours = {job: used for job, used in facts.ours.items() if job not in jobs}
    return replace(facts, memory_used=max(0, facts.memory_used - given_back), ours=ours)


# ---- Lanes ----


NO_GPU = "-1"
"""A device that is none: what old tools put in CUDA_VISIBLE_DEVICES to hide every GPU."""


class DeviceKind(StrEnum):
    GPU = "gpu"
    CPU = "cpu"
    SIMULATED = "sim"
    SLURM = "slurm"


class Lane(Struct, frozen=True):
    """One device, or a group of devices, that runs one job at a time. Equal devices may have several lanes."""

    id: LaneId
    devices: tuple[str, ...]
    """As the job sees them: `0`, `GPU-…`, `MIG-…`; empty for a lane without a GPU."""
    kind: DeviceKind = DeviceKind.GPU

    @property
    def labels(self) -> tuple[str, ...]:
        """What summaries call what it runs on: its devices, or itself where it has no GPU."""
        return (f"lane {self.id}",) if self.kind is DeviceKind.CPU else self.slots

    @property
    def slots(self) -> tuple[str, ...]:
        """What it occupies: its devices, or itself where there are none."""
        return self.devices or (f"lane {self.id}",)


class NodeSize(Struct, frozen=True):
    """The node of a cluster that has most GPUs."""

    name: str
    gpus: int


def engine_of(lanes: Iterable[Lane]) -> EngineName:
    """Who runs the jobs of these lanes."""
    return EngineName.SLURM if any(lane.kind is DeviceKind.SLURM for lane in lanes) else EngineName.LOCAL


class Board:
    """Who holds which lane. A lane taken off the board while busy leaves when its job has ended."""

    def __init__(self, lanes: Iterable[Lane] = (), leaving: Iterable[Lane] = ()) -> None:
        self.lanes: tuple[Lane, ...] = ()
        self.holders: dict[LaneId, JobId] = {}
        self._known: dict[LaneId, Lane] = {}
        self.cards = Cards()
        self._load: Counter[str] = Counter()
        self._capacity: Counter[str] = Counter()
        self.engine = EngineName.LOCAL
        self.largest: NodeSize | None = None
        """Of the cluster; None: not known, or none."""
        self._alone: set[str] = set()
        """Devices whose job wants no other on them."""
        self._set(tuple(lanes))
        self._known |= {lane.id: lane for lane in leaving}

    def replace(self, wanted: Iterable[Lane], *, these: bool = False) -> None:
        """Takes a new list; lanes over the same devices keep their ids, the busy ones first.

        `these`: the ids say which of several equal lanes are meant.
        """
        wanted = tuple(wanted)
        meant = {lane.id for lane in wanted} if these else set()
        free_ids: dict[tuple[tuple[str, ...], DeviceKind], list[LaneId]] = {}
        for lane in sorted(self._known.values(), key=lambda lane: (lane.id not in self.holders, lane.id)):
            if lane.id in meant or not these:
                free_ids.setdefault((lane.devices, lane.kind), []).append(lane.id)
        fresh = max(self._known, default=-1) + 1
        lanes = []
        for lane in wanted:
            ids = free_ids.get((lane.devices, lane.kind))
            if ids:
                lane_id = ids.pop(0)
            else:
                lane_id, fresh = fresh, fresh + 1
            lanes.append(Lane(lane_id, lane.devices, lane.kind))
        self._set(tuple(lanes))

    def _set(self, lanes: tuple[Lane, ...]) -> None:
        leaving = {id: lane for id, lane in self._known.items() if id in self.holders}
        self.lanes = lanes
        self.engine = engine_of(lanes)
        self._known = leaving | {lane.id: lane for lane in lanes}
        self._capacity = Counter(slot for lane in lanes for slot in lane.slots)

    def leaving(self) -> list[Lane]:
        """Lanes no longer wanted whose jobs still run."""
        wanted = {lane.id for lane in self.lanes}
        return [self._known[id] for id in self.holders if id in self._known and id not in wanted]

    @property
    def on_cluster(self) -> bool:
        """A lane is a job in the cluster's queue, of however many GPUs: which they are is decided there."""
        return self.engine is EngineName.SLURM

    def takes_lane(self, request: Request) -> bool:
        return request.gpus != 0 or self.on_cluster

    def is_free(self, lane: Lane) -> bool:
        if lane.id in self.holders or not self._alone.isdisjoint(lane.slots):
            return False
        return all(self._load[slot] < self._capacity[slot] for slot in lane.slots)

    def neighbours(self, lanes: Iterable[Lane]) -> set[JobId]:
        """The jobs on the devices of these lanes."""
        devices = {device for lane in lanes for device in lane.devices}
        if not any(self._load[device] for device in devices):
            return set()
        return {job for lane, job in self.holders.items() if not devices.isdisjoint(self._known[lane].devices)}

    def any_free(self) -> bool:
        return any(self.is_free(lane) for lane in self.lanes)

    def fit(
        self, request: Request, reserved: Collection[LaneId] = (), most_devices: int | None = None
    ) -> tuple[Lane, ...] | None:
        """Free lanes that serve the request, the least loaded devices first; None: it must wait."""
        if self.on_cluster:
            return self._on_any_lane(request, reserved, most_devices)
        free = [lane for lane in self.lanes if lane.id not in reserved and self.is_free(lane)]
        allowed = [lane for lane in _allowed(free, request) if self._admits(lane, request)]
        if most_devices is None:
            return _choose(self._least_loaded(allowed), request.gpus)
        allowed = [lane for lane in allowed if self._in_use((lane,)) <= most_devices]
        chosen = _choose(self._least_loaded(allowed), request.gpus)
        if chosen is None or self._in_use(chosen) <= most_devices:
            return chosen
        chosen = _choose(self._least_loaded(allowed, used_first=True), request.gpus)
        return chosen if chosen is not None and self._in_use(chosen) <= most_devices else None

    def _on_any_lane(
        self, request: Request, reserved: Collection[LaneId], most_lanes: int | None
    ) -> tuple[Lane, ...] | None:
        """All are alike, and there may be very many."""
        if not self._within_a_node(request) or (most_lanes is not None and len(self.holders) >= most_lanes):
            return None
        free = (lane for lane in self.lanes if lane.id not in self.holders and lane.id not in reserved)
        first_free = next(free, None)
        return (first_free,) if first_free is not None else None

    def _within_a_node(self, request: Request) -> bool:
        return not request.devices and (self.largest is None or (request.gpus or 0) <= self.largest.gpus)

    def _least_loaded(self, lanes: list[Lane], *, used_first: bool = False) -> list[Lane]:
        def load(lane: Lane) -> tuple[bool, int]:
            most = max(self._load[slot] for slot in lane.slots)
            return used_first and most == 0, most

        return sorted(lanes, key=load)

    def _admits(self, lane: Lane, request: Request) -> bool:
        if request.alone and any(self._load[device] for device in lane.devices):
            return False
        return all(self.cards.admits(device, request) for device in lane.devices)

    def _in_use(self, more: tuple[Lane, ...] = ()) -> int:
        """Devices that run a job of ours, and those that would."""
        busy = {slot for slot, load in self._load.items() if load > 0}
        return len(busy.union(*(lane.slots for lane in more)))

    def most_devices(self, at_most: int | None, keep_free: int) -> int | None:
        """How many devices we may use at once; None: all there are."""
        limits = [at_most] if at_most is not None else []
        if keep_free:
            slots = {slot for lane in self.lanes for slot in lane.slots}
            limits.append(sum(self.cards.blocked(slot) is None for slot in slots) - keep_free)
        return min(limits, default=None)

    def could_ever_fit(self, request: Request) -> bool:
        return bool(self.serving(request))

    def serving(self, request: Request, *, unblocked: bool = False) -> list[Lane]:
        """Every lane, free or not, that can be part of what the request needs; `unblocked`: while others stay."""
        if self.on_cluster:
            return list(self.lanes) if self._within_a_node(request) else []
        lanes = _allowed(self.lanes, request)
        if unblocked:
            lanes = [lane for lane in lanes if not any(map(self.cards.blocked, lane.devices))]
        allowed = [lane for lane in lanes if not any(self.cards.too_small(each, request) for each in lane.devices)]
        if request.gpus is None:
            return allowed
        singles = [lane for lane in allowed if len(lane.slots) == 1]
        enough = len({lane.slots for lane in singles}) >= request.gpus
        groups = [lane for lane in allowed if len(lane.slots) >= max(2, request.gpus)]
        return groups + singles if enough else groups

    def on_quietest_device(self, lanes: list[Lane]) -> list[Lane]:
        """Those over the device that will first be empty, as far as can be said."""
        quietest = min(lanes, key=lambda lane: max(self._load[slot] for slot in lane.slots))
        return [lane for lane in lanes if not set(quietest.slots).isdisjoint(lane.slots)]

    def take(self, job: JobId, lanes: Iterable[Lane], request: Request) -> None:
        for lane in lanes:
            self.holders[lane.id] = job
            self._load.update(lane.slots)
            self._alone.update(lane.devices if request.alone else ())
            self.cards.declare(job, request, lane.devices)

    def hold(self, job: JobId, lane_ids: tuple[LaneId, ...], devices: tuple[str, ...], request: Request) -> None:
        """Books the lanes of a job that was placed by an earlier owner, known lanes or not."""
        for number, lane_id in enumerate(lane_ids):
            if lane_id not in self._known:
                share = devices if len(lane_ids) == 1 else devices[number : number + 1]
                self._known[lane_id] = Lane(lane_id, share)
        self.take(job, [self._known[lane_id] for lane_id in lane_ids], request)

    def release(self, lane_ids: Iterable[LaneId]) -> None:
        wanted = {lane.id for lane in self.lanes}
        for lane_id in lane_ids:
            lane = self._known[lane_id]
            self.cards.forget(self.holders.pop(lane_id), lane.devices)
            self._load.subtract(lane.slots)
            self._alone.difference_update(lane.devices)
            if lane_id not in wanted:
                del self._known[lane_id]

    def without(self, jobs: Collection[JobId]) -> Board:
        """Another one, as it will be when these have gone."""
        board = Board(self.lanes)
        freed = {lane for lane, job in self.holders.items() if job in jobs}
        board.holders = {lane: job for lane, job in self.holders.items() if lane not in freed}
        board._known = dict(self._known)
        board._load = self._load.copy()
        for lane in freed:
            board._load.subtract(self._known[lane].slots)
        board._alone = self._alone.difference(*(self._known[lane].devices for lane in freed))
        board.cards, board.largest = self.cards.without(jobs), self.largest
        return board


def _allowed(lanes: Iterable[Lane], request: Request) -> list[Lane]:
    if not request.devices:
        return list(lanes)
    return [lane for lane in lanes if lane.devices and set(lane.devices) <= set(request.devices)]


def _choose(lanes: list[Lane], count: int | None) -> tuple[Lane, ...] | None:
    """The first ones that do, in the order given."""
    if count is None:
        return (lanes[0],) if lanes else None
    exact = _whole_group(lanes, count, exact=True)
    return exact or _singles(lanes, count) or _whole_group(lanes, count, exact=False)


def _singles(lanes: list[Lane], count: int) -> tuple[Lane, ...] | None:
    by_device: dict[str, Lane] = {}
    for lane in lanes:
        if len(lane.slots) == 1:
            by_device.setdefault(lane.slots[0], lane)
    return tuple(by_device.values())[:count] if len(by_device) >= count else None


def _whole_group(lanes: list[Lane], count: int, *, exact: bool) -> tuple[Lane, ...] | None:
    fitting = [lane for lane in lanes if len(lane.slots) == count or (not exact and len(lane.slots) > count)]
    return (min(fitting, key=lambda lane: len(lane.slots)),) if fitting else None
