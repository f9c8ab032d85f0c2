"""What is on the GPUs, for `gputui gpus`: the owner's newest sample, or one of our own where nobody samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gputui.core.job import JobId
from gputui.core.lanes import DeviceKind
from gputui.gpus.hardware import driver_present
from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import Sample, Sampler
from gputui.gpus.table import json_rows, text_table
from gputui.gpus.watch import sample_once
from gputui.session.messages.replies import LaneShown, LanesShown

PATIENCE = 0.9
"""A driver that hangs delays nobody: what has answered by then is shown."""


class LookAtDevices(msgspec.Struct, frozen=True):
    sample: Sample | None
    pids: dict[int, JobId]

    def rows(self) -> list[Any]:
        rows = json_rows(self.sample, self.pids) if self.sample is not None else []
        return list(msgspec.to_builtins(rows))

    def text(self, width: int) -> str:
        return text_table(self.sample, width, self.pids) if self.sample is not None else ""


def seen(reply: LanesShown | None, lanes: Sequence[LaneShown]) -> LookAtDevices:
    """`reply`: what a session's owner said; None where there is no session."""
    if reply is not None and reply.sample is not None:
        return LookAtDevices(msgspec.convert(reply.sample, Sample), reply.pids)
    sampler = _sampler(lanes)
    try:
        return LookAtDevices(sample_once(sampler, PATIENCE), {})
    finally:
        sampler.close()


def _sampler(lanes: Sequence[LaneShown]) -> Sampler:
    if lanes and all(lane.kind == DeviceKind.SIMULATED for lane in lanes):
        from gputui.gpus.simulated import SimulatedSampler

        return SimulatedSampler(len({device for lane in lanes for device in lane.devices}))
    if driver_present():
        return ProcessSampler()
    from gputui.gpus.cpu import CpuSampler

    return CpuSampler(max(1, len(lanes)))
