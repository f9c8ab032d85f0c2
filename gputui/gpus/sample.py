"""Samples of the machine: frozen records of every device, a cluster's nodes, and frames on a pipe."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gputui.core.lanes import DeviceKind

# ---- The nodes of a cluster, as samples show them ----


class NodeStanding(StrEnum):
    """Whether a node takes jobs."""

    UP = "up"
    DRAINING = "draining"
    """Closed, and jobs run there still."""
    DRAINED = "drained"
    DOWN = "down"

    @property
    def closed(self) -> bool:
        return self is not NodeStanding.UP


class NodeSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    standing: NodeStanding = NodeStanding.UP
    gpus: int = 0
    used: int = 0
    """By whomever."""
    unplaced: int = 0
    """Those in use of which the cluster does not say which they are."""
    reason: str | None = None
    """The admin's words, where it is closed."""
    closed_by: str | None = None
    closed_at: float | None = None


class ClusterSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be known of the cluster besides its GPUs."""

    name: str = ""
    partition: str | None = None
    """The one that the session asks for; None: whichever is the cluster's default."""
    nodes: tuple[NodeSample, ...] = ()
    asked: float | None = None
    """When it answered last; Unix seconds."""
    silent: str | None = None
    """Why it does not answer now."""


def device_word(node: str, index: int) -> str:
    """What a GPU of a cluster is called everywhere."""
    return f"{node}:{index}"


def node_of(word: str) -> str:
    return word.rpartition(":")[0]


# ---- What samplers say of the machine ----


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


# ---- Samples on a pipe ----


_LENGTH = 4
_LARGEST = 64 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Sample)


class GarbledStream(Exception):
    """What came through the pipe is no sample: the sender cannot be trusted any more."""


def encode(sample: Sample) -> bytes:
    body = _encoder.encode(sample)
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameReader:
    """Puts the bytes of a pipe together again."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Sample | None:
        """The newest complete sample in what has come, if there is one; older ones are skipped unread."""
        self._buffer += data
        newest: bytes | None = None
        while (body := self._next_body()) is not None:
            newest = body
        return _decode(newest) if newest is not None else None

    def _next_body(self) -> bytes | None:
        if len(self._buffer) < _LENGTH:
            return None
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
        if end > _LARGEST:
            raise GarbledStream(f"a frame of {end} bytes")
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH:end])
        del self._buffer[:end]
        return body


def _decode(body: bytes) -> Sample:
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise GarbledStream(str(error)) from error
