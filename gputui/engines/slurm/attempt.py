"""Attempts in Slurm, the records they leave on the shared file system, and what their ends mean."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum, auto

from msgspec import Struct

from gputui.core.events import (
    AttemptEnded,
    Exited,
    NodeFailed,
    NoRoom,
    NotStarted,
    Outcome,
    Remark,
    Spawned,
    Submitted,
    Vanished,
)
from gputui.core.job import CrashKind, JobId, Purpose
from gputui.engines.claims import BatchBegun, Claim, Claims, WrittenExit
from gputui.engines.protocol import Report
from gputui.process.watch import begin

from .parse import NodeState, Phase, SlurmEnd, SlurmJob, SlurmNode
from .supervisor import BEGUN, CLAIM_FAILED, CLAIM_TAKEN, ENDED, FOLDER_UNSEEN, KILLED

# ---- What an end in Slurm means ----


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
    by_itself: bool = False
    """Its supervisor saw the command end without having passed a signal on to it."""


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


# ---- Reads claims and exit records from the shared file system, in a thread of its own ----


Key = tuple[JobId, int]
SOON, LATER = 0.1, 0.5
"""Seconds between two looks: while there is news, and when there has been none for a while."""
_QUIET_LOOKS = 100


class ClaimReading(Struct, frozen=True):
    """What the disk tells of an attempt."""

    key: Key
    claim: Claim
    begun: BatchBegun | None
    asked: Purpose | None
    ended: bool
    """Its supervisor has left a note that it ended, which stays until Slurm knows of it too."""


class Records:
    """`tell` is called in the thread that reads, with all that was read at once."""

    def __init__(self, private: int, claims: Claims, tell: Callable[[list[ClaimReading]], None]) -> None:
        self.folder = f"/proc/self/fd/{private}/news"
        self._claims = claims
        self._tell = tell
        self._wanted: queue.SimpleQueue[Iterable[Key] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Key] = queue.SimpleQueue()
        self._seen: set[str] = set()
        self._quiet = 0
        with suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
        self._thread = begin(self._work, "gputui-records")

    def read(self, keys: Iterable[Key]) -> None:
        self._wanted.put(tuple(keys))

    def close(self) -> None:
        self._wanted.put(None)
        self._thread.join(1.0)

    def discard(self, key: Key) -> None:
        """Remove the notes of an attempt that nobody needs any more."""
        self._done.put(key)

    def _clear(self, job: JobId, attempt: int) -> None:
        for word in (BEGUN, ENDED):
            with suppress(OSError):
                os.unlink(f"{self.folder}/{job}.{attempt}.{word}")

    def _work(self) -> None:
        while True:
            keys: set[Key] = set()
            with suppress(queue.Empty):
                wanted = self._wanted.get(timeout=LATER if self._quiet > _QUIET_LOOKS else SOON)
                if wanted is None:
                    return
                keys.update(wanted)
            keys |= self._fresh()
            self._quiet = 0 if keys else self._quiet + 1
            while not self._done.empty():
                self._clear(*self._done.get())
            if keys:
                self._tell([self._reading(key) for key in sorted(keys)])

    def _fresh(self) -> set[Key]:
        try:
            names = set(os.listdir(self.folder))
        except OSError:
            return set()
        fresh, self._seen = names - self._seen, names
        return {key for name in fresh if (key := _key(name)) is not None}

    def _reading(self, key: Key) -> ClaimReading:
        ended = f"{key[0]}.{key[1]}.{ENDED}" in self._seen
        return ClaimReading(key, self._claims.read(*key), self._claims.begun(*key), self._claims.asked(*key), ended)


def _key(name: str) -> Key | None:
    job, _, rest = name.partition(".")
    attempt, _, word = rest.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() and word in (BEGUN, ENDED) else None


# ---- live ----


class BatchOrder(Enum):
    """What was last asked of it; a later one outweighs an earlier one."""

    NONE = auto()
    WITHDRAW = auto()
    TERMINATE = auto()
    KILL = auto()


class BatchAttempt(Struct, eq=False):
    key: Key
    token: str
    cwd: str | None = None
    survived: bool = False
    """An earlier owner started it."""
    submitted_at: float | None = None
    """On the monotonic clock; None: it is not given to Slurm yet."""
    number: int | None = None
    row: SlurmJob | None = None
    """As Slurm last listed it; None if it did not, or if what it said is older than the begin."""
    missed: int = 0
    """Answers in a row that did not list it."""
    begun: BatchBegun | None = None
    begun_seen_at: float = float("inf")
    """When its begin was first seen, on the monotonic clock."""
    exit: WrittenExit | None = None
    """Written, but Slurm may have more to say of it."""
    over_since: float | None = None
    """Since when it has been over without a known cause, on the monotonic clock."""
    asking: bool = False
    """Slurm, or the disk, is being asked about its end."""
    order: BatchOrder = BatchOrder.NONE
    ordered_at: float = float("-inf")
    suspended: bool = False
    asked: Purpose | None = None
    killed: bool = False
    """Its supervisor itself was killed."""
    requeued: bool = False
    """It was put back into Slurm's queue after it had begun."""
    node_seen_at: float = float("-inf")
    """When Slurm was last asked about its failed node."""
    remark: str = ""
    """What was last said of its node."""

    @property
    def over(self) -> bool:
        """As far as Slurm knows."""
        if self.row is None:
            return self.missed >= (1 if self.survived else 2)
        return self.row.phase is Phase.ENDED or self.put_back

    @property
    def put_back(self) -> bool:
        """It began, and waits in Slurm's queue again."""
        return self.begun is not None and self.row is not None and self.row.phase is Phase.WAITING

    def see_row(self, row: SlurmJob | None, asked_at: float) -> None:
        """Take Slurm's answer. Slurm may have listed it as waiting just before it began: that is no news of it now."""
        if row is not None and row.phase is Phase.WAITING and self.begun is not None and asked_at < self.begun_seen_at:
            return
        self.row = row
        self.missed = self.missed + 1 if row is None else 0
        if row is not None and self.number is None:
            self.number = int(row.id)
        if not self.over and self.exit is None:
            self.over_since = None

    def see_begin(self, begun: BatchBegun) -> bool:
        """Take what its claim tells; returns whether it is new."""
        is_new = self.begun is None
        self.begun, self.number = begun, begun.slurm_job
        if is_new:
            self.begun_seen_at = time.monotonic()
            if self.put_back:
                self.row = None
        return is_new

    @property
    def last_number(self) -> int | None:
        """Slurm's own, as it last listed it or as it was submitted."""
        return self.number if self.row is None else int(self.row.id)


class BatchAttempts:
    """By key, in the owner's thread. One that has ended is there no more, and no second end of it is told."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._attempts: dict[Key, BatchAttempt] = {}

    def __iter__(self) -> Iterator[BatchAttempt]:
        return iter(list(self._attempts.values()))

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, key: Key) -> bool:
        return key in self._attempts

    def get(self, key: Key) -> BatchAttempt | None:
        return self._attempts.get(key)

    def add(self, attempt: BatchAttempt) -> None:
        self._attempts[attempt.key] = attempt

    def clear(self) -> None:
        self._attempts.clear()

    def tell_waiting(self, attempt: BatchAttempt, why: str) -> None:
        job, number = attempt.key
        self._report(Submitted(job=job, attempt=number, why=why, slurm_job=attempt.number))

    def tell_remark(self, attempt: BatchAttempt, text: str) -> None:
        if text != attempt.remark:
            attempt.remark = text
            self._report(Remark(job=attempt.key[0], attempt=attempt.key[1], text=text))

    def tell_begun(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        job, number = attempt.key
        self._report(
            Spawned(
                job=job, attempt=number, pid=None, adopted=attempt.survived, asked=attempt.asked,
                started=begun.started, gpus=begun.gpus, slurm_job=begun.slurm_job,
            )
        )  # fmt: skip

    def end(self, attempt: BatchAttempt, verdict: SlurmVerdict, at: float | None = None) -> None:
        """`at`: by the clock of its node, where that wrote it down."""
        if self._attempts.pop(attempt.key, None) is None:
            return
        begun = attempt.begun
        self._report(
            AttemptEnded(
                job=attempt.key[0], attempt=attempt.key[1], outcome=verdict.outcome,
                at=time.time() if at is None else at, signature=verdict.words, kind=verdict.kind,
                started=begun.started if begun is not None else None, gpus=begun.gpus if begun is not None else None,
                slurm_job=attempt.number, asked=attempt.asked, by_itself=verdict.by_itself,
            )
        )  # fmt: skip
