"""What an end in Slurm means: pure, from Slurm's state, the codes of the batch script, and the exit record."""

from __future__ import annotations

from msgspec import Struct

from gputui.core.crash_kind import CrashKind
from gputui.core.events import Exited, NodeFailed, NoRoom, NotStarted, Outcome, Vanished

from .answers import SlurmEnd
from .supervisor import CLAIM_FAILED, CLAIM_TAKEN, FOLDER_UNSEEN, KILLED

FORGOTTEN = "Slurm does not know it any more, and it left no exit record: it may have run"
RESTARTED = "Slurm ended it and started it a second time, which was turned away: it may have run to any point"


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


def after_exit(code: int, state: str | None) -> SlurmVerdict:
    """Of an exit record that tells of a signal nobody here sent. `state`: Slurm's, or None where it does not say."""
    if state in _ENDED_BY_SLURM:
        return SlurmVerdict(Exited(code), *_ENDED_BY_SLURM[state])
    if state in _TAKEN:
        return SlurmVerdict(NodeFailed(_TAKEN[state]))
    return SlurmVerdict(Exited(code))


_TAKEN = {
    "PREEMPTED": "Slurm took its node for another job (preempted); retry_on: node runs such jobs again",
    "PENDING": "it was put back into Slurm's queue, by the admin or by Slurm itself",
    "REQUEUED": "it was put back into Slurm's queue, by the admin or by Slurm itself",
    "REQUEUE_HOLD": "it was put back into Slurm's queue and held, by the admin or by Slurm itself",
}


def without_record(end: SlurmEnd | None, node: str) -> SlurmVerdict:
    """Of an attempt that began, is over as far as Slurm knows, and left no exit record."""
    if end is None:
        return SlurmVerdict(Vanished(FORGOTTEN))
    if end.state in _ENDED_BY_SLURM:
        return SlurmVerdict(Exited(KILLED), *_ENDED_BY_SLURM[end.state])
    if end.state in _TAKEN:
        return SlurmVerdict(Vanished(_TAKEN[end.state]))
    if end.state in ("NODE_FAIL", "BOOT_FAIL"):
        return SlurmVerdict(
            Vanished(f"node {node} failed (Slurm: {end.state}); it may go on there, and is not run again")
        )
    if end.code == CLAIM_TAKEN:
        return SlurmVerdict(Vanished(RESTARTED))
    if end.signal:
        return SlurmVerdict(Exited(128 + end.signal))
    if end.state in ("COMPLETED", "FAILED"):
        return SlurmVerdict(Exited(end.code))
    return SlurmVerdict(Vanished(f"Slurm says {end.state}, and it left no exit record"))


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
