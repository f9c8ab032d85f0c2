"""The history of each device: utilization, memory used by the session and by others, warnings, and the history file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum, StrEnum
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import moment
from gputui.process.directories import atomic_write

from .sample import DeviceSample, ProcessSample, Sample, Slowdown, Status

# Who uses a device


class LoadOwner(IntEnum):
    NOBODY = 0
    OURS = 1
    OTHERS = 2


class DeviceShare(Struct, frozen=True):
    """Who uses a device, and how many bytes of memory the session and others use. The driver uses the rest."""

    owner: LoadOwner = LoadOwner.NOBODY
    ours: int = 0
    others: int = 0


def share(device: DeviceSample, is_ours: Callable[[ProcessSample], bool], *, held: bool) -> DeviceShare:
    """Return who uses a device. `held`: whether a job of the session has it, maybe without visible processes."""
    computing = [process for process in device.processes if process.compute]
    mine = [process for process in computing if is_ours(process)]
    theirs = [process for process in computing if not is_ours(process)]
    if held and not mine:
        return DeviceShare(LoadOwner.OURS, max(0, (device.memory_used or 0) - _memory(theirs)), _memory(theirs))
    ours, others = _memory(mine), _memory(theirs)
    if device.memory_used is not None and computing and all(process.memory is None for process in computing):
        ours, others = (device.memory_used, 0) if mine else (0, device.memory_used)
    if not computing:
        owner = LoadOwner.NOBODY
    elif not theirs or (mine and _load(mine) >= _load(theirs)):
        owner = LoadOwner.OURS
    else:
        owner = LoadOwner.OTHERS
    return DeviceShare(owner, ours, others)


def _load(processes: list[ProcessSample]) -> int:
    return sum(process.utilization or 0 for process in processes)


def _memory(processes: list[ProcessSample]) -> int:
    return sum(process.memory or 0 for process in processes)


# Recording


UNKNOWN = 255
FULL = 250
"""Value of a bucket that means that all of the device's memory is used."""
HOST = "host"
"""Key of the track for the machine itself."""


class HistoryLevel(Struct, frozen=True):
    seconds: int
    """Length of a bucket in seconds."""
    buckets: int


LEVELS = (HistoryLevel(1, 1800), HistoryLevel(60, 1440), HistoryLevel(600, 2016))


class Track(Struct, frozen=True, array_like=True):
    """The history of one device at one level. The newest bucket is the last one."""

    last: int
    """Number of the newest bucket, which is the Unix time divided by the level's seconds."""
    figures: tuple[bytes, bytes, bytes, bytes]
    """The load, the owner, the session's memory and the memory of others. Each is a series with one byte per bucket."""


class DeviceHistories(Struct, frozen=True):
    """The tracks of all devices by device key. Each device has one track per level."""

    tracks: Mapping[str, tuple[Track, ...]] = {}
    warned: Mapping[str, float] = {}
    """Time when each warning began, by device and kind of warning."""
    labels: Mapping[str, str] = {}
    """Name of each device as shown to users, such as `GPU 0`."""
    models: Mapping[str, str] = {}
    """The model of each device, such as `NVIDIA A100-SXM4-40GB`."""


EMPTY = DeviceHistories()


class HistoryRecorder:
    """Records samples and adds them to an earlier history."""

    def __init__(self, earlier: DeviceHistories = EMPTY) -> None:
        self._tracks = {key: [_OpenTrack(*each) for each in zip(LEVELS, tracks, strict=False)]
                        for key, tracks in earlier.tracks.items()}  # fmt: skip
        self._taken: float | None = None
        self.warned: dict[str, float] = dict(earlier.warned)
        self._labels, self._models = dict(earlier.labels), dict(earlier.models)

    def observe(self, sample: Sample, shares: Mapping[str, DeviceShare]) -> None:
        """Add a sample unless it has already been added. Devices that did not answer are skipped."""
        if sample.taken == self._taken:
            return
        self._taken = sample.taken
        for device in sample.devices:
            if device.status is Status.OK and device.utilization is not None:
                self._labels[device.key], self._models[device.key] = device.label, device.name
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
        """Return an immutable copy of the histories."""
        tracks = {key: tuple(track.frozen() for track in tracks) for key, tracks in self._tracks.items()}
        labels, models = ({key: names[key] for key in tracks if key in names} for names in (self._labels, self._models))
        return DeviceHistories(tracks, dict(self.warned), labels, models)

    def forget(self, before: float) -> None:
        """Remove the devices that have not been seen since the given time."""
        self._tracks = {key: tracks for key, tracks in self._tracks.items() if tracks[0].seen_at >= before}


class _OpenTrack:
    """A track under construction. Its newest bucket contains the mean of the bucket's samples so far."""

    def __init__(self, level: HistoryLevel, earlier: Track | None = None) -> None:
        self._level = level
        self._last = earlier.last if earlier is not None else 0
        self._figures = [bytearray(figure) for figure in (earlier.figures if earlier is not None else (b"",) * 4)]
        self._sums = [0.0, 0.0, 0.0]
        self._count = 0
        self._weights = [0.0, 0.0, 0.0]

    @property
    def seen_at(self) -> float:
        return self._last * self._level.seconds

    def add(self, at: float, figures: tuple[int, int, int, int]) -> None:
        bucket = int(at // self._level.seconds)
        if bucket != self._last or not self._count:
            self._move_to(bucket)
        load, owner, ours, others = figures
        self._count += 1
        self._weights[owner] += max(1, load)
        for place, value in enumerate((load, ours, others)):
            self._sums[place] += value
        means = [round(total / self._count) for total in self._sums]
        strongest = max(range(3), key=self._weights.__getitem__)
        for figure, value in zip(self._figures, (means[0], strongest, means[1], means[2]), strict=True):
            figure[-1] = value

    def _move_to(self, bucket: int) -> None:
        """Start a new bucket. Skipped buckets are unknown. If the clock was set back, later buckets are removed."""
        if bucket < self._last:
            for figure in self._figures:
                del figure[max(0, len(figure) - (self._last - bucket)) :]
        skipped = min(self._level.buckets, max(0, bucket - self._last))
        for figure in self._figures:
            figure.extend(bytes([UNKNOWN]) * (skipped if figure else 1))
            del figure[: max(0, len(figure) - self._level.buckets)]
        self._last, self._count = bucket, 0
        self._sums, self._weights = [0.0] * 3, [0.0] * 3

    def frozen(self) -> Track:
        return Track(self._last, _figures(map(bytes, self._figures)))


def _part(used: int, total: int) -> int:
    return min(FULL, round(FULL * used / total)) if total else 0


# Differences between two histories, for transfer


def newest_part(now: DeviceHistories, before: DeviceHistories) -> DeviceHistories | None:
    """Return the part of `now` that `merge_newest` adds to `before`, or None if the clock was set back in between."""
    tracks: dict[str, tuple[Track, ...]] = {}
    for key, several in now.tracks.items():
        had = before.tracks.get(key, ())
        if len(had) != len(several) or any(new.last < old.last for new, old in zip(several, had, strict=True)):
            return None
        # The part starts with the newest bucket of `before`, because that bucket may have changed.
        tracks[key] = tuple(
            Track(new.last, _figures(figure[-(new.last - old.last + 1) :] for figure in new.figures))
            for new, old in zip(several, had, strict=True)
        )
    return replace(now, tracks=tracks)


def merge_newest(before: DeviceHistories, newest: DeviceHistories) -> DeviceHistories:
    tracks = {
        key: tuple(_joined(*each) for each in zip(LEVELS, before.tracks[key], several, strict=False))
        for key, several in newest.tracks.items()
    }
    return replace(newest, tracks=tracks)


def _joined(level: HistoryLevel, old: Track, newest: Track) -> Track:
    pairs = zip(old.figures, newest.figures, strict=True)
    return Track(newest.last, _figures((had[:-1] + added)[-level.buckets :] for had, added in pairs))


def _figures(figures: Iterable[bytes]) -> tuple[bytes, bytes, bytes, bytes]:
    load, owner, ours, others = figures
    return load, owner, ours, others


# Columns of any length


class HistoryColumn(NamedTuple):
    """Load and memory of one column of a chart, as fractions from 0 to 1. A load of None is unknown."""

    load: float | None = None
    owner: LoadOwner = LoadOwner.NOBODY
    ours: float = 0.0
    others: float = 0.0


NOT_KNOWN = HistoryColumn()


def columns(histories: DeviceHistories, key: str, seconds: float, count: int, now: float) -> list[HistoryColumn]:
    """Return `count` columns of equal length. The last column contains `now`."""
    newest = int(now // seconds)
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    level = _level(seconds, seconds * count)
    return [_column(tracks[level], level, number, seconds) for number in range(newest - count + 1, newest + 1)]


def between(histories: DeviceHistories, key: str, start: float, seconds: float, count: int) -> list[HistoryColumn]:
    """Return `count` columns that begin at a start time. Columns in the future are unknown."""
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    reach = tracks[0].last * LEVELS[0].seconds - start
    level = _level(seconds, reach)
    return [_column(tracks[level], level, number, seconds, start) for number in range(count)]


def _level(seconds: float, reach: float) -> int:
    """Return the index of the finest suitable level that covers the last `reach` seconds, or of the coarsest level."""
    fitting = (index for index, level in enumerate(LEVELS) if level.seconds * level.buckets >= 0.99 * reach)
    return next(fitting, len(LEVELS) - 1)


def _column(track: Track, level: int, number: int, seconds: float, start: float = 0.0) -> HistoryColumn:
    bucket = LEVELS[level].seconds
    first = track.last - len(track.figures[0]) + 1
    since, until = start + number * seconds, start + (number + 1) * seconds
    low = max(0, int(since // bucket) + (since % bucket > 0) - first)
    high = max(0, int(until // bucket) + (until % bucket > 0) - first)
    if high <= low:  # a column shorter than a bucket
        low = int(since // bucket) - first
        high = low + 1
    if low < 0 or low >= len(track.figures[0]):
        return NOT_KNOWN
    return _mean(track, low, high)


def _mean(track: Track, low: int, high: int) -> HistoryColumn:
    load, owner, ours, others = (figure[low:high] for figure in track.figures)
    if UNKNOWN in load:
        measured = [at for at, value in enumerate(load) if value != UNKNOWN]
        if not measured:
            return NOT_KNOWN
        load, owner, ours, others = (bytes(figure[at] for at in measured) for figure in (load, owner, ours, others))
    count = len(load)
    weights = [0, 0, 0]
    for owner_value, load_value in zip(owner, load, strict=True):
        weights[min(2, owner_value)] += load_value + 1
    strongest = LoadOwner(max(range(3), key=weights.__getitem__))
    return HistoryColumn(sum(load) / count / 100, strongest, sum(ours) / count / FULL, sum(others) / count / FULL)


# The history file


LARGEST = 8 << 20
"""Maximum size in bytes of a history that is read. Files written by gputui are smaller."""
_encode = msgspec.msgpack.Encoder().encode


def read_history(path: str) -> DeviceHistories:
    """Read a history file. If it is missing or damaged, the history is silently empty."""
    try:
        with open(path, "rb") as file:
            packed = file.read(LARGEST)
        unpacker = zlib.decompressobj()
        history = msgspec.msgpack.decode(unpacker.decompress(packed, LARGEST), type=DeviceHistories)
    except (OSError, zlib.error, msgspec.MsgspecError):
        return EMPTY
    return replace(history, tracks={key: tracks for key, tracks in history.tracks.items() if _is_whole(tracks)})


def _is_whole(tracks: tuple[Track, ...]) -> bool:
    if len(tracks) != len(LEVELS):
        return False
    for level, track in zip(LEVELS, tracks, strict=True):
        lengths = {len(figure) for figure in track.figures}
        if len(lengths) != 1 or max(lengths) > level.buckets:
            return False
    return True


def write_history(path: str, history: DeviceHistories) -> None:
    atomic_write(path, zlib.compress(_encode(history), 1))


# Warnings


HOT = 85
"""Minimum temperature in degrees Celsius at which a device is reported as too hot."""
_SLOW_CLOCK = 0.9
"""Fraction of the maximum clock below which a power cap is reported. At full load most GPUs slow down a little."""


class WarningKind(StrEnum):
    LOST = "lost"
    SILENT = "silent"
    HEAT = "heat"
    POWER_CAP = "power_cap"
    BRAKE = "brake"
    HOT = "hot"
    ECC = "ecc"


class DeviceWarning(Struct, frozen=True):
    kind: WarningKind
    words: str
    advice: str = ""
    grave: bool = True
    """Whether the warning is displayed like a failure."""


def find_warnings(sample: Sample, since: dict[str, float]) -> dict[str, tuple[DeviceWarning, ...]]:
    """Return the warnings for each device key, and update the start times in `since`."""
    still: dict[str, float] = {}

    def beginning(device: DeviceSample, kind: WarningKind) -> str:
        key = f"{device.key} {kind}"
        still[key] = since.get(key, sample.taken)
        return moment(still[key], sample.taken)

    by_device = {device.key: tuple(_warnings(device, partial(beginning, device))) for device in sample.devices}
    since.clear()
    since.update(still)
    return {key: warnings for key, warnings in by_device.items() if warnings}


def _warnings(device: DeviceSample, since: Callable[[WarningKind], str]) -> Iterator[DeviceWarning]:
    if device.status is Status.LOST:
        what, _, advice = device.message.partition("; ")
        yield DeviceWarning(WarningKind.LOST, f"lost at {since(WarningKind.LOST)}: {what}", advice)
        return
    if device.status is not Status.OK:
        words = f"{device.status.value} since {since(WarningKind.SILENT)}: {device.message}"
        yield DeviceWarning(WarningKind.SILENT, words)
        return
    clocks = f"{device.clock}/{device.clock_limit} MHz" if device.clock is not None and device.clock_limit else ""
    after = f": {clocks}" if clocks else ""
    slow = device.clock is not None and device.clock < _SLOW_CLOCK * (device.clock_limit or 0)
    if Slowdown.HEAT in device.slowed_by:
        yield DeviceWarning(WarningKind.HEAT, f"thermal throttling since {since(WarningKind.HEAT)}{after}")
    elif device.temperature is not None and device.temperature >= HOT:
        words = f"too hot since {since(WarningKind.HOT)}: {device.temperature}°C"
        yield DeviceWarning(WarningKind.HOT, f"{words}; {clocks}" if clocks else words)
    if Slowdown.BRAKE in device.slowed_by:
        yield DeviceWarning(WarningKind.BRAKE, f"power brake slowdown since {since(WarningKind.BRAKE)}{after}")
    elif Slowdown.POWER_CAP in device.slowed_by and slow:
        limit = f" of {device.power_limit:.0f} W" if device.power_limit is not None else ""
        words = f"throttled by its power limit{limit} since {since(WarningKind.POWER_CAP)}{after}"
        yield DeviceWarning(WarningKind.POWER_CAP, words, grave=False)
    if device.ecc_uncorrected:
        words = f"{device.ecc_uncorrected:,} uncorrectable memory errors since {since(WarningKind.ECC)}"
        yield DeviceWarning(WarningKind.ECC, words, "results may be wrong; reset the GPU")
