"""Questions to one handle, each answered or None. Owns what counts as an answer: refusals and garbage do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from gputui.gpus.facts import ProcessTable
from gputui.gpus.host import memory as host_memory
from gputui.gpus.sample import ProcessSample, Slowdown

from . import troubles
from .driver import Driver, DriverError, Handle
from .process_lists import Entry, ProcessLists, merged

T = TypeVar("T")

_MILLI = 1000
_CLOCK_OF_PROCESSORS = 1
_SINCE_LOADED = 0
ECC_CORRECTED, ECC_UNCORRECTED = 0, 1
_SLOWDOWNS = {Slowdown.HEAT: 0x20 | 0x40, Slowdown.POWER_CAP: 0x4, Slowdown.BRAKE: 0x80}
"""The driver's bits; that of the hardware at large (0x8) comes with one of them or tells nothing."""
_SHORTEST_WINDOW = 1_000_000
"""Microseconds; with less the driver loses what processes did."""


class MemoryAnswer(Struct, frozen=True):
    used: int | None = None
    total: int | None = None
    shared: bool = False


class Metrics:
    """Asks one handle. What the driver can never answer is not asked again until `ask_all_again`."""

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self._driver, self._handle = driver, handle
        self._lists, self._table = lists, table
        self._mute: set[str] = set()
        self.refusal: DriverError | None = None
        """The newest refusal that was not just "not supported"."""

    def ask_all_again(self) -> None:
        self._mute.clear()

    def ask(self, what: str, question: Callable[[], T]) -> T | None:
        """None where there is no answer; raises only when the device itself is gone."""
        if what in self._mute:
            return None
        try:
            return question()
        except DriverError as error:
            if error.code in troubles.DEVICE_GONE:
                raise
            if error.code in troubles.UNANSWERABLE:
                self._mute.add(what)
            elif error.code != troubles.NO_DATA:
                self.refusal = error
            return None

    def number(self, function: str) -> int | None:
        answer = self.ask(function, lambda: self._driver.call(function, self._handle))
        return None if answer is None else int(answer)

    def utilization(self) -> int | None:
        rates = self.ask("utilization", lambda: self._driver.call("nvmlDeviceGetUtilizationRates", self._handle))
        return None if rates is None else _within(int(rates.gpu), 0, 100)

    def temperature(self) -> int | None:
        degrees = self.ask("temperature", lambda: self._driver.temperature(self._handle))
        return None if degrees is None else _within(degrees, -50, 200)

    def power(self) -> float | None:
        milliwatts = self.number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else _watts(milliwatts)

    def power_limit(self) -> float | None:
        milliwatts = self.number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else _watts(milliwatts)

    def fan(self) -> int | None:
        """May be above 100: a fan can turn faster than its nominal speed."""
        percent = self.number("nvmlDeviceGetFanSpeed")
        return None if percent is None else _within(percent, 0, 300)

    def clock(self) -> int | None:
        return self._megahertz("nvmlDeviceGetClockInfo")

    def clock_limit(self) -> int | None:
        return self._megahertz("nvmlDeviceGetMaxClockInfo")

    def _megahertz(self, function: str) -> int | None:
        answer = self.ask(function, lambda: self._driver.call(function, self._handle, _CLOCK_OF_PROCESSORS))
        return None if answer is None else _within(int(answer), 1, 100_000)

    def slowed_by(self) -> tuple[Slowdown, ...]:
        """By the name that drivers of today have for the call, or that older ones had."""
        newer = "nvmlDeviceGetCurrentClocksEventReasons"
        function = newer if self._driver.has(newer) else "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self.ask("slowdown", lambda: self._driver.reasons(function, self._handle)) or 0
        return tuple(reason for reason, mask in _SLOWDOWNS.items() if bits & mask)

    def ecc_errors(self, kind: int) -> int | None:
        """None where the memory has no such correction, or it is off."""
        function = "nvmlDeviceGetTotalEccErrors"
        count = self.ask(f"ecc {kind}", lambda: self._driver.call(function, self._handle, kind, _SINCE_LOADED))
        return None if count is None else _within(int(count), 0, 2**48)

    def pcie_replays(self) -> int | None:
        count = self.number("nvmlDeviceGetPcieReplayCounter")
        return None if count is None else _within(count, 0, 2**31)

    def memory(self) -> MemoryAnswer:
        """A chip that shares the machine's memory has none of its own to report."""
        answer = self.ask("memory", lambda: self._driver.memory(self._handle))
        if answer is not None and answer[1] > 0:
            return MemoryAnswer(*answer)
        if answer is not None or "memory" in self._mute:
            host = host_memory()
            return MemoryAnswer(host.used, host.total, shared=True)
        return MemoryAnswer()

    def processes(self, *, with_utilization: bool) -> tuple[ProcessSample, ...]:
        lists, handle = self._lists, self._handle
        entries = merged(
            [
                self.ask("compute", lambda: lists.compute(handle)) or [],
                self.ask("mps", lambda: lists.mps(handle)) or [],
                self.ask("graphics", lambda: lists.graphics(handle)) or [],
            ]
        )
        shares = self._shares() if entries and with_utilization else None
        return tuple(self._process(entry, shares) for entry in sorted(entries, key=lambda entry: entry.pid))

    def _shares(self) -> dict[int, int] | None:
        since = int(time.time() * 1e6) - _SHORTEST_WINDOW
        return self.ask("process utilization", lambda: self._lists.utilization(self._handle, since))

    def _process(self, entry: Entry, shares: dict[int, int] | None) -> ProcessSample:
        facts = self._table.facts(entry.pid)
        return ProcessSample(
            pid=entry.pid,
            compute=entry.compute,
            memory=entry.memory,
            utilization=None if shares is None else shares.get(entry.pid, 0),
            alive=facts.alive,
            born=facts.born,
            started=facts.started,
            user=facts.user,
            command=facts.command,
            session=facts.session,
            run=facts.run,
            host_memory=facts.host_memory,
        )


def _within(value: int, low: int, high: int) -> int | None:
    return value if low <= value <= high else None


def _watts(milliwatts: int) -> float | None:
    watts = milliwatts / _MILLI
    return watts if watts < 100_000 else None
