"""Read one physical device and its MIG instances in a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.hardware import Readings
from gputui.gpus.sample import DeviceSample, MigInstance, Status, silent

from . import driver as troubles
from .driver import Driver, DriverError, Handle, text
from .metrics import ECC_CORRECTED, ECC_UNCORRECTED, Metrics
from .processes import ProcessLists, ProcessTable

# MIG


class Instance:
    """A MIG instance.

    A handle becomes invalid when its instance is destroyed, so the list of instances is refreshed often.
    """

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self.uuid = text(driver.call("nvmlDeviceGetUUID", handle))
        self.metrics = Metrics(driver, handle, lists, table)
        self.name = self.metrics.ask("name", lambda: text(driver.call("nvmlDeviceGetName", handle))) or "MIG"
        self.place = MigInstance(
            self.metrics.number("nvmlDeviceGetGpuInstanceId"),
            self.metrics.number("nvmlDeviceGetComputeInstanceId"),
        )

    def read(self, parent: DeviceSample) -> DeviceSample:
        """Read memory and processes. The driver reports no utilization for an instance."""
        memory = self.metrics.memory()
        return DeviceSample(
            index=parent.index,
            uuid=self.uuid,
            name=self.name,
            memory_used=memory.used,
            memory_total=memory.total,
            memory_shared=memory.shared,
            processes=self.metrics.processes(with_utilization=False),
            bus_id=parent.bus_id,
            parent=parent.uuid,
            mig=self.place,
        )


def is_enabled(driver: Driver, handle: Handle) -> bool:
    try:
        return bool(driver.call("nvmlDeviceGetMigMode", handle)[0])
    except DriverError as error:
        if error.code in troubles.DEVICE_GONE:
            raise
        return False


def find_instances(driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> list[Instance]:
    """Return all MIG instances. Their numbers may have gaps."""
    instances = []
    for number in range(int(driver.call("nvmlDeviceGetMaxMigDeviceCount", handle))):
        try:
            instance_handle = driver.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            instances.append(Instance(driver, instance_handle, lists, table))
        except DriverError as error:
            if error.code in troubles.DEVICE_GONE:
                raise
    return instances


# Devices


SLOW_PERIOD = 5.0
"""Seconds between two readings of values that rarely change."""
_RETRY_PERIOD = 2.0


class _Slow(Struct, frozen=True):
    read_at: float
    power_limit: float | None
    fan: int | None
    clock_limit: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    pcie_replays: int | None
    mig_enabled: bool
    instances: list[Instance]


class DeviceReader:
    """Reads one device. `read` may hang but never raises. Errors are reported in the sample."""

    def __init__(self, driver: Driver, nvml_index: int, table: ProcessTable) -> None:
        self._driver, self._nvml_index, self._table = driver, nvml_index, table
        self._lists = ProcessLists(driver)
        self._known = DeviceSample(index=nvml_index, uuid="", name=f"GPU {nvml_index}")
        """Identity of the GPU, which is kept when the device is lost."""
        self._handle: Handle = None
        self._metrics: Metrics | None = None
        self._slow: _Slow | None = None
        self._failure: DeviceSample | None = None
        self._retry_at = 0.0

    def read(self) -> Readings:
        if self._failure is not None and time.monotonic() < self._retry_at:
            return (self._failure,)
        try:
            return self._read()
        except Exception as error:
            return (self._failed(error),)

    def _read(self) -> Readings:
        metrics = self._metrics or self._open()
        slow = self._slow_values(metrics)
        device = self._device(metrics, slow)
        self._failure = None if device.status is Status.OK else device
        return (device, *(instance.read(device) for instance in slow.instances))

    def _open(self) -> Metrics:
        """Open the device, by its UUID if known, because indices may change when a device is lost."""
        if self._known.uuid:
            handle = self._driver.call("nvmlDeviceGetHandleByUUID", self._known.uuid)
        else:
            handle = self._driver.call("nvmlDeviceGetHandleByIndex", self._nvml_index)
        self._handle = handle
        metrics = Metrics(self._driver, handle, self._lists, self._table)
        self._known = DeviceSample(
            index=self._nvml_index,
            uuid=text(self._driver.call("nvmlDeviceGetUUID", handle)),
            name=metrics.ask("name", lambda: text(self._driver.call("nvmlDeviceGetName", handle))) or "unknown GPU",
            bus_id=metrics.ask("bus", lambda: text(self._driver.call("nvmlDeviceGetPciInfo", handle).busId)),
        )
        self._metrics, self._slow = metrics, None
        return metrics

    def _slow_values(self, metrics: Metrics) -> _Slow:
        now = time.monotonic()
        if self._slow is not None and now - self._slow.read_at < SLOW_PERIOD:
            return self._slow
        metrics.ask_all_again()
        enabled = is_enabled(self._driver, self._handle)
        self._slow = _Slow(
            read_at=now,
            power_limit=metrics.watts("nvmlDeviceGetEnforcedPowerLimit"),
            fan=metrics.fan(),
            clock_limit=metrics.megahertz("nvmlDeviceGetMaxClockInfo"),
            ecc_corrected=metrics.ecc_errors(ECC_CORRECTED),
            ecc_uncorrected=metrics.ecc_errors(ECC_UNCORRECTED),
            pcie_replays=metrics.number("nvmlDeviceGetPcieReplayCounter"),
            mig_enabled=enabled,
            instances=find_instances(self._driver, self._handle, self._lists, self._table) if enabled else [],
        )
        return self._slow

    def _device(self, metrics: Metrics, slow: _Slow) -> DeviceSample:
        metrics.refusal = None
        utilization, memory = metrics.utilization(), metrics.memory()
        temperature, power = metrics.temperature(), metrics.watts("nvmlDeviceGetPowerUsage")
        if metrics.refusal is not None and utilization is memory.total is temperature is power is None:
            raise metrics.refusal
        return replace(
            self._known,
            utilization=utilization,
            memory_used=memory.used,
            memory_total=memory.total,
            memory_shared=memory.shared,
            temperature=temperature,
            power=power,
            power_limit=slow.power_limit,
            fan=slow.fan,
            clock=metrics.megahertz("nvmlDeviceGetClockInfo"),
            clock_limit=slow.clock_limit,
            slowed_by=metrics.slowed_by(),
            ecc_corrected=slow.ecc_corrected,
            ecc_uncorrected=slow.ecc_uncorrected,
            pcie_replays=slow.pcie_replays,
            processes=metrics.processes(with_utilization=not slow.mig_enabled),
            mig_enabled=slow.mig_enabled,
        )

    def _failed(self, error: Exception) -> DeviceSample:
        code = error.code if isinstance(error, DriverError) else troubles.UNKNOWN
        status, message = troubles.device_status(code, str(error))
        self._metrics, self._slow = None, None
        self._retry_at = time.monotonic() + _RETRY_PERIOD
        self._failure = replace(self._known, status=status, message=message)
        return self._failure

    @property
    def identity(self) -> DeviceSample:
        """What is known about a device that has not answered yet."""
        return self._known


# One thread per device


STALE_AFTER = 1.5
"""Seconds without an answer after which a device is considered hung."""


class _Answer(Struct, frozen=True):
    devices: Readings
    at: float


class Worker:
    """A device and the thread that reads it. Only the publisher calls its methods."""

    def __init__(self, number: int, reader: DeviceReader, notify: Callable[[], None]) -> None:
        self._reader, self._notify = reader, notify
        self._go = threading.Semaphore(0)
        self._answer: _Answer | None = None
        self._asked_at: float | None = None
        threading.Thread(target=self._work, name=f"gpu-{number}", daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether a query is currently running."""
        return self._asked_at is not None

    def ask(self) -> None:
        """Query the device unless a query is already running."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self._go.release()

    def devices(self, now: float) -> Readings:
        """Return the last answer and its age.

        The age is rounded to tenths of a second so that the samples of an idle device are identical.
        """
        asked_at, answer = self._asked_at, self._answer
        if answer is None:
            return (silent(self._reader.identity, 0.0 if asked_at is None else round(now - asked_at, 3)),)
        age = max(0.0, round(now - answer.at, 1))
        hung = asked_at is not None and now - asked_at > STALE_AFTER
        return tuple(
            silent(device, age) if hung and device.status is Status.OK else replace(device, age=age)
            for device in answer.devices
        )

    def _work(self) -> None:
        while True:
            self._go.acquire()
            devices = self._reader.read()
            self._answer = _Answer(devices, time.monotonic())
            self._asked_at = None
            self._notify()
