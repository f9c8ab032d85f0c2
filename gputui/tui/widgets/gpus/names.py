"""Short names for devices: `A100 40G` for `NVIDIA A100-SXM4-40GB`. Pure."""

from __future__ import annotations

import re

from gputui.gpus.sample import DeviceSample
from gputui.logs.plain import plain

_NOISE = re.compile(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|Graphics|Generation|CPU|Processor|\d+-Core|HBM\d\w*|PCIe?)\b"
    r"|-?\b(?:SXM\d*|PCIE)\b|\((?:R|TM)\)|@.*$",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"(\d+)\s?GB\b")
_SLICE = re.compile(r"MIG\s+(\S+)")


def short(name: str) -> str:
    """What tells one card from another, and nothing else."""
    bare = _MEMORY.sub(r"\1G", _NOISE.sub(" ", plain(name)))
    joined = re.sub(r"\s*-\s*-?\s*", "-", " ".join(bare.split())).strip("- ")
    return re.sub(r"-(\d+G)$", r" \1", joined) or plain(name)


def device_name(device: DeviceSample) -> str:
    """A MIG instance is named by its slice, below its parent."""
    if device.mig is not None:
        slice_name = _SLICE.search(device.name)
        return f"└ {plain(slice_name[1]) if slice_name else f'{device.mig.gpu_instance}/{device.mig.compute_instance}'}"
    if device.uuid.startswith("CPU-"):
        return "lane"
    return "simulated" if device.uuid.startswith("SIM-") else short(device.name)
