"""The grammar of `--gpus`, and the slots that result from it for the machine's devices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gputui.core.amounts import counted
from gputui.core.regex import lazy_regex
from gputui.core.slots import NO_GPU, DeviceKind, Slot

from .hardware import Hardware, find

# The grammar


MOST_SLOTS = 1024
SIMULATED = 4
"""Number of GPUs that `sim` stands for."""
MOST_IN_SLURM = 1000
"""Maximum number of jobs in Slurm's queue. Additional jobs would only wait there instead of in gputui's queue."""

_HIGHEST_ID = 9999
_EXAMPLES = "use e.g. 0,1 or 0-3 or 0x2,1 or [0,1],[2,3] or all, cpu:4, sim:4 or slurm:8"

_ITEM = lazy_regex(
    r"""(?: (?P<first>[0-9]+) (?: - (?P<last>[0-9]+) )?
          | (?P<uuid> GPU-[0-9a-fA-F][0-9a-fA-F-]* | MIG-[0-9a-fA-F][0-9a-fA-F-]* )
          | (?P<none>-1) )
        (?: x (?P<times>[0-9]+) )?""",
    re.VERBOSE | re.ASCII,
)
_BRACKETS = lazy_regex(r"\[(?P<inside>[^\[\]]*+)\](?:x(?P<times>[0-9]+))?", re.ASCII)
_STAND_IN = lazy_regex(r"(cpu|sim):([0-9]+)", re.ASCII)
_IN_SLURM = lazy_regex(r"slurm:([0-9]+|all)", re.ASCII)
_SEPARATOR = lazy_regex(r"\s++|,")
_COMMA = lazy_regex(r"\s*+,\s*+")
_BETWEEN_PIECES = lazy_regex(r"\]x[0-9]+|[\[\],\s]", re.ASCII)
_WITHIN_GROUP = "\0"
"""Placeholder for commas and blanks within brackets while the text is split."""

Group = tuple[str, ...]


class BadGpus(ValueError):
    """The list of GPUs is invalid. The message is shown to the user."""


class All(Struct, frozen=True, tag="all"):
    """One slot for each visible GPU."""


class Cpu(Struct, frozen=True, tag="cpu"):
    slots: int


class Simulated(Struct, frozen=True, tag="sim"):
    slots: int


class SlurmSlots(Struct, frozen=True, tag="slurm"):
    slots: int | None
    """Number of slots, or None for as many as the cluster allows."""


class NamedDevices(Struct, frozen=True, tag="named"):
    groups: tuple[Group, ...]
    """The devices of each slot."""


Wanted = All | Cpu | Simulated | SlurmSlots | NamedDevices


def parse_gpus(text: str) -> Wanted:
    """Parse the value of `--gpus`. Several command-line arguments must have been joined by blanks."""
    compact = _COMMA.sub(",", text.strip())
    if not compact:
        return Cpu(1)
    if compact.lower() == "all":
        return All()
    if compact.lower() == "sim":
        return Simulated(SIMULATED)
    if match := _STAND_IN.fullmatch(compact.lower()):
        slots = _within(match[2], 1, MOST_SLOTS, text, f"{match[1]}:{match[2]}")
        return Cpu(slots) if match[1] == "cpu" else Simulated(slots)
    if "slurm" in compact.lower():
        return _in_slurm(compact.lower(), text)
    return NamedDevices(_groups(compact, text))


def _in_slurm(compact: str, text: str) -> SlurmSlots:
    if match := _IN_SLURM.fullmatch(compact):
        return SlurmSlots(None if match[1] == "all" else _within(match[1], 1, MOST_IN_SLURM, text, compact))
    if _IN_SLURM.search(compact):
        mixed = "cannot mix Slurm and local GPUs in one session; use two (--output-dir)"
        raise BadGpus(f"--gpus {_short(text)}: {mixed}")
    raise BadGpus(
        f"--gpus {_short(text)}: slurm: needs the number of jobs to keep in Slurm, 1 to {MOST_IN_SLURM}, or all; "
        "e.g. slurm:8"
    )


def looks_like_gpus(word: str) -> bool:
    """Return whether a command-line argument looks like a part of the value of a preceding `--gpus`."""
    if word.lower() == "all" or _STAND_IN.fullmatch(word.lower()) or _IN_SLURM.fullmatch(word.lower()):
        return True
    pieces = [piece for piece in _BETWEEN_PIECES.split(word) if piece]
    return bool(pieces) and all(_ITEM.fullmatch(piece) for piece in pieces)


def _groups(compact: str, text: str) -> tuple[Group, ...]:
    """Parse the devices of each slot. If there are several words, each word such as `0,1` is one slot."""
    words = _BRACKETS.sub(_kept_together, compact).split()
    if len(words) > 1:
        words = [word if "[" in word or "," not in word else _set_of(word) for word in words]
    groups: list[Group] = []
    for item in ",".join(words).split(","):
        groups += _slots_of_item(item, text)
        _check_count(len(groups), text)
    return tuple(groups)


def _kept_together(brackets: re.Match[str]) -> str:
    times = brackets["times"]
    return _set_of(brackets["inside"].strip()) + (f"x{times}" if times else "")


def _set_of(items: str) -> str:
    return f"[{_SEPARATOR.sub(_WITHIN_GROUP, items)}]"


def _slots_of_item(item: str, text: str) -> list[Group]:
    if match := _BRACKETS.fullmatch(item):
        inside = match["inside"]
        group = _group(inside.split(_WITHIN_GROUP) if inside else [], text)
        return [group] * _times(match["times"], text, item)
    devices, times = _item(item, text)
    _check_count(len(devices) * times, text)
    groups: list[Group] = [(device,) for device in devices]
    return groups * times


def _check_count(slots: int, text: str) -> None:
    if slots > MOST_SLOTS:
        raise _bad(text, f"more than {MOST_SLOTS} slots")


def _group(items: list[str], text: str) -> Group:
    if not items:
        raise _bad(text, "empty brackets")
    devices: dict[str, None] = {}
    for item in items:
        more, times = _item(item, text)
        if times > 1:
            raise _bad(text, f"{item!r} repeats a GPU in one set (several slots per set: [0,1]x2)")
        for device in more:
            if device in devices:
                raise _bad(text, f"GPU {device} is repeated in one set")
            devices[device] = None
    if NO_GPU in devices and len(devices) > 1:
        raise _bad(text, f"{NO_GPU} means no GPU and cannot be in a set")
    return tuple(devices)


def _item(item: str, text: str) -> tuple[list[str], int]:
    """Parse one item into its devices and the number of slots for each device."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _bad(text, _why_not(item))
    times = _times(match["times"], text, item)
    if match["first"] is None:
        return [match["uuid"] or NO_GPU], times
    first = _within(match["first"], 0, _HIGHEST_ID, text, item)
    last = _within(match["last"], 0, _HIGHEST_ID, text, item) if match["last"] else first
    if last < first:
        raise _bad(text, f"invalid range {item!r}")
    if last - first >= MOST_SLOTS:
        raise _bad(text, f"{item!r} exceeds {MOST_SLOTS} GPUs")
    return [str(index) for index in range(first, last + 1)], times


def _times(digits: str | None, text: str, item: str) -> int:
    return _within(digits, 1, MOST_SLOTS, text, item) if digits else 1


def _within(digits: str, lowest: int, highest: int, text: str, item: str) -> int:
    # Checking the number of digits first avoids a slow int() of very long input.
    if len(digits) > 9 or not lowest <= int(digits) <= highest:
        raise _bad(text, f"in {_short(item)}, the number must be {lowest} to {highest}")
    return int(digits)


def _why_not(item: str) -> str:
    if not item:
        return "missing value before or after a comma"
    if item.lower() == "cpu":
        return "'cpu' needs a number of slots"
    if item.lower() in ("all", "sim") or _STAND_IN.fullmatch(item.lower()):
        return f"{item!r} cannot be combined with others (for a file of that name: ./{item})"
    if item.count("[") != item.count("]"):
        return f"unbalanced bracket in {_short(item)}"
    return f"{_short(item)} is not a GPU"


def _bad(text: str, reason: str) -> BadGpus:
    return BadGpus(f"--gpus {_short(text)}: {reason}; {_EXAMPLES}")


def _short(text: str) -> str:
    text = text.replace(_WITHIN_GROUP, ",")
    return repr(text if len(text) <= 60 else text[:59] + "…")


# The slots of a machine


_MOST_DEFAULT_CPU_SLOTS = 4


class GivenSlots(Struct, frozen=True):
    slots: tuple[Slot, ...]
    notice: str | None = None
    """A message for the user, or None."""


def slots(wanted: Wanted, hardware: Hardware) -> GivenSlots:
    """Return the slots for this machine. Raise BadGpus if a GPU does not exist."""
    match wanted:
        case All():
            return _all_slots(hardware)
        case Cpu(slots=count):
            return GivenSlots(_slots([()] * count, DeviceKind.CPU))
        case Simulated(slots=count):
            return GivenSlots(_slots(((str(index),) for index in range(count)), DeviceKind.SIMULATED))
        case SlurmSlots(slots=count):
            return GivenSlots(_slots([()] * (count or MOST_IN_SLURM), DeviceKind.SLURM))
        case NamedDevices(groups=groups):
            return _named_slots(groups, hardware)


def _all_slots(hardware: Hardware) -> GivenSlots:
    if not hardware.gpus:
        return _cpu_instead("no NVIDIA GPU found", hardware)
    if hardware.visible is None:
        return GivenSlots(_slots((str(gpu.index),) for gpu in hardware.gpus))
    visible = _visible_devices(hardware.visible, hardware)
    if not visible:
        return _cpu_instead("CUDA_VISIBLE_DEVICES hides every GPU", hardware)
    return GivenSlots(_slots((device,) for device in visible))


def _visible_devices(written: str, hardware: Hardware) -> list[str]:
    """Parse CUDA_VISIBLE_DEVICES as CUDA does: devices after the first unknown one are ignored."""
    devices: list[str] = []
    for entry in written.split(","):
        device = entry.strip()
        if not _needs_nvml(device, hardware) and find(hardware.gpus, device) is None:
            break
        if device not in devices:
            devices.append(device)
    return devices


def _cpu_instead(reason: str, hardware: Hardware) -> GivenSlots:
    count = min(_MOST_DEFAULT_CPU_SLOTS, max(1, hardware.cores // 2))
    serve = counted(count, "CPU slot", "CPU slots")
    return GivenSlots(_slots([()] * count, DeviceKind.CPU), f"{reason}: using {serve} (--gpus cpu:N for more)")


def _named_slots(groups: tuple[Group, ...], hardware: Hardware) -> GivenSlots:
    named_slots = _slots(groups)
    named = [device for group in groups for device in group if device != NO_GPU]
    if not named:
        return GivenSlots(named_slots)
    if not hardware.gpus:
        ids = ", ".join(dict.fromkeys(named))
        return GivenSlots(named_slots, f"no NVIDIA GPU found: using --gpus {_brief(ids)} unchecked")
    for group in groups:
        _check(group, hardware)
    return GivenSlots(named_slots)


def _check(group: Group, hardware: Hardware) -> None:
    words: dict[int, str] = {}
    for device in group:
        if device == NO_GPU or _needs_nvml(device, hardware):
            continue
        gpu = find(hardware.gpus, device)
        if gpu is None:
            raise BadGpus(f"no GPU {device} here; available: {_inventory(hardware)}")
        if gpu.index in words:
            raise BadGpus(f"{words[gpu.index]} and {device} are the same GPU; name it once per set")
        words[gpu.index] = device


def _needs_nvml(device: str, hardware: Hardware) -> bool:
    """Return whether only NVML knows the device: a MIG instance, or a UUID if the driver's files contain no UUIDs."""
    if device.startswith("GPU-"):
        return any(not gpu.uuid for gpu in hardware.gpus)
    return device.startswith("MIG-")


def _inventory(hardware: Hardware) -> str:
    return _brief(", ".join(f"{gpu.index} ({gpu.name})" if gpu.name else str(gpu.index) for gpu in hardware.gpus))


def _brief(listing: str) -> str:
    return listing if len(listing) <= 400 else listing[:399] + "…"


def _slots(groups: Iterable[Group], kind: DeviceKind = DeviceKind.GPU) -> tuple[Slot, ...]:
    # With -1 a slot is a CPU slot, but its jobs get CUDA_VISIBLE_DEVICES=-1.
    return tuple(
        Slot(index, group, DeviceKind.CPU if group == (NO_GPU,) else kind) for index, group in enumerate(groups)
    )
