"""Which device is which: the order of the machine's GPUs, and what CUDA_VISIBLE_DEVICES leaves of them. Pure.

Indices are ranks in PCI order, the only order in which `CUDA_DEVICE_ORDER=PCI_BUS_ID` makes CUDA agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from .hardware import Gpu
from .sample import DeviceSample

Readings = tuple[DeviceSample, ...]
"""A GPU, followed by its MIG instances."""


def in_bus_order(gpus: Iterable[Readings]) -> Readings:
    """All devices with their ranks. A GPU that never told its place keeps the one the driver gave it."""
    gpus = list(gpus)
    placed = sorted((gpu for gpu in gpus if gpu[0].bus_id is not None), key=lambda gpu: _place(gpu[0].bus_id or ""))
    supply = iter(placed)
    ordered = [next(supply) if gpu[0].bus_id is not None else gpu for gpu in gpus]
    return tuple(replace(device, index=rank) for rank, gpu in enumerate(ordered) for device in gpu)


def _place(bus_id: str) -> tuple[int, ...]:
    """`00000000:1B:00.0`: domain, bus, device, function."""
    try:
        return tuple(int(part, 16) for part in bus_id.replace(".", ":").split(":"))
    except ValueError:
        return (2**32,)


def completed(devices: Readings, listed: Sequence[Gpu]) -> Readings:
    """The same devices, those that never told their UUID named as the kernel lists them, where that is certain."""
    told_uuids = {device.uuid for device in devices if device.uuid}
    if len(listed) != sum(device.parent is None for device in devices):
        return devices
    return tuple(
        replace(device, uuid=gpu.uuid, name=gpu.name or device.name)
        if not device.uuid and (gpu := listed[device.index]).uuid and gpu.uuid not in told_uuids
        else device
        for device in devices
    )


def restricted(devices: Readings, environment: Mapping[str, str]) -> Readings:
    """The same devices, those that CUDA_VISIBLE_DEVICES leaves out marked as not visible."""
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return devices
    chosen = _chosen(devices, value)
    return tuple(device if _shown(device, chosen) else replace(device, visible=False) for device in devices)


def _shown(device: DeviceSample, chosen: set[str]) -> bool:
    return device.key in chosen or (device.parent is not None and device.parent in chosen)


def _chosen(devices: Readings, value: str) -> set[str]:
    """CUDA's own rule: the first word that names nothing ends the list, and a repeated one voids it."""
    chosen: list[str] = []
    for word in value.split(","):
        key = _named(devices, word.strip())
        if key is None:
            break
        if key in chosen:
            return set()
        chosen.append(key)
    return set(chosen)


def _named(devices: Readings, word: str) -> str | None:
    if word.isdecimal():
        return next((d.key for d in devices if d.parent is None and d.index == int(word)), None)
    if not word.startswith(("GPU-", "MIG-")):
        return None
    matches = {d.key for d in devices if d.uuid.startswith(word)} or _old_mig_name(devices, word)
    return matches.pop() if len(matches) == 1 else None


def find(devices: Readings, word: str) -> DeviceSample | None:
    """The device that a lane or a user means: by index, by UUID, or by the beginning of one."""
    key = _named(devices, word) or next((device.key for device in devices if device.key == word), None)
    return next((device for device in devices if device.key == key), None)


def _old_mig_name(devices: Readings, word: str) -> set[str]:
    """`MIG-GPU-uuid/gpu instance/compute instance`, as drivers before R470 wrote it."""
    parent, _, place = word.removeprefix("MIG-").partition("/")
    return {
        d.key
        for d in devices
        if d.mig and d.parent == parent and place == f"{d.mig.gpu_instance}/{d.mig.compute_instance}"
    }


def order_note(devices: Readings, environment: Mapping[str, str]) -> str | None:
    """A warning where the numbers in CUDA_VISIBLE_DEVICES may mean other cards to CUDA than to us."""
    numbers = any(word.strip().isdecimal() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(","))
    models = {device.name for device in devices if device.parent is None}
    if not numbers or len(models) < 2 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return (
        "CUDA_VISIBLE_DEVICES holds numbers and the GPUs differ: without CUDA_DEVICE_ORDER=PCI_BUS_ID "
        "CUDA counts the fastest first, gputui counts in PCI order; use GPU- UUIDs to be sure"
    )
