"""The engine that runs attempts on this machine: starts them, sees their ends, takes them over, stops them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gputui.core.events import AttemptEnded, Exited, NeverRan, NoRoom, NotStarted, Outcome, Spawned, Vanished
from gputui.core.job import JobId, Purpose
from gputui.core.steps import Step, reached
from gputui.engines.claims import Claimed, ClaimedAttempts, Claims, Revoked, Unreadable
from gputui.engines.protocol import Abilities, Launch, Report, Survivor
from gputui.process import processes
from gputui.process.directories import FolderId
from gputui.process.watch import EventLoop, Watch

from . import spawn
from .recovery import Adoption, WaitStatus, command_may_live, outcome_of
from .spawn import Crew
from .stop import Key, LiveAttempt, StoppedWrappers, Stopper, TreeOrder, carry_out

READ_TRIES, READ_INTERVAL = 50, 0.1
"""How often a claim is read that the disk does not give, before the end counts as unseen."""
_LOG_TAIL = 200
_CLAIMS_OF_WRAPPERS = Claims.of(spawn.SESSION)


class LocalEngine(ClaimedAttempts):
    """Every wrapper holds `private`, the session's private folder, too."""

    abilities = Abilities(can_suspend=True, can_pin_device=True, telemetry=True)

    def __init__(self, loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> None:
        super().__init__(private, session)
        self._loop = loop
        self._private = private
        self._report = report
        self._live: dict[Key, LiveAttempt] = {}
        self._undecided: dict[Key, TreeOrder] = {}
        """Survivors that could not be judged yet, with what was ordered meanwhile."""
        self._crew: Crew[Launch, int | spawn.SpawnError] = Crew(self._spawn)
        self._stopper = Stopper(loop, self._report_end)
        self._adoption = Adoption(loop, self._claims, FolderId.of(private), self)
        self._stopped_wrappers = StoppedWrappers(loop, self._live.values)

    def start(self, launches: Iterable[Launch]) -> None:
        self._claims.make_folder()
        for launch, started in self._crew.each(launches):
            self._started(launch, started)

    def _spawn(self, launch: Launch) -> int | spawn.SpawnError:
        """In any thread: the wrapper's pid, or why there is none."""
        key = (launch.job, launch.attempt)
        arguments = spawn.arguments(launch, _CLAIMS_OF_WRAPPERS.path(*key))
        environment = spawn.variables(launch.environment, self.token(*key))
        held = {spawn.SESSION: self._private} | ({} if launch.lease is None else {spawn.LEASE: launch.lease})
        try:
            return spawn.spawn(arguments, environment, *_logs(launch), held)
        except spawn.SpawnError as error:
            return error
        finally:
            if launch.folder is not None:
                os.close(launch.folder)

    def _started(self, launch: Launch, started: int | spawn.SpawnError) -> None:
        key = (launch.job, launch.attempt)
        if isinstance(started, spawn.SpawnError):
            self._report(_ended(key, _failed_start(started)))
            return
        reached(Step.SPAWNED)
        live = LiveAttempt(
            key, self._marks(key, started, launch.out, launch.err), Watch(started), launch.out, launch.err, launch.cwd
        )
        self._watch(live)
        reached(Step.WATCHED)
        self._report(Spawned(job=launch.job, attempt=launch.attempt, pid=started))

    def recover(self, survivors: list[Survivor]) -> None:
        self._undecided.update({(survivor.job, survivor.attempt): TreeOrder.NONE for survivor in survivors})
        for survivor in survivors:
            self._adoption.decide(survivor)

    def withdraw(self, job: JobId, attempt: int) -> None:
        """Here what is started begins at once."""

    def terminate(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), TreeOrder.TERMINATE)

    def kill(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), TreeOrder.KILL)

    def suspend(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), TreeOrder.SUSPEND)

    def resume(self, job: JobId, attempt: int) -> None:
        self._order((job, attempt), TreeOrder.RESUME)

    def gc(self, *, all_dead: bool) -> None:
        """Removes claims of long ended attempts, and of revoked ones if no wrapper of theirs can live.

        After `recover`, which says what is wanted still.
        """
        self._claims.remove_unwanted(lambda *key: key in self._live or key in self._undecided, all_dead=all_dead)

    def kill_leftovers(self, job: JobId, attempt: int) -> None:
        marks = processes.Marks(self.token(job, attempt))
        self._loop.run_in_thread(lambda: carry_out(TreeOrder.KILL, marks, True), lambda outcome: None)

    def close(self) -> None:
        self._crew.close()
        self._adoption.close()
        self._stopper.close()
        self._stopped_wrappers.close()
        for live in self._live.values():
            if live.watch is not None:
                live.watch.close()
        self._live.clear()
        self._undecided.clear()

    # What an adoption found

    def adopt(self, survivor: Survivor, watch: Watch) -> None:
        job, attempt = key = (survivor.job, survivor.attempt)
        purpose = self._claims.asked(*key)
        live = LiveAttempt(key, self._marks(key, watch.pid, survivor.out), watch, survivor.out, asked=purpose)
        live.signalled = survivor.stopping or purpose is not None
        order = self._undecided.pop(key, TreeOrder.NONE)
        self._watch(live)
        self._report(Spawned(job=job, attempt=attempt, pid=watch.pid, adopted=True, asked=purpose))
        if order is not TreeOrder.NONE:
            self._order(key, order)

    def over(self, survivor: Survivor, outcome: Outcome, at: float | None) -> None:
        key = (survivor.job, survivor.attempt)
        self._undecided.pop(key, None)
        self._report(_ended(key, outcome, at, self._claims.asked(*key)))

    def revoked(self, survivor: Survivor) -> None:
        self._revoked.add((survivor.job, survivor.attempt))
        self.over(survivor, NeverRan(), None)

    def lost(self, survivor: Survivor, wrapper: int | None, why: str) -> None:
        key = (survivor.job, survivor.attempt)
        self._undecided.pop(key, None)
        purpose = self._claims.asked(*key)
        marks = processes.Marks(self.token(*key), wrapper, logs=(survivor.out,), known={})
        live = LiveAttempt(key, marks, None, survivor.out, asked=purpose)
        self._live[key] = live
        self._settle(live, Vanished(why), True)

    # The ends

    def _watch(self, live: LiveAttempt) -> None:
        assert live.watch is not None
        self._live[live.key] = live
        self._stopped_wrappers.begin()
        live.watch.begin(self._loop, lambda: self._wrapper_ended(live))

    def _wrapper_ended(self, live: LiveAttempt) -> None:
        assert live.watch is not None
        status = WaitStatus.of(live.watch.finish())
        live.watch = None
        reached(Step.END_SEEN)
        if status is not None and status.code == 0:
            # Only a command that ran and ended with 0 makes its wrapper end so: nothing is left to read.
            self._settle(live, Exited(0), False)
        else:
            self._read_end(live, status, READ_TRIES)

    def _read_end(self, live: LiveAttempt, status: WaitStatus | None, tries: int) -> None:
        if self._live.get(live.key) is not live:
            return
        claim = self._claims.read_beside(*live.key, live.out)
        if isinstance(claim, Unreadable) and tries:
            self._loop.call_later(READ_INTERVAL, lambda: self._read_end(live, status, tries - 1))
            return
        if isinstance(claim, Revoked):
            self._revoked.add(live.key)
        tail = _tail(live.err or live.out) if isinstance(claim, Claimed) else b""
        outcome = outcome_of(claim, status, live.folder, tail)
        self._settle(live, outcome, command_may_live(outcome, status))

    def _settle(self, live: LiveAttempt, outcome: Outcome, command_may_live: bool) -> None:
        live.end = _ended(live.key, outcome, None, live.asked)
        if not self._stopper.ended(live, command_may_live):
            self._report_end(live)

    def _report_end(self, live: LiveAttempt) -> None:
        del self._live[live.key]
        assert live.end is not None
        self._report(replace(live.end, by_itself=not live.signalled and not _by_our_signal(live.end.outcome)))

    def _marks(self, key: Key, wrapper: int, out: str, err: str | None = None) -> processes.Marks:
        """Of a wrapper under watch."""
        return processes.Marks(self.token(*key), wrapper, True, (out, err) if err is not None else (out,), {})

    def _order(self, key: Key, order: TreeOrder) -> None:
        if key in self._live:
            self._stopper.order(self._live[key], order)
        elif key in self._undecided:
            self._undecided[key] = order


def _ended(key: Key, outcome: Outcome, at: float | None = None, asked: Purpose | None = None) -> AttemptEnded:
    at = time.time() if at is None else at
    return AttemptEnded(job=key[0], attempt=key[1], outcome=outcome, at=at, asked=asked)


def _by_our_signal(outcome: Outcome) -> bool:
    """Whether it can be: one that met the wrapper's child before its exec is not known to have reached the command."""
    return not isinstance(outcome, Exited) or outcome.code in (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def _logs(launch: Launch) -> tuple[str, str | None]:
    """Where its logs are made: in the very folder that was looked at, if that is held."""
    if launch.folder is None:
        return launch.out, launch.err
    folder = f"/proc/self/fd/{launch.folder}"
    err = os.path.join(folder, os.path.basename(launch.err)) if launch.err is not None else None
    return os.path.join(folder, os.path.basename(launch.out)), err


def _failed_start(error: spawn.SpawnError) -> Outcome:
    match error:
        case spawn.AlreadyStarted():
            return Vanished(str(error))
        case spawn.NoRoomNow():
            return NoRoom(str(error))
    return NotStarted(str(error))


def _tail(log: str) -> bytes:
    try:
        # A job may have put a FIFO in its log's place: opening it must not wait for a writer.
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, _LOG_TAIL, max(0, os.fstat(fd).st_size - _LOG_TAIL))
    except OSError:
        return b""
    finally:
        os.close(fd)
