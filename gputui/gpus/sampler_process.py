"""Start, read and restart the sampler process. This is the owner's side."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from gputui.core.slots import DeviceKind
from gputui.process.spawn import spawn
from gputui.process.watch import EventLoop

from .sample import GarbledStream, LineReader, Sample, Sampler, Trouble, aged

SAMPLER = (sys.executable, "-P", "-m", "gputui.gpus.nvml")
"""Command line of the sampler process. With -P no file in the current directory can shadow gputui's modules."""

_DATA_FD = 3
_CHUNK = 1 << 16
_LONGEST_ERROR = 2000


class SamplerGone(Exception):
    """The sampler process has closed its end of the pipe."""


class Child:
    """A running sampler process. It exits when this process closes its end of the pipes."""

    def __init__(self, interval: float, command: Sequence[str], environment: Mapping[str, str]) -> None:
        control, self._control = os.pipe()
        self.data, data = os.pipe()
        self._errors = os.memfd_create("gputui-sampler-errors", os.MFD_CLOEXEC)
        self._lines = LineReader()
        os.set_blocking(self.data, False)
        os.set_blocking(self._control, False)
        try:
            # The process gets its own session so that Ctrl-C in the owner's terminal does not reach it.
            words = [*command, str(_DATA_FD), repr(interval)]
            self.pid = spawn(words, environment, {0: control, 2: self._errors, _DATA_FD: data})
        except OSError:
            self._close_pipes()
            raise
        finally:
            os.close(control)
            os.close(data)

    def read(self) -> Sample | None:
        """Return the newest sample, if any. Raises SamplerGone or GarbledStream."""
        newest = None
        while True:
            try:
                data = os.read(self.data, _CHUNK)
            except BlockingIOError:
                return newest
            if not data:
                if newest is None:
                    size = os.fstat(self._errors).st_size
                    errors = os.pread(self._errors, _LONGEST_ERROR, max(0, size - _LONGEST_ERROR))
                    raise SamplerGone(errors.decode("utf-8", "replace").strip().rpartition("\n")[2])
                return newest
            newest = self._lines.feed(data) or newest

    def abandon(self) -> None:
        """Kill the process without waiting for its end, because it may hang in the kernel."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._close_pipes()

    def reaped(self) -> bool:
        """Return whether the process has ended and has been reaped."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the process to end. Return whether it has ended."""
        deadline = time.monotonic() + seconds
        while not (reaped := self.reaped()) and time.monotonic() < deadline:
            time.sleep(0.002)
        return reaped

    def _close_pipes(self) -> None:
        for fd in (self._control, self.data, self._errors):
            os.close(fd)


# The sampler


_SILENCE = 5.0
"""Seconds (or five intervals, if longer) without a sample after which the process is replaced."""
_START_SILENCE = 15.0
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 60.0
_STEADY = 30.0
"""If a process ran for at least this many seconds before it failed, the count of failures starts again at one."""
_MOST_UNKILLABLE = 3
_PATIENCE_AT_CLOSE = 0.1


class ProcessSampler:
    """A Sampler that runs the sampler process and restarts it after failures."""

    def __init__(
        self,
        interval: float = 1.0,
        *,
        command: Sequence[str] = SAMPLER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._interval = interval
        self._command = command
        self._environment = dict(os.environ if environment is None else environment)
        self._epoll = select.epoll()
        self._child: Child | None = None
        self._abandoned: list[Child] = []
        self._failures = 0
        self._started_at = self._heard_at = self._given_at = self._retry_at = time.monotonic()
        self._newest: Sample | None = None
        self._start()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def patience(self) -> float:
        if self._child is None:
            return max(0.0, min(self._interval, self._retry_at - time.monotonic()))
        return max(self._interval, 1.0)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def read(self) -> Sample | None:
        now = time.monotonic()
        self._abandoned = [child for child in self._abandoned if not child.reaped()]
        if self._child is None:
            if now >= self._retry_at and len(self._abandoned) < _MOST_UNKILLABLE:
                self._start()
        else:
            sample = self._read_child(self._child, now)
            if sample is not None and not self._is_only_opening(sample):
                self._newest, self._given_at = sample, now
                return sample
        return self._aged_sample(now)

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            self._epoll.unregister(child.data)
            child.abandon()
            child.wait(_PATIENCE_AT_CLOSE)
        self._epoll.close()

    def _start(self) -> None:
        self._started_at = self._heard_at = time.monotonic()
        try:
            self._child = Child(self._interval, self._command, self._environment)
        except OSError as error:
            self._note_failure(f"cannot start the GPU sampler: {error.strerror or error}")
            return
        self._epoll.register(self._child.data, select.EPOLLIN)

    def _read_child(self, child: Child, now: float) -> Sample | None:
        try:
            sample = child.read()
        except SamplerGone as gone:
            self._drop_child(child, f"the GPU sampler exited{': ' if str(gone) else ''}{gone}")
            return None
        except GarbledStream as nonsense:
            self._drop_child(child, f"invalid data from the GPU sampler: {nonsense}")
            return None
        first = self._heard_at == self._started_at
        longest_silence = _START_SILENCE if first else max(_SILENCE, 5 * self._interval)
        if sample is not None:
            self._heard_at = now
        elif now - self._heard_at > longest_silence:
            self._drop_child(child, f"no data from the GPU sampler for {now - self._heard_at:.0f} s")
        return sample

    def _drop_child(self, child: Child, why: str) -> None:
        self._epoll.unregister(child.data)
        child.abandon()
        self._abandoned.append(child)
        self._child = None
        self._note_failure(why)

    def _note_failure(self, why: str) -> None:
        now = time.monotonic()
        self._failures = 1 if now - self._started_at > _STEADY else self._failures + 1
        self._retry_at = now + min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** (self._failures - 1))
        if self._newest is None or (self._failures > 1 and self._newest.trouble is None):
            # The first failure is not reported because the next process usually works.
            trouble = Trouble(why, "gputui keeps retrying; see `gputui doctor`")
            newest = self._newest or Sample(kind=DeviceKind.GPU, taken=time.time())
            self._newest = replace(newest, trouble=trouble)
            self._given_at = 0.0

    def _is_only_opening(self, sample: Sample) -> bool:
        """Return whether a sample must be ignored so that known devices do not disappear while the driver is opened."""
        has_seen_devices = self._newest is not None and bool(self._newest.devices)
        return has_seen_devices and not sample.complete and sample.trouble is None

    def _aged_sample(self, now: float) -> Sample | None:
        """Return the last sample with its age updated, once per interval while there is no newer one."""
        if self._newest is None or now - self._given_at < max(self._interval, 1.0) + 0.5:
            return None
        self._given_at = now
        return aged(self._newest, max(0.0, time.time() - self._newest.taken))


# Using a sampler


class SamplerWatch:
    """Delivers new samples in the loop's thread until `close` is called, which also closes the sampler."""

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
    """Return the first complete sample, or the newest sample if none is complete by the deadline."""
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
