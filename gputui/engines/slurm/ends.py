"""Determine the outcomes of attempts from exit records and from what Slurm reports about jobs and nodes."""

from __future__ import annotations

import signal

from msgspec import Struct

from gputui.core.events import Exited, NodeFailed, NoRoom, NotStarted, Outcome, Vanished
from gputui.core.job import CrashKind
from gputui.core.slots import NodeState

from .parse import SlurmEnd, SlurmNode
from .supervisor import CLAIM_FAILED, CLAIM_TAKEN, DIRECTORY_UNSEEN, KILLED

FORGOTTEN = "Slurm no longer knows it and there is no exit record: it may have run"
RESTARTED = "Slurm requeued it; the second start was blocked, but the first may have run partly"
REQUEUED = "requeued in Slurm by the admin or by Slurm itself, then canceled there"
PREEMPTED = "preempted by Slurm"
NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")
_BOOT_IS_UNSURE = 5.0
"""Maximum error in seconds of the start and boot times that Slurm reports."""
_ENDED_BY_SLURM = {
    "TIMEOUT": ("stopped by Slurm at its time limit", CrashKind.TIME_LIMIT),
    "DEADLINE": ("stopped by Slurm at its deadline", CrashKind.TIME_LIMIT),
    "OUT_OF_MEMORY": ("stopped by Slurm at its memory limit", CrashKind.OOM_HOST),
    "CANCELLED": ("canceled in Slurm, not by gputui", CrashKind.INTERRUPTED),
}


class SlurmVerdict(Struct, frozen=True):
    """An outcome, with a reason that does not appear in any log."""

    outcome: Outcome
    words: str | None = None
    kind: CrashKind | None = None
    by_itself: bool = False
    """Whether the command ended without a signal from its supervisor."""


def judge_exit(code: int, state: str | None, node: str, *, requeued: bool) -> SlurmVerdict:
    """Determine the outcome from the exit record of a command that gputui did not end.

    `state` is Slurm's name for the end, if known. It is needed because a command that Slurm ended early may exit with
    0, which is not a success.
    """
    if requeued:
        return SlurmVerdict(NodeFailed(REQUEUED))
    if state == "PREEMPTED":
        return SlurmVerdict(NodeFailed(PREEMPTED))
    if state in NODE_FAILURES:
        return SlurmVerdict(NodeFailed(f"node {node} failed or was closed (Slurm: {state}), which stopped it"))
    if state in _ENDED_BY_SLURM:
        return SlurmVerdict(Exited(code or 128 + signal.SIGTERM), *_ENDED_BY_SLURM[state])
    return SlurmVerdict(Exited(code))


def judge_without_record(end: SlurmEnd | None, node: str, now: SlurmNode | None, *, requeued: bool) -> SlurmVerdict:
    """Determine the outcome of an attempt that ended without an exit record. `now` is the current state of its node."""
    if end is None:
        return SlurmVerdict(Vanished(FORGOTTEN))
    if end.state in NODE_FAILURES:
        return SlurmVerdict(_after_node_failure(end, node, now))
    if now is not None and now.state is NodeState.DOWN:
        return SlurmVerdict(Vanished(f"Slurm reports {end.state}, but node {node} is down: it may still run there"))
    if requeued or end.state == "PREEMPTED":
        words = REQUEUED if requeued else PREEMPTED
        return SlurmVerdict(NodeFailed(words) if now is not None else Vanished(words))
    if end.state in _ENDED_BY_SLURM:
        return SlurmVerdict(Exited(KILLED), *_ENDED_BY_SLURM[end.state])
    if end.code == CLAIM_TAKEN:
        return SlurmVerdict(Vanished(RESTARTED))
    if end.signal:
        return SlurmVerdict(Exited(128 + end.signal))
    if end.state in ("COMPLETED", "FAILED"):
        return SlurmVerdict(Exited(end.code))
    return SlurmVerdict(Vanished(f"Slurm reports {end.state}; no exit record"))


def _after_node_failure(end: SlurmEnd, node: str, now: SlurmNode | None) -> NodeFailed | Vanished:
    booted, started = now.booted if now is not None else None, end.started
    if booted is not None and started is not None and booted > started + _BOOT_IS_UNSURE:
        return NodeFailed(f"node {node} failed (Slurm: {end.state}) and has restarted: nothing runs there")
    return Vanished(f"node {node} failed (Slurm: {end.state}); it may still run there, so no automatic rerun")


def judge_before_claim(end: SlurmEnd | None, directory: str) -> Outcome:
    """Return the outcome of an attempt that Slurm ended before its command began."""
    if end is None:
        return NoRoom("Slurm dropped it before it started")
    where = f"node {end.nodes[0]}" if end.nodes else "its node"
    if end.state == "CANCELLED" and not end.nodes:  # if there is a node, Slurm itself canceled the job
        return NotStarted(f"Slurm job {end.id} was canceled outside gputui before it started")
    if end.code == DIRECTORY_UNSEEN:
        return NotStarted(
            f"{where} cannot see {directory}: Slurm sessions need a file system shared by all nodes; test with "
            "gputui doctor"
        )
    if end.code == CLAIM_FAILED:
        return NotStarted(f"{where} cannot write {directory}: is it read-only or full there?")
    return NoRoom(f"Slurm could not start it on {where}: {end.reason or end.state}")
