"""Which GPUs the machine has, their order, and what CUDA_VISIBLE_DEVICES means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from .sample import DeviceSample

# ---- Which NVIDIA GPUs there are, found without loading anything of NVIDIA's in this process ----


LIBRARY = "libnvidia-ml.so.1"
LOADER_CACHE = "/etc/ld.so.cache"
NVML_PATIENCE = 5.0
"""Seconds for NVML to name its devices."""

_DEVICE_NODE = re.compile(r"nvidia([0-9]{1,4})")
_BUS_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_INFORMATION_BYTES = 4096


class Gpu(Struct, frozen=True):
    """One GPU as jobs can name it."""

    index: int
    """Its place in PCI bus order, which is how jobs count."""
    uuid: str | None = None
    name: str | None = None


class Hardware(Struct, frozen=True):
    """What this machine gives lanes to stand on."""

    gpus: tuple[Gpu, ...] = ()
    cores: int = 1
    visible: str | None = None
    """CUDA_VISIBLE_DEVICES of whoever started us; None: not set."""


def find_hardware() -> Hardware:
    """The GPUs that the kernel shows, or those that NVML finds where it shows none: WSL2 has no device nodes.

    Not for an owner's thread: it may wait for NVML.
    """
    hardware = kernel_hardware()
    if hardware.gpus or not _library_present():
        return hardware
    return replace(hardware, gpus=_gpus_by_nvml(os.environ.get("LD_LIBRARY_PATH", "")))


def kernel_hardware(root: str = "/", environment: Mapping[str, str] = os.environ) -> Hardware:
    """Looks below `root`; what cannot be read is taken as not there."""
    nodes = _device_nodes(os.path.join(root, "dev"))
    listed = _listed(os.path.join(root, "proc/driver/nvidia/gpus"))
    if listed:
        # Containers may show every card but have the device nodes of a few; nodes may also be made on demand.
        usable = [facts for facts in listed if facts.get("Device Minor") in nodes] or listed
        gpus = tuple(_gpu(index, facts) for index, facts in enumerate(usable))
    else:
        gpus = tuple(Gpu(index) for index in range(len(nodes)))
    return Hardware(gpus, len(os.sched_getaffinity(0)), environment.get("CUDA_VISIBLE_DEVICES"))


def _gpu(index: int, facts: dict[str, str]) -> Gpu:
    uuid = facts.get("GPU UUID", "")
    return Gpu(index, uuid if uuid.startswith("GPU-") and "?" not in uuid else None, facts.get("Model") or None)


def _device_nodes(folder: str) -> set[str]:
    """The minor numbers of the cards that have a node, as text."""
    return {match[1] for name in _names(folder) if (match := _DEVICE_NODE.fullmatch(name))}


def _listed(folder: str) -> list[dict[str, str]]:
    """What the driver says of each card it may use, in PCI bus order."""
    addresses = [name for name in _names(folder) if _BUS_ADDRESS.fullmatch(name)]
    facts = [_facts(os.path.join(folder, name, "information")) for name in sorted(addresses, key=_bus_order)]
    return [card for card in facts if card.get("GPU Excluded", "No") != "Yes"]


def _bus_order(address: str) -> tuple[int, ...]:
    match = _BUS_ADDRESS.fullmatch(address)
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def _facts(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            lines = file.read(_INFORMATION_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def driver_present() -> bool:
    """NVIDIA hardware is there, or at least its library where the user said to look. May wait for NVML."""
    return bool(find_hardware().gpus) or _library_named()


def driver_may_answer() -> bool:
    """Whether NVML is worth asking; an owner, which waits for no driver, then starts a sampler and sees."""
    return bool(kernel_hardware().gpus) or _library_present()


def _library_named() -> bool:
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return any(os.path.exists(os.path.join(each, LIBRARY)) for each in folders if each)


def _library_present() -> bool:
    """Whether the loader would find NVIDIA's library; it is not loaded here."""
    try:
        with open(LOADER_CACHE, "rb") as file:
            return _library_named() or LIBRARY.encode() in file.read()
    except OSError:
        return _library_named()


@cache
def _gpus_by_nvml(_search_path: str) -> tuple[Gpu, ...]:
    """Asked once, in a process of its own, for the library may hang or crash; none if it does not answer."""
    from .sampler_process import ProcessSampler, sample_once

    sampler = ProcessSampler()
    try:
        sample = sample_once(sampler, NVML_PATIENCE)
    finally:
        sampler.close()
    devices = sample.devices if sample is not None else ()
    return tuple(Gpu(device.index, device.uuid or None, device.name) for device in devices if device.mig is None)


# ---- Which device is which ----


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
