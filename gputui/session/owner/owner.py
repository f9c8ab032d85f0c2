"""The owner of a session, which holds the session's lock and runs its scheduler, turn by turn."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from gputui.core import events
from gputui.core.attempts import HUNG_UP
from gputui.core.book import Book
from gputui.core.eta import NO_OUTLOOK, Outlook, SteadyEnd, estimate_outlook
from gputui.core.job import Ended, Job, JobId, Stopping, Usage
from gputui.core.scheduler import Savepoint, Scheduler, Undo
from gputui.core.slots import Slot
from gputui.core.snapshot import Snapshot
from gputui.core.steps import Step, reached
from gputui.engines.protocol import EngineFactory, Report, Since, Survivor
from gputui.gpus.picture import DevicesPicture
from gputui.process.watch import NoThread, start_thread
from gputui.session.code_snapshots import Checkouts
from gputui.session.devices.devices import Devices
from gputui.session.devices.recording import Recording
from gputui.session.devices.slot_changes import GpuFile
from gputui.session.engine_choice import ChosenEngine
from gputui.session.environment import digest
from gputui.session.errors import CommitFailed, SessionError
from gputui.session.event_loop import Loop, OwnerGone, Ticket, Timer, Work
from gputui.session.feeds import Feeds, IngestJobs
from gputui.session.job_directories import Directories, in_the_way
from gputui.session.loading import SourceRecord
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import Commands, Layout
from gputui.session.results import SessionResults
from gputui.session.saved_state import ExitStatus, leave_notices, remove_exit_status, save_exit_status
from gputui.session.session_dir import Journal, Paths, SessionDir
from gputui.session.store.backup import Backups
from gputui.session.store.commit import Saver
from gputui.session.store.opening import directories_of, open_session
from gputui.session.store.store import Identity
from gputui.views.status import first_waiting_reason, has_pending_work, queue_status

from .hang_watch import HangWatch
from .info_writer import InfoWriter
from .launch import Launcher

T = TypeVar("T")

START_REPORT_DELAY = 0.02
"""Seconds to wait for more reports of started jobs. Such a report does not need a turn of its own."""
DIRECTORY_CHECK_INTERVAL = 2.0
"""Seconds between checks that the session's directory is still at its path."""
RETRY_COMMIT = 0.5
ETA_EVERY = 1.0
LOOK_AHEAD_EVERY = 10.0
"""Seconds after which a turn computes the ETA again even without an event, because a job may have become late."""
CLOCK_STEP = 1.0
"""Seconds by which the clock must be set before the change counts. Smaller steps are ignored."""
NO_TRACEBACK = "it died without a traceback; too little memory (ulimit -v, a container's memory.max)?"
OUSTED = (
    "the session directory {root} was moved, removed or replaced; no new jobs start, running jobs "
    "continue. If it was moved, reopen it there: gputui --session DIR"
)


class Owner:
    """The owner of a session. It is opened in the caller's thread, where errors are raised, and then runs in its own
    thread until `close`.

    Only the owner's thread changes anything. Other threads may use the methods in the section "For other threads" and
    read `snapshot`. Requests run in a turn and get the owner as their `TurnContext`.
    """

    presence: Callable[[], dict[str, Any]] = dict
    """Function that returns further fields of this owner's status. An app reports its terminal."""
    _traceback: str | None = None
    _thread: threading.Thread | None = None
    _backups: Backups | None = None
    _gpu_file: GpuFile | None = None
    _closed = False
    _gone = False
    """Whether the owner has gone. It is set before the final callback, so that `alive` is already False there."""

    def __init__(
        self,
        paths: Paths,
        lock: Lock,
        kind: OwnerKind = OwnerKind.RUN,
        *,
        layout: Layout | None = None,
        made_directory: bool = False,
        places: bool = True,
        adopt: bool = False,
        on_change: Callable[[], None] = lambda: None,
        make_engine: EngineFactory = ChosenEngine,
    ) -> None:
        """Open the session. `places` is False for a client that reads or changes the queue without starting jobs."""
        self.paths, self.lock, self.kind, self.places = paths, lock, kind, places
        self.journal, self.now, self.since = Journal(paths.log), time.time(), time.time()
        self.on_change = on_change
        self.on_turn: list[Callable[[Snapshot], None]] = []
        """Callbacks for each new snapshot."""
        self.on_leaving: list[Callable[[], None]] = []
        """Callbacks in the owner's thread before anything is closed."""
        self.on_closed: Callable[[], None] = lambda: None
        """Callback after everything is closed, while the lock is still held."""
        self.inbox: deque[Ticket[Any]] = deque()
        """Requests that have not been carried out yet. Any thread may append to it."""
        self.ousted: str | None = None
        """Message for the user once the session's directory is no longer at its path, otherwise None."""
        self._answered: list[Ticket[Any]] = []
        """Requests that have been carried out but are not durable yet."""
        self._reports: list[Report] = []
        self._turn_due = False
        self._change_count = 0
        """Number of changes made by requests. It shows which requests changed nothing, so that their answers need not
        wait for the disk.
        """
        self._outbox: list[events.Instruction] = []
        self._ended: list[tuple[JobId, int]] = []
        self._wakeup: Timer | None = None
        self._retry: Timer | None = None
        self._outlook: tuple[float, Outlook] = (0.0, NO_OUTLOOK)
        self._steady_end = SteadyEnd()
        self._changed: set[JobId] = set()
        self._changed_lock = threading.Lock()
        with ExitStack() as undo:
            self.session_dir = SessionDir(paths)
            undo.callback(self.session_dir.close)
            self.opened = opened = open_session(paths, layout or Layout(), made_directory=made_directory, adopt=adopt)
            undo.callback(opened.store.close)
            self.session_dir.check_opened("lock", "session.db", "session.db-wal")
            self.session_dir.lock_shared()
            self.loop = Loop()
            undo.callback(self.loop.close)
            session = opened.identity.uuid
            self.store, self.scheduler = opened.store, opened.scheduler
            self.sources = {source.key: source for source in opened.store.sources()}
            self.directories = directories_of(paths, opened.identity)
            self.directories.use_descriptor(self.session_dir.root)
            self.saver = Saver(self.store, opened.identity, self.scheduler, self.journal, self.sources)
            self.engine = make_engine(self.loop, self.session_dir.private, session, self._report)
            undo.callback(self.engine.close)
            self.info_writer = InfoWriter(self.directories, self.session_dir.paths.claims, self.engine.forget)
            recording = Recording(self.saver.spans, self.session_dir.paths.history)
            is_app = kind is OwnerKind.APP
            self.devices = Devices(
                self.loop, session, self.engine.token, self._wake, recording, self.directories.directory, is_app=is_app
            )
            self.launcher = Launcher(
                paths, self.directories, self.store, self.engine, self._report, self.info_writer.note, self.devices
            )
            self.environment = self.launcher.environment
            self.checkouts = Checkouts(paths.root, lambda: self.scheduler.book, self.loop.call_soon_threadsafe)
            on_read = partial(self.loop.call_soon_threadsafe, self._wake)
            self.results = SessionResults(self.store, self.scheduler, self.directories, self.journal, on_read)
            undo.pop_all()
        self.snapshot: Snapshot = self.results.add_to(self.scheduler.snapshot())
        self.notices = opened.notices
        for notice in self.notices:
            self.journal.write(notice)
        if kind in (OwnerKind.DAEMON, OwnerKind.CLIENT):  # no user is there to read the notices
            leave_notices(self.session_dir.paths.private, [each for each in self.notices if each not in paths.notices])
        self.feeds = Feeds(self) if places else None
        if places:
            hang_watch = HangWatch(
                self.loop,
                self.directories,
                self.devices,
                lambda event: self.submit(Ticket(lambda act: act.handle(event))),
            )
            self.on_turn.append(hang_watch.update)
            self.on_leaving += [hang_watch.close, self.checkouts.close]

    # For other threads

    def start(self) -> None:
        """Start the owner's thread. If that fails, release everything but the lock and raise SessionError."""
        try:
            self._thread = start_thread(self._run, "gputui-owner")
        except NoThread as error:
            self._release_all()
            raise SessionError(str(error)) from error

    def run(self) -> None:
        """Run until the owner ends. If no thread can be started, the owner runs in the caller's thread."""
        try:
            self._thread = start_thread(self._run, "gputui-owner")
        except NoThread:
            self._thread = threading.current_thread()
            self._run()
            if not self._gone:
                raise MemoryError from None
        else:
            self.wait()

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def alive(self) -> bool:
        return not self._gone and self._thread is not None and self._thread.is_alive()

    @property
    def failure(self) -> str | None:
        """The traceback that ended the owner's thread, if any."""
        return NO_TRACEBACK if self._traceback is None and self._is_dead() and not self._gone else self._traceback

    def _is_dead(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def do(self, work: Work[T]) -> Ticket[T]:
        """Queue a request for the next turn and return its ticket."""
        ticket: Ticket[T] = Ticket(work, owner_gone=self._is_dead)
        self.inbox.append(ticket)
        if self._closed or self._is_dead():
            self._reject_waiting()
        else:
            self.loop.call_soon_threadsafe(self._wake)
        return ticket

    def query(self, question: Callable[[Owner], T], then: Callable[[T], None]) -> None:
        """Call `question` in the owner's thread and pass the result to `then` there. If an exception is raised, it is
        only logged.
        """

        def answer() -> None:
            try:
                then(question(self))
            except Exception:
                self.journal.write(traceback.format_exc())

        self.loop.call_soon_threadsafe(answer)

    def close(self) -> None:
        """Release the session: jobs keep running, the store is closed, and the caller keeps the lock."""
        if self._thread is None and not self._closed:
            self._release_all()
        self.leave()
        self.wait()

    def leave(self) -> None:
        """Ask the owner to release the session as `close` does, but do not wait. May be called in any thread, including
        the owner's.
        """
        if not self._closed:
            self.loop.call_soon_threadsafe(self.loop.stop)

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def take_changed(self) -> set[JobId]:
        """Return the jobs that changed since the last call. A snapshot read after the call contains all these
        changes.
        """
        with self._changed_lock:
            changed, self._changed = self._changed, set()
        return changed

    @property
    def picture(self) -> DevicesPicture:
        """The devices as they were last seen. They are kept up to date only while somebody watches."""
        return self.devices.picture

    def has_work(self) -> bool:
        """Return whether a job is running, will start without the user, or may still come from a source."""
        snapshot = self.snapshot
        feeds = any(source.may_yield(snapshot.mode, snapshot.cause) for source in self.sources.values())
        return feeds or has_pending_work(snapshot)

    # What requests may do

    def handle(self, event: events.Event | Undo) -> None:
        if self.saver.trouble is not None and _needs_store(event, self.scheduler.book):
            raise CommitFailed(self.saver.refusal)
        self._change_count += 1
        self._outbox += self.scheduler.handle(event, self.now)

    def keep_environment(self, environment: dict[str, str]) -> str:
        self._change_count += 1
        name = digest(environment)
        self.saver.environments[name] = environment
        self.launcher.environments[name] = environment
        return name

    def lay_out(self, layout: Layout) -> None:
        book, root = self.scheduler.book, self.paths.root
        identity = self.identity.laid_out(layout, (job.id for job in book if job.issued))
        if identity is self.identity:
            return
        taken_directory = in_the_way(root, layout, book)
        if taken_directory is not None:
            raise events.Refusal(f"{root} already contains {taken_directory}; choose another --prefix")
        self.saver.identity = identity
        self.directories.lay_out(layout, identity.former)

    @property
    def identity(self) -> Identity:
        return self.saver.identity

    # What waits for the next turn

    def submit(self, ticket: Ticket[Any]) -> None:
        """Queue a request. Only for the owner's thread."""
        self.inbox.append(ticket)
        self._wake()

    def _wake(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.loop.call_soon(self._take_turn)

    def _report(self, report: Report) -> None:
        self._reports.append(report)
        if not isinstance(report, events.Spawned | events.Submitted):
            self._wake()
        elif not self._turn_due and len(self._reports) == 1:
            self.loop.call_later(START_REPORT_DELAY, self._wake)

    # The turn

    def _take_turn(self) -> None:
        self._turn_due = False
        reached(Step.TURN_BEGUN)
        self.now, step = _read_clock(self.scheduler)
        if step is not None:
            self.handle(step)
        reports, self._reports = self._reports, []
        for report in reports:
            if isinstance(report, events.AttemptEnded):
                self._ended.append((report.job, report.attempt))
                usage = self.devices.usage(report.job, report.attempt)
                report = complete_end(report, self.scheduler.book[report.job], usage, self.directories)
            self.handle(report)
        if self.saver.trouble is not None:
            self._commit()  # so that requests of this turn succeed if the store can be written again
        before, sources = self.scheduler.savepoint(), dict(self.sources)
        while self.inbox:
            self._carry_out(self.inbox.popleft())
        due = self.scheduler.next_wakeup()
        if due is not None and due <= self.now:
            self.handle(events.Tick())
        if self.places and self._is_at_its_place() and self.saver.trouble is None:
            self._place()
        self.results.take_in(self.saver.results)
        if self._commit():
            self._act()
        else:
            self._roll_back(before, sources)
        self._publish()
        self._answer()  # after the snapshot, which clients read once they have the answer
        self._set_wakeup()

    def ingest_pending(self) -> None:
        """Commit what sources have delivered, and nothing else. Called while the owner is leaving."""
        fed_tickets = [ticket for ticket in list(self.inbox) if isinstance(ticket.work, IngestJobs)]
        if self._traceback is not None or not fed_tickets:
            return
        for ticket in fed_tickets:
            self.inbox.remove(ticket)
            ticket.carry_out(self)
            self._answered.append(ticket)
        if self._commit():
            self._answer()

    def _carry_out(self, ticket: Ticket[Any]) -> None:
        self._answered.append(ticket)  # first, so that it is rejected if memory is exhausted below
        count, sources = self._change_count, dict(self.sources)
        ticket.carry_out(self)
        ticket.changes = self._change_count != count or self.sources != sources

    def _is_at_its_place(self) -> bool:
        """Return whether the session's directory is still at its path. If not, the owner leaves after this turn."""
        if self.ousted is None and not self.session_dir.still_at_path():
            self.ousted = OUSTED.format(root=self.paths.root)
            self.journal.write(self.ousted)
            self.loop.call_soon(self.loop.stop)
        return self.ousted is None

    def _look_around(self) -> None:
        if self._is_at_its_place():
            self.loop.call_later(DIRECTORY_CHECK_INTERVAL, self._look_around)

    def _place(self) -> None:
        with self.devices.choosing(self.scheduler):
            starts = self.scheduler.place(self.now)
            for start in starts:
                if start.job.active is not None:
                    self.devices.lease(start.job.id, start.job.active.gpus)
        for start in starts:
            if start.job.issued > 1:
                self.info_writer.clear_markers_of(start.job)
        self._outbox += starts
        self._outbox += self.scheduler.preempt(self.now)
        reached(Step.MARKERS_REMOVED)

    def _commit(self) -> bool:
        """Make the turn durable and return True. On failure, schedule a retry and return False."""
        in_trouble = self.saver.trouble is not None
        durable = self.saver.save(self.scheduler, self.sources, self._answered, self.now)
        if not durable:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = self.loop.call_later(RETRY_COMMIT, self._wake)
        elif in_trouble:
            self._wake()  # jobs were not placed meanwhile
        return durable

    def _act(self) -> None:
        outbox, self._outbox = self._outbox, []
        self.launcher.carry_out(outbox, self.scheduler.board.slots, self.scheduler.settings)
        ended, self._ended = self._ended, []
        for job_id, attempt in ended:
            self.info_writer.note(self.scheduler.book[job_id], over=attempt)
        self.checkouts.check_ended(job_id for job_id, _ in ended)

    def _roll_back(self, before: Savepoint, sources: dict[str, SourceRecord]) -> None:
        """Undo the requests and starts of the turn because they could not be made durable. Orders that end an attempt
        are still carried out.
        """
        instructions, self._outbox = self._outbox, []
        withdrawn = [each.job for each in instructions if isinstance(each, events.Start)]
        for job in withdrawn:
            self.devices.release_lease(job.id)
            self.handle(events.AttemptEnded(job=job.id, attempt=job.issued, outcome=events.NeverRan(), at=self.now))
        changing = [ticket for ticket in self._answered if ticket.changes]
        book = self.scheduler.book
        if changing:
            self.scheduler.handle(before, self.now)
            self.sources = sources
        for ticket in changing:
            _answer_rolled_back(ticket, book, self.saver.refusal)
        for job_id in book.unsaved.keys() & book.active:
            state = book[job_id].state
            if isinstance(state, Stopping):  # the next owner reads the purpose from this file
                self.engine.write_down(job_id, state.placed.attempt, state.purpose)
        orders: list[events.Instruction] = [
            each for each in instructions if isinstance(each, events.Terminate | events.KillTree)
        ]
        self.launcher.carry_out(orders, self.scheduler.board.slots, self.scheduler.settings)
        # If a rerun was withdrawn, its job's marker was already removed, so it is written again.
        self._ended += [
            (job.id, job.attempts[-1].number)
            for job in withdrawn
            if job.attempts and isinstance(book[job.id].state, Ended)
        ]

    def _publish(self) -> None:
        if abs(self.now - self._outlook[0]) > ETA_EVERY:
            book = self.results.book
            seen = estimate_outlook(self.scheduler, self.now, book.results, book.paces.usual())
            outlook = self._steady_end.update(seen, self.now, len(self.scheduler.board.slots))
            self._outlook = (self.now, outlook)
        snapshot = self.results.update(self.scheduler.snapshot())
        self.snapshot = snapshot = replace(
            snapshot,
            outlook=self._outlook[1],
            trouble=self.saver.trouble or self.scheduler.unavailable or None,
            awaits=self._awaits() if not snapshot.active else "",
        ).with_latest_eta(self.now)
        self.devices.update_picture(self.scheduler, snapshot, self.now)
        with self._changed_lock:
            self._changed |= snapshot.changed
        for callback in self.on_turn:
            callback(snapshot)
        self.on_change()

    def _awaits(self) -> str:
        """Return what an idle session is waiting for, or an empty string."""
        mode, cause = self.scheduler.mode, self.scheduler.cause
        going = (source.path for source in self.sources.values() if self.places and source.may_yield(mode, cause))
        return first_waiting_reason(self.scheduler, self.now) or next((f"jobs from {path}" for path in going), "")

    def _answer(self) -> None:
        answered, self._answered = self._answered, []
        for ticket in answered:
            ticket.settle()

    def _set_wakeup(self) -> None:
        due = self.scheduler.next_wakeup()
        if self.scheduler.book.active:
            due = min(due, self.now + LOOK_AHEAD_EVERY) if due is not None else self.now + LOOK_AHEAD_EVERY
        if self._wakeup is not None:
            self._wakeup.cancel()
        if due is not None:
            # Relative to the time of this turn, so that the next turn comes, and notices it, if the clock was set.
            self._wakeup = self.loop.call_later(max(0.0, due - self.now), self._wake)

    # The thread

    def _run(self) -> None:
        try:
            try:
                self._work()
            except BaseException:
                self._traceback = NO_TRACEBACK
                self._fail()
            finally:
                self._release_all()
        except BaseException:  # no memory even for this call; waiting threads check whether this thread is alive
            return

    def _work(self) -> None:
        self._recover()
        self._wake()
        if self.places:
            self._backups = Backups(self.loop, self.store, self.session_dir.paths, self.journal)
            self.devices.recording.keep_written(self.loop, time.time())
            self._look_around()
            self.results.read_unread()
            self.checkouts.check_all()
            self._gpu_file = GpuFile(self.loop, lambda: self.scheduler.settings.gpu_file, self._set_slots, self.journal)
        self.loop.run()

    def _recover(self) -> None:
        """Find out what became of the attempts that an earlier owner started."""
        reached(Step.RECOVERY_BEGUN)
        remove_exit_status(self.session_dir.paths.private)
        book, since = self.scheduler.book, self.opened.since
        self.engine.recover([_survivor(book[job_id], self.directories, since) for job_id in sorted(book.active)])
        self.engine.gc(all_dead=since is not Since.NOTHING)
        for job_id, attempt in self.engine.claimed():
            # The claim of an attempt that has ended: the earlier owner died before it wrote the marker.
            if job_id in book and any(past.number == attempt for past in book[job_id].attempts):
                self.info_writer.note(book[job_id], over=attempt)
        reached(Step.RECOVERED)

    def _set_slots(self, slots: tuple[Slot, ...]) -> None:
        def check(ticket: Ticket[Any]) -> None:
            if self.saver.trouble is not None and self._gpu_file is not None:
                self._gpu_file.read_again()

        ticket = Ticket(Commands((events.SetSlots(slots),)))
        ticket.when_done(check)
        self.submit(ticket)

    # The end of the owner

    def _fail(self) -> None:
        """Record the exception that is being handled. Never raises, even if memory is exhausted."""
        with suppress(BaseException):
            trace = traceback.format_exc()
            if self._traceback in (None, NO_TRACEBACK):
                self._traceback = trace
            self.journal.write(trace)

    def _release_all(self) -> None:
        """Release everything. Every step is taken even if others fail, because another process or thread may be waiting
        for an answer, for the lock, or for this thread to end.
        """
        backups = (self._backups.close,) if self._backups is not None else ()
        closers = (
            *(*self.on_leaving, self._shut, *backups, self.engine.close, self.devices.close, self._keep_results),
            *(self.info_writer.close, self.loop.close, self.store.close, self._save_exit_status, self._reject_waiting),
        )
        self._run_all((*closers, self.on_closed, self._close_session_dir, self._set_gone, self.on_change))

    def _run_all(self, steps: Iterable[Callable[[], object]]) -> None:
        for step in steps:
            try:
                step()
            except BaseException:  # MemoryError too: the steps that follow must be taken
                self._fail()

    def _shut(self) -> None:
        self._closed = True

    def _set_gone(self) -> None:
        self._gone = True

    def _keep_results(self) -> None:
        """Read the logs of ended attempts to the end and store their results."""
        self.results.close(self.saver.results)
        self.saver.keep_results()

    def _save_exit_status(self) -> None:
        self.snapshot = snapshot = self.results.add_to(self.snapshot)
        status = ExitStatus(queue_status(snapshot).word, dict(snapshot.counts), self.scheduler.board.engine)
        save_exit_status(self.session_dir.paths.private, status)

    def _close_session_dir(self) -> None:
        if self.info_writer.ended:
            self.session_dir.close()

    def _reject_waiting(self) -> None:
        """Answer all waiting requests with OwnerGone, each exactly once. May be called in any thread."""
        tickets, self._answered = self._answered, []
        with suppress(IndexError):
            while True:
                tickets.append(self.inbox.popleft())
        owner_gone = OwnerGone("the scheduler has exited")
        self._run_all(partial(ticket.settle, owner_gone) for ticket in tickets)


def complete_end(
    end: events.AttemptEnded, job: Job, usage: Usage | None, directories: Directories
) -> events.AttemptEnded:
    """Return the end with the usage added. For a failure, also add the error found in the log."""
    end = replace(end, usage=usage)
    if not isinstance(end.outcome, events.Exited) or end.outcome.code == 0 or end.signature is not None:
        return end
    if job.spec.terminal is not None:  # the output of a terminal is not a log
        return replace(end, signature=HUNG_UP) if end.outcome.code == 128 + signal.SIGHUP else end
    # Imported here because the import takes 30 ms and is not needed to start jobs.
    from gputui.logs.crashes.signature import job_crash

    files = directories.files(job, end.attempt)
    err = directories.stable_path(files.err) if files.err is not None else None
    crash = job_crash(directories.stable_path(files.out), err, end.outcome.code)
    return replace(end, signature=crash.signature, message=crash.message, kind=crash.kind)


def _survivor(job: Job, directories: Directories, since: Since) -> Survivor:
    placed, stopping = job.active, isinstance(job.state, Stopping)
    assert placed is not None
    out = directories.stable_path(directories.files(job, placed.attempt).out)
    return Survivor(
        job=job.id, attempt=placed.attempt, since=since, out=out, engine=placed.engine, stopping=stopping
    )  # fmt: skip


# While the store cannot be written


def _needs_store(event: events.Event | Undo, book: Book) -> bool:
    """Return whether the event can only be handled if it is stored. Pauses and orders to end an attempt are written to
    files of their own, so they do not need the store.
    """
    if isinstance(event, events.Kill | events.Requeue):
        return event.job not in book or book[event.job].active is None
    return isinstance(event, events.UserCommand | Undo) and not isinstance(event, events.Pause | events.Drain)


def _answer_rolled_back(ticket: Ticket[Any], book: Book, sentence: str) -> None:
    """Refuse the request because the turn was rolled back. If it consists of several commands, those that pause the
    session or end an attempt remain in force.
    """
    if not isinstance(ticket.work, Commands) or ticket.failed:
        ticket.fail(CommitFailed(sentence))
        return
    outcomes = []
    for event, outcome in zip(ticket.work.events, ticket.outcome(), strict=True):
        if isinstance(event, events.Kill | events.Requeue):
            remains = event.job in book and isinstance(book[event.job].state, Stopping)
        else:
            remains = isinstance(event, events.Pause | events.Drain)
        outcomes.append(outcome if remains or outcome.refused is not None else replace(outcome, refused=sentence))
    ticket.answer(outcomes)


# The clock


def _read_clock(scheduler: Scheduler) -> tuple[float, events.ClockStepped | None]:
    """Return the current time, and an event that says how far the clock was set since the last call. The event is None
    if the clock was not set.
    """
    while True:
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        # If the thread was suspended between the two readings, they would show a step that did not happen.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot < 0.1:
            break
    lead = now - since_boot
    if scheduler.clock is None:
        scheduler.clock = lead
    step = lead - scheduler.clock
    return now, events.ClockStepped(step) if abs(step) > CLOCK_STEP else None
