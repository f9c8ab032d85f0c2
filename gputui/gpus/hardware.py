"""The machine's GPUs, their order, and the meaning of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.regex import lazy_regex
from gputui.process.processes import read_bytes

from .sample import DeviceSample

# Finding GPUs without loading NVIDIA's library in this process


LIBRARY = "libnvidia-ml.so.1"
NVML_PATIENCE = 5.0
"""Seconds to wait for NVML to list its devices."""

_DEVICE_NODE = lazy_regex(r"nvidia([0-9]{1,4})")
_BUS_ADDRESS = lazy_regex(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_INFORMATION_BYTES = 4096


class Hardware(Struct, frozen=True):
    """The GPUs and CPU cores of this machine."""

    gpus: tuple[DeviceSample, ...] = ()
    """The index, UUID and name of each GPU. Unknown values are empty."""
    cores: int = 1
    visible: str | None = None
    """The value of CUDA_VISIBLE_DEVICES, or None if it is not set."""


def find_hardware() -> Hardware:
    """Find the GPUs through the kernel, or through NVML if the kernel shows none, as in WSL2.

    This must not be called in an owner's thread, because it may have to wait for NVML.
    """
    hardware = kernel_hardware()
    if hardware.gpus or not _library_present():
        return hardware
    return replace(hardware, gpus=_gpus_by_nvml(os.environ.get("LD_LIBRARY_PATH", "")))


def kernel_hardware(root: str = "/", environment: Mapping[str, str] = os.environ) -> Hardware:
    """Find GPUs in /dev and /proc below `root`. Entries that cannot be read are treated as missing."""
    names = _names(os.path.join(root, "dev"))
    nodes = {match[1] for name in names if (match := _DEVICE_NODE.fullmatch(name))}
    listed = _listed(os.path.join(root, "proc/driver/nvidia/gpus"))
    if listed:
        # A container may list all GPUs but have device nodes for some only. Nodes may also be created on demand.
        usable = [facts for facts in listed if facts.get("Device Minor") in nodes] or listed
        gpus = tuple(_gpu(index, facts) for index, facts in enumerate(usable))
    else:
        gpus = tuple(DeviceSample(index=index, uuid="", name="") for index in range(len(nodes)))
    return Hardware(gpus, len(os.sched_getaffinity(0)), environment.get("CUDA_VISIBLE_DEVICES"))


def _gpu(index: int, facts: dict[str, str]) -> DeviceSample:
    uuid = facts.get("GPU UUID", "")
    known = uuid.startswith("GPU-") and "?" not in uuid
    return DeviceSample(index=index, uuid=uuid if known else "", name=facts.get("Model", ""))


def _listed(directory: str) -> list[dict[str, str]]:
    """Return the driver's information about each usable GPU, in PCI bus order."""
    addresses = [name for name in _names(directory) if _BUS_ADDRESS.fullmatch(name)]
    facts = [_facts(os.path.join(directory, name, "information")) for name in sorted(addresses, key=_place)]
    return [card for card in facts if card.get("GPU Excluded", "No") != "Yes"]


def _facts(path: str) -> dict[str, str]:
    lines = read_bytes(path, _INFORMATION_BYTES).decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def driver_present() -> bool:
    """Return whether there are NVIDIA GPUs, or at least NVIDIA's library in LD_LIBRARY_PATH. This may wait for NVML."""
    return bool(find_hardware().gpus) or _library_named()


def driver_may_answer() -> bool:
    """Return whether NVML may find GPUs, without waiting for NVML."""
    return bool(kernel_hardware().gpus) or _library_present()


def _library_named() -> bool:
    directories = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return any(os.path.exists(os.path.join(directory, LIBRARY)) for directory in directories if directory)


def _library_present() -> bool:
    """Return whether the dynamic loader would find NVIDIA's library."""
    try:
        with open("/etc/ld.so.cache", "rb") as file:
            return _library_named() or LIBRARY.encode() in file.read()
    except OSError:
        return _library_named()


@cache
def _gpus_by_nvml(_search_path: str) -> tuple[DeviceSample, ...]:
    """List the GPUs once, in the sampler process because the library may hang. Return none if it does not answer."""
    from .sampler_process import ProcessSampler, sample_once

    sampler = ProcessSampler()
    try:
        sample = sample_once(sampler, NVML_PATIENCE)
    finally:
        sampler.close()
    return tuple(device for device in sample.devices if device.mig is None) if sample is not None else ()


# The order of devices, and which of them are visible


Readings = tuple[DeviceSample, ...]
"""The sample of a GPU, followed by those of its MIG instances."""


def sort_by_bus(gpus: Iterable[Readings]) -> Readings:
    """Return the devices, numbered in bus order. Devices without a known address keep the driver's index."""
    gpus = list(gpus)
    placed = sorted((gpu for gpu in gpus if gpu[0].bus_id is not None), key=lambda gpu: _place(gpu[0].bus_id or ""))
    supply = iter(placed)
    ordered = [next(supply) if gpu[0].bus_id is not None else gpu for gpu in gpus]
    return tuple(replace(device, index=rank) for rank, gpu in enumerate(ordered) for device in gpu)


def _place(bus_id: str) -> tuple[int, ...]:
    """Parse `00000000:1B:00.0` into domain, bus, device and function."""
    try:
        return tuple(int(part, 16) for part in bus_id.replace(".", ":").split(":"))
    except ValueError:
        return (2**32,)


def add_uuids(devices: Readings, listed: Sequence[DeviceSample]) -> Readings:
    """Add the kernel's UUIDs to devices that have none, provided that both lists contain the same number of GPUs."""
    known_uuids = {device.uuid for device in devices if device.uuid}
    if len(listed) != sum(device.parent is None for device in devices):
        return devices
    return tuple(
        replace(device, uuid=gpu.uuid, name=gpu.name or device.name)
        if not device.uuid and (gpu := listed[device.index]).uuid and gpu.uuid not in known_uuids
        else device
        for device in devices
    )


def mark_visible(devices: Readings, environment: Mapping[str, str]) -> Readings:
    """Mark devices as not visible if CUDA_VISIBLE_DEVICES omits them."""
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return devices
    chosen = _chosen(devices, value)
    return tuple(
        device if device.key in chosen or device.parent in chosen else replace(device, visible=False)
        for device in devices
    )


def _chosen(devices: Readings, value: str) -> set[str]:
    """Return the keys of the devices in a list, by CUDA's rules.

    The first unknown entry ends the list. A repeated entry makes the list empty.
    """
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
    matches = {d.key for d in devices if d.uuid.lower().startswith(word.lower())}
    return matches.pop() if len(matches) == 1 else None


def find(devices: Readings, word: str) -> DeviceSample | None:
    """Find a device by its index, its UUID, or the beginning of its UUID."""
    key = _named(devices, word) or word
    return next((device for device in devices if device.key == key), None)


def find_order_warning(devices: Readings, environment: Mapping[str, str]) -> str | None:
    """Return a warning if numbers in CUDA_VISIBLE_DEVICES may refer to different GPUs in CUDA and in gputui."""
    numbers = any(word.strip().isdecimal() for word in environment.get("CUDA_VISIBLE_DEVICES", "").split(","))
    models = {device.name for device in devices if device.parent is None}
    if not numbers or len(models) < 2 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    return (
        "CUDA_VISIBLE_DEVICES has numbers and the GPUs differ: CUDA numbers the fastest first, gputui uses "
        "PCI order; set CUDA_DEVICE_ORDER=PCI_BUS_ID or use GPU- UUIDs"
    )
