"""Lists of lanes from outside the owner: which a session has, in the words of `--gpus`, and giving it others."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gputui.core.lanes import DeviceKind, Lane
from gputui.session.control.client import Client, ClientError
from gputui.session.messages.socket_requests import Lanes, StatusQuestion
from gputui.session.owner.requests import Begin, devices_of
from gputui.session.ownership.lock import OwnerKind

HANDED_OVER_BY = (None, OwnerKind.KEEPER)
"""Owners whose lanes are nobody's wish of this moment."""


def lane_words(lanes: Sequence[Lane]) -> str:
    """As `--gpus` takes them."""
    if lanes and not any(lane.devices for lane in lanes):
        return f"{lanes[0].kind}:{len(lanes)}"
    return " ".join(",".join(lane.devices) for lane in lanes) or "none"


def lanes_of(client: Client) -> tuple[Lane, ...]:
    """Those the session goes on with."""
    staying = (lane for lane in client.ask(Lanes()).lanes if lane.state != "draining")
    return tuple(Lane(lane.id, lane.devices, DeviceKind(lane.kind)) for lane in staying)


def give_lanes(client: Client, wanted: tuple[Lane, ...]) -> list[str]:
    """What to tell the user. ClientError: an app or a run has the session with other lanes."""
    before = lanes_of(client)
    if devices_of(before) == devices_of(wanted):
        return []
    owner = client.ask(StatusQuestion()).owner
    if owner is not None and owner.kind not in HANDED_OVER_BY:
        who = f"gputui {owner.kind} (pid {owner.pid})"
        raise ClientError(
            f"{client.root} is open in {who} with the lanes {lane_words(before)}: change them with gputui gpus, take "
            "another folder, or name no GPUs"
        )
    cpu_jobs = max(1, len(os.sched_getaffinity(0)) // 2)
    client.ask(Begin(lanes=wanted, given=True, change_lanes=True, cpu_jobs=cpu_jobs, resume=False))
    return [f"the lanes are {lane_words(wanted)} now; they were {lane_words(before)}"]
