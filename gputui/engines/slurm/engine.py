"""The engine of a Slurm cluster: gives attempts to Slurm, sees them begin and end, takes them back, stops them.

Never waits for Slurm or the shared file system in the owner's thread: submissions, questions, orders and the reading
of records have threads of their own, which tell this one. The claim decides what runs; Slurm's word only tells why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial

from gputui.core.events import (
    AttemptEnded,
    EngineTrouble,
    Exited,
    NeverRan,
    NodesSeen,
    NoRoom,
    NotStarted,
    Outcome,
    Spawned,
    Submitted,
    Vanished,
)
from gputui.core.job import JobId, Purpose
from gputui.core.lanes import NodeSize
from gputui.core.steps import Step, reached
from gputui.engines.claims import Absent, BatchBegun, Claims, FolderGone, LogFailed, Revoked, Unreadable, WrittenExit
from gputui.engines.protocol import LEFT_BEHIND, Abilities, Launch, Report, Since, Survivor
from gputui.process.event_loop import EventLoop

from .answers import Phase, SlurmEnd, SlurmJob, largest
from .commands import SlurmCommands, SlurmError, SlurmRefused
from .errands import Errands
from .leftovers import Leftovers
from .live import BatchAttempt, BatchOrder
from .orders import Orders
from .outcomes import KILLED, SlurmVerdict, after_exit, before_claim, without_record
from .questions import Questions, QueueAnswer
from .reasons import waits
from .records import ClaimReading, Key, Records
from .submission import meaning_of, submit, token_of

STARTED_BEFORE = "this attempt was started before"
RECORD_PATIENCE = 60.0
"""Seconds in which an exit record may come late: another machine's files are not seen at once."""
WORD_PATIENCE = 12.0
"""Seconds in which Slurm may say why it ended an attempt."""
QUEUED = "it is being given to Slurm"


class SlurmEngine:
    """`private`, the session's private folder, must be on a file system that the nodes share."""

    abilities = Abilities(can_suspend=True, can_pin_device=False, telemetry=False, leaves_processes=False)

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        self._loop = loop
        self._private = private
        self._session = session
        self._tell = report
        self._closed = False
        self._has_gpus = True
        self._trouble = ""
        self._claims = Claims.of(private)
        self._claims.make_folder()
        self._live: dict[Key, BatchAttempt] = {}
        self._revoked: set[Key] = set()
        commands = SlurmCommands()
        self._commands = commands
        self._records = Records(private, self._claims, self._in_loop(self._read))
        self._questions = Questions(commands, self._in_loop(self._answered))
        self._submissions = Errands("gputui-submissions")
        self._orders = Orders(commands, Errands("gputui-orders"))
        self._leftovers = Leftovers(private, session, self._claims, self._orders.user)

    def _in_loop(self, call: Callable[..., None]) -> Callable[..., None]:
        """The same, for another thread."""

        def hand_over(*given: object) -> None:
            self._loop.call_soon_threadsafe(lambda: None if self._closed else call(*given))

        return hand_over

    def token(self, job: JobId, attempt: int) -> str:
        return f"{self._session}.{job}.{attempt}"

    # Starting

    def start(self, launches: Iterable[Launch]) -> None:
        self._claims.make_folder()
        folder = os.readlink(f"/proc/self/fd/{self._private}")
        for launch in launches:
            if launch.folder is not None:
                os.close(launch.folder)
            key = (launch.job, launch.attempt)
            attempt = BatchAttempt(key, self.token(*key), launch.cwd)
            self._live[key] = attempt
            self._report(Submitted(job=launch.job, attempt=launch.attempt, why=QUEUED))
            self._submissions.add(partial(self._submit, attempt, _on_shared_paths(launch), folder))

    def _submit(self, attempt: BatchAttempt, launch: Launch, folder: str) -> None:
        """In the thread of submissions, one after the other."""
        then = self._in_loop(self._submitted)
        claim = self._claims.read(*attempt.key)
        if self._closed:
            return
        if not isinstance(claim, Absent):
            then(attempt, NeverRan() if isinstance(claim, Revoked) else Vanished(STARTED_BEFORE))
        elif attempt.order is not BatchOrder.NONE:
            then(attempt, self._taken_back(attempt.key))
        else:
            then(attempt, self._number(attempt, launch, folder))

    def _number(self, attempt: BatchAttempt, launch: Launch, folder: str) -> int | Outcome | None:
        """None: it may be there, and has begun. A submission that is not clear is taken back by its claim."""
        try:
            number = submit(launch, attempt.token, folder, has_gpus=self._has_gpus)
        except SlurmRefused as refused:
            return meaning_of(refused)
        except SlurmError as error:
            self._in_loop(self._in_trouble)(str(error))
            return self._taken_back(attempt.key)
        except (OSError, ValueError) as error:
            return NotStarted(f"it cannot be given to Slurm: {error}")
        reached(Step.SPAWNED)
        return number

    def _taken_back(self, key: Key) -> NeverRan | NoRoom | None:
        """None: it has begun. In any thread but the owner's."""
        self._leftovers.note()
        try:
            revoked = self._claims.revoke(*key)
        except OSError as error:
            return NoRoom(f"its claim cannot be written: {error.strerror}")
        if not revoked and not isinstance(self._claims.read(*key), Revoked):
            return None
        self._revoked.add(key)
        self._leftovers.note()
        reached(Step.REVOKED)
        return NeverRan()

    def _submitted(self, attempt: BatchAttempt, came: int | Outcome | None) -> None:
        if isinstance(came, int | None):
            attempt.submitted_at, attempt.number = time.monotonic(), came
            reached(Step.WATCHED)
            self._report_waiting(attempt, "Slurm has not looked at it yet")
            if attempt.order is not BatchOrder.NONE:
                self._carry_out(attempt)
            self._questions.poke()
        else:
            self._end(attempt, came)

    def _report_waiting(self, attempt: BatchAttempt, why: str) -> None:
        job, number = attempt.key
        self._report(Submitted(job=job, attempt=number, why=why, slurm_job=attempt.number))

    # Taking over

    def recover(self, survivors: list[Survivor]) -> None:
        for survivor in survivors:
            key = (survivor.job, survivor.attempt)
            attempt = BatchAttempt(key, self.token(*key), survived=True, submitted_at=time.monotonic())
            self._live[key] = attempt
            if survivor.since is Since.COPY:
                self._end(attempt, Vanished(LEFT_BEHIND[Since.COPY]))
        self._records.read(self._live)
        if self._live:
            self._questions.poke()

    # What the disk tells

    def _read(self, readings: list[ClaimReading]) -> None:
        for reading in readings:
            attempt = self._live.get(reading.key)
            if attempt is None:
                self._records.discard(reading.key)
            else:
                attempt.asked = reading.asked or attempt.asked
                attempt.asking = False
                self._took_in(attempt, reading)

    def _took_in(self, attempt: BatchAttempt, reading: ClaimReading) -> None:
        if reading.begun is not None:
            self._began(attempt, reading.begun)
        match reading.claim:
            case WrittenExit() as record:
                self._exited(attempt, record)
            case FolderGone(at=at):
                where = attempt.cwd and f"the folder {attempt.cwd} is gone"
                self._end(attempt, NotStarted(where or "its folder is gone"), at)
            case LogFailed(at=at):
                self._end(attempt, NotStarted("its log cannot be made on its node, or is there already"), at)
            case Revoked():
                self._revoked.add(attempt.key)
                self._end(attempt, NeverRan())
            case BatchBegun() as begun if attempt.over:
                self._without_record(attempt, begun)
            case Absent() if attempt.over or (attempt.order is not BatchOrder.NONE and attempt.submitted_at):
                self._withdraw(attempt)
            case Unreadable() if attempt.over:
                self._loop.call_later(1.0, lambda: self._records.read([attempt.key]))

    def _began(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        attempt.begun, attempt.number = begun, begun.slurm_job
        if attempt.told_begun:
            return
        attempt.told_begun = True
        job, number = attempt.key
        self._report(
            Spawned(
                job=job, attempt=number, pid=None, adopted=attempt.survived, asked=attempt.asked,
                started=begun.started, gpus=begun.gpus, slurm_job=begun.slurm_job,
            )
        )  # fmt: skip
        if attempt.order in (BatchOrder.TERMINATE, BatchOrder.KILL):
            self._carry_out(attempt)
        elif attempt.order is BatchOrder.WITHDRAW:
            attempt.order = BatchOrder.NONE  # it was too late

    def _exited(self, attempt: BatchAttempt, record: WrittenExit) -> None:
        """A signal that nobody here sent: Slurm knows why."""
        if attempt.exit is not None:
            return
        reached(Step.END_SEEN)
        if record.code <= 128 or attempt.order is not BatchOrder.NONE or attempt.survived:
            self._end(attempt, Exited(record.code), record.at)
            return
        attempt.exit = record
        self._questions.poke()
        self._loop.call_later(WORD_PATIENCE, lambda: self._explain_exit(attempt))

    def _explain_exit(self, attempt: BatchAttempt) -> None:
        if attempt.key in self._live and attempt.exit is not None:
            told = after_exit(attempt.exit.code, attempt.row.state if attempt.row is not None else None)
            self._end_told(attempt, told, attempt.exit.at)

    def _without_record(self, attempt: BatchAttempt, begun: BatchBegun) -> None:
        now = time.monotonic()
        if attempt.over_since is None:
            attempt.over_since = now
        if attempt.killed or attempt.order is BatchOrder.KILL:
            self._end(attempt, Exited(KILLED))
        elif now - attempt.over_since < self._patience(attempt):
            self._loop.call_later(1.0, lambda: self._records.read([attempt.key]))
        elif not attempt.asking:
            attempt.asking = True
            told = self._in_loop(lambda end: self._end_told(attempt, without_record(end, begun.node)))
            self._orders.errands.add(lambda: told(self._last_words(attempt)))

    def _patience(self, attempt: BatchAttempt) -> float:
        known = attempt.row is not None and attempt.row.state not in ("NODE_FAIL", "BOOT_FAIL", "COMPLETED", "FAILED")
        return WORD_PATIENCE if known else RECORD_PATIENCE

    def _last_words(self, attempt: BatchAttempt) -> SlurmEnd | None:
        """What Slurm or its accounting knows of its end; in the thread of orders."""
        number = attempt.number if attempt.row is None else int(attempt.row.id)
        if number is None:
            return None
        try:
            known = [*self._commands.details(str(number)), *self._commands.ended([str(number)])]
        except SlurmError:
            return None
        return next((end for end in known if _bears(end, attempt.token)), None)

    def _withdraw(self, attempt: BatchAttempt) -> None:
        """It has not begun; and if we are first to create its claim, it never will."""
        if attempt.asking:
            return
        attempt.asking = True
        over, ordered, row = attempt.over, attempt.order is not BatchOrder.NONE, attempt.row
        then = self._in_loop(partial(self._withdrawn, attempt))

        def work() -> None:
            taken = self._taken_back(attempt.key)
            told_by_slurm = over and not ordered and not attempt.survived and row is not None
            if isinstance(taken, NeverRan) and told_by_slurm:
                folder = os.readlink(f"/proc/self/fd/{self._private}")
                then(before_claim(self._last_words(attempt), os.path.dirname(folder)))
            else:
                then(taken)

        self._orders.errands.add(work)

    def _withdrawn(self, attempt: BatchAttempt, came: Outcome | None) -> None:
        attempt.asking = False
        if attempt.key not in self._live:
            return
        if came is None:
            self._records.read([attempt.key])
        elif isinstance(came, NoRoom) and attempt.order is BatchOrder.NONE and not attempt.over:
            self._loop.call_later(1.0, lambda: self._records.read([attempt.key]))
        else:
            self._end(attempt, came)
            self._questions.poke()  # what is left of it in Slurm's queue is cancelled when seen there, or by `close`

    # What Slurm tells

    def _answered(self, answer: QueueAnswer) -> None:
        if answer.jobs is None:
            self._in_trouble(answer.trouble)
            return
        self._in_trouble("")
        if answer.nodes is not None:
            self._see_nodes(answer)
        mine = f"{self._session}."
        rows = {token: job for job in answer.jobs if (token := token_of(job)) is not None and token.startswith(mine)}
        for attempt in list(self._live.values()):
            if attempt.submitted_at is not None and attempt.submitted_at < answer.asked_at:
                self._compare(attempt, rows)
        left = self._left_in(rows)
        self._orders.cancel(left)
        if not left:
            self._orders.errands.add(partial(self._leftovers.none_at, answer.asked_at))
        if not self._live and not left:
            self._questions.rest()

    def _left_in(self, rows: dict[str, SlurmJob]) -> list[str]:
        """The numbers of what waits in Slurm's queue and is not to begin."""
        live = [attempt for attempt in self._live.values() if attempt.key not in self._revoked]
        wanted = {attempt.token for attempt in live if not attempt.over or attempt.begun is None}
        return [row.id for token, row in rows.items() if token not in wanted and row.phase is Phase.WAITING]

    def _in_trouble(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            self._tell(EngineTrouble(why))
            if why:
                self._questions.poke()

    def _see_nodes(self, answer: QueueAnswer) -> None:
        most = largest(answer.nodes or [])
        self._has_gpus = most is None or most.gpus > 0
        self._tell(NodesSeen(NodeSize(most.name, most.gpus) if most is not None else None))

    def _compare(self, attempt: BatchAttempt, rows: dict[str, SlurmJob]) -> None:
        row = attempt.row = rows.get(attempt.token)
        attempt.missed = attempt.missed + 1 if row is None else 0
        if row is not None and attempt.number is None:
            attempt.number = int(row.id)
        if attempt.exit is not None:
            if attempt.over:
                self._explain_exit(attempt)
        elif row is not None and row.phase is Phase.WAITING and attempt.begun is None:
            self._report_waiting(attempt, waits(row, time.time()))
            if attempt.order is not BatchOrder.NONE:
                self._records.read([attempt.key])
        else:
            if attempt.begun is None or attempt.over:
                self._records.read([attempt.key])
            self._remind(attempt)

    # Orders

    def withdraw(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), BatchOrder.WITHDRAW)

    def terminate(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), BatchOrder.TERMINATE)

    def kill(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), BatchOrder.KILL)

    def suspend(self, job: JobId, attempt: int) -> None:
        self._still((job, attempt), suspended=True)

    def resume(self, job: JobId, attempt: int) -> None:
        self._still((job, attempt), suspended=False)

    def _still(self, key: Key, *, suspended: bool) -> None:
        attempt = self._live.get(key)
        if attempt is not None and attempt.begun is not None and attempt.order is BatchOrder.NONE:
            attempt.suspended = suspended
            self._orders.suspend(attempt) if suspended else self._orders.go_on(attempt)

    def _order(self, key: Key, order: BatchOrder) -> None:
        attempt = self._live.get(key)
        if attempt is None or order.value <= attempt.order.value:
            return
        if order is BatchOrder.WITHDRAW and attempt.begun is not None:
            return
        attempt.order = order
        if attempt.submitted_at is not None:
            self._carry_out(attempt)

    def _carry_out(self, attempt: BatchAttempt) -> None:
        """One that has not begun is taken back, whatever was ordered."""
        if attempt.begun is None:
            self._records.read([attempt.key])
            return
        attempt.ordered_at = time.monotonic()
        if attempt.order is BatchOrder.KILL:
            self._orders.kill(attempt)
            self._loop.call_later(self._orders.KILL_AFTER, lambda: self._make_sure(attempt))
        elif attempt.order is BatchOrder.TERMINATE:
            self._orders.terminate(attempt)

    def _make_sure(self, attempt: BatchAttempt) -> None:
        """Its supervisor did not end it in time: Slurm does, and there will be no exit record."""
        if not self._closed and attempt.key in self._live and attempt.exit is None:
            attempt.killed = True
            self._orders.kill_supervisor(attempt)
            self._questions.poke()

    def _remind(self, attempt: BatchAttempt) -> None:
        """Slurm may not have heard an order."""
        late = time.monotonic() - attempt.ordered_at > self._orders.AGAIN_AFTER
        if attempt.begun is not None and attempt.order is not BatchOrder.NONE and not attempt.over and late:
            self._carry_out(attempt)

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        self._claims.ask(job, attempt, purpose)

    # Ends

    def _end_told(self, attempt: BatchAttempt, told: SlurmVerdict, at: float | None = None) -> None:
        self._end(attempt, told.outcome, at, told)

    def _end(
        self, attempt: BatchAttempt, outcome: Outcome, at: float | None = None, told: SlurmVerdict | None = None
    ) -> None:
        if self._live.pop(attempt.key, None) is None:
            return
        self._records.discard(attempt.key)
        begun = attempt.begun
        self._report(
            AttemptEnded(
                job=attempt.key[0], attempt=attempt.key[1], outcome=outcome, at=time.time() if at is None else at,
                signature=told.words if told is not None else None, kind=told.kind if told is not None else None,
                started=begun.started if begun is not None else None, gpus=begun.gpus if begun is not None else None,
                slurm_job=attempt.number, asked=attempt.asked,
            )
        )  # fmt: skip

    def _report(self, report: Report) -> None:
        self._tell(report)

    def claimed(self) -> list[tuple[JobId, int]]:
        return self._claims.all()

    def forget(self, job: JobId, attempt: int) -> None:
        # A revocation stays: Slurm may start the attempt late, and it must find it.
        if (job, attempt) not in self._revoked:
            self._claims.remove(job, attempt)

    def gc(self, *, all_dead: bool) -> None:
        """Revocations stay, however old: Slurm's queue may be older."""
        self._claims.remove_unwanted(lambda *key: key in self._live, all_dead=False)

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        """There are none: the supervisor, and Slurm after it, end what a command leaves."""

    def close(self) -> None:
        self._closed = True
        self._questions.close()
        self._submissions.close()
        self._orders.errands.close()
        if not self._trouble:
            self._leftovers.sweep()
        self._records.close()
        self._live.clear()


def _on_shared_paths(launch: Launch) -> Launch:
    """Paths through our own descriptors mean nothing elsewhere."""
    from msgspec.structs import replace

    return replace(launch, out=_real(launch.out), err=_real(launch.err) if launch.err is not None else None)


def _real(path: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _bears(end: SlurmEnd, token: str) -> bool:
    return token in (end.comment.rpartition(":")[2], end.name.partition("-")[2])
