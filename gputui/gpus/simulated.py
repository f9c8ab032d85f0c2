"""Simulated GPUs for demos and tests. The same seed and jobs always produce the same samples."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gputui.core.slots import DeviceKind

from .sample import DeviceSample, Sample, TimedSampler


@dataclass
class Card:
    """The model of simulated GPUs."""

    name: str = "Simulated GPU"
    memory: int = 24 << 30
    power_limit: float = 350.0


card = Card()
"""The model of every simulated GPU of this process."""


def device_key(index: int) -> str:
    """Return the UUID of a simulated GPU."""
    return f"SIM-{index}"


def simulated_device(index: int, step: int, busy_for: int, seed: int) -> DeviceSample:
    """Return a device's sample at a time step, `busy_for` steps after its job began. With 0, the device is idle."""
    chance = random.Random(f"{seed}:{index}:{step}")
    load = _load(chance, busy_for, random.Random(f"{seed}:load:{index}")) if busy_for else 0
    filled = min(1.0, busy_for / 5) * (0.4 + 0.5 * random.Random(f"{seed}:{index}").random())
    return DeviceSample(
        index=index,
        uuid=device_key(index),
        name=card.name,
        utilization=load,
        memory_used=int(card.memory * filled),
        memory_total=card.memory,
        temperature=34 + load // 3 + chance.randint(0, 2),
        power=round(28 + (card.power_limit - 50) * load / 100 + chance.random() * 10, 1),
        power_limit=card.power_limit,
        fan=30 + load // 2,
    )


def _load(chance: random.Random, busy_for: int, device: random.Random) -> int:
    """Return a load typical of training: high, different for each device, and lower at the end of each epoch."""
    level, epoch = device.randint(72, 95), device.randint(5, 9)
    if busy_for % epoch == 0:
        return chance.randint(52, 66)
    return min(99, level + chance.randint(-5, 5))


class SimulatedSampler(TimedSampler):
    """Samples simulated GPUs. `busy` returns the keys of devices that run a job."""

    def __init__(
        self,
        count: int,
        interval: float = 1.0,
        *,
        seed: int = 0,
        busy: Callable[[], Collection[str]] = tuple,
    ) -> None:
        super().__init__(interval)
        self._count, self._seed, self._busy = count, seed, busy
        self._busy_for = [0] * count
        self._step = 0

    def take(self, now: float) -> Sample:
        self._step += 1
        busy = self._busy()
        self._busy_for = [steps + 1 if device_key(index) in busy else 0 for index, steps in enumerate(self._busy_for)]
        devices = tuple(
            simulated_device(index, self._step, steps, self._seed) for index, steps in enumerate(self._busy_for)
        )
        return Sample(kind=DeviceKind.SIMULATED, taken=time.time(), devices=devices)
