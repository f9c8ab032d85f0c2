"""The owner's turn: handle what happened, place jobs, commit, act, publish."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from gputui.core.book import Book
from gputui.core.eta import NO_OUTLOOK, Outlook, SteadyEnd
from gputui.core.events import (
    AttemptEnded,
    ClockStepped,
    Drain,
    Event,
    Exited,
    Instruction,
    Kill,
    KillTree,
    NeverRan,
    Pause,
    Refusal,
    Requeue,
    Spawned,
    Start,
    Submitted,
    Terminate,
    Tick,
    UserCommand,
)
from gputui.core.job import Ended, Job, JobId, Stopping, Usage
from gputui.core.rollback import TakenBack, to_now
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.core.steps import Step, reached
from gputui.engines.protocol import Engine, EngineFactory, Report
from gputui.session.devices.devices import Devices
from gputui.session.devices.recording import Recording
from gputui.session.environment import digest
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import Loop, OwnerGone, Ticket, Timer
from gputui.session.feeds import Fed
from gputui.session.job_folders import Folders
from gputui.session.layouts import Layout, in_the_way
from gputui.session.loading import SourceRecord
from gputui.session.messages import Commands
from gputui.session.results import SessionResults
from gputui.session.session_dir import Ground, Journal, Paths
from gputui.session.store.commit import Saver
from gputui.session.store.opening import Opened
from gputui.views.status import awaited

from .info_writer import InfoWriter
from .launch import Launcher

# ---- What everybody else sees of the session ----


ETA_EVERY = 1.0
LOOK_AHEAD_EVERY = 10.0
"""Seconds after which it is estimated again though nothing happened: a job may have become late."""


class Publication:
    """Made anew by each turn; any thread may read the snapshot."""

    def __init__(self, scheduler: Scheduler, results: SessionResults, on_change: Callable[[], None]) -> None:
        self._results = results
        self.snapshot: Snapshot = results.over(scheduler.snapshot())
        self.on_turn: list[Callable[[Snapshot], None]] = []
        """Called in the owner's thread with each new snapshot."""
        self.on_change = on_change
        self._outlook: tuple[float, Outlook] = (0.0, NO_OUTLOOK)
        self._steady_end = SteadyEnd()
        self._changed: set[JobId] = set()
        self._changed_lock = threading.Lock()

    def renew(self, scheduler: Scheduler, now: float, trouble: str | None, awaits: Callable[[], str]) -> Snapshot:
        """`awaits` is asked what an idle session waits for."""
        if abs(now - self._outlook[0]) > ETA_EVERY:
            self._outlook = (now, self._look_ahead(scheduler, now))
        snapshot = self._results.show(scheduler.snapshot())
        awaited = awaits() if not snapshot.active else ""
        self.snapshot = replace(snapshot, outlook=self._outlook[1], trouble=trouble, awaits=awaited)
        return self.snapshot

    def _look_ahead(self, scheduler: Scheduler, now: float) -> Outlook:
        book = self._results.book
        seen = scheduler.outlook(now, book.results, book.paces.usual())
        return self._steady_end.take(seen, now, len(scheduler.board.lanes))

    def settle(self) -> None:
        """The last picture: with what was read when the owner left."""
        self.snapshot = self._results.over(self.snapshot)

    def tell(self) -> None:
        with self._changed_lock:
            self._changed |= self.snapshot.changed
        for look in self.on_turn:
            look(self.snapshot)
        self.on_change()

    def take_changed(self) -> set[JobId]:
        """The jobs that changed since it was asked last; a snapshot read afterwards has all of it."""
        with self._changed_lock:
            changed, self._changed = self._changed, set()
        return changed


# ---- An end as the scheduler is told it ----


def told_in_full(end: AttemptEnded, job: Job, usage: Usage | None, folders: Folders) -> AttemptEnded:
    end = replace(end, usage=usage)
    if not isinstance(end.outcome, Exited) or end.outcome.code == 0 or end.signature is not None:
        return end
    # All that it knows by heart takes 30 ms to learn: the first crash pays for it, no start does.
    from gputui.logs.crashes.signature import job_crash

    files = folders.files(job, end.attempt)
    err = folders.reached(files.err) if files.err is not None else None
    crash = job_crash(folders.reached(files.out), err, end.outcome.code)
    return replace(end, signature=crash.signature, message=crash.message, kind=crash.kind)


# ---- What an owner still does while its queue cannot be written ----


def needs_room(event: Event, book: Book) -> bool:
    """What ends an attempt is written down beside it, and that nothing starts is so already."""
    if isinstance(event, Kill | Requeue):
        return event.job not in book or book[event.job].active is None
    return isinstance(event, UserCommand) and not isinstance(event, Pause | Drain)


def take_back(ticket: Ticket[Any], book: Book, sentence: str) -> None:
    """Answers a request whose changes were taken back; of several commands those stand that end something."""
    if isinstance(ticket.work, Commands) and not ticket.failed:
        outcomes = zip(ticket.work.events, ticket.outcome(), strict=True)
        ticket.answer([each if _stands(event, book) else _refused(each, sentence) for event, each in outcomes])
    else:
        ticket.fail(CommitFailed(sentence))


def _stands(event: UserCommand, book: Book) -> bool:
    if isinstance(event, Kill | Requeue):
        return event.job in book and isinstance(book[event.job].state, Stopping)
    return isinstance(event, Pause | Drain)


def _refused(outcome: Any, sentence: str) -> Any:
    return outcome if outcome.refused is not None else replace(outcome, refused=sentence)


def write_down(book: Book, engine: Engine) -> None:
    """Beside each attempt that is being ended: what it is ended for, for the next owner."""
    for job_id in book.unsaved & book.active:
        state = book[job_id].state
        if isinstance(state, Stopping):
            engine.write_down(job_id, state.placed.attempt, state.purpose)


def orders_of(instructions: list[Instruction]) -> list[Instruction]:
    """Those that end an attempt; what else was instructed was taken back."""
    return [each for each in instructions if isinstance(each, Terminate | KillTree)]


# ---- What time it is, and whether somebody set the clock since it was last looked at ----


STEP = 1.0
"""Seconds; less is no matter."""
_APART = 0.1


def time_and_step(scheduler: Scheduler) -> tuple[float, ClockStepped | None]:
    """What time it is, and how far the clock was moved, if it was; the first look only remembers how it stands."""
    now, lead = _read_together()
    if scheduler.clock is None:
        scheduler.clock = lead
    by = lead - scheduler.clock
    return now, ClockStepped(by) if abs(by) > STEP else None


def _read_together() -> tuple[float, float]:
    """The wall clock, and its lead over the one that nobody can set and that goes on while the machine sleeps."""
    while True:
        unset = time.clock_gettime(time.CLOCK_BOOTTIME)
        now = time.time()
        # Whoever stood still between two looks would see a step where there is none.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - unset < _APART:
            return now, now - unset


# ---- The last steps of whoever holds something ----


def take_all(steps: Iterable[Callable[[], object]], failed: Callable[[], None]) -> None:
    """`failed` is called in the handler of each exception, and must not raise."""
    for step in steps:
        try:
            step()
        except BaseException:  # also of memory that is gone: others wait for the steps that follow
            failed()


# ---- What waits for the owner's next turn ----


SPAWN_NEWS = 0.02
"""Seconds that the news of a started job may wait for company: it needs no commit of its own."""


class News:
    """Wakes the turn once, however much comes before it."""

    def __init__(self, loop: Loop, turn: Callable[[], None]) -> None:
        self._loop = loop
        self._turn = turn
        self._turn_due = False
        self._reports: list[Report] = []
        self.inbox: deque[Ticket[Any]] = deque()
        """Not carried out yet; any thread may append."""
        self.answered: list[Ticket[Any]] = []
        """Carried out, but not durable yet."""

    def kick(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def report(self, report: Report) -> None:
        self._reports.append(report)
        if not isinstance(report, Spawned | Submitted):
            self.kick()
        elif not self._turn_due and len(self._reports) == 1:
            self._loop.call_later(SPAWN_NEWS, self.kick)

    def ask(self, ticket: Ticket[Any]) -> None:
        """In the owner's thread."""
        self.inbox.append(ticket)
        self.kick()

    def turn_begins(self) -> None:
        self._turn_due = False

    def take_reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def answer(self) -> None:
        answered, self.answered = self.answered, []
        for ticket in answered:
            ticket.settle()

    def turn_away(self, failed: Callable[[], None]) -> None:
        """From any thread; each ticket once. `failed` is called for whoever cannot bear the answer."""
        tickets, self.answered = self.answered, []
        with suppress(IndexError):
            while True:
                tickets.append(self.inbox.popleft())
        owner_gone = OwnerGone("the owner has left the session")
        take_all([partial(ticket.settle, owner_gone) for ticket in tickets], failed)


# ---- What an owner is made of ----


class Parts:
    """Opened in the caller's thread, which gets the errors; what was opened before an error is closed again."""

    def __init__(
        self,
        paths: Paths,
        opening: Callable[[], Opened],
        make_engine: EngineFactory,
        turn: Callable[[], None],
        *,
        looked_at: bool,
    ) -> None:
        self.paths = paths
        self.journal = Journal(paths.log)
        with ExitStack() as undo:
            self.ground = Ground(paths)
            undo.callback(self.ground.close)
            self.opened = opening()
            undo.callback(self.opened.store.close)
            self.ground.vouch_for("lock", "session.db", "session.db-wal")
            self.ground.live_here()
            self.loop = Loop()
            undo.callback(self.loop.close)
            self.news = News(self.loop, turn)
            self._keep(self.opened)
            session = self.opened.identity.uuid
            self.engine = make_engine(self.loop, self.ground.private, session, self.news.report)
            undo.callback(self.engine.close)
            self._work_on(session, looked_at=looked_at)
            undo.pop_all()

    def _keep(self, opened: Opened) -> None:
        """What is on the disk, and in memory of it."""
        named = opened.identity
        self.store, self.scheduler = opened.store, opened.scheduler
        self.sources = {source.key: source for source in opened.store.sources()}
        self.folders = Folders(
            self.paths.root, named.prefix, named.job_dir, made=named.made_folder, former=named.former
        )
        self.folders.hold(self.ground.root)
        self.saver = Saver(self.store, named, self.journal, self.sources)

    def _work_on(self, session: str, *, looked_at: bool) -> None:
        """What does something to jobs and devices."""
        news = self.news
        self.info_writer = InfoWriter(self.folders, self.ground.paths.claims, self.engine.forget)
        recording = Recording(self.saver.spans, self.ground.paths.history)
        self.devices = Devices(
            self.loop, session, self.engine.token, news.kick, recording, self.folders.folder, looked_at=looked_at
        )
        self.launcher = Launcher(
            self.paths, self.folders, self.store, self.engine, news.report, self.info_writer.note, self.devices
        )

        self.results = SessionResults(self.store, self.scheduler, self.folders, self.journal, self._results_read)

    def _results_read(self) -> None:
        self.loop.call_soon_threadsafe(self.news.kick)

    def _keep_results(self) -> None:
        """What has ended is read to its end and stored before the store is closed."""
        self.results.close(self.saver.results)
        self.saver.keep_results()

    def closers(self) -> tuple[Callable[[], None], ...]:
        """Each is to be called, whatever became of the ones before; the ground is left last of all."""
        return (
            self.engine.close,
            self.devices.close,
            self._keep_results,
            self.info_writer.close,
            self.loop.close,
            self.store.close,
        )

    def leave_ground(self) -> None:
        if self.info_writer.ended:
            self.ground.close()


# ---- Whether the session's folder is still at its place ----


LOOK_AROUND = 2.0
"""Seconds between looks when there is nothing to start."""
OUSTED = (
    "the session's folder {root} was moved, removed or replaced, so nothing more is started from here; jobs that run "
    "go on. If it was moved, go on there: gputui --session DIR"
)


class FolderCheck:
    def __init__(self, root: str, ground: Ground, journal: Journal, loop: Loop) -> None:
        self.ousted: str | None = None
        """The sentence for the user when the folder is not at its place any more."""
        self._root = root
        self._ground = ground
        self._journal = journal
        self._loop = loop

    def stands(self) -> bool:
        """False: the folder is gone from its place; after this turn so is the owner."""
        if self.ousted is None and not self._ground.is_there():
            self.ousted = OUSTED.format(root=self._root)
            self._journal.write(self.ousted)
            self._loop.call_soon(self._loop.stop)
        return self.ousted is None

    def look_around(self) -> None:
        """Now, and again and again."""
        if self.stands():
            self._loop.call_later(LOOK_AROUND, self.look_around)


# ---- The owner's turn ----


RETRY_COMMIT = 0.5


class Turn:
    """Works in the owner's thread; is what requests act on."""

    def __init__(
        self, parts: Parts, publication: Publication, folder: FolderCheck, now: float, *, places: bool
    ) -> None:
        self.scheduler, self.sources, self.now = parts.scheduler, parts.sources, now
        self._news, self._saver, self._loop = parts.news, parts.saver, parts.loop
        self._engine, self._launcher, self._info_writer = parts.engine, parts.launcher, parts.info_writer
        self._devices, self._folders, self._root = parts.devices, parts.folders, parts.paths.root
        self._publication, self._folder, self._places = publication, folder, places
        self._results = parts.results
        self._asked_for = 0
        """How many changes; whoever asked for none need not wait for the disk."""
        self._outbox: list[Instruction] = []
        self._ended: list[tuple[JobId, int]] = []
        self._wakeup: Timer | None = None
        self._retry: Timer | None = None

    # What requests may do

    def handle(self, event: Event) -> None:
        if self._saver.trouble is not None and needs_room(event, self.scheduler.book):
            raise CommitFailed(self._saver.refusal)
        self._asked_for += 1
        self._outbox += self.scheduler.handle(event, self.now)

    def keep_environment(self, environment: dict[str, str]) -> str:
        self._asked_for += 1
        name = digest(environment)
        self._saver.environments[name] = environment
        self._launcher.environments[name] = environment
        return name

    def lay_out(self, layout: Layout) -> None:
        book = self.scheduler.book
        identity = self._saver.identity.laid_out(layout, (job.id for job in book if job.issued))
        if identity is self._saver.identity:
            return
        taken_folder = in_the_way(self._root, layout, book)
        if taken_folder is not None:
            raise Refusal(f"{self._root} holds {taken_folder} already; choose another --prefix")
        self._saver.identity = identity
        self._folders.lay_out(layout, identity.former)

    # The turn

    def take(self) -> None:
        self._news.turn_begins()
        reached(Step.TURN_BEGUN)
        self.now, step = time_and_step(self.scheduler)
        if step is not None:
            self.handle(step)
        for report in self._news.take_reports():
            self.handle(self._in_full(report))
        if self._saver.trouble is not None:
            self._commit()  # whoever asks for something just when there is room again gets it
        before, sources = to_now(self.scheduler), dict(self.sources)
        while self._news.inbox:
            self._carry_out(self._news.inbox.popleft())
        due = self.scheduler.next_wakeup()
        if due is not None and due <= self.now:
            self.handle(Tick())
        if self._places and self._folder.stands() and self._saver.trouble is None:
            self._place()
        self._results.take_in(self._saver.results)
        if self._commit():
            self._release()
        else:
            self._go_without(before, sources)
        self._publish()
        self._news.answer()  # after the snapshot, which whoever asked will look at
        self._set_wakeup()

    def take_in(self) -> None:
        """Makes durable what sources gave, and does nothing else: for an owner on its way out."""
        fed_tickets = [ticket for ticket in list(self._news.inbox) if isinstance(ticket.work, Fed)]
        if not fed_tickets:
            return
        for ticket in fed_tickets:
            self._news.inbox.remove(ticket)
            ticket.carry_out(self)
            self._news.answered.append(ticket)
        if self._commit():
            self._news.answer()

    def _in_full(self, report: Report) -> Report:
        if not isinstance(report, AttemptEnded):
            return report
        self._ended.append((report.job, report.attempt))
        usage = self._devices.usage(report.job, report.attempt)
        return told_in_full(report, self.scheduler.book[report.job], usage, self._folders)

    def _carry_out(self, ticket: Ticket[Any]) -> None:
        asked_for, sources = self._asked_for, dict(self.sources)
        ticket.carry_out(self)
        ticket.changes = self._asked_for != asked_for or self.sources != sources
        self._news.answered.append(ticket)

    def _place(self) -> None:
        with self._devices.choosing(self.scheduler):
            starts = self.scheduler.place(self.now)
            for start in starts:
                if start.job.active is not None:
                    self._devices.lease(start.job.id, start.job.active.gpus)
        for start in starts:
            if start.job.issued > 1:
                self._info_writer.begin_anew(start.job)
        self._outbox += starts
        self._outbox += self.scheduler.preempt(self.now)
        reached(Step.MARKERS_REMOVED)

    def _commit(self) -> bool:
        """False: nothing was made durable; tried again soon."""
        in_trouble = self._saver.trouble is not None
        durable = self._saver.save(self.scheduler, self.sources, self._news.answered, self.now)
        if not durable:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = self._loop.call_later(RETRY_COMMIT, self._news.kick)
        elif in_trouble:
            self._news.kick()  # there was no placing meanwhile
        return durable

    def _release(self) -> None:
        outbox, self._outbox = self._outbox, []
        self._launcher.carry_out(outbox, self.scheduler.board.lanes, self.scheduler.settings)
        ended, self._ended = self._ended, []
        for job_id, attempt in ended:
            self._info_writer.note(self.scheduler.book[job_id], over=attempt)

    def _publish(self) -> None:
        snapshot = self._publication.renew(self.scheduler, self.now, self._trouble, self._awaited)
        self._devices.look(self.scheduler, snapshot, self.now)
        self._publication.tell()

    @property
    def _trouble(self) -> str | None:
        return self._saver.trouble or self.scheduler.unavailable or None

    def _awaited(self) -> str:
        return awaited(self.scheduler, self.now) or self._awaited_source()

    def _awaited_source(self) -> str:
        mode, cause = self.scheduler.mode, self.scheduler.cause
        going = (source.path for source in self.sources.values() if self._places and source.goes_on(mode, cause))
        path = next(going, None)
        return f"what {path} gives" if path is not None else ""

    def _set_wakeup(self) -> None:
        due = self.scheduler.next_wakeup()
        if self.scheduler.book.active:
            due = min(due, self.now + LOOK_AHEAD_EVERY) if due is not None else self.now + LOOK_AHEAD_EVERY
        if self._wakeup is not None:
            self._wakeup.cancel()
        if due is not None:
            # By the turn's own time: a clock that was set meanwhile is seen by the next turn, which must come.
            self._wakeup = self._loop.call_later(max(0.0, due - self.now), self._news.kick)

    # A turn whose change could not be made durable

    def _go_without(self, before: TakenBack, sources: dict[str, SourceRecord]) -> None:
        """Nothing is durable, so nothing begins: what was asked for is taken back, but what ends something is done."""
        instructions, self._outbox = self._outbox, []
        withdrawn = [each.job for each in instructions if isinstance(each, Start)]
        for job in withdrawn:
            self._devices.hand_on(job.id)
            self.handle(AttemptEnded(job=job.id, attempt=job.issued, outcome=NeverRan(), at=self.now))
        changing = [ticket for ticket in self._news.answered if ticket.changes]
        if changing:
            self.scheduler.handle(before, self.now)
            self.sources = sources
        for ticket in changing:
            take_back(ticket, self.scheduler.book, self._saver.refusal)
        write_down(self.scheduler.book, self._engine)
        self._launcher.carry_out(orders_of(instructions), self.scheduler.board.lanes, self.scheduler.settings)
        self._ended += [(job.id, job.attempts[-1].number) for job in withdrawn if self._has_ended(job)]

    def _has_ended(self, job: Job) -> bool:
        """It was rerun, and is not: its marker, which was removed, is written again."""
        return bool(job.attempts) and isinstance(self.scheduler.book[job.id].state, Ended)
