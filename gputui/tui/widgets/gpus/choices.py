"""What can be done about a device as it is now, each in one sentence. Pure; whoever asked does it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.session.devices.device_commands import stoppable


class DeviceChoice(StrEnum):
    """What the user wants done about the device."""

    DRAIN = "drain"
    ENABLE = "enable"
    REQUEUE = "requeue"
    KILL = "kill"
    KILL_LEFTOVERS = "kill_leftovers"


KEYS = {
    DeviceChoice.DRAIN: "d",
    DeviceChoice.ENABLE: "d",
    DeviceChoice.REQUEUE: "B",
    DeviceChoice.KILL: "K",
    DeviceChoice.KILL_LEFTOVERS: "X",
}
"""Lower case never touches running work; capitals may."""


def choices(device: DevicePicture, snapshot: Snapshot | None) -> Iterator[tuple[DeviceChoice, str]]:
    """Nothing where there is no session."""
    if snapshot is None or device.state is None:
        return
    jobs = stoppable(device, snapshot)
    named = ", ".join(f"#{job.id}" for job in jobs)
    if device.elsewhere:
        pass  # its node decides
    elif device.state in (LaneState.FREE, LaneState.BUSY):
        end = f"; {named} may end" if jobs else ""
        yield DeviceChoice.DRAIN, f"drain: nothing more starts here{end}"
    elif device.state is LaneState.DRAINING or device.drained or device.sample.schedulable:
        yield DeviceChoice.ENABLE, "enable: jobs may start here"
    if jobs:
        yield DeviceChoice.REQUEUE, f"requeue {named}; checkpoints are kept"
        yield DeviceChoice.KILL, f"kill {named}"
    if device.leftovers:
        left_by = ", ".join(f"#{job}" for job in dict.fromkeys(each.job for each in device.leftovers))
        pids = ", ".join(str(each.pid) for each in device.leftovers)
        yield DeviceChoice.KILL_LEFTOVERS, f"kill what {left_by} left behind (pid {pids})"
