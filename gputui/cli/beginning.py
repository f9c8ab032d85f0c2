"""Beginning a session from a verb: its folder, its store, its lanes. Loads the session's code, so only when needed."""

from __future__ import annotations

import os

import msgspec

from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import GivenLanes, lanes
from gputui.gpus.wanted import All, BadGpus, parse_gpus
from gputui.session import lock as locks
from gputui.session.client import Client, ClientError
from gputui.session.config import Config, load
from gputui.session.errors import SessionError
from gputui.session.lock import OwnerKind
from gputui.session.opening import Layout, open_session
from gputui.session.paths import Paths

from .words import refuse


def begin(root: str) -> list[str]:
    """Makes the session and gives it lanes; what the user must be told."""
    config = load()
    given = _lanes(config)
    try:
        _create(Paths(root), Layout(config.get("prefix")[0], config.get("job_dir")[0]))
    except SessionError as error:
        raise ClientError(str(error)) from error
    Client(root).ask(
        "begin",
        lanes=msgspec.to_builtins(given.lanes),
        given=config.get("gpus")[0] is not None,
        change_lanes=False,
        cpu_jobs=max(1, len(os.sched_getaffinity(0)) // 2),
        pause_after=config.get("pause_after")[0],
        grace=config.get("grace")[0],
    )
    return [f"a session was begun in {root}", *([given.notice] if given.notice else [])]


def _create(paths: Paths, layout: Layout) -> None:
    from .layouts import check_layout

    check_layout(layout)
    made = paths.create()
    lock = locks.take(paths)
    if lock is None:
        return  # somebody else is just beginning it
    try:
        lock.sign(OwnerKind.CLIENT)
        open_session(paths, layout, made_folder=made).store.close()
    finally:
        lock.release()


def _lanes(config: Config) -> GivenLanes:
    written, origin = config.get("gpus")
    try:
        return lanes(parse_gpus(written) if written is not None else All(), find_hardware())
    except BadGpus as error:
        refuse(f"{origin}: {error}")
