"""What is wrong with a device, in words: since when, and what it costs. Pure.

Owns what counts as too hot, as slow and as lost; a warning that was seen before keeps its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from gputui.core.views.amounts import moment
from gputui.gpus.sample import DeviceSample, Sample, Slowdown, Status

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
