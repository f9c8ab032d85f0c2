"""Queries to one device. Each returns a value, or None if there is no answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.machine import memory as host_memory
from gputui.gpus.sample import ProcessSample, Slowdown

from . import driver as troubles
from .driver import Driver, DriverError, Handle
from .processes import Entry, ProcessLists, ProcessTable, merged

T = TypeVar("T")

_CLOCK_OF_PROCESSORS = 1
_SINCE_LOADED = 0
ECC_CORRECTED, ECC_UNCORRECTED = 0, 1
_SLOWDOWNS = {Slowdown.HEAT: 0x20 | 0x40, Slowdown.POWER_CAP: 0x4, Slowdown.BRAKE: 0x80}
"""The driver's bits for each kind of slowdown. The bit for hardware slowdowns in general (0x8) adds no information."""
_SHORTEST_WINDOW = 1_000_000
"""Shortest time window in microseconds. With a shorter window the driver omits processes."""


class MemoryAnswer(Struct, frozen=True):
    used: int | None = None
    total: int | None = None
    shared: bool = False


class Metrics:
    """Queries one device handle. Queries that are not supported are skipped until `ask_all_again` is called."""

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self._driver, self._handle = driver, handle
        self._lists, self._table = lists, table
        self._mute: set[str] = set()
        self.refusal: DriverError | None = None
        """The latest error other than "not supported"."""

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

    def fan(self) -> int | None:
        """Return the fan speed in percent, which can exceed 100."""
        return self.number("nvmlDeviceGetFanSpeed", high=300)

    def megahertz(self, function: str) -> int | None:
        return self.number(function, _CLOCK_OF_PROCESSORS, low=1, high=100_000)

    def slowed_by(self) -> tuple[Slowdown, ...]:
        """Return the reasons why the device is slowed down.

        The call has an older and a newer name, and both are tried.
        """
        newer = "nvmlDeviceGetCurrentClocksEventReasons"
        function = newer if self._driver.has(newer) else "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self.ask("slowdown", lambda: self._driver.reasons(function, self._handle)) or 0
        return tuple(reason for reason, mask in _SLOWDOWNS.items() if bits & mask)

    def ecc_errors(self, kind: int) -> int | None:
        """Return the number of ECC errors, or None if the device has no ECC."""
        return self.number("nvmlDeviceGetTotalEccErrors", kind, _SINCE_LOADED, high=2**48)

    def memory(self) -> MemoryAnswer:
        """Return the memory of the device, or of the machine if they share memory."""
        answer = self.ask("memory", lambda: self._driver.memory(self._handle))
        if answer is not None and answer[1] > 0:
            return MemoryAnswer(*answer)
        if answer is not None or "memory" in self._mute:
            return MemoryAnswer(*host_memory(), shared=True)
        return MemoryAnswer()

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
