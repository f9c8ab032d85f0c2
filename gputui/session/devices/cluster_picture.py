"""The picture of a cluster's GPUs: whose each is. Its lanes are places in a queue and stand over no device. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gputui.core.job import JobId
from gputui.core.lanes import DeviceKind
from gputui.gpus.history.shares import DeviceShare
from gputui.gpus.nodes import NodeStanding, node_of
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState
from gputui.gpus.sample import DeviceSample, Sample

from .picture_builder import Known


def cluster_pictured(sample: Sample | None, held: Mapping[str, JobId], facts: Known) -> DevicesPicture:
    """`held`: the job of ours that has each GPU, by its word."""
    cluster = sample.cluster if sample is not None else None
    closed = {node.name: node.standing for node in cluster.nodes if node.standing.closed} if cluster is not None else {}
    devices = sample.devices if sample is not None else ()
    return DevicesPicture(
        kind=DeviceKind.SLURM,
        sample=sample,
        devices=tuple(_device(each, held.get(each.key), closed.get(node_of(each.key)), facts) for each in devices),
        idle_since=facts.idle_since,
        looking=True,
        history=facts.history,
    )


def _device(sample: DeviceSample, job: JobId | None, closed: NodeStanding | None, facts: Known) -> DevicePicture:
    return DevicePicture(
        sample=sample,
        state=LaneState.BUSY if job is not None else None,
        jobs=() if job is None else (job,),
        elsewhere=True,
        blocked=None if closed is None else f"its node is {closed}",
        share=facts.shares.get(sample.key, DeviceShare()),
    )
