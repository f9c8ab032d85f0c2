"""What a job asks of the machine, and what more after its card was full."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class Request(Struct, frozen=True, omit_defaults=True):
    """What a job asks of the machine. Jobs with equal requests wait in one line."""

    gpus: int | None = None
    """None: one lane, whatever it holds. 0: a CPU job, no lane. n: n distinct devices."""
    devices: tuple[str, ...] = ()
    """Only these devices will do; empty: any."""
    memory: int | None = None
    """Bytes it will use on each of its devices."""
    memory_share: float | None = None
    """The same as a part of the device's memory, 0 to 1."""
    learns: bool = False
    """It will use what jobs of its group were seen to use, as soon as one of them has succeeded."""
    alone: bool = False
    """No other job of ours on its devices meanwhile."""
    larger_than: int | None = None
    """Only devices with more memory than this, in bytes."""


class AfterOom(Struct, frozen=True, omit_defaults=True):
    """How a job is run again whose card was full; said once, until the user asks for another run."""

    attempt: int
    """The one whose card was full."""
    larger_than: int | None = None

    def asked(self, request: Request) -> Request:
        return replace(request, alone=True, larger_than=self.larger_than)
