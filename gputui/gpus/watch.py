"""Two ways to use a sampler: from an event loop, and once, by a caller who waits. Knows no kind of sampler."""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from gputui.process.event_loop import EventLoop

from .sample import Sample, Sampler


class SamplerWatch:
    """Delivers every new sample in the loop's thread until `close`, which closes the sampler too."""

    def __init__(self, loop: EventLoop, sampler: Sampler, deliver: Callable[[Sample], None]) -> None:
        self._loop, self._sampler, self._deliver = loop, sampler, deliver
        self._fd = sampler.fileno()
        if self._fd is not None:
            loop.add_reader(self._fd, self._read)
        self._timer = loop.call_later(sampler.patience(), self._tick)

    def close(self) -> None:
        self._timer.cancel()
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
        self._sampler.close()

    def _read(self) -> None:
        sample = self._sampler.read()
        if sample is not None:
            self._deliver(sample)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(max(0.01, self._sampler.patience()), self._tick)
        self._read()


def sample_once(sampler: Sampler, deadline: float = 10.0) -> Sample | None:
    """The first sample in which every device had its chance, or the newest one at the deadline."""
    newest: Sample | None = None
    ends = time.monotonic() + deadline
    poll = select.poll()
    if (fd := sampler.fileno()) is not None:
        poll.register(fd, select.POLLIN)
    while (remaining := ends - time.monotonic()) > 0:
        sample = sampler.read()
        newest = sample or newest
        if sample is not None and sample.complete:
            break
        poll.poll(1000 * max(0.001, min(remaining, sampler.patience())))
    return newest
