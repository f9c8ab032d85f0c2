"""From what the user wants and what the machine has to the lanes that jobs run on."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.lanes import DeviceKind, Lane
from gputui.core.views.amounts import counted

from .hardware import Gpu, Hardware
from .wanted import (
    MOST_IN_SLURM,
    MOST_LANES,
    NO_GPU,
    All,
    BadGpus,
    Cpu,
    Group,
    NamedDevices,
    Simulated,
    SlurmLanes,
    Wanted,
    looks_like_gpus,
    parse_gpus,
)

__all__ = [
    "MOST_LANES", "All", "BadGpus", "Cpu", "GivenLanes", "NamedDevices", "Simulated", "Wanted",
    "lanes", "looks_like_gpus", "parse_gpus",
]  # fmt: skip

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
