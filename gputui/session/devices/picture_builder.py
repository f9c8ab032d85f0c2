"""Puts the picture of the devices together from a sample and what the session makes of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from gputui.core.job import JobId, LaneId
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.snapshot import Snapshot
from gputui.gpus.history.shares import DeviceShare
from gputui.gpus.history.tracks import EMPTY, DeviceHistories
from gputui.gpus.history.warnings import DeviceWarning
from gputui.gpus.identity import find
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState, Leftover
from gputui.gpus.sample import DeviceSample, Sample, Status
from gputui.gpus.strangers import HeldByStrangers, Resting, Verdict


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
