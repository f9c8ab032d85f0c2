"""What each device did before now, whose load it was, warnings, and the file that keeps it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.amounts import moment

from .sample import DeviceSample, ProcessSample, Sample, Slowdown, Status

# ---- Whose load and memory a device carries ----


class LoadOwner(IntEnum):
    NOBODY = 0
    OURS = 1
    OTHERS = 2


class DeviceShare(Struct, frozen=True):
    """Bytes of memory on either side, and whose the load is; what neither has is the driver's."""

    owner: LoadOwner = LoadOwner.NOBODY
    ours: int = 0
    others: int = 0


def share(device: DeviceSample, is_ours: Callable[[ProcessSample], bool], *, held: bool) -> DeviceShare:
    """`held`: a job of ours has the device, whether processes of it are to be seen or not."""
    on_it = [each for each in device.processes if each.compute]
    mine = [each for each in on_it if is_ours(each)]
    theirs = [each for each in on_it if not is_ours(each)]
    if held and not mine:
        return DeviceShare(LoadOwner.OURS, max(0, (device.memory_used or 0) - _memory(theirs)), _memory(theirs))
    ours, others = _memory(mine), _memory(theirs)
    if device.memory_used is not None and on_it and all(each.memory is None for each in on_it):
        ours, others = (device.memory_used, 0) if mine else (0, device.memory_used)
    return DeviceShare(_owner(mine, theirs), ours, others)


def _owner(mine: list[ProcessSample], theirs: list[ProcessSample]) -> LoadOwner:
    if not theirs:
        return LoadOwner.OURS if mine else LoadOwner.NOBODY
    if not mine:
        return LoadOwner.OTHERS
    return LoadOwner.OURS if _load(mine) >= _load(theirs) else LoadOwner.OTHERS


def _load(processes: list[ProcessSample]) -> int:
    return sum(each.utilization or 0 for each in processes)


def _memory(processes: list[ProcessSample]) -> int:
    return sum(each.memory or 0 for each in processes)


# ---- What each device did before now ----


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
    labels: Mapping[str, str] = {}
    """What people call each device: `GPU 0`."""


EMPTY = DeviceHistories()


class HistoryRecorder:
    """Goes on where an earlier history ended."""

    def __init__(self, earlier: DeviceHistories = EMPTY) -> None:
        self._tracks = {key: [_OpenTrack(*each) for each in zip(LEVELS, tracks, strict=False)]
                        for key, tracks in earlier.tracks.items()}  # fmt: skip
        self._taken: float | None = None
        self.warned: dict[str, float] = dict(earlier.warned)
        self._labels = dict(earlier.labels)

    def observe(self, sample: Sample, shares: Mapping[str, DeviceShare]) -> None:
        """A sample that was observed already adds nothing; a device that did not answer adds nothing either."""
        if sample.taken == self._taken:
            return
        self._taken = sample.taken
        for device in sample.devices:
            if device.status is Status.OK and device.utilization is not None:
                self._labels[device.key] = _label(device)
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
        return DeviceHistories(
            tracks, dict(self.warned), {key: self._labels[key] for key in tracks if key in self._labels}
        )

    def forget(self, before: float) -> None:
        """Devices that were last seen before then."""
        self._tracks = {key: tracks for key, tracks in self._tracks.items() if tracks[0].seen_at >= before}


def _label(device: DeviceSample) -> str:
    if device.uuid.startswith("CPU-"):
        return f"lane {device.index}"
    part = f" {device.mig.gpu_instance}/{device.mig.compute_instance}" if device.mig is not None else ""
    return f"GPU {device.index}{part}"


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


# ---- The newest part of a history, for whoever has the rest already ----


def newest_of(now: DeviceHistories, before: DeviceHistories) -> DeviceHistories | None:
    """What `with_newest` makes `now` of; None: it is no continuation, as after a clock was set back."""
    tracks: dict[str, tuple[Track, ...]] = {}
    for key, several in now.tracks.items():
        had = before.tracks.get(key, ())
        if len(had) != len(several) or any(new.last < old.last for new, old in zip(several, had, strict=True)):
            return None
        tracks[key] = tuple(_newest(new, old) for new, old in zip(several, had, strict=True))
    return replace(now, tracks=tracks)


def with_newest(before: DeviceHistories, newest: DeviceHistories) -> DeviceHistories:
    tracks = {
        key: tuple(_joined(*each) for each in zip(LEVELS, before.tracks[key], several, strict=False))
        for key, several in newest.tracks.items()
    }
    return replace(newest, tracks=tracks)


def _newest(new: Track, old: Track) -> Track:
    """From the slot that was the newest then, which may have changed since."""
    count = new.last - old.last + 1
    load, owner, ours, others = (figure[-count:] for figure in new.figures)
    return Track(new.last, (load, owner, ours, others))


def _joined(level: HistoryLevel, old: Track, newest: Track) -> Track:
    pairs = zip(old.figures, newest.figures, strict=True)
    load, owner, ours, others = ((had[:-1] + came)[-level.slots :] for had, came in pairs)
    return Track(newest.last, (load, owner, ours, others))


# ---- A history in columns of any length ----


class HistoryColumn(NamedTuple):
    """Parts of 1; no load: nobody can say."""

    load: float | None = None
    owner: LoadOwner = LoadOwner.NOBODY
    ours: float = 0.0
    others: float = 0.0


NOT_KNOWN = HistoryColumn()


def columns(histories: DeviceHistories, key: str, seconds: float, count: int, now: float) -> list[HistoryColumn]:
    """The last `count` columns of so many seconds each, the one that `now` falls into last."""
    newest = int(now // seconds)
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    level = _level(seconds, seconds * count)
    return [_column(tracks[level], level, number, seconds) for number in range(newest - count + 1, newest + 1)]


def between(histories: DeviceHistories, key: str, start: float, seconds: float, count: int) -> list[HistoryColumn]:
    """Columns from any moment on; of what has not been yet nobody can say anything."""
    tracks = histories.tracks.get(key)
    if not tracks:
        return [NOT_KNOWN] * count
    reach = tracks[0].last * LEVELS[0].seconds - start
    level = _level(seconds, reach)
    return [_column(tracks[level], level, number, seconds, start) for number in range(count)]


def _level(seconds: float, reach: float) -> int:
    """The finest that goes back so far; a column finer than its slots would show steps that were not."""
    fitting = (index for index, level in enumerate(LEVELS) if level.reach >= 0.99 * reach)
    return next(fitting, len(LEVELS) - 1)


def _column(track: Track, level: int, number: int, seconds: float, start: float = 0.0) -> HistoryColumn:
    slot = LEVELS[level].seconds
    first = track.last - len(track.figures[0]) + 1
    since, until = start + number * seconds, start + (number + 1) * seconds
    low = max(0, int(since // slot) + (since % slot > 0) - first)
    high = max(0, int(until // slot) + (until % slot > 0) - first)
    if high <= low:  # finer than the slots: the one it falls into
        low = int(since // slot) - first
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
    for whose, value in zip(owner, load, strict=True):
        weights[min(2, whose)] += value + 1
    strongest = LoadOwner(max(range(3), key=weights.__getitem__))
    return HistoryColumn(sum(load) / count / 100, strongest, sum(ours) / count / FULL, sum(others) / count / FULL)


# ---- The history on disk, so that the next owner goes on with it ----


LARGEST = 8 << 20
"""Bytes; what is larger was not written by us."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeviceHistories).decode


def read_history(path: str) -> DeviceHistories:
    """Empty where there is none, or none that can be read: it is worth a picture, not a message."""
    try:
        with open(path, "rb") as file:
            packed = file.read(LARGEST)
        unpacker = zlib.decompressobj()
        history = _decode(unpacker.decompress(packed, LARGEST))
    except (OSError, zlib.error, msgspec.MsgspecError):
        return EMPTY
    return replace(history, tracks={key: tracks for key, tracks in history.tracks.items() if _is_whole(tracks)})


def _is_whole(tracks: tuple[Track, ...]) -> bool:
    if len(tracks) != len(LEVELS):
        return False
    for level, track in zip(LEVELS, tracks, strict=True):
        lengths = {len(figure) for figure in track.figures}
        if len(lengths) != 1 or max(lengths) > level.slots:
            return False
    return True


def write_history(path: str, history: DeviceHistories) -> None:
    """OSError: it was not written, and the one before stays."""
    fresh = f"{path}.new"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(zlib.compress(_encode(history), 1))
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise


# ---- What is wrong with a device, in words ----


HOT = 85
"""Degrees from which a device is too hot."""
_COSTS = 0.9
"""Of its clock below which a power cap is worth a word: at full load most cards run into it a little."""


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
    """In the colour of failures; else in that of what one should know."""


def noted(sample: Sample, since: dict[str, float]) -> dict[str, tuple[DeviceWarning, ...]]:
    """Of every device, by its key; `since` is kept up to date."""
    by_device: dict[str, tuple[DeviceWarning, ...]] = {}
    holds: dict[str, float] = {}
    for device in sample.devices:
        kinds = list(_kinds(device))
        begun = {kind: since.get(f"{device.key} {kind}", sample.taken) for kind in kinds}
        holds.update({f"{device.key} {kind}": at for kind, at in begun.items()})
        if kinds:
            by_device[device.key] = tuple(_told(device, kind, begun, sample.taken) for kind in kinds)
    since.clear()
    since.update(holds)
    return by_device


def _kinds(device: DeviceSample) -> Iterator[WarningKind]:
    if device.status is Status.LOST:
        yield WarningKind.LOST
        return
    if device.status is not Status.OK:
        yield WarningKind.SILENT
        return
    if Slowdown.HEAT in device.slowed_by:
        yield WarningKind.HEAT
    elif device.temperature is not None and device.temperature >= HOT:
        yield WarningKind.HOT
    if Slowdown.BRAKE in device.slowed_by:
        yield WarningKind.BRAKE
    elif Slowdown.POWER_CAP in device.slowed_by and _slow(device):
        yield WarningKind.POWER_CAP
    if device.ecc_uncorrected:
        yield WarningKind.ECC


def _slow(device: DeviceSample) -> bool:
    return device.clock is not None and bool(device.clock_limit) and device.clock < _COSTS * (device.clock_limit or 0)


def _told(device: DeviceSample, kind: WarningKind, begun: Mapping[WarningKind, float], now: float) -> DeviceWarning:
    since = moment(begun[kind], now)
    match kind:
        case WarningKind.LOST:
            what, _, advice = device.message.partition("; ")
            return DeviceWarning(kind, f"lost at {since}: {what}", advice)
        case WarningKind.SILENT:
            return DeviceWarning(kind, f"{device.status.value} since {since}: {device.message}")
        case WarningKind.HEAT:
            return DeviceWarning(kind, f"slowed by heat since {since}{_clocks(device)}")
        case WarningKind.HOT:
            return DeviceWarning(kind, f"too hot since {since}: {device.temperature}°C{_clocks(device, '; ')}")
        case WarningKind.BRAKE:
            return DeviceWarning(kind, f"braked by its power supply since {since}{_clocks(device)}")
        case WarningKind.POWER_CAP:
            limit = f" of {device.power_limit:.0f} W" if device.power_limit is not None else ""
            words = f"held back by its power limit{limit} since {since}{_clocks(device)}"
            return DeviceWarning(kind, words, grave=False)
    count = device.ecc_uncorrected or 0
    return DeviceWarning(kind, f"{count:,} memory errors that could not be corrected, seen since {since}",
                         "results may be wrong; reset the card")  # fmt: skip


def _clocks(device: DeviceSample, before: str = ": ") -> str:
    if device.clock is None or device.clock_limit is None:
        return ""
    return f"{before}{device.clock:,} of {device.clock_limit:,} MHz"
