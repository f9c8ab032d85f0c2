"""The devices where there is no session: samples only, in a thread of its own. Schedules nothing, writes nothing."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable

from gputui.core.lanes import DeviceKind
from gputui.gpus.hardware import driver_present
from gputui.gpus.history.shares import share
from gputui.gpus.history.tracks import HistoryRecorder
from gputui.gpus.history.warnings import noted
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Sampler
from gputui.gpus.watch import SamplerWatch
from gputui.process.threads import begin
from gputui.session.owner.loop import Loop

from .picture_builder import Known, without_session


class Monitor:
    """From `start` to `close`; `close` never waits for a driver that hangs."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._kind = DeviceKind.GPU if driver_present() else DeviceKind.CPU
        self.picture: DevicesPicture = without_session(None, self._kind)
        """Any thread may look at it."""
        self._history = HistoryRecorder()
        self._user = _own_name()
        self._loop = Loop()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises NoThread."""
        self._thread = begin(self._run, "gputui-monitor")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        watch = SamplerWatch(self._loop, self._sampler(), self._deliver)
        try:
            self._loop.run()
        finally:
            watch.close()
            self._loop.close()

    def _sampler(self) -> Sampler:
        if self._kind is DeviceKind.GPU:
            return ProcessSampler()
        from gputui.gpus.cpu import CpuSampler

        return CpuSampler(())

    def _deliver(self, sample: Sample) -> None:
        """Where there is no session, ours is what this user runs."""
        shares = {device.key: share(device, self._is_mine, held=_is_lane(device)) for device in sample.devices}
        self._history.observe(sample, shares)
        warnings = noted(sample, self._history.warned)
        facts = Known(shares=shares, warnings=warnings, history=self._history.frozen())
        self.picture = without_session(sample, self._kind, facts)
        self._on_change()

    def _is_mine(self, process: ProcessSample) -> bool:
        return process.user == self._user


def _is_lane(device: DeviceSample) -> bool:
    return device.uuid.startswith("CPU-")


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
