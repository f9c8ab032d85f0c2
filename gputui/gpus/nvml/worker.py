"""One thread per device: reads when asked, and is never waited for. Owns the tale of a device that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.sample import DeviceSample, Status, no_answer

Readings = tuple[DeviceSample, ...]

STALE_AFTER = 1.5
"""Seconds of silence after which a device counts as hung; a slow answer is not a missing one."""


class Reader(Protocol):
    """What a worker reads: `read` may hang, `unheard` may not."""

    def read(self) -> Readings: ...

    def unheard(self) -> DeviceSample:
        """What is known of a device that has not answered yet."""


class _Answer(Struct, frozen=True):
    devices: Readings
    at: float


class Worker:
    """A device and its thread. Everything but the thread itself is called by the publisher alone."""

    def __init__(self, number: int, reader: Reader, notify: Callable[[], None]) -> None:
        self._reader, self._notify = reader, notify
        self._go = threading.Semaphore(0)
        self._answer: _Answer | None = None
        self._asked_at: float | None = None
        threading.Thread(target=self._work, name=f"gpu-{number}", daemon=True).start()

    @property
    def busy(self) -> bool:
        """Asked, and has not answered."""
        return self._asked_at is not None

    def ask(self) -> None:
        """Does nothing while an earlier question is open."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self._go.release()

    def devices(self, now: float) -> Readings:
        """What is known at `now`: fresh, or what was last heard with its age."""
        asked_at, answer = self._asked_at, self._answer
        if answer is None:
            return (_silent(self._reader.unheard(), 0.0 if asked_at is None else round(now - asked_at, 3)),)
        age = max(0.0, round(now - answer.at, 3))
        hung = asked_at is not None and now - asked_at > STALE_AFTER
        return tuple(_with_age(device, age, hung) for device in answer.devices)

    def _work(self) -> None:
        while True:
            self._go.acquire()
            devices = self._reader.read()
            self._answer = _Answer(devices, time.monotonic())
            self._asked_at = None
            self._notify()


def _with_age(device: DeviceSample, age: float, hung: bool) -> DeviceSample:
    return _silent(device, age) if hung and device.status is Status.OK else replace(device, age=age)


def _silent(device: DeviceSample, age: float) -> DeviceSample:
    return replace(device, status=Status.STALE, message=no_answer(age), age=age)
