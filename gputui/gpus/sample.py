"""Samples: immutable records of all devices at one moment, and their encoding for a pipe."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.regex import lazy_regex
from gputui.core.slots import DeviceKind, NodeState

# The nodes of a cluster


class NodeSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    standing: NodeState = NodeState.UP
    gpus: int = 0
    used: int = 0
    """Number of GPUs that are used by any user."""
    unplaced: int = 0
    """Number of used GPUs whose index is unknown."""
    reason: str | None = None
    """The admin's reason for closing the node."""
    closed_by: str | None = None
    closed_at: float | None = None


class ClusterSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a cluster other than its GPUs."""

    name: str = ""
    partition: str | None = None
    """The session's partition, or None for the cluster's default partition."""
    nodes: tuple[NodeSample, ...] = ()
    asked: float | None = None
    """Unix time when the cluster last answered."""
    silent: str | None = None
    """Reason why the cluster currently does not answer."""


def device_word(node: str, index: int) -> str:
    """Return the name of a GPU in a cluster."""
    return f"{node}:{index}"


def node_of(word: str) -> str:
    return word.rpartition(":")[0]


# Devices


class Status(StrEnum):
    """Whether a device answers."""

    OK = "ok"
    LOST = "lost"
    DENIED = "denied"
    STALE = "stale"
    ERROR = "error"


class Trouble(Struct, frozen=True):
    """Why no device can be read, and what the user can do about it."""

    message: str
    advice: str
    harmless: bool = False
    """Whether this is normal on a machine without GPUs."""


class ProcessSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process on a device."""

    pid: int
    compute: bool
    """Whether the process is in one of the driver's lists of computing processes, not only in the list for graphics."""
    memory: int | None = None
    utilization: int | None = None
    alive: bool = True
    """Whether a process with this pid exists. The driver also lists ended processes and pids of other namespaces."""
    born: int | None = None
    """Start time in the kernel's ticks. Together with the pid it identifies the process."""
    started: float | None = None
    user: str | None = None
    command: str | None = None
    session: int | None = None
    """The kernel's session id. For processes of a job it is the pid of the wrapper."""
    run: str | None = None
    """The value of GPUTUI_RUN in the environment of the process, if readable."""
    host_memory: int | None = None
    """Main memory used by the process, in bytes."""


class MigInstance(Struct, frozen=True):
    gpu_instance: int | None
    compute_instance: int | None


class Slowdown(StrEnum):
    """Reason why a device runs slower than it could."""

    HEAT = "heat"
    POWER_CAP = "power_cap"
    BRAKE = "brake"
    """The power supply requested a slowdown."""


class DeviceSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device at one moment. If the device no longer answers, these are its last values, `age` seconds old."""

    index: int
    """Position of the GPU in PCI order. A MIG instance has the index of its GPU."""
    uuid: str
    """UUID of the device, empty if the device has never answered."""
    name: str
    status: Status = Status.OK
    message: str = ""
    age: float = 0.0
    """Seconds between the device's last answer and the sample."""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    memory_shared: bool = False
    """Whether the CPU and the GPU share the machine's memory."""
    temperature: int | None = None
    power: float | None = None
    power_limit: float | None = None
    energy: float | None = None
    """Energy in joules since the driver was loaded, or None if the device does not count it."""
    fan: int | None = None
    clock: int | None = None
    """Clock frequency in MHz."""
    clock_limit: int | None = None
    slowed_by: tuple[Slowdown, ...] = ()
    ecc_corrected: int | None = None
    """Number of corrected memory errors since the driver was loaded."""
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    """Number of repeated PCIe packets since the driver was loaded."""
    processes: tuple[ProcessSample, ...] = ()
    bus_id: str | None = None
    parent: str | None = None
    """UUID of the GPU to which a MIG instance belongs."""
    mig: MigInstance | None = None
    mig_enabled: bool = False
    """Whether the GPU is split into MIG instances. If it is, the instances run the jobs."""
    visible: bool = True
    """Whether CUDA_VISIBLE_DEVICES leaves the device visible."""

    @property
    def key(self) -> str:
        return self.uuid or f"index:{self.index}"

    @property
    def label(self) -> str:
        """The device's name as shown to users."""
        if self.mig is not None:
            return f"GPU {self.index} MIG {self.mig.gpu_instance}/{self.mig.compute_instance}"
        return f"CPU slot {self.index}" if self.uuid.startswith("CPU-") else f"GPU {self.index}"

    @property
    def schedulable(self) -> bool:
        return self.visible and not self.mig_enabled and bool(self.uuid)


_NOISE = lazy_regex(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|Graphics|Generation|CPU|Processor|\d+-Core|HBM\d\w*|PCIe?)\b"
    r"|-?\b(?:SXM\d*|PCIE)\b|\((?:R|TM)\)|@.*$",
    re.IGNORECASE,
)
_MEMORY = lazy_regex(r"(\d+)\s?GB\b")


def short_model(name: str) -> str:
    """Shorten the model of a GPU to the part that distinguishes it from others: `A100 40G`."""
    bare = _MEMORY.sub(r"\1G", _NOISE.sub(" ", name))
    joined = re.sub(r"\s*-\s*-?\s*", "-", " ".join(bare.split())).strip("- ")
    return re.sub(r"-(\d+G)$", r" \1", joined) or name


class HostSample(Struct, frozen=True):
    cores: int
    utilization: float | None
    memory_used: int | None
    memory_total: int | None
    name: str = ""
    """Model name of the processor."""


class Sample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All devices at one moment."""

    kind: DeviceKind
    taken: float
    """Unix time of the sample."""
    devices: tuple[DeviceSample, ...] = ()
    complete: bool = True
    """Whether the devices are known. False while the driver is being opened."""
    trouble: Trouble | None = None
    driver: str | None = None
    notes: tuple[str, ...] = ()
    """Messages to show once."""
    foreign_pids: bool = False
    """Whether this process runs in its own pid namespace, in which the driver's pids are not valid."""
    host: HostSample | None = None
    cluster: ClusterSample | None = None
    """The cluster to which the devices belong, or None if they are on this machine."""

    def device(self, key: str) -> DeviceSample | None:
        return next((device for device in self.devices if device.key == key), None)


class Sampler(Protocol):
    """A source of samples that never blocks. Call `read` when `fileno` is readable, and every `patience` seconds."""

    def fileno(self) -> int | None:
        """Return the descriptor to wait for, or None to call `read` only every `patience` seconds. It never changes."""

    def patience(self) -> float:
        """Return in how many seconds `read` must be called even if the descriptor has not become readable."""

    def read(self) -> Sample | None:
        """Return the newest sample, or None if it has been returned before."""

    def close(self) -> None: ...


class TimedSampler:
    """Base class of samplers that take a sample when `read` is called, at most once per interval."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._due = time.monotonic()

    def fileno(self) -> None:
        return None

    def patience(self) -> float:
        return max(0.0, self._due - time.monotonic())

    def read(self) -> Sample | None:
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + self._interval
        return self.take(now)

    def take(self, now: float) -> Sample:
        """Take a sample. `now` is the time on the monotonic clock."""
        raise NotImplementedError

    def close(self) -> None:
        pass


def aged(sample: Sample, seconds: float) -> Sample:
    """Return the sample as it is `seconds` later if no device has answered since then."""
    devices = tuple(
        silent(device, device.age + seconds)
        if device.status in (Status.OK, Status.STALE)
        else replace(device, age=device.age + seconds)
        for device in sample.devices
    )
    return replace(sample, devices=devices, taken=sample.taken + seconds)


def silent(device: DeviceSample, age: float) -> DeviceSample:
    """Return the sample of a device that has not answered for `age` seconds."""
    return replace(device, status=Status.STALE, message=f"no response for {age:.0f} s", age=age)


# Encoding: one line of JSON for each sample


_LARGEST = 64 * 1024 * 1024


class GarbledStream(Exception):
    """The data on the pipe is invalid."""


def encode(sample: Sample) -> bytes:
    return msgspec.json.encode(sample) + b"\n"


class LineReader:
    """Decodes samples from chunks of data that were read from a pipe."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Sample | None:
        """Add data and return the newest complete sample. Older samples are skipped."""
        complete, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > _LARGEST or self._rest[:1] not in (b"", b"{"):
            raise GarbledStream(f"{len(self._rest)} bytes that begin with {self._rest[:8]!r}")
        try:
            return msgspec.json.decode(complete.rpartition(b"\n")[2], type=Sample) if newline else None
        except msgspec.MsgspecError as error:
            raise GarbledStream(str(error)) from error
