"""The sampler process: `python -m gputui.gpus.nvml DATA_FD INTERVAL` writes samples to the descriptor DATA_FD.

Its main thread makes no NVML calls, so that it can always write samples and exit.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from gputui.core.slots import DeviceKind
from gputui.gpus import hardware
from gputui.gpus.hardware import kernel_hardware
from gputui.gpus.sample import DeviceSample, Sample, Status, Trouble, encode

from . import driver as troubles
from .driver import CannotOpen, Driver, DriverError
from .processes import ProcessTable, foreign_pids
from .reader import DeviceReader, Worker

SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.1, 60.0
_FIRST_GRACE = 0.4
_GRACE = 0.25
_OPENING_PATIENCE = 5.0
_REOPEN_AFTER = 15.0
_LAST_WRITE_PATIENCE = 1.0


class OpenedDriver(Struct, frozen=True):
    """A driver that was opened successfully. Created in the thread that opens the driver."""

    workers: list[Worker]
    version: str | None
    listed: tuple[DeviceSample, ...]
    """The GPUs listed by the kernel."""


class Publisher:
    """Writes samples until the owner closes its end of the pipe, or until only a new process could read the devices."""

    def __init__(self, control: int, data: int, interval: float) -> None:
        self._control, self._data, self._interval = control, data, interval
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._opened: OpenedDriver | Trouble | None = None
        self._began = time.monotonic()
        self._next_round = self._began
        self._round_ends: float | None = None
        self._in_error_since: float | None = None
        self._asked: list[Worker] = []
        self._over = False
        self._unwritten = b""
        self._foreign = foreign_pids()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        os.set_blocking(control, False)
        os.set_blocking(data, False)

    def run(self) -> None:
        threading.Thread(target=self._open, name="open-driver", daemon=True).start()
        owned = True
        while owned and not self._over:
            ready = {fd for fd, _ in self._poll.poll(self._patience() * 1000)}
            if self._wake in ready:
                os.eventfd_read(self._wake)
            if self._data in ready:
                self._write()
            owned = self._control not in ready or self._is_owned()
            self._step(time.monotonic())
        self._write_last()

    def _notify(self) -> None:
        os.eventfd_write(self._wake, 1)

    def _open(self) -> None:
        self._opened = open_driver(self._notify)
        self._notify()

    def _patience(self) -> float:
        deadline = self._next_round if self._round_ends is None else self._round_ends
        return max(0.0, deadline - time.monotonic()) + 0.001

    def _step(self, now: float) -> None:
        opened = self._opened
        if isinstance(opened, OpenedDriver):
            self._step_round(opened, now)
        elif isinstance(opened, Trouble):
            self._publish(Sample(kind=DeviceKind.GPU, taken=time.time(), trouble=opened))
            self._over = True
        elif now >= self._next_round:
            self._next_round = now + self._interval
            self._publish(self._still_opening(now - self._began))

    def _step_round(self, opened: OpenedDriver, now: float) -> None:
        """Start or end a round: all idle devices are queried until they have answered or the time is up."""
        if self._round_ends is not None:
            if now >= self._round_ends or not any(worker.busy for worker in self._asked):
                self._round_ends = None
                self._publish(self._make_sample(opened, now))
        elif now >= self._next_round or not self._asked:
            first = not self._asked
            self._next_round = now + self._interval
            self._round_ends = now + (_FIRST_GRACE if first else min(_GRACE, self._interval / 2))
            self._asked = [worker for worker in opened.workers if not worker.busy] or opened.workers
            for worker in self._asked:
                worker.ask()

    def _make_sample(self, opened: OpenedDriver, now: float) -> Sample:
        devices = hardware.sort_by_bus(worker.devices(now) for worker in opened.workers)
        devices = hardware.mark_visible(hardware.add_uuids(devices, opened.listed), os.environ)
        self._judge(all(device.status is Status.ERROR for device in devices), now)
        note = hardware.find_order_warning(devices, os.environ)
        return Sample(
            kind=DeviceKind.GPU,
            taken=time.time(),
            devices=devices,
            driver=opened.version,
            notes=(note,) if note else (),
            foreign_pids=self._foreign,
        )

    def _judge(self, all_in_error: bool, now: float) -> None:
        """Exit if all devices keep failing. If the driver was replaced, only a new process can open the new driver."""
        if not all_in_error:
            self._in_error_since = None
        elif self._in_error_since is None:
            self._in_error_since = now
        elif now - self._in_error_since > _REOPEN_AFTER:
            self._over = True

    def _still_opening(self, seconds: float) -> Sample:
        trouble = troubles.opening_silent(seconds) if seconds > _OPENING_PATIENCE else None
        return Sample(kind=DeviceKind.GPU, taken=time.time(), complete=False, trouble=trouble)

    def _publish(self, sample: Sample) -> None:
        """Write a sample, unless the owner has not finished reading the previous one."""
        if not self._unwritten:
            self._unwritten = encode(sample)
            self._write()

    def _write(self) -> None:
        try:
            written = os.write(self._data, self._unwritten)
            self._unwritten = self._unwritten[written:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            os._exit(0)
        if self._unwritten:
            self._poll.register(self._data, select.POLLOUT)
        else:
            with suppress(KeyError):
                self._poll.unregister(self._data)

    def _write_last(self) -> None:
        deadline = time.monotonic() + _LAST_WRITE_PATIENCE
        while self._unwritten and time.monotonic() < deadline:
            self._poll.poll(50)
            self._write()

    def _is_owned(self) -> bool:
        """Return whether the owner still has its end of the pipe open."""
        try:
            data = os.read(self._control, 4096)
        except BlockingIOError:
            return True
        return bool(data)


def open_driver(notify: Callable[[], None]) -> OpenedDriver | Trouble:
    """Open the driver. This may take long or hang, because GPUs without persistence mode have to wake up first."""
    try:
        driver = Driver()
        count = driver.count()
        if not count:
            return troubles.NO_DEVICES
        table = ProcessTable(foreign=foreign_pids())
        readers = [DeviceReader(driver, index, table) for index in range(count)]
        workers = [Worker(index, reader, notify) for index, reader in enumerate(readers)]
        return OpenedDriver(workers, driver.version(), kernel_hardware().gpus)
    except CannotOpen as error:
        return error.trouble
    except DriverError as error:
        return troubles.opening_trouble(error.code, str(error), in_container=False)
    except Exception as error:
        return Trouble(f"failed to read GPUs: {error!r}", "please report this message")


def main() -> None:
    interval = min(max(float(sys.argv[2]), SHORTEST_INTERVAL), LONGEST_INTERVAL)
    Publisher(control=0, data=int(sys.argv[1]), interval=interval).run()


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    # A normal exit would wait for threads that may hang in the driver, and would close the driver while they use it.
    os._exit(0)
