"""The engine for a Slurm cluster: submits attempts, sends orders to them, and finds out how they end.

There are two sources of information about an attempt: Slurm's queue, and the attempt's claim on the shared file system.
Each source is read in its own thread (see `poll`). Submissions and orders also have one thread each. All results are
handled in the owner's thread, where every method runs unless its docstring says otherwise.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gputui.core import events
from gputui.core.amounts import moment
from gputui.core.job import JobId, Purpose
from gputui.core.slots import NodeSize, NodeState
from gputui.core.steps import Step, reached
from gputui.engines import claims
from gputui.engines.claims import MARK, Claims
from gputui.engines.protocol import LEFT_BEHIND, STARTED_BEFORE, Launch, Report, Since, Survivor
from gputui.process.processes import user_name
from gputui.process.watch import EventLoop, WorkerThread

from .client import SlurmCommands, SlurmError, SlurmRefused
from .ends import NODE_FAILURES, SlurmVerdict, judge_before_claim, judge_exit, judge_without_record
from .messages import describe_wait
from .parse import Phase, SlurmEnd, SlurmJob, SlurmNode, largest
from .poll import ClaimReader, ClaimReading, Key, QueueAnswer, QueuePoller
from .supervisor import KILL_SIGNAL, KILLED, job_name, refusal_outcome, submit, token_of

QUEUED = "being submitted to Slurm"
SUSPEND_AT = (0.0, 2.0, 6.0)
"""Delays in seconds after which a suspend or resume is sent. Slurm reports no error if it comes too early."""
KILL_AFTER = 4.0
"""Seconds that a supervisor gets to kill its process tree."""
AGAIN_AFTER = 6.0
"""Seconds after which an order that had no effect is repeated."""
READ_AGAIN_AFTER = 1.0
RECORD_PATIENCE = 60.0
"""Seconds to wait for an exit record. Changes on network file systems can take long to become visible."""
WORD_PATIENCE = 12.0
"""Seconds to wait for Slurm's reason for the end of an attempt."""
NODE_PATIENCE = 300.0
"""Seconds to wait for a failed node to come back. Once it is back, the attempt certainly no longer runs there."""
NODE_LOOKS = 5.0
"""Seconds between two queries about a failed node."""
RUNS_ON_AFTER = 20.0
"""Seconds for which Slurm may still list an attempt as running after its end."""
KNOWN_AFTER = 60.0
"""Seconds for which the end of an attempt may still be forgotten if Slurm's controller crashes."""
_CODES_OF_SLURM = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
"""Exit codes of commands that Slurm may have killed. Other signals, such as SIGSEGV, come from the command itself."""


class BatchOrder(Enum):
    """The strongest order given for an attempt. Members are ordered from weakest to strongest."""

    NONE = auto()
    WITHDRAW = auto()
    TERMINATE = auto()
    KILL = auto()


class BatchState(Enum):
    SUBMITTING = auto()
    """The attempt is queued in the submission thread."""
    WAITING = auto()
    """The attempt is in Slurm's queue and has not started."""
    GONE = auto()
    """The attempt has not started and is no longer in Slurm's queue."""
    RUNNING = auto()
    UNSEEN_END = auto()
    """The attempt started and, according to Slurm, has ended, but there is no exit record."""
    EXITED = auto()
    """There is an exit record. Slurm is being asked who ended the attempt."""


class BatchAttempt(Struct, eq=False):
    key: Key
    token: str
    cwd: str | None = None
    survived: bool = False
    """Whether an earlier owner started the attempt."""
    submitted_at: float | None = None
    """Time of submission on the monotonic clock, or None if the attempt has not been submitted yet."""
    number: int | None = None
    """Slurm's job id."""
    remark: str = ""
    """The last reported remark about the attempt's node."""

    # From Slurm
    row: SlurmJob | None = None
    """The attempt as Slurm last listed it. None if the last answer or all answers since its start omitted it."""
    missed: int = 0
    """Number of consecutive answers from Slurm that did not list the attempt."""
    requeued: bool = False
    """Whether the attempt was put back into Slurm's queue after it had started."""

    # From its claim
    begun: claims.BatchStarted | None = None
    begun_seen_at: float = float("inf")
    """Time when the attempt's start record was first seen, on the monotonic clock."""
    exit: claims.WrittenExit | None = None
    asked: Purpose | None = None

    # Orders
    order: BatchOrder = BatchOrder.NONE
    ordered_at: float = float("-inf")
    suspended: bool = False

    # Queries about its end
    over_since: float | None = None
    """Time since which the attempt has been over without a known cause, on the monotonic clock."""
    asking: bool = False
    """Whether a query about the attempt's end is running."""
    rereading: bool = False
    """Whether the attempt's claim will be read again soon."""
    node_asked_at: float = float("-inf")

    @property
    def state(self) -> BatchState:
        if self.exit is not None:
            return BatchState.EXITED
        if self.submitted_at is None and self.begun is None:
            return BatchState.SUBMITTING
        if self.begun is not None:
            return BatchState.UNSEEN_END if self.over else BatchState.RUNNING
        return BatchState.GONE if self.over else BatchState.WAITING

    @property
    def over(self) -> bool:
        """Whether the attempt has ended according to Slurm."""
        if self.row is None:
            return self.missed >= (1 if self.survived else 2)
        return self.row.phase is Phase.ENDED or self.put_back

    @property
    def put_back(self) -> bool:
        """Whether the attempt has started and is waiting in Slurm's queue again."""
        return self.begun is not None and self.row is not None and self.row.phase is Phase.WAITING

    @property
    def has_failed_node(self) -> bool:
        return self.row is not None and self.row.state in NODE_FAILURES

    def see_row(self, row: SlurmJob | None, asked_at: float) -> None:
        """Update the attempt from a row of Slurm's queue.

        After the start has been seen, a row that was requested earlier is ignored if it shows the attempt as waiting.
        """
        if row is not None and row.phase is Phase.WAITING and self.begun is not None and asked_at < self.begun_seen_at:
            return
        self.row = row
        self.missed = self.missed + 1 if row is None else 0
        if row is not None and self.number is None:
            self.number = int(row.id)
        if not self.over and self.exit is None:
            self.over_since = None

    def see_begin(self, begun: claims.BatchStarted) -> bool:
        """Update the attempt from the start record in its claim. Return whether the record is new."""
        is_new = self.begun is None
        self.begun, self.number = begun, begun.slurm_job
        if is_new:
            self.begun_seen_at = time.monotonic()
            if self.put_back:
                self.row = None
        return is_new


class Finished(Struct):
    """An attempt with an exit record that Slurm may still list as running."""

    at: float
    """Time when the end was read, on the monotonic clock."""
    slurm_knows: bool = False


class SlurmEngine(claims.ClaimedAttempts):
    """Engine that runs attempts as batch jobs. `private`, the session's private directory, is shared with the nodes."""

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        super().__init__(private, session)
        self._loop = loop
        self._private = private
        self._report = report
        self._closed = False
        self._live: dict[Key, BatchAttempt] = {}
        """Attempts whose end has not been reported yet."""
        self._finished: dict[Key, Finished] = {}
        self._has_gpus = True
        """Whether any node has GPUs."""
        self._trouble = ""
        """Reason why Slurm does not answer, or an empty string if it does."""
        self._down: dict[str, str] = {}
        """Slurm's name for the state of each node that is down."""
        self._user = user_name(os.geteuid())
        self._commands = SlurmCommands()
        self._withdrawn_file = WithdrawnFile(private, session, self._claims, self._user)
        self._reader = ClaimReader(private, self._claims, partial(self._in_loop, self._take_readings), self._fail)
        self._poller = QueuePoller(self._commands, partial(self._in_loop, self._take_answer), self._fail)
        self._submissions = WorkerThread("gputui-submissions", self._fail)
        self._orders = WorkerThread("gputui-orders", self._fail)

    def start(self, launches: Iterable[Launch]) -> None:
        self._claims.make_directory()
        directory = self._directory
        for launch in launches:
            if launch.directory is not None:
                os.close(launch.directory)
            key = (launch.job, launch.attempt)
            attempt = self._live[key] = BatchAttempt(key, self.token(*key), launch.cwd)
            self._report_waiting(attempt, QUEUED)
            # Paths below /proc/self/fd are invalid on other machines.
            launch = replace(launch, out=_real(launch.out), err=_real(launch.err) if launch.err is not None else None)
            self._submissions.add(partial(self._submit, attempt, launch, directory))

    def recover(self, survivors: list[Survivor]) -> None:
        for survivor in survivors:
            key = (survivor.job, survivor.attempt)
            attempt = BatchAttempt(key, self.token(*key), survived=True, submitted_at=time.monotonic())
            self._live[key] = attempt
            if survivor.since is Since.COPY:
                self._end(attempt, events.Vanished(LEFT_BEHIND[Since.COPY]))
        self._reader.read(self._live)
        if self._live:
            self._poller.poke()

    def carry_out(self, order: events.AttemptInstruction) -> None:
        attempt = self._live.get((order.job, order.attempt))
        if attempt is not None:
            match order:
                case events.Withdraw():
                    self._order(attempt, BatchOrder.WITHDRAW)
                case events.Terminate():
                    self._order(attempt, BatchOrder.TERMINATE)
                case events.KillTree():
                    self._order(attempt, BatchOrder.KILL)
                case events.SuspendTree() | events.ContinueTree():
                    self._set_suspended(attempt, isinstance(order, events.SuspendTree))

    def gc(self, *, all_dead: bool) -> None:
        # Old revocations are kept, because Slurm's queue may contain older attempts.
        self._claims.remove_unwanted(lambda *key: key in self._live, all_dead=False)

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        """Do nothing, because the supervisor and then Slurm kill any leftover processes."""

    def close(self) -> None:
        self._closed = True
        self._poller.close()
        self._submissions.close()
        self._orders.close()
        if not self._trouble:
            self._withdrawn_file.sweep()
        self._reader.close()
        self._live.clear()

    @property
    def _directory(self) -> str:
        """The path of the session's private directory on the nodes."""
        return os.readlink(f"/proc/self/fd/{self._private}")

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Schedule a method call in the owner's thread from another thread."""
        self._loop.call_soon_threadsafe(lambda: None if self._closed else call(*arguments))

    def _fail(self, error: BaseException) -> None:
        """Raise a thread's error in the owner's thread, which would otherwise wait for that thread forever."""
        self._in_loop(_raise, error)

    def _is_live(self, attempt: BatchAttempt) -> bool:
        return self._live.get(attempt.key) is attempt

    def _later(self, seconds: float, call: Callable[[BatchAttempt], None], attempt: BatchAttempt) -> None:
        """Call a method after some seconds, unless the attempt's end has been reported by then."""
        self._loop.call_later(seconds, lambda: call(attempt) if self._is_live(attempt) else None)

    # Submitting

    def _submit(self, attempt: BatchAttempt, launch: Launch, directory: str) -> None:
        """Submit an attempt. Runs in the submission thread."""
        claim = self._claims.read(*attempt.key)
        if self._closed:
            return
        result: int | events.Outcome | None
        if not isinstance(claim, claims.Absent):
            result = events.NeverRan() if isinstance(claim, claims.Revoked) else events.Vanished(STARTED_BEFORE)
        elif attempt.order is not BatchOrder.NONE:
            result = self._revoke(attempt.key)
        else:
            result = self._sbatch(attempt, launch, directory)
        self._in_loop(self._submitted, attempt, result)

    def _sbatch(self, attempt: BatchAttempt, launch: Launch, directory: str) -> int | events.Outcome | None:
        """Return the id of the new Slurm job, or an outcome if there is no job.

        Return None if the job has started although its id is unknown. If it is unclear whether Slurm accepted the job,
        its claim is revoked.
        """
        try:
            number = submit(launch, attempt.token, directory, has_gpus=self._has_gpus)
        except SlurmRefused as refused:
            return refusal_outcome(refused)
        except SlurmError as error:
            self._in_loop(self._be_in_trouble, str(error))
            return self._revoke(attempt.key)
        except (OSError, ValueError) as error:
            return events.NotStarted(f"cannot submit to Slurm: {error}")
        reached(Step.SPAWNED)
        return number

    def _submitted(self, attempt: BatchAttempt, number: int | events.Outcome | None) -> None:
        if not isinstance(number, int | None):
            self._end(attempt, number)
            return
        attempt.submitted_at, attempt.number = time.monotonic(), number
        reached(Step.WATCHED)
        self._report_waiting(attempt, "not yet considered by Slurm")
        if attempt.order is not BatchOrder.NONE:
            self._send_order(attempt)
        self._poller.poke()

    # Orders are repeated, because Slurm does not say whether a signal was delivered

    def _order(self, attempt: BatchAttempt, order: BatchOrder) -> None:
        too_late = order is BatchOrder.WITHDRAW and attempt.begun is not None
        if too_late or order.value <= attempt.order.value:
            return
        attempt.order = order
        if attempt.submitted_at is not None:
            self._send_order(attempt)

    def _send_order(self, attempt: BatchAttempt) -> None:
        if attempt.begun is None:  # before the start, any order withdraws the attempt
            self._reader.read([attempt.key])
            return
        attempt.ordered_at = time.monotonic()
        if attempt.order is BatchOrder.KILL:
            self._signal(attempt, "--batch", str(KILL_SIGNAL))
            self._later(KILL_AFTER, self._kill_by_slurm, attempt)
        elif attempt.order is BatchOrder.TERMINATE:
            self._signal(attempt, "--batch", "TERM")
        if attempt.suspended:  # a stopped supervisor would not handle the signal
            self._signal(attempt, "--full", "CONT")

    def _kill_by_slurm(self, attempt: BatchAttempt) -> None:
        """Let Slurm kill an attempt whose supervisor took too long. There will be no exit record."""
        if attempt.exit is None:
            self._signal(attempt, "--batch", "KILL")
            self._poller.poke()

    def _repeat_order(self, attempt: BatchAttempt) -> None:
        late = time.monotonic() - attempt.ordered_at > AGAIN_AFTER
        if attempt.state is BatchState.RUNNING and attempt.order is not BatchOrder.NONE and late:
            self._send_order(attempt)

    def _set_suspended(self, attempt: BatchAttempt, suspended: bool) -> None:
        if attempt.begun is not None and attempt.order is BatchOrder.NONE:
            attempt.suspended = suspended
            for seconds in SUSPEND_AT:
                self._later(seconds, partial(self._send_suspend, suspended), attempt)

    def _send_suspend(self, suspended: bool, attempt: BatchAttempt) -> None:
        """Suspend or resume the attempt, unless there is a newer order."""
        if attempt.suspended is suspended and attempt.order is BatchOrder.NONE:
            self._signal(attempt, "--full", "STOP" if suspended else "CONT")

    def _signal(self, attempt: BatchAttempt, reach: str, name: str) -> None:
        self._cancel(reach, "-s", name, "-u", self._user, "-n", job_name(attempt.token))

    def _cancel(self, *words: str) -> None:
        def work() -> None:
            with suppress(SlurmError):
                self._commands.cancel(*words)

        self._orders.add(work)

    # Withdrawing attempts that have not started

    def _revoke(self, key: Key) -> events.NeverRan | events.NoRoom | None:
        """Revoke the claim, outside the owner's thread. Return None if the attempt has started."""
        self._withdrawn_file.note(*key)
        try:
            revoked = self._claims.revoke(*key)
        except OSError as error:
            return events.NoRoom(f"cannot write its run record: {error.strerror}")
        if not revoked and not isinstance(self._claims.read(*key), claims.Revoked):
            return None
        self._revoked.add(key)
        self._withdrawn_file.note(*key)
        reached(Step.REVOKED)
        return events.NeverRan()

    def _withdraw(self, attempt: BatchAttempt) -> None:
        """Revoke the claim of an attempt that has not started. Runs in the thread for orders."""
        if attempt.asking:
            return
        attempt.asking = True
        slurm_knows = attempt.over and attempt.order is BatchOrder.NONE and attempt.row is not None
        ask_slurm = slurm_knows and not attempt.survived

        def work() -> None:
            outcome: events.Outcome | None = self._revoke(attempt.key)
            if isinstance(outcome, events.NeverRan) and ask_slurm:
                with suppress(SlurmError):
                    outcome = judge_before_claim(self._find_end(attempt), os.path.dirname(self._directory))
            self._in_loop(self._withdrawn, attempt, outcome)

        self._orders.add(work)

    def _withdrawn(self, attempt: BatchAttempt, outcome: events.Outcome | None) -> None:
        attempt.asking = False
        if not self._is_live(attempt):
            return
        if outcome is None:
            self._reader.read([attempt.key])
        elif isinstance(outcome, events.NoRoom) and attempt.order is BatchOrder.NONE and not attempt.over:
            self._read_again(attempt)
        else:
            self._end(attempt, outcome)
            self._poller.poke()  # what is left in Slurm's queue is canceled after the next answer or in `close`

    # Answers from Slurm's queue

    def _take_answer(self, answer: QueueAnswer) -> None:
        self._be_in_trouble(answer.trouble)
        if answer.jobs is None:
            return
        if answer.nodes is not None:
            self._see_nodes(answer.nodes)
        tokens = ((token_of(job), job) for job in answer.jobs)
        rows = {token: job for token, job in tokens if token is not None and token.startswith(f"{self._session}.")}
        for attempt in list(self._live.values()):
            if attempt.submitted_at is not None and attempt.submitted_at < answer.asked_at:
                self._see_row(attempt, rows.get(attempt.token), answer.asked_at)
        self._cancel_ended(rows, answer.asked_at)
        self._clear_queue(rows, answer.asked_at)

    def _be_in_trouble(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            self._report(events.EngineTrouble(why))
            if why:
                self._poller.poke()

    def _see_nodes(self, nodes: list[SlurmNode]) -> None:
        self._down = {node.name: node.said for node in nodes if node.state is NodeState.DOWN}
        most = largest(nodes)
        self._has_gpus = most is None or most.gpus > 0
        self._report(events.NodesSeen(NodeSize(most.name, most.gpus) if most is not None else None))

    def _see_row(self, attempt: BatchAttempt, row: SlurmJob | None, asked_at: float) -> None:
        attempt.see_row(row, asked_at)
        match attempt.state:
            case BatchState.EXITED:
                if attempt.over:
                    self._explain(attempt)
            case BatchState.WAITING if row is not None and row.phase is Phase.WAITING:
                self._report_waiting(attempt, describe_wait(row, time.time()))
                if attempt.order is not BatchOrder.NONE:
                    self._reader.read([attempt.key])
            case BatchState.RUNNING:
                self._repeat_order(attempt)
            case _:
                self._reader.read([attempt.key])
        if attempt.begun is not None:
            text = self._remark(attempt, attempt.begun.node)
            if text != attempt.remark:
                attempt.remark = text
                self._report(events.Remark(job=attempt.key[0], attempt=attempt.key[1], text=text))

    def _remark(self, attempt: BatchAttempt, node: str) -> str:
        if attempt.row is not None and attempt.has_failed_node:
            since = attempt.over_since if attempt.over_since is not None else time.monotonic()
            until = moment(time.time() + since + NODE_PATIENCE - time.monotonic(), time.time())
            return f"node {node} failed (Slurm: {attempt.row.state}): lost unless it is back by {until}"
        return f"node {node} is down (Slurm: {self._down[node]}); it may still run there" if node in self._down else ""

    def _cancel_ended(self, rows: dict[str, SlurmJob], asked_at: float) -> None:
        """Cancel ended jobs that a restarted controller lists as running. They would block GPUs for hours."""
        for key, finished in list(self._finished.items()):
            since, token = asked_at - finished.at, self.token(*key)
            row = rows.get(token)
            if row is not None and row.state == "RUNNING":
                if since > RUNS_ON_AFTER:
                    self._cancel("-u", self._user, "-n", job_name(token))
            elif since > 0 and not finished.slurm_knows:
                finished.slurm_knows = True
                self._reader.discard(key)
            elif since > KNOWN_AFTER:
                del self._finished[key]

    def _clear_queue(self, rows: dict[str, SlurmJob], asked_at: float) -> None:
        """Cancel jobs that are waiting in Slurm's queue but must not start."""
        live = [attempt for attempt in self._live.values() if attempt.key not in self._revoked]
        wanted = {attempt.token for attempt in live if not attempt.over or attempt.begun is None}
        unwanted = [row.id for token, row in rows.items() if token not in wanted and row.phase is Phase.WAITING]
        if unwanted:
            self._cancel(*unwanted)
        else:
            self._orders.add(partial(self._withdrawn_file.clear_if_unused_since, asked_at))
            if not self._live and not self._finished:
                self._poller.rest()

    # Claims

    def _take_readings(self, readings: list[ClaimReading]) -> None:
        for reading in readings:
            attempt = self._live.get(reading.key)
            if attempt is not None:
                attempt.asked = reading.file.asked or attempt.asked
                self._see_claim(attempt, reading.file)
            elif reading.ended:
                self._finished.setdefault(reading.key, Finished(time.monotonic()))
                self._poller.poke()
            elif reading.key not in self._finished:
                self._reader.discard(reading.key)

    def _see_claim(self, attempt: BatchAttempt, file: claims.ClaimFile) -> None:
        if file.begun is not None and attempt.see_begin(file.begun):
            self._began(attempt, file.begun)
        match file.claim:
            case claims.WrittenExit() as record:
                self._exited(attempt, record)
            case claims.DirectoryGone(at=at):
                why = f"directory {attempt.cwd} is gone" if attempt.cwd else "its directory is gone"
                self._end(attempt, events.NotStarted(why), at)
            case claims.LogFailed(at=at):
                self._end(attempt, events.NotStarted("its log cannot be created on its node, or already exists"), at)
            case claims.Revoked():
                self._revoked.add(attempt.key)
                self._end(attempt, events.NeverRan())
            case claims.BatchStarted() as begun if attempt.over:
                self._wait_for_record(attempt, begun)
            case claims.Absent() if attempt.over or (attempt.order is not BatchOrder.NONE and attempt.submitted_at):
                self._withdraw(attempt)
            case claims.Unreadable() if attempt.over:
                self._read_again(attempt)

    def _began(self, attempt: BatchAttempt, begun: claims.BatchStarted) -> None:
        self._report(
            events.Spawned(
                job=attempt.key[0], attempt=attempt.key[1], pid=None, adopted=attempt.survived, requested=attempt.asked,
                started=begun.started, gpus=begun.gpus, slurm_job=begun.slurm_job,
            )
        )  # fmt: skip
        if attempt.order is BatchOrder.WITHDRAW:
            attempt.order = BatchOrder.NONE  # it was too late
        elif attempt.order is not BatchOrder.NONE:
            self._send_order(attempt)

    def _exited(self, attempt: BatchAttempt, record: claims.WrittenExit) -> None:
        if attempt.exit is not None:
            return
        reached(Step.END_SEEN)
        by_itself = record.code not in _CODES_OF_SLURM and not record.signalled
        if by_itself or attempt.order is not BatchOrder.NONE or attempt.asked is not None:
            self._end(attempt, SlurmVerdict(events.Exited(record.code), by_itself=by_itself), record.at)
        else:  # it was not ended by us, so ask Slurm why it ended
            attempt.exit, attempt.over_since = record, time.monotonic()
            self._poller.poke()
            self._later(WORD_PATIENCE, self._explain_late, attempt)

    def _read_again(self, attempt: BatchAttempt) -> None:
        if not attempt.rereading:
            attempt.rereading = True
            self._later(READ_AGAIN_AFTER, self._reread, attempt)

    def _reread(self, attempt: BatchAttempt) -> None:
        attempt.rereading = False
        self._reader.read([attempt.key])

    # The reason for an end with an exit record

    def _explain_late(self, attempt: BatchAttempt) -> None:
        if _is_undecided(attempt):
            self._later(WORD_PATIENCE, self._explain_late, attempt)
        else:
            self._explain(attempt)

    def _explain(self, attempt: BatchAttempt) -> None:
        attempt.requeued |= attempt.put_back
        if attempt.put_back:  # decided when the job has been canceled in Slurm's queue
            return
        if attempt.row is not None and not attempt.survived:
            self._report_exit(attempt, attempt.row.state)
        elif not attempt.asking:
            self._ask_about_end(
                attempt, lambda end, _: self._report_exit(attempt, end.state if end is not None else None)
            )

    def _report_exit(self, attempt: BatchAttempt, state: str | None) -> None:
        record, node = attempt.exit, attempt.begun.node if attempt.begun is not None else "?"
        if record is not None:
            verdict = judge_exit(record.code, state, node, requeued=attempt.requeued)
            self._end(attempt, verdict, record.at)

    # The reason for an end without an exit record

    def _wait_for_record(self, attempt: BatchAttempt, begun: claims.BatchStarted) -> None:
        now = time.monotonic()
        if attempt.over_since is None:
            attempt.over_since = now
        attempt.requeued |= attempt.put_back
        if attempt.order is BatchOrder.KILL:
            self._end(attempt, events.Exited(KILLED))
        elif now - attempt.over_since < _patience(attempt) or attempt.put_back:
            self._read_again(attempt)
            if attempt.has_failed_node and now > attempt.node_asked_at + NODE_LOOKS:
                self._ask_about_node(attempt, begun.node)
        elif not attempt.asking:
            self._ask_about_node(attempt, begun.node, last=True)

    def _ask_about_node(self, attempt: BatchAttempt, node: str, *, last: bool = False) -> None:
        attempt.node_asked_at = time.monotonic()

        def judge(end: SlurmEnd | None, now: SlurmNode | None) -> None:
            verdict = judge_without_record(end, node, now, requeued=attempt.requeued)
            if attempt.exit is None and (last or isinstance(verdict.outcome, events.NodeFailed)):
                self._end(attempt, verdict)

        self._ask_about_end(attempt, judge, node)

    def _ask_about_end(
        self, attempt: BatchAttempt, then: Callable[[SlurmEnd | None, SlurmNode | None], None], node: str | None = None
    ) -> None:
        """Query what Slurm knows about the attempt's end and, if `node` is given, the current state of that node."""
        attempt.asking = True

        def work() -> None:
            try:
                end = self._find_end(attempt)
                node_now = self._commands.node(node) if node is not None else None
            except SlurmError:
                self._in_loop(self._ask_again_later, attempt)
            else:
                self._in_loop(answered, end, node_now)

        def answered(end: SlurmEnd | None, node_now: SlurmNode | None) -> None:
            attempt.asking = False
            attempt.requeued |= end is not None and end.restarts > 0
            then(end, node_now)

        self._orders.add(work)

    def _ask_again_later(self, attempt: BatchAttempt) -> None:
        """Ask again later because Slurm did not answer. This decides nothing about the attempt's end."""
        attempt.asking = False
        if attempt.exit is not None:
            self._later(WORD_PATIENCE, self._explain_late, attempt)
        else:
            self._read_again(attempt)

    def _find_end(self, attempt: BatchAttempt) -> SlurmEnd | None:
        """Ask Slurm about the attempt's end. Runs in the thread for orders."""
        number = attempt.number if attempt.row is None else int(attempt.row.id)
        return self._commands.find_end(number, attempt.token) if number is not None else None

    # Reports

    def _report_waiting(self, attempt: BatchAttempt, why: str) -> None:
        self._report(events.Submitted(job=attempt.key[0], attempt=attempt.key[1], why=why, slurm_job=attempt.number))

    def _end(self, attempt: BatchAttempt, end: events.Outcome | SlurmVerdict, at: float | None = None) -> None:
        """Report an attempt's end. `at` is the time of the exit record by the clock of the attempt's node."""
        verdict = end if isinstance(end, SlurmVerdict) else SlurmVerdict(end)
        if not self._is_live(attempt):
            return
        del self._live[attempt.key]
        if at is not None:
            self._finished[attempt.key] = Finished(time.monotonic())
        else:
            self._reader.discard(attempt.key)
        begun = attempt.begun
        self._report(
            events.AttemptEnded(
                job=attempt.key[0], attempt=attempt.key[1], outcome=verdict.outcome,
                at=time.time() if at is None else at, signature=verdict.words, kind=verdict.kind,
                started=begun.started if begun is not None else None, gpus=begun.gpus if begun is not None else None,
                slurm_job=attempt.number, requested=attempt.asked, by_itself=verdict.by_itself,
            )
        )  # fmt: skip


def _raise(error: BaseException) -> None:
    raise error


def _real(path: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _is_undecided(attempt: BatchAttempt) -> bool:
    """Return whether the end may still become clear.

    This is so if Slurm has not answered yet, if the attempt is in the queue again, or if Slurm's epilog is running.
    """
    if attempt.row is None:
        return attempt.missed == 0
    in_time = attempt.over_since is not None and time.monotonic() - attempt.over_since < RECORD_PATIENCE
    return attempt.put_back or (attempt.row.state == "COMPLETING" and in_time)


def _patience(attempt: BatchAttempt) -> float:
    if attempt.has_failed_node:
        return NODE_PATIENCE
    says_why = attempt.row is not None and attempt.row.state not in ("COMPLETED", "FAILED")
    return WORD_PATIENCE if says_why else RECORD_PATIENCE


OWN_PATIENCE, INHERITED_PATIENCE = 4.0, 2.0
"""Seconds for which a closing owner waits for Slurm: for attempts that it withdrew, and for those of earlier owners."""


class WithdrawnFile:
    """A file that lists withdrawn attempts for the next owner. Their jobs may still be in Slurm's queue.

    The owner's thread does not use the file before the owner closes.
    """

    def __init__(self, private: int, session: str, claims: Claims, user: str) -> None:
        self._path = f"/proc/self/fd/{private}/{MARK}"
        self._mine = f"{session}."
        self._claims = claims
        self._user = user
        self._lock = threading.Lock()
        self._noted_at = float("-inf")

    def note(self, job: JobId, attempt: int) -> None:
        """Add an attempt that is about to be withdrawn or has just been withdrawn."""
        with self._lock, suppress(OSError):
            self._noted_at = time.monotonic()
            with open(self._path, "ab", opener=partial(os.open, mode=0o600)) as file:
                file.write(b"%d.%d\n" % (job, attempt))

    def clear_if_unused_since(self, asked_at: float) -> None:
        """Remove the file unless attempts were added after `asked_at`, when Slurm listed no withdrawn attempts."""
        with self._lock, suppress(OSError):
            if self._noted_at < asked_at:
                os.unlink(self._path)

    def sweep(self) -> None:
        """Cancel the jobs of withdrawn attempts. If Slurm does not answer soon, the next owner will cancel them."""
        own = self._noted_at > float("-inf")
        if not own and not os.path.exists(self._path):
            return
        end = time.monotonic() + (OWN_PATIENCE if own else INHERITED_PATIENCE)
        with suppress(SlurmError):
            asked_at = time.monotonic()
            jobs = SlurmCommands(patience=end - asked_at).queue(self._user)
            left = [job.id for job in jobs if job.phase is Phase.WAITING and self._is_withdrawn(job)]
            if left:
                SlurmCommands(patience=max(0.5, end - time.monotonic())).cancel(*left)
            self.clear_if_unused_since(asked_at)

    def _is_withdrawn(self, job: SlurmJob) -> bool:
        token = token_of(job)
        if token is None or not token.startswith(self._mine):
            return False
        key = claims.parse_key(token.removeprefix(self._mine))
        return key is not None and isinstance(self._claims.read(*key), claims.Revoked)
