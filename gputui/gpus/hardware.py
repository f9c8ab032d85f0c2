"""Which NVIDIA GPUs the kernel's driver shows, found without loading anything of NVIDIA's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from msgspec import Struct

__all__ = ["Gpu", "Hardware", "driver_present", "find_hardware"]

LIBRARY = "libnvidia-ml.so.1"

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


def find_hardware(root: str = "/", environment: Mapping[str, str] = os.environ) -> Hardware:
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
    """NVIDIA hardware is there, or at least its library where the user said to look."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return bool(find_hardware().gpus) or any(os.path.exists(os.path.join(each, LIBRARY)) for each in folders if each)
