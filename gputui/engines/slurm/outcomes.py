"""What an end in Slurm means: pure, from Slurm's state, the codes of the batch script, the exit record and the node.

An attempt that Slurm took back may be run again only where its end was seen: its supervisor wrote it down, the node
that answers says so, or the node was restarted since. A node that is called down may run it still.
"""

from __future__ import annotations

import signal

from msgspec import Struct

from gputui.core.crash_kind import CrashKind
from gputui.core.events import Exited, NodeFailed, NoRoom, NotStarted, Outcome, Vanished

from .answers import NodeState, SlurmEnd, SlurmNode
from .supervisor import CLAIM_FAILED, CLAIM_TAKEN, FOLDER_UNSEEN, KILLED

FORGOTTEN = "Slurm does not know it any more, and it left no exit record: it may have run"
RESTARTED = "Slurm ended it and started it a second time, which was turned away: it may have run to any point"
REQUEUED = "it was put back into Slurm's queue, by the admin or by Slurm itself, and cancelled there"
PREEMPTED = "Slurm took its node for another job (preempted)"
NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")
_BOOT_IS_UNSURE = 5.0
"""Seconds by which Slurm's moments of a start and of a boot may be wrong."""


class SlurmVerdict(Struct, frozen=True):
    """An outcome, and the words for it that no log has."""

    outcome: Outcome
    words: str | None = None
    kind: CrashKind | None = None


_ENDED_BY_SLURM = {
    "TIMEOUT": ("Slurm ended it at its time limit", CrashKind.TIME_LIMIT),
    "DEADLINE": ("Slurm ended it at its deadline", CrashKind.TIME_LIMIT),
    "OUT_OF_MEMORY": ("Slurm ended it at its memory limit", CrashKind.OOM_HOST),
    "CANCELLED": ("it was cancelled in Slurm, not by gputui", CrashKind.INTERRUPTED),
}


def after_exit(code: int, state: str | None, node: str, *, requeued: bool = False) -> SlurmVerdict:
    """Of an exit record that tells of a signal nobody here sent. `state`: Slurm's, or None where it does not say.

    A command that was told to end before it was done may call that a success; it is none.
    """
    if requeued:
        return SlurmVerdict(NodeFailed(REQUEUED))
    if state == "PREEMPTED":
        return SlurmVerdict(NodeFailed(PREEMPTED))
    if state in NODE_FAILURES:
        return SlurmVerdict(NodeFailed(f"node {node} failed or was closed (Slurm: {state}), and it was ended there"))
    if state in _ENDED_BY_SLURM:
        return SlurmVerdict(Exited(code or 128 + signal.SIGTERM), *_ENDED_BY_SLURM[state])
    return SlurmVerdict(Exited(code))


def without_record(end: SlurmEnd | None, node: str, now: SlurmNode | None, *, requeued: bool = False) -> SlurmVerdict:
    """Of an attempt that began, is over as far as Slurm knows, and left no exit record. `now`: its node, as it is."""
    if end is None:
        return SlurmVerdict(Vanished(FORGOTTEN))
    if end.state in NODE_FAILURES:
        return SlurmVerdict(_after_node_failure(end, node, now))
    if now is not None and now.state is NodeState.DOWN:
        return SlurmVerdict(Vanished(f"Slurm says {end.state}, but node {node} is down: it may go on there"))
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
    return SlurmVerdict(Vanished(f"Slurm says {end.state}, and it left no exit record"))


def _after_node_failure(end: SlurmEnd, node: str, now: SlurmNode | None) -> NodeFailed | Vanished:
    booted, started = now.booted if now is not None else None, end.started
    if booted is not None and started is not None and booted > started + _BOOT_IS_UNSURE:
        return NodeFailed(f"node {node} failed (Slurm: {end.state}) and was restarted since: nothing of it runs there")
    return Vanished(f"node {node} failed (Slurm: {end.state}); it may go on there, and is not run again by itself")


def before_claim(end: SlurmEnd | None, folder: str) -> Outcome:
    """Of an attempt that is over as far as Slurm knows, did not begin, and never will."""
    if end is None:
        return NoRoom("Slurm forgot it before it began")
    where = f"node {end.nodes[0]}" if end.nodes else "its node"
    if end.state == "CANCELLED" and not end.nodes:  # one that had a node already was cancelled by Slurm itself
        return NotStarted(f"Slurm job {end.id} was cancelled in Slurm before it began, not by gputui")
    if end.code == FOLDER_UNSEEN:
        return NotStarted(
            f"{where} does not see {folder}: a session in Slurm must be on a file system that all nodes share; "
            "gputui doctor tests it"
        )
    if end.code == CLAIM_FAILED:
        return NotStarted(f"{where} cannot write {folder}: is it mounted read-only there, or full?")
    return NoRoom(f"Slurm could not start it on {where}: {end.reason or end.state}")
