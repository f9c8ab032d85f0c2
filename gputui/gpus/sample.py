"""What samplers say of the machine: frozen pictures of every device, and the one protocol they are read by.

Owns the shapes; reads nothing and knows no driver. `None` always means "the driver cannot say", never zero.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.lanes import DeviceKind

from .nodes import ClusterSample


class Status(StrEnum):
    """How a device answers."""

    OK = "ok"
    LOST = "lost"
    DENIED = "denied"
    STALE = "stale"
    ERROR = "error"


class TroubleKind(StrEnum):
    """Why no device at all can be read."""

    NO_LIBRARY = "no_library"
    NOT_LOADED = "not_loaded"
    MISMATCH = "mismatch"
    DENIED = "denied"
    CONTAINER = "container"
    BINDINGS = "bindings"
    NO_DEVICES = "no_devices"
    SILENT = "silent"
    CRASHED = "crashed"
    OTHER = "other"


class Trouble(Struct, frozen=True):
    """A machine whose devices cannot be read: what is wrong, and what the user can do about it."""

    kind: TroubleKind
    message: str
    advice: str


class ProcessSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on one device."""

    pid: int
    compute: bool
    """In the compute (or MPS) list; False: graphics only."""
    memory: int | None = None
    utilization: int | None = None
    alive: bool = True
    """There is such a pid here; the driver also lists the dead for a moment, and pids of other namespaces."""
    born: int | None = None
    """The kernel's start time in ticks: with the pid, the identity of a process."""
    started: float | None = None
    user: str | None = None
    command: str | None = None
    session: int | None = None
    """The kernel's session id: the pid of a wrapper, for what it started."""
    run: str | None = None
    """GPUTUI_RUN in its environment, where we may read that."""
    host_memory: int | None = None
    """Bytes of the machine's own memory."""


class MigInstance(Struct, frozen=True):
    """Which slice of its parent a MIG device is."""

    gpu_instance: int | None
    compute_instance: int | None


class Slowdown(StrEnum):
    """Why a device runs slower than it can."""

    HEAT = "heat"
    POWER_CAP = "power_cap"
    BRAKE = "brake"
    """The power supply asked for it."""


class DeviceSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device at one moment. A device that stopped answering keeps its last values, with their age."""

    index: int
    """Rank in PCI order over all GPUs of the machine; a MIG instance has its parent's."""
    uuid: str
    """Empty only for a device that never told."""
    name: str
    status: Status = Status.OK
    message: str = ""
    age: float = 0.0
    """Seconds since it answered, when the sample was taken."""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    memory_shared: bool = False
    """The memory is the machine's own, used by CPU and GPU alike."""
    temperature: int | None = None
    power: float | None = None
    power_limit: float | None = None
    fan: int | None = None
    clock: int | None = None
    """MHz of the processors, and what they can reach."""
    clock_limit: int | None = None
    slowed_by: tuple[Slowdown, ...] = ()
    ecc_corrected: int | None = None
    """Errors of its memory since the driver was loaded."""
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    """Packets that had to be sent again since the driver was loaded."""
    processes: tuple[ProcessSample, ...] = ()
    bus_id: str | None = None
    parent: str | None = None
    """UUID of the GPU that a MIG instance is a part of."""
    mig: MigInstance | None = None
    mig_enabled: bool = False
    """It is cut into MIG instances, which are the devices that run jobs."""
    visible: bool = True
    """Not left out by CUDA_VISIBLE_DEVICES of whoever started gputui."""

    @property
    def key(self) -> str:
        """What names the device in tables of ours: its UUID wherever it told one."""
        return self.uuid or f"index:{self.index}"

    @property
    def schedulable(self) -> bool:
        """Jobs may be given it, as far as its own nature goes."""
        return self.visible and not self.mig_enabled and bool(self.uuid)


class HostSample(Struct, frozen=True):
    """The machine itself."""

    cores: int
    utilization: float | None
    memory_used: int | None
    memory_total: int | None
    name: str = ""
    """Of its processor."""


class Sample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole machine at one moment."""

    kind: DeviceKind
    taken: float
    """Unix seconds."""
    devices: tuple[DeviceSample, ...] = ()
    complete: bool = True
    """Every device has been given the time to answer; False only while the driver is being opened."""
    trouble: Trouble | None = None
    driver: str | None = None
    notes: tuple[str, ...] = ()
    """Sentences the user should see once."""
    foreign_pids: bool = False
    """We live in a pid namespace of our own, so the driver's pids mean nothing here."""
    host: HostSample | None = None
    cluster: ClusterSample | None = None
    """The devices are on its nodes."""

    def device(self, key: str) -> DeviceSample | None:
        return next((device for device in self.devices if device.key == key), None)


class Sampler(Protocol):
    """Gives samples without ever blocking; call `read` when `fileno` is readable and every `patience` seconds."""

    def fileno(self) -> int | None:
        """A descriptor that stays the same for the sampler's life; None: only time brings samples."""

    def patience(self) -> float:
        """Seconds after which `read` must be called although nothing became readable."""

    def read(self) -> Sample | None:
        """The newest sample that was not given yet."""

    def close(self) -> None: ...


def aged(sample: Sample, seconds: float) -> Sample:
    """The same picture `seconds` later, when nothing was heard meanwhile."""
    devices = tuple(_stale(device, device.age + seconds) for device in sample.devices)
    return replace(sample, devices=devices, taken=sample.taken + seconds)


def _stale(device: DeviceSample, age: float) -> DeviceSample:
    if device.status in (Status.OK, Status.STALE):
        return replace(device, status=Status.STALE, message=no_answer(age), age=age)
    return replace(device, age=age)


def no_answer(seconds: float) -> str:
    """The words for a device or driver that is silent."""
    return f"no answer for {seconds:.0f} s"
