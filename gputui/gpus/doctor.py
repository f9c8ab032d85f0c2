"""What `gputui doctor` says of the GPUs: findings, each with what to do. Decides from a sample; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gputui.core.lanes import DeviceKind
from gputui.core.views.amounts import counted, memory

from .leases import SHARED_FOLDERS, shared_folder
from .sample import DeviceSample, Sample, Status, TroubleKind
from .words import label, plain


class Finding(Struct, frozen=True):
    """Something worth knowing; `advice` is empty where there is nothing to do."""

    good: bool
    text: str
    advice: str = ""
    serious: bool = False
    """Jobs cannot be run, or not safely, as long as this is so."""

    @property
    def level(self) -> str:
        return "ok" if self.good else "bad" if self.serious else "note"


def gpu_findings(sample: Sample | None, environment: Mapping[str, str]) -> list[Finding]:
    """About a complete sample; None: no sampler answered at all."""
    if sample is None:
        return [Finding(False, "the GPU sampler did not answer", "`nvidia-smi` shows whether the driver hangs")]
    findings = [_trouble(sample)] if sample.trouble else [_summary(sample)]
    findings += [finding for device in sample.devices for finding in _device(device)]
    findings += [Finding(False, note, "set CUDA_DEVICE_ORDER=PCI_BUS_ID") for note in sample.notes]
    if sample.foreign_pids and sample.devices:
        findings.append(_FOREIGN)
    if "CUDA_VISIBLE_DEVICES" in environment and sample.kind is DeviceKind.GPU:
        findings.append(_restriction(sample, environment["CUDA_VISIBLE_DEVICES"]))
    return findings


def lease_finding(folder: str | None = None) -> Finding:
    """Whether gputui users of this machine can see each other's claims."""
    folder = folder or shared_folder()
    if folder == SHARED_FOLDERS[0]:
        return Finding(True, f"gputui users of this machine share their leases in {folder}")
    return Finding(True, f"{SHARED_FOLDERS[0]} is closed; gputui users share their leases in {folder}")


_FOREIGN = Finding(
    False,
    "this container has its own process numbers, so processes on the GPUs cannot be told apart",
    "start the container with `--pid=host`; without it, all on a GPU that runs a job counts as that job's",
)


def _trouble(sample: Sample) -> Finding:
    assert sample.trouble is not None
    harmless = sample.trouble.kind is TroubleKind.NO_LIBRARY
    return Finding(harmless, sample.trouble.message, sample.trouble.advice, serious=not harmless)


def _summary(sample: Sample) -> Finding:
    cards = [device for device in sample.devices if device.parent is None]
    driver = f", driver {sample.driver}" if sample.driver else ""
    return Finding(True, f"{counted(len(cards), 'GPU', 'GPUs')}{driver}")


def _device(device: DeviceSample) -> list[Finding]:
    if device.status is not Status.OK:
        return [Finding(False, f"{label(device)}: {plain(device.message)}", _ADVICE[device.status])]
    findings = []
    if device.mig_enabled:
        findings.append(Finding(True, f"{label(device)} is cut into MIG instances; jobs get those"))
    if device.memory_shared and device.bus_id is not None:
        total = memory(device.memory_total)
        findings.append(Finding(True, f"{label(device)} shares the machine's memory ({total})"))
    unseen = [process for process in device.processes if process.compute and process.alive and process.born is None]
    if unseen:
        findings.append(_hidden(device))
    return findings


def _hidden(device: DeviceSample) -> Finding:
    return Finding(
        False,
        f"{label(device)} has processes that /proc hides, so their users are unknown",
        "the administrator can mount /proc without hidepid, or with gid= for your group",
    )


def _restriction(sample: Sample, value: str) -> Finding:
    devices = [device for device in sample.devices if not device.mig_enabled]
    shown = sum(device.visible for device in devices)
    text = f"CUDA_VISIBLE_DEVICES={plain(value)} leaves {shown} of {counted(len(devices), 'GPU', 'GPUs')}"
    return Finding(shown > 0, text, "" if shown else "unset it, or give --gpus")


_ADVICE = {
    Status.LOST: "reboot the machine; the other GPUs can be used meanwhile",
    Status.DENIED: "ask for access to its /dev/nvidia* node, or leave it out with --gpus",
    Status.STALE: "see `dmesg`; jobs are not started on it until it answers",
    Status.ERROR: "`nvidia-smi` should show the same; see `dmesg`",
}
