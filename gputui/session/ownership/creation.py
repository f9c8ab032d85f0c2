"""Beginning a session without owning it: its folder, its store, its lanes. For verbs and for Python programs."""

from __future__ import annotations

import os
from typing import Any

from gputui.core.lanes import DeviceKind
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import GivenLanes, lanes
from gputui.gpus.wanted import All, BadGpus, parse_gpus
from gputui.session.config import Config
from gputui.session.control.client import Client, ClientError
from gputui.session.devices.lane_lists import give_lanes
from gputui.session.errors import ConfigError, SessionError
from gputui.session.files.layouts import trouble
from gputui.session.files.paths import Paths
from gputui.session.owner.requests import CLUSTER_OPTIONS, Begin
from gputui.session.store.opening import Layout, open_session

from . import lock as locks
from .lock import OwnerKind


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
        open_session(paths, layout, made_folder=made_folder).store.close()
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
