"""Reads one physical device and its MIG instances. Belongs to that device's thread; knows no other device."""

from __future__ import annotations

import time

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.facts import ProcessTable
from gputui.gpus.sample import DeviceSample, Status

from . import mig, troubles
from .driver import Driver, DriverError, Handle, text
from .metrics import ECC_CORRECTED, ECC_UNCORRECTED, Metrics
from .process_lists import ProcessLists

SLOW_PERIOD = 5.0
"""Seconds between two looks at what seldom changes."""
_RETRY_PERIOD = 2.0


class DeviceIdentity(Struct, frozen=True):
    """What a device keeps telling as long as it is the same card; kept when it is lost."""

    uuid: str = ""
    name: str = ""
    bus_id: str | None = None


class _Slow(Struct, frozen=True):
    read_at: float
    power_limit: float | None
    fan: int | None
    clock_limit: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    pcie_replays: int | None
    mig_enabled: bool
    instances: list[mig.Instance]


class DeviceReader:
    """`read` never raises: a device that fails is a sample that says so."""

    def __init__(self, driver: Driver, nvml_index: int, table: ProcessTable) -> None:
        self._driver, self._nvml_index, self._table = driver, nvml_index, table
        self._lists = ProcessLists(driver)
        self._identity = DeviceIdentity()
        self._handle: Handle = None
        self._metrics: Metrics | None = None
        self._slow: _Slow | None = None
        self._failure: DeviceSample | None = None
        self._retry_at = 0.0

    def read(self) -> tuple[DeviceSample, ...]:
        if self._failure is not None and time.monotonic() < self._retry_at:
            return (self._failure,)
        try:
            samples = self._read()
        except Exception as error:
            samples = (self._failed(error),)
        return samples

    def _read(self) -> tuple[DeviceSample, ...]:
        metrics = self._metrics or self._open()
        slow = self._slow_values(metrics)
        device = self._device(metrics, slow)
        self._failure = None if device.status is Status.OK else device
        return (device, *(instance.read(device) for instance in slow.instances))

    def _open(self) -> Metrics:
        """By UUID once that is known: after a device was lost, indices may mean other cards."""
        if self._identity.uuid:
            handle = self._driver.call("nvmlDeviceGetHandleByUUID", self._identity.uuid)
        else:
            handle = self._driver.call("nvmlDeviceGetHandleByIndex", self._nvml_index)
        self._handle = handle
        metrics = Metrics(self._driver, handle, self._lists, self._table)
        self._identity = DeviceIdentity(
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
        enabled = mig.is_enabled(self._driver, self._handle)
        self._slow = _Slow(
            read_at=now,
            power_limit=metrics.power_limit(),
            fan=metrics.fan(),
            clock_limit=metrics.clock_limit(),
            ecc_corrected=metrics.ecc_errors(ECC_CORRECTED),
            ecc_uncorrected=metrics.ecc_errors(ECC_UNCORRECTED),
            pcie_replays=metrics.pcie_replays(),
            mig_enabled=enabled,
            instances=mig.find_instances(self._driver, self._handle, self._lists, self._table) if enabled else [],
        )
        return self._slow

    def _device(self, metrics: Metrics, slow: _Slow) -> DeviceSample:
        metrics.refusal = None
        utilization, memory = metrics.utilization(), metrics.memory()
        temperature, power = metrics.temperature(), metrics.power()
        if metrics.refusal is not None and utilization is memory.total is temperature is power is None:
            raise metrics.refusal
        return DeviceSample(
            index=self._nvml_index,
            uuid=self._identity.uuid,
            name=self._identity.name,
            utilization=utilization,
            memory_used=memory.used,
            memory_total=memory.total,
            memory_shared=memory.shared,
            temperature=temperature,
            power=power,
            power_limit=slow.power_limit,
            fan=slow.fan,
            clock=metrics.clock(),
            clock_limit=slow.clock_limit,
            slowed_by=metrics.slowed_by(),
            ecc_corrected=slow.ecc_corrected,
            ecc_uncorrected=slow.ecc_uncorrected,
            pcie_replays=slow.pcie_replays,
            processes=metrics.processes(with_utilization=not slow.mig_enabled),
            bus_id=self._identity.bus_id,
            mig_enabled=slow.mig_enabled,
        )

    def _failed(self, error: Exception) -> DeviceSample:
        code = error.code if isinstance(error, DriverError) else troubles.UNKNOWN
        status, message = troubles.device_status(code, str(error))
        self._metrics, self._slow = None, None
        self._retry_at = time.monotonic() + _RETRY_PERIOD
        self._failure = replace(self.unheard(), status=status, message=message)
        return self._failure

    def unheard(self) -> DeviceSample:
        identity = self._identity
        name = identity.name or f"GPU {self._nvml_index}"
        return DeviceSample(index=self._nvml_index, uuid=identity.uuid, name=name, bus_id=identity.bus_id)
