"""Read one physical device and its MIG instances in a separate thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gputui.gpus.hardware import Readings
from gputui.gpus.machine import memory as host_memory
from gputui.gpus.sample import DeviceSample, MigInstance, ProcessSample, Slowdown, Status, silent
from gputui.process.watch import WorkerThread

from . import driver as troubles
from .driver import Driver, DriverError, Handle, text
from .processes import Entry, ProcessLists, ProcessTable, merged

# Queries


T = TypeVar("T")

_CLOCK_OF_PROCESSORS = 1
_SINCE_LOADED = 0
_ECC_CORRECTED, _ECC_UNCORRECTED = 0, 1
_SLOWDOWNS = {Slowdown.HEAT: 0x20 | 0x40, Slowdown.POWER_CAP: 0x4, Slowdown.BRAKE: 0x80}
"""The driver's bits for each kind of slowdown. Bit 0x8, for any hardware slowdown, adds no information."""
_SHORTEST_WINDOW = 1_000_000
"""Shortest time window in microseconds. With a shorter window the driver omits processes."""


class _Memory(NamedTuple):
    memory_used: int | None = None
    memory_total: int | None = None
    memory_shared: bool = False


class Metrics:
    """Queries one device handle. Queries that are not supported are skipped until `ask_all_again` is called."""

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self._driver, self._handle = driver, handle
        self._lists, self._table = lists, table
        self._mute: set[str] = set()
        self.refusal: DriverError | None = None
        """The latest error other than "not supported"."""

    def uuid(self) -> str:
        return text(self._driver.call("nvmlDeviceGetUUID", self._handle))

    def name(self) -> str | None:
        return self.ask("name", lambda: text(self._driver.call("nvmlDeviceGetName", self._handle)))

    def bus_id(self) -> str | None:
        return self.ask("bus", lambda: text(self._driver.call("nvmlDeviceGetPciInfo", self._handle).busId))

    def mig_enabled(self) -> bool:
        return self.ask("mig", lambda: bool(self._driver.call("nvmlDeviceGetMigMode", self._handle)[0])) or False

    def instances(self, parent: DeviceSample) -> list[Instance]:
        """Return all MIG instances of the device. Their numbers may have gaps."""
        instances = []
        for number in range(int(self._driver.call("nvmlDeviceGetMaxMigDeviceCount", self._handle))):
            try:
                handle = self._driver.call("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, number)
                metrics = Metrics(self._driver, handle, self._lists, self._table)
                place = MigInstance(
                    metrics.number("nvmlDeviceGetGpuInstanceId"), metrics.number("nvmlDeviceGetComputeInstanceId")
                )
                identity = replace(
                    parent, uuid=metrics.uuid(), name=metrics.name() or "MIG", parent=parent.uuid, mig=place
                )
                instances.append(Instance(identity, metrics))
            except DriverError as error:
                if error.code in troubles.DEVICE_GONE:
                    raise
        return instances

    def ask_all_again(self) -> None:
        self._mute.clear()

    def ask(self, what: str, query: Callable[[], T]) -> T | None:
        """Run a query and return its result, or None if there is no answer. Raise only if the device itself is gone."""
        if what in self._mute:
            return None
        try:
            return query()
        except DriverError as error:
            if error.code in troubles.DEVICE_GONE:
                raise
            if error.code in troubles.UNANSWERABLE:
                self._mute.add(what)
            elif error.code != troubles.NO_DATA:
                self.refusal = error
            return None

    def _number(self, what: str, query: Callable[[], int], low: int, high: int) -> int | None:
        """Run a query for a number. Return None if there is no answer or the value is impossible."""
        answer = self.ask(what, query)
        return answer if answer is not None and low <= answer <= high else None

    def number(self, function: str, *arguments: int, low: int = 0, high: int = 2**31) -> int | None:
        what = f"{function}{arguments}"
        return self._number(what, lambda: int(self._driver.call(function, self._handle, *arguments)), low, high)

    def utilization(self) -> int | None:
        function = "nvmlDeviceGetUtilizationRates"
        return self._number(function, lambda: int(self._driver.call(function, self._handle).gpu), 0, 100)

    def temperature(self) -> int | None:
        return self._number("temperature", lambda: self._driver.temperature(self._handle), -50, 200)

    def watts(self, function: str) -> float | None:
        milliwatts = self.number(function, high=10**8)
        return None if milliwatts is None else milliwatts / 1000

    def joules(self) -> float | None:
        """Return the energy that the device has used since the driver was loaded."""
        millijoules = self.number("nvmlDeviceGetTotalEnergyConsumption", high=2**63)
        return None if millijoules is None else millijoules / 1000

    def fan(self) -> int | None:
        """Return the fan speed in percent, which can exceed 100."""
        return self.number("nvmlDeviceGetFanSpeed", high=300)

    def megahertz(self, function: str) -> int | None:
        return self.number(function, _CLOCK_OF_PROCESSORS, low=1, high=100_000)

    def slowed_by(self) -> tuple[Slowdown, ...]:
        """Return why the device is slowed down. The call has an older and a newer name."""
        newer = "nvmlDeviceGetCurrentClocksEventReasons"
        function = newer if self._driver.has(newer) else "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self.ask("slowdown", lambda: self._driver.reasons(function, self._handle)) or 0
        return tuple(reason for reason, mask in _SLOWDOWNS.items() if bits & mask)

    def ecc_errors(self, kind: int) -> int | None:
        """Return the number of ECC errors, or None if the device has no ECC."""
        return self.number("nvmlDeviceGetTotalEccErrors", kind, _SINCE_LOADED, high=2**48)

    def memory(self) -> _Memory:
        """Return the memory of the device, or of the machine if the device shares the machine's memory."""
        answer = self.ask("memory", lambda: self._driver.memory(self._handle))
        if answer is not None and answer[1] > 0:
            return _Memory(*answer)
        if answer is not None or "memory" in self._mute:
            return _Memory(*host_memory(), memory_shared=True)
        return _Memory()

    def processes(self, *, with_utilization: bool) -> tuple[ProcessSample, ...]:
        listed: list[Entry] = []
        for kind in ProcessLists.KINDS:
            listed += self.ask(kind, lambda kind=kind: self._lists.entries(kind, self._handle)) or []  # type: ignore[misc]
        since = int(time.time() * 1e6) - _SHORTEST_WINDOW
        shares: dict[int, int] | None = None
        if listed and with_utilization:
            shares = self.ask("process utilization", lambda: self._lists.utilization(self._handle, since))
        return tuple(
            replace(
                self._table.facts(entry.pid),
                compute=entry.compute,
                memory=entry.memory,
                utilization=None if shares is None else shares.get(entry.pid, 0),
            )
            for entry in merged(listed)
        )


class Instance(NamedTuple):
    """A MIG instance. Its handle becomes invalid when the instance is destroyed, so instances are listed often."""

    identity: DeviceSample
    metrics: Metrics

    def read(self) -> DeviceSample:
        """Read memory and processes. The driver reports no utilization for an instance."""
        processes = self.metrics.processes(with_utilization=False)
        return replace(self.identity, **self.metrics.memory()._asdict(), processes=processes)


# Devices


SLOW_PERIOD = 5.0
"""Seconds between two readings of values that rarely change."""
_RETRY_PERIOD = 2.0


class DeviceReader:
    """Reads one device. `read` may hang but never raises. Errors are reported in the sample."""

    def __init__(self, driver: Driver, nvml_index: int, table: ProcessTable) -> None:
        self._driver, self._nvml_index, self._table = driver, nvml_index, table
        self._lists = ProcessLists(driver)
        self.known = DeviceSample(index=nvml_index, uuid="", name=f"GPU {nvml_index}")
        """Identity of the GPU. It is kept when the device is lost."""
        self._slow = self.known
        """The identity, together with values that rarely change."""
        self._slow_read_at = float("-inf")
        self._instances: list[Instance] = []
        self._metrics: Metrics | None = None
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
        self._read_slow_values(metrics)
        device = self._device(metrics)
        self._failure = None if device.status is Status.OK else device
        return (device, *(instance.read() for instance in self._instances))

    def _open(self) -> Metrics:
        """Open the device, by its UUID if that is known, because indices may change when a device is lost."""
        if self.known.uuid:
            handle = self._driver.call("nvmlDeviceGetHandleByUUID", self.known.uuid)
        else:
            handle = self._driver.call("nvmlDeviceGetHandleByIndex", self._nvml_index)
        metrics = Metrics(self._driver, handle, self._lists, self._table)
        self.known = DeviceSample(
            index=self._nvml_index,
            uuid=metrics.uuid(),
            name=metrics.name() or "unknown GPU",
            bus_id=metrics.bus_id(),
        )
        self._metrics, self._slow_read_at = metrics, float("-inf")
        return metrics

    def _read_slow_values(self, metrics: Metrics) -> None:
        now = time.monotonic()
        if now - self._slow_read_at < SLOW_PERIOD:
            return
        metrics.ask_all_again()
        self._slow = replace(
            self.known,
            power_limit=metrics.watts("nvmlDeviceGetEnforcedPowerLimit"),
            fan=metrics.fan(),
            clock_limit=metrics.megahertz("nvmlDeviceGetMaxClockInfo"),
            ecc_corrected=metrics.ecc_errors(_ECC_CORRECTED),
            ecc_uncorrected=metrics.ecc_errors(_ECC_UNCORRECTED),
            pcie_replays=metrics.number("nvmlDeviceGetPcieReplayCounter"),
            mig_enabled=metrics.mig_enabled(),
        )
        self._instances = metrics.instances(self.known) if self._slow.mig_enabled else []
        self._slow_read_at = now

    def _device(self, metrics: Metrics) -> DeviceSample:
        metrics.refusal = None
        utilization, memory = metrics.utilization(), metrics.memory()
        temperature, power = metrics.temperature(), metrics.watts("nvmlDeviceGetPowerUsage")
        if metrics.refusal is not None and utilization is memory.memory_total is temperature is power is None:
            raise metrics.refusal
        return replace(
            self._slow,
            utilization=utilization,
            **memory._asdict(),
            temperature=temperature,
            power=power,
            energy=metrics.joules(),
            clock=metrics.megahertz("nvmlDeviceGetClockInfo"),
            slowed_by=metrics.slowed_by(),
            processes=metrics.processes(with_utilization=not self._slow.mig_enabled),
        )

    def _failed(self, error: Exception) -> DeviceSample:
        code = error.code if isinstance(error, DriverError) else troubles.UNKNOWN
        status, message = troubles.device_status(code, str(error))
        self._metrics = None
        self._retry_at = time.monotonic() + _RETRY_PERIOD
        self._failure = replace(self.known, status=status, message=message)
        return self._failure


# One thread per device


STALE_AFTER = 1.5
"""Seconds without an answer after which a device is considered hung."""


class Worker:
    """A device and the thread that reads it. Only the publisher calls its methods."""

    def __init__(self, number: int, reader: DeviceReader, notify: Callable[[], None]) -> None:
        self._reader, self._notify = reader, notify
        self._answer: tuple[Readings, float] | None = None
        """The last answer and its time."""
        self._asked_at: float | None = None
        self._thread = WorkerThread(f"gpu-{number}")

    @property
    def busy(self) -> bool:
        """Whether a query is currently running."""
        return self._asked_at is not None

    def ask(self) -> None:
        """Query the device unless a query is already running."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self._thread.add(self._read)

    def devices(self, now: float) -> Readings:
        """Return the last answer with its age. The age is rounded, so that samples of an idle device are identical."""
        asked_at, answer = self._asked_at, self._answer
        if answer is None:
            return (silent(self._reader.known, 0.0 if asked_at is None else round(now - asked_at, 3)),)
        devices, at = answer
        age = max(0.0, round(now - at, 1))
        hung = asked_at is not None and now - asked_at > STALE_AFTER
        return tuple(
            silent(device, age) if hung and device.status is Status.OK else replace(device, age=age)
            for device in devices
        )

    def _read(self) -> None:
        self._answer = self._reader.read(), time.monotonic()
        self._asked_at = None
        self._notify()
