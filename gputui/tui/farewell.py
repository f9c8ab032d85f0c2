"""The ways to leave, and what the shell says afterwards."""

from __future__ import annotations

from enum import StrEnum

from gputui.core.events import PauseKind
from gputui.core.mode import Mode
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import counted
from gputui.core.views.outlook import goes_on
from gputui.session.ownership.remains import left_of


class Way(StrEnum):
    DETACH = "detach"
    DRAIN = "drain"
    STOP = "stop"


def farewell(snapshot: Snapshot, way: Way, root: str, keeper: int | None, *, here: bool) -> str:
    """`here`: bare `gputui` finds this session where the user stands."""
    back = "gputui" if here else f"gputui --session {root}"
    if way is Way.STOP:
        return _stopped(snapshot, root, back)
    counts = f"{snapshot.running:,} running, {snapshot.waiting:,} waiting"
    if way is Way.DRAIN:
        runs = counted(snapshot.running, "running job goes on to its end", "running jobs go on to their end")
        return f"Draining. {runs}, nothing new starts. Back: {back}"
    if not goes_on(snapshot):
        return _quiet(snapshot, back)
    who = f"keeper {keeper} schedules on" if keeper is not None else "nobody schedules on (--no-keeper)"
    stop = "gputui stop" + ("" if here else f" --session {root}")
    return f"Detached. {counts}; {who}. Back: {back} · Stop: {stop}"


def _quiet(snapshot: Snapshot, back: str) -> str:
    if not snapshot.waiting:
        return ""
    cause = snapshot.cause
    crashed = cause is not None and cause.kind is PauseKind.CRASHES
    why = f"Paused: {cause.message}" if crashed and cause is not None else "Paused"
    return f"{why if snapshot.mode is Mode.PAUSED else 'Left'}. {snapshot.waiting:,} waiting. Back: {back}"


def _stopped(snapshot: Snapshot, root: str, back: str) -> str:
    leftovers = [f"pid {pid}, {what}" for pid, what in left_of(root)]
    if leftovers:
        return "Stopped, but still there: " + "; ".join(leftovers)
    return f"Stopped: nothing of gputui runs here any more. {snapshot.waiting:,} waiting. To go on: {back}, then p"
