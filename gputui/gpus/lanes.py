"""The grammar of --gpus and the lanes that it makes of the machine's devices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gputui.core.amounts import counted
from gputui.core.lanes import NO_GPU, DeviceKind, Lane

from .hardware import Gpu, Hardware

# ---- The grammar of `--gpus` ----


MOST_LANES = 1024
SIMULATED = 4
"""GPUs where their number is not said."""
MOST_IN_SLURM = 1000
"""Jobs in flight: more would only wait in another queue than ours."""

_HIGHEST_ID = 9999
_EXAMPLES = "write for example 0,1 or 0-3 or 0x2,1 or [0,1],[2,3] or all, cpu:4, sim:4 or slurm:8"

_ITEM = re.compile(
    r"""(?: (?P<first>[0-9]+) (?: - (?P<last>[0-9]+) )?
          | (?P<uuid> GPU-[0-9a-fA-F][0-9a-fA-F-]* | MIG-(?:GPU-)?[0-9a-fA-F][0-9a-fA-F-]*(?:/[0-9]+/[0-9]+)? )
          | (?P<none>-1) )
        (?: x (?P<times>[0-9]+) )?""",
    re.VERBOSE | re.ASCII,
)
_BRACKETS = re.compile(r"\[(?P<inside>[^\[\]]*+)\](?:x(?P<times>[0-9]+))?", re.ASCII)
_STAND_IN = re.compile(r"(cpu|sim):([0-9]+)", re.ASCII)
_IN_SLURM = re.compile(r"slurm:([0-9]+|all)", re.ASCII)
_COMMA = re.compile(r"\s*+,\s*+")
_BETWEEN_PIECES = re.compile(r"\]x[0-9]+|[\[\],\s]", re.ASCII)
_WITHIN_GROUP = "\0"
"""Stands for commas and blanks within brackets while words and items are parted."""

Group = tuple[str, ...]


class BadGpus(ValueError):
    """A list of GPUs that means nothing, or not here; the message is the sentence the user reads."""


class All(Struct, frozen=True, tag="all"):
    """One lane for each GPU that may be used."""


class Cpu(Struct, frozen=True, tag="cpu"):
    lanes: int


class Simulated(Struct, frozen=True, tag="sim"):
    lanes: int


class SlurmLanes(Struct, frozen=True, tag="slurm"):
    lanes: int | None
    """None: as many as the cluster lets us submit."""


class NamedDevices(Struct, frozen=True, tag="named"):
    groups: tuple[Group, ...]
    """One lane for each, in this order; most hold a single device."""


Wanted = All | Cpu | Simulated | SlurmLanes | NamedDevices


def parse_gpus(text: str) -> Wanted:
    """What `text` asks for; several words of a command line are given joined by blanks."""
    compact = _COMMA.sub(",", text.strip())
    if not compact:
        return Cpu(1)
    if compact.lower() == "all":
        return All()
    if compact.lower() == "sim":
        return Simulated(SIMULATED)
    if match := _STAND_IN.fullmatch(compact.lower()):
        lanes = _within(match[2], 1, MOST_LANES, text, f"{match[1]}:{match[2]}")
        return Cpu(lanes) if match[1] == "cpu" else Simulated(lanes)
    if "slurm" in compact.lower():
        return _in_slurm(compact.lower(), text)
    return NamedDevices(_groups(compact, text))


def _in_slurm(compact: str, text: str) -> SlurmLanes:
    if match := _IN_SLURM.fullmatch(compact):
        return SlurmLanes(None if match[1] == "all" else _within(match[1], 1, MOST_IN_SLURM, text, compact))
    if _IN_SLURM.search(compact):
        mixed = "lanes in Slurm and GPUs of this machine cannot be mixed in one session; take two (--output-dir)"
        raise BadGpus(f"--gpus {_short(text)}: {mixed}")
    raise BadGpus(
        f"--gpus {_short(text)}: after slurm: stands how many jobs may be in Slurm at once, from 1 to {MOST_IN_SLURM}, "
        "or all; write for example slurm:8"
    )


def looks_like_gpus(word: str) -> bool:
    """Whether a word of the command line is written like GPUs, so that it belongs to a `--gpus` before it."""
    if word.lower() == "all" or _STAND_IN.fullmatch(word.lower()) or _IN_SLURM.fullmatch(word.lower()):
        return True
    pieces = [piece for piece in _BETWEEN_PIECES.split(word) if piece]
    return bool(pieces) and all(_ITEM.fullmatch(piece) for piece in pieces)


def _groups(compact: str, text: str) -> tuple[Group, ...]:
    words = _BRACKETS.sub(_kept_together, compact).split()
    groups: list[Group] = []
    for word in words:
        groups += _lanes_of_word(word, text, alone=len(words) == 1)
        _check_count(len(groups), text)
    return tuple(groups)


def _kept_together(brackets: re.Match[str]) -> str:
    inside = re.sub(r"\s++|,", _WITHIN_GROUP, brackets["inside"].strip())
    times = brackets["times"]
    return f"[{inside}]x{times}" if times else f"[{inside}]"


def _lanes_of_word(word: str, text: str, *, alone: bool) -> list[Group]:
    """Commas part lanes in a word that stands alone; among other words they make a group."""
    items = word.split(",")
    if not alone and len(items) > 1 and "[" not in word:
        return [_group(items, text)]
    lanes: list[Group] = []
    for item in items:
        lanes += _lanes_of_item(item, text)
        _check_count(len(lanes), text)
    return lanes


def _lanes_of_item(item: str, text: str) -> list[Group]:
    if match := _BRACKETS.fullmatch(item):
        inside = match["inside"]
        group = _group(inside.split(_WITHIN_GROUP) if inside else [], text)
        return [group] * _times(match["times"], text, item)
    devices, times = _item(item, text)
    _check_count(len(devices) * times, text)
    groups: list[Group] = [(device,) for device in devices]
    return groups * times


def _check_count(lanes: int, text: str) -> None:
    if lanes > MOST_LANES:
        raise _bad(text, f"asks for more than {MOST_LANES} lanes")


def _group(items: list[str], text: str) -> Group:
    if not items:
        raise _bad(text, "a pair of brackets is empty")
    devices: dict[str, None] = {}
    for item in items:
        more, times = _item(item, text)
        if times > 1:
            raise _bad(text, f"{item!r} repeats a GPU within one group (several lanes on a group: [0,1]x2)")
        for device in more:
            if device in devices:
                raise _bad(text, f"GPU {device} stands twice in one group")
            devices[device] = None
    if NO_GPU in devices and len(devices) > 1:
        raise _bad(text, f"{NO_GPU} means no GPU and cannot be part of a group")
    return tuple(devices)


def _item(item: str, text: str) -> tuple[list[str], int]:
    """The devices of one item, and how many lanes each of them is to have."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _bad(text, _why_not(item))
    times = _times(match["times"], text, item)
    if match["first"] is None:
        return [match["uuid"] or NO_GPU], times
    first = _within(match["first"], 0, _HIGHEST_ID, text, item)
    last = _within(match["last"], 0, _HIGHEST_ID, text, item) if match["last"] else first
    if last < first:
        raise _bad(text, f"{item!r} counts backwards")
    if last - first >= MOST_LANES:
        raise _bad(text, f"{item!r} is more than {MOST_LANES} GPUs")
    return [str(index) for index in range(first, last + 1)], times


def _times(digits: str | None, text: str, item: str) -> int:
    return _within(digits, 1, MOST_LANES, text, item) if digits else 1


def _within(digits: str, lowest: int, highest: int, text: str, item: str) -> int:
    # Counting digits first keeps int() from taking time over a page of them.
    if len(digits) > 9 or not lowest <= int(digits) <= highest:
        raise _bad(text, f"in {_short(item)} the number must be from {lowest} to {highest}")
    return int(digits)


def _why_not(item: str) -> str:
    if not item:
        return "nothing stands between two commas, or before or after one"
    if item.lower() in ("all", "cpu", "sim") or _STAND_IN.fullmatch(item.lower()):
        return f"{item!r} stands alone (cpu:4, sim:4 or all; a file of that name is written ./{item})"
    if item.count("[") != item.count("]"):
        return f"a bracket is not closed or not opened in {_short(item)}"
    return f"{_short(item)} is not a GPU"


def _bad(text: str, reason: str) -> BadGpus:
    return BadGpus(f"--gpus {_short(text)}: {reason}; {_EXAMPLES}")


def _short(text: str) -> str:
    text = text.replace(_WITHIN_GROUP, ",")
    return repr(text if len(text) <= 60 else text[:59] + "…")


# ---- From what the user wants and what the machine has to the lanes that jobs run on ----


_MOST_DEFAULT_CPU_LANES = 4


class GivenLanes(Struct, frozen=True):
    """The lanes, and what the user should be told about them."""

    lanes: tuple[Lane, ...]
    notice: str | None = None


def lanes(wanted: Wanted, hardware: Hardware) -> GivenLanes:
    """The lanes for this machine; BadGpus names a GPU that is not there."""
    match wanted:
        case All():
            return _all_lanes(hardware)
        case Cpu(lanes=count):
            return GivenLanes(_cpu_lanes(count))
        case Simulated(lanes=count):
            return GivenLanes(_lanes(((str(index),) for index in range(count)), DeviceKind.SIMULATED))
        case SlurmLanes(lanes=count):
            return GivenLanes(tuple(Lane(index, (), DeviceKind.SLURM) for index in range(count or MOST_IN_SLURM)))
        case NamedDevices(groups=groups):
            return _named_lanes(groups, hardware)


def _all_lanes(hardware: Hardware) -> GivenLanes:
    if not hardware.gpus:
        return _cpu_instead("no NVIDIA GPU found", hardware)
    if hardware.visible is None:
        return GivenLanes(_lanes((str(gpu.index),) for gpu in hardware.gpus))
    visible = _visible_devices(hardware.visible, hardware)
    if not visible:
        return _cpu_instead("CUDA_VISIBLE_DEVICES hides every GPU", hardware)
    return GivenLanes(_lanes((device,) for device in visible))


def _visible_devices(written: str, hardware: Hardware) -> list[str]:
    """As CUDA reads the variable: up to the first entry that is no device here."""
    devices: list[str] = []
    for entry in written.split(","):
        device = entry.strip()
        if not _is_beyond_us(device, hardware) and _found(device, hardware) is None:
            break
        if device not in devices:
            devices.append(device)
    return devices


def _cpu_instead(reason: str, hardware: Hardware) -> GivenLanes:
    count = min(_MOST_DEFAULT_CPU_LANES, max(1, hardware.cores // 2))
    serve = counted(count, "CPU lane serves", "CPU lanes serve")
    return GivenLanes(_cpu_lanes(count), f"{reason}: {serve} instead (--gpus cpu:N for more)")


def _named_lanes(groups: tuple[Group, ...], hardware: Hardware) -> GivenLanes:
    named_lanes = _lanes(groups)
    named = [device for group in groups for device in group if device != NO_GPU]
    if not named:
        return GivenLanes(named_lanes)
    if not hardware.gpus:
        ids = ", ".join(dict.fromkeys(named))
        return GivenLanes(
            named_lanes, f"no NVIDIA GPU found: --gpus {_brief(ids)} could not be checked, taken as given"
        )
    for group in groups:
        _check(group, hardware)
    return GivenLanes(named_lanes)


def _check(group: Group, hardware: Hardware) -> None:
    words: dict[int, str] = {}
    for device in group:
        if device == NO_GPU or _is_beyond_us(device, hardware):
            continue
        gpu = _found(device, hardware)
        if gpu is None:
            raise BadGpus(f"there is no GPU {device} here; there are {_inventory(hardware)}")
        if gpu.index in words:
            raise BadGpus(f"{words[gpu.index]} and {device} are the same GPU, twice in one group; keep one")
        words[gpu.index] = device


def _is_beyond_us(device: str, hardware: Hardware) -> bool:
    """Whether only NVML knows if it is there: parts of split cards, and uuids where the driver shows none."""
    if device.startswith("GPU-"):
        return any(gpu.uuid is None for gpu in hardware.gpus)
    return device.startswith("MIG-")


def _found(device: str, hardware: Hardware) -> Gpu | None:
    """The GPU meant by an index, a uuid or the beginning of one."""
    for gpu in hardware.gpus:
        if device == str(gpu.index):
            return gpu
        if gpu.uuid and device.startswith("GPU-") and gpu.uuid.lower().startswith(device.lower()):
            return gpu
    return None


def _inventory(hardware: Hardware) -> str:
    return _brief(", ".join(f"{gpu.index} ({gpu.name})" if gpu.name else str(gpu.index) for gpu in hardware.gpus))


def _brief(listing: str) -> str:
    return listing if len(listing) <= 400 else listing[:399] + "…"


def _cpu_lanes(count: int) -> tuple[Lane, ...]:
    return tuple(Lane(index, (), DeviceKind.CPU) for index in range(count))


def _lanes(groups: Iterable[Group], kind: DeviceKind = DeviceKind.GPU) -> tuple[Lane, ...]:
    """A lane whose only device is none is a CPU lane, though its jobs are told -1."""
    return tuple(
        Lane(index, group, DeviceKind.CPU if group == (NO_GPU,) else kind) for index, group in enumerate(groups)
    )
