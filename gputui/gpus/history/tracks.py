"""What each device did before now: load, whose it was, and the memory of either side, in slots of equal length.

Owns the shapes and the means; bounded for ever: half an hour by the second, a day by the minute, two weeks by ten
minutes. Pure: samples and the time in. `UNKNOWN` is a slot of which nobody can say anything, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from gputui.gpus.sample import Sample, Status

from .shares import DeviceShare, LoadOwner

UNKNOWN = 255
FULL = 250
"""All of a device's memory, in the unit in which a slot has it."""
HOST = "host"
"""The key of the machine itself."""


class HistoryLevel(Struct, frozen=True):
    seconds: int
    slots: int

    @property
    def reach(self) -> int:
        return self.seconds * self.slots


LEVELS = (HistoryLevel(1, 1800), HistoryLevel(60, 1440), HistoryLevel(600, 2016))


class Slot(IntEnum):
    """The four figures of a slot, one byte each."""

    LOAD = 0
    OWNER = 1
    OURS = 2
    OTHERS = 3


class Track(Struct, frozen=True, array_like=True):
    """One device at one level, the newest slot last."""

    last: int
    """Number of the newest slot: Unix seconds by the level's."""
    figures: tuple[bytes, bytes, bytes, bytes]


class DeviceHistories(Struct, frozen=True):
    """Of all devices, by their keys; each has a track for every level."""

    tracks: Mapping[str, tuple[Track, ...]] = {}
    warned: Mapping[str, float] = {}
    """Since when each warning holds, by device and kind."""


EMPTY = DeviceHistories()


class HistoryRecorder:
    """Goes on where an earlier history ended."""

    def __init__(self, earlier: DeviceHistories = EMPTY) -> None:
        self._tracks = {key: [_OpenTrack(*each) for each in zip(LEVELS, tracks, strict=False)]
                        for key, tracks in earlier.tracks.items()}  # fmt: skip
        self._taken: float | None = None
        self.warned: dict[str, float] = dict(earlier.warned)

    def observe(self, sample: Sample, shares: Mapping[str, DeviceShare]) -> None:
        """A sample that was observed already adds nothing; a device that did not answer adds nothing either."""
        if sample.taken == self._taken:
            return
        self._taken = sample.taken
        for device in sample.devices:
            if device.status is Status.OK and device.utilization is not None:
                share = shares.get(device.key, DeviceShare())
                total = device.memory_total or 0
                figures = (device.utilization, share.owner, _part(share.ours, total), _part(share.others, total))
                self._add(device.key, sample.taken, figures)
        if sample.host is not None and sample.host.utilization is not None:
            used = _part(sample.host.memory_used or 0, sample.host.memory_total or 0)
            self._add(HOST, sample.taken, (round(sample.host.utilization), LoadOwner.OURS, used, 0))

    def _add(self, key: str, at: float, figures: tuple[int, int, int, int]) -> None:
        tracks = self._tracks.get(key)
        if tracks is None:
            tracks = self._tracks[key] = [_OpenTrack(level) for level in LEVELS]
        for track in tracks:
            track.add(at, figures)

    def frozen(self) -> DeviceHistories:
        """As it is now; any thread may have it."""
        tracks = {key: tuple(track.frozen() for track in tracks) for key, tracks in self._tracks.items()}
        return DeviceHistories(tracks, dict(self.warned))

    def forget(self, before: float) -> None:
        """Devices that were last seen before then."""
        self._tracks = {key: tracks for key, tracks in self._tracks.items() if tracks[0].seen_at >= before}


class _OpenTrack:
    """A track that grows; its newest slot is the mean of what was added to it so far."""

    def __init__(self, level: HistoryLevel, earlier: Track | None = None) -> None:
        self._level = level
        self._last = earlier.last if earlier is not None else 0
        self._figures = [bytearray(each) for each in earlier.figures] if earlier is not None else _no_figures()
        self._sums = [0.0, 0.0, 0.0]
        self._count = 0
        self._weights = [0.0, 0.0, 0.0]

    @property
    def seen_at(self) -> float:
        return self._last * self._level.seconds

    def add(self, at: float, figures: tuple[int, int, int, int]) -> None:
        slot = int(at // self._level.seconds)
        if slot != self._last or not self._count:
            self._move_to(slot)
        load, owner, ours, others = figures
        self._count += 1
        self._weights[owner] += max(1, load)
        for place, value in enumerate((load, ours, others)):
            self._sums[place] += value
        means = [round(total / self._count) for total in self._sums]
        strongest = max(range(3), key=self._weights.__getitem__)
        for figure, value in zip(self._figures, (means[0], strongest, means[1], means[2]), strict=True):
            figure[-1] = value

    def _move_to(self, slot: int) -> None:
        """Slots that were skipped are unknown; a clock that was set back takes back what came after."""
        if slot < self._last:
            for figure in self._figures:
                del figure[max(0, len(figure) - (self._last - slot)) :]
        skipped = min(self._level.slots, max(0, slot - self._last))
        for figure in self._figures:
            figure.extend(bytes([UNKNOWN]) * (skipped if figure else 1))
            del figure[: max(0, len(figure) - self._level.slots)]
        self._last, self._count = slot, 0
        self._sums, self._weights = [0.0] * 3, [0.0] * 3

    def frozen(self) -> Track:
        load, owner, ours, others = map(bytes, self._figures)
        return Track(self._last, (load, owner, ours, others))


def _no_figures() -> list[bytearray]:
    return [bytearray() for _ in Slot]


def _part(used: int, total: int) -> int:
    return min(FULL, round(FULL * used / total)) if total else 0
