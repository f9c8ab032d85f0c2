"""Creating a session without owning it, and giving it lanes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gputui.core.lanes import DeviceKind, Lane
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import All, BadGpus, GivenLanes, lanes, parse_gpus
from gputui.session import lock as locks
from gputui.session.client import Client
from gputui.session.config import Config
from gputui.session.control.connection import ClientError
from gputui.session.errors import ConfigError, SessionError
from gputui.session.layouts import Layout, trouble
from gputui.session.lock import OwnerKind
from gputui.session.messages import Lanes, StatusQuestion
from gputui.session.owner.requests import CLUSTER_OPTIONS, Begin, devices_of
from gputui.session.saved_state import leave_notices
from gputui.session.session_dir import Paths
from gputui.session.store.opening import open_session

# ---- Lists of lanes from outside the owner ----


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


# ---- Beginning a session without owning it ----


def begin(root: str, config: Config, gpus: str | None = None) -> list[str]:
    """Makes the session and gives it lanes, those of the settings unless `gpus` says others; what to tell the user.

    ConfigError: the settings are wrong; ClientError: it could not be made.
    """
    wanted_lanes = _lanes(config, gpus)
    layout = Layout(config.get("prefix")[0], config.get("job_dir")[0])
    sentence = trouble(layout)
    if sentence is not None:
        raise ConfigError(sentence)
    try:
        _create(Paths(root), layout)
    except SessionError as error:
        raise ClientError(str(error)) from error
    wanted = Begin(
        lanes=wanted_lanes.lanes,
        given=gpus is not None or config.get("gpus")[0] is not None,
        change_lanes=False,
        cpu_jobs=max(1, len(os.sched_getaffinity(0)) // 2),
        pause_after=config.get("pause_after")[0],
        grace=config.get("grace")[0],
        probe=config.get("probe")[0],
        **_of_a_cluster(config, wanted_lanes),
    )
    Client(root).ask(wanted)
    sentences = [f"a session was begun in {root}", *([wanted_lanes.notice] if wanted_lanes.notice else [])]
    # Somebody else may have begun it at the same moment, with other lanes.
    return sentences + (give_lanes(Client(root), wanted_lanes.lanes) if gpus is not None else [])


def name_lanes(client: Client, gpus: str) -> list[str]:
    """Gives the lanes that a program names to a session that is there; what to tell the user."""
    return give_lanes(client, _named(gpus, "gpus").lanes)


def _create(paths: Paths, layout: Layout) -> None:
    made_folder = paths.create()
    lock = locks.take(paths)
    if lock is None:
        return  # somebody else is just beginning it
    try:
        lock.sign(OwnerKind.CLIENT)
        opened = open_session(paths, layout, made_folder=made_folder)
        opened.store.close()
        leave_notices(paths.private, opened.notices)
    finally:
        lock.release()


def _of_a_cluster(config: Config, given_lanes: GivenLanes) -> dict[str, Any]:
    if not any(lane.kind is DeviceKind.SLURM for lane in given_lanes.lanes):
        return {}
    return {name: config.get(f"engine.{name}")[0] for name in CLUSTER_OPTIONS}


def _lanes(config: Config, gpus: str | None) -> GivenLanes:
    return _named(gpus, "gpus") if gpus is not None else _named(*config.gpus())


def _named(written: str | None, origin: str) -> GivenLanes:
    try:
        return lanes(parse_gpus(written) if written is not None else All(), find_hardware())
    except BadGpus as error:
        raise ConfigError(f"{origin}: {error}") from None
