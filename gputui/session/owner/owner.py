"""The owner: the one process that holds a session's lock and runs its scheduler, in a thread of its own.

It works in turns. A turn hands the scheduler all that happened, lets it place jobs once, makes the change durable,
and only then does what the scheduler instructed. What could not be made durable is kept and offered again.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from gputui.core.events import AttemptEnded, Event, Exited, NeverRan, Refusal, SetLanes, Spawned, Tick
from gputui.core.instructions import Instruction, Start
from gputui.core.job import Ended, Job, JobId
from gputui.core.lanes import Lane
from gputui.core.scheduler import Moment
from gputui.core.snapshot import Snapshot
from gputui.core.steps import Step, reached
from gputui.core.taking_back import TakenBack, to_now
from gputui.core.views.outlook import goes_on
from gputui.core.views.standing import awaited
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Report, Since
from gputui.gpus.picture import DevicesPicture
from gputui.logs.signatures import job_crash
from gputui.process.threads import NoThread, begin
from gputui.session.devices.devices import Devices
from gputui.session.devices.gpu_file import GpuFile
from gputui.session.environment import digest
from gputui.session.errors import SessionError
from gputui.session.files.folders import Folders
from gputui.session.files.ground import Ground
from gputui.session.files.layouts import Layout, in_the_way
from gputui.session.files.paths import Paths
from gputui.session.ownership.lock import Lock, OwnerKind
from gputui.session.store.backup import Backups
from gputui.session.store.commit import Saver
from gputui.session.store.opening import Opened, open_session
from gputui.session.store.source_record import SourceRecord

from .clock import time_and_step
from .closing import take_all
from .feed_request import Fed
from .feeds import Feeds
from .info_writer import Scribe
from .journal import Journal
from .launch import Launcher
from .loop import Loop, Timer
from .requests import Commands
from .survivors import survivors, unnoted_ends
from .ticket import NotDurable, OwnerGone, Ticket, Work
from .without_room import needs_room, orders_of, take_back, write_down

T = TypeVar("T")

RETRY_COMMIT = 0.5
SPAWN_NEWS = 0.02
"""Seconds that the news of a started job may wait for company: it needs no commit of its own."""
ETA_EVERY = 1.0
LOOK_AROUND = 2.0
"""Seconds between looks whether the folder is still at its place, when there is nothing to start."""
OUSTED = (
    "the session's folder {root} was moved, removed or replaced, so nothing more is started from here; jobs that run "
    "go on. If it was moved, go on there: gputui --session DIR"
)


class Owner:
    """Opened in the caller's thread, which gets the errors; then runs in its own until `close`."""

    def __init__(
        self,
        paths: Paths,
        lock: Lock,
        kind: OwnerKind = OwnerKind.RUN,
        *,
        layout: Layout | None = None,
        made_folder: bool = False,
        places: bool = True,
        adopt: bool = False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.paths, self.lock, self.kind = paths, lock, kind
        self.places = places
        """False: a client that looks or changes the queue, but starts nothing."""
        self.since = time.time()
        self.journal = Journal(paths.log)
        self.ground = Ground(paths)
        try:
            opened = open_session(paths, layout or Layout(), made_folder=made_folder, adopt=adopt)
            self._vouch_for(opened)
        except BaseException:
            self.ground.close()
            raise
        self.notices = opened.notices
        self.scheduler = opened.scheduler
        self.sources = {source.key: source for source in opened.store.sources()}
        named = opened.identity
        self.ground.live_here()
        self.folders = Folders(paths.root, named.prefix, named.job_dir, made=named.made_folder, former=named.former)
        self.folders.hold(self.ground.root)
        self.now = self.since
        self.failure: str | None = None
        """What ended the owner's thread, if anything did."""
        self.ousted: str | None = None
        """The sentence for the user when the session's folder is not at its place any more."""
        self.identity = opened.identity
        self._opened = opened
        self._store = opened.store
        self._saver = Saver(self._store, self.identity, self.journal, self.sources)
        self.loop = Loop()
        self.engine = LocalEngine(self.loop, self.ground.private, opened.identity.uuid, self._on_report)
        self._backups: Backups | None = None
        self._scribe = Scribe(self.folders, self.ground.paths.claims, self.engine.forget)
        looked_at = kind is OwnerKind.APP
        self.devices = Devices(self.loop, opened.identity.uuid, self.engine.token, self._kick, looked_at=looked_at)
        self._launcher = Launcher(
            paths, self.folders, self._store, self.engine, self._on_report, self._scribe.note, self.devices
        )
        self._on_change = on_change
        self.on_turn: list[Callable[[Snapshot], None]] = []
        """Called in the owner's thread with each new snapshot."""
        self.on_leaving: list[Callable[[], None]] = []
        """Called in the owner's thread before anything is closed."""
        self.presence: Callable[[], dict[str, Any]] = dict
        """What else others may know of this owner: an app tells of its terminal."""
        self.last_act: Callable[[], None] = lambda: None
        """Called when everything is closed but the lock is still held."""
        self._reports: list[Report] = []
        self._inbox: deque[Ticket[Any]] = deque()
        self._answered: list[Ticket[Any]] = []
        """Carried out, but not durable yet."""
        self._asked_for = 0
        """How many changes; whoever asked for none need not wait for the disk."""
        self._outbox: list[Instruction] = []
        self._ended: list[tuple[JobId, int]] = []
        self._turn_due = False
        self._wakeup: Timer | None = None
        self._retry: Timer | None = None
        self._gpu_file: GpuFile | None = None
        self._eta: tuple[float, float | None] = (0.0, None)
        self._closed = False
        self._gone = False
        """Said before the last news: whoever hears it while the thread still ends must not take it for any other."""
        self.feeds = Feeds(self) if places else None
        self.snapshot: Snapshot = self.scheduler.snapshot()
        self._changed: set[JobId] = set()
        self._changed_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def _vouch_for(self, opened: Opened) -> None:
        try:
            self.ground.vouch_for("lock", "session.db", "session.db-wal")
        except BaseException:
            opened.store.close()
            raise

    # For other threads

    def start(self) -> None:
        """Raises SessionError where the machine gives no thread; everything but the lock is let go then."""
        try:
            self._thread = begin(self._run, "gputui-owner")
        except NoThread as error:
            self._let_go()
            raise SessionError(str(error)) from error

    def run(self) -> None:
        """From its start to its end; in the caller's own thread where the machine gives no other."""
        try:
            self._thread = begin(self._run, "gputui-owner")
        except NoThread:
            self._thread = threading.current_thread()
            self._run()
        else:
            self.wait()

    @property
    def began(self) -> bool:
        return self._thread is not None

    def do(self, work: Work[T]) -> Ticket[T]:
        """Asks for something; from any thread."""
        ticket: Ticket[T] = Ticket(work)
        self._inbox.append(ticket)
        if self._closed or (self._thread is not None and not self._thread.is_alive()):
            self._turn_away()
        else:
            self.loop.call_soon_threadsafe(self._kick)
        return ticket

    def look(self, question: Callable[[Owner], T], then: Callable[[T], None]) -> None:
        """Asks what only the owner's thread may look at; `then` is called there. Nothing changes by it."""
        self.loop.call_soon_threadsafe(lambda: self._tell(question, then))

    def _tell(self, question: Callable[[Owner], T], then: Callable[[T], None]) -> None:
        """Whoever only looks cannot hurt the session, whatever they ask."""
        try:
            then(question(self))
        except Exception:
            self.journal.write(traceback.format_exc())

    def close(self) -> None:
        """Lets go of the session: jobs run on, the store is closed, the lock stays with the caller."""
        self.leave()
        self.wait()

    def leave(self) -> None:
        """As `close`, without waiting; also from the owner's own thread."""
        if not self._closed:
            self.loop.call_soon_threadsafe(self.loop.stop)

    @property
    def picture(self) -> DevicesPicture:
        """The devices as they were last seen; an app's owner keeps it new."""
        return self.devices.picture

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return not self._gone and self._thread is not None and self._thread.is_alive()

    def environment_of(self, name: str) -> dict[str, str]:
        """The environment with this digest; from any thread."""
        return self.do(lambda act: self._launcher.environment(name)).result()

    def goes_on(self) -> bool:
        """Something runs, will start by itself, or may still be given by a source."""
        snapshot = self.snapshot
        feeds = any(source.goes_on(snapshot.mode, snapshot.cause) for source in self.sources.values())
        return feeds or goes_on(snapshot)

    def take_changed(self) -> set[JobId]:
        """The jobs that changed since it was asked last; a snapshot read afterwards has all of it."""
        with self._changed_lock:
            changed, self._changed = self._changed, set()
        return changed

    # For the owner's thread

    def take(self, ticket: Ticket[Any]) -> None:
        self._inbox.append(ticket)
        self._kick()

    def take_in(self) -> None:
        """Makes durable what sources gave, and does nothing else: for an owner on its way out, if nothing failed."""
        given = [ticket for ticket in list(self._inbox) if isinstance(ticket.work, Fed)]
        if not given or self.failure is not None:
            return
        for ticket in given:
            self._inbox.remove(ticket)
            ticket.carry_out(self)
            self._answered.append(ticket)
        if self._commit():
            self._answer()

    def reply_to(self, request: str) -> bytes | None:
        """What was answered to a request that came before, if it did."""
        return self._store.reply_to(request)

    def environment(self, name: str) -> dict[str, str]:
        return self._launcher.environment(name)

    def story(self, job: JobId) -> list[Moment]:
        return self._store.story(job)

    def handle(self, event: Event) -> None:
        if self._saver.trouble is not None and needs_room(event, self.scheduler.book):
            raise NotDurable(self._saver.refusal)
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
        identity = self.identity.laid_out(layout, (job.id for job in book if job.issued))
        if identity is self.identity:
            return
        taken = in_the_way(self.paths.root, layout, book)
        if taken is not None:
            raise Refusal(f"{self.paths.root} holds {taken} already; choose another --prefix")
        self.identity = self._saver.identity = identity
        self.folders.lay_out(layout, identity.former)

    def _set_lanes(self, lanes: tuple[Lane, ...]) -> None:
        ticket = Ticket(Commands((SetLanes(lanes),)))
        ticket.when_done(self._lanes_set)
        self.take(ticket)

    def _lanes_set(self, ticket: Ticket[Any]) -> None:
        if self._saver.trouble is not None and self._gpu_file is not None:
            self._gpu_file.look_again()

    # The thread

    def _run(self) -> None:
        try:
            self._recover(self._opened)
            self._kick()
            if self.places:
                self._backups = Backups(self.loop, self._store, self.ground.paths, self.journal)
                self._look_around()
                self._gpu_file = GpuFile(
                    self.loop, lambda: self.scheduler.settings.gpu_file, self._set_lanes, self.journal
                )
            self.loop.run()
        except BaseException:
            self._fail()
        finally:
            self._let_go()

    def _fail(self) -> None:
        """Called for what was just raised; raises nothing, even if there is no memory left to tell of it."""
        with suppress(BaseException):
            told = traceback.format_exc()
            self.failure = self.failure or told
            self.journal.write(told)

    def _recover(self, opened: Opened) -> None:
        reached(Step.RECOVERY_BEGUN)
        book = self.scheduler.book
        self.engine.recover(survivors(book, self.folders, since=opened.since))
        self.engine.gc(all_dead=opened.since is not Since.NOTHING)
        for job, attempt in unnoted_ends(book, self.ground.paths.claims):
            self._scribe.note(job, over=attempt)
        reached(Step.RECOVERED)

    def _let_go(self) -> None:
        """Whoever waits for an answer, for the lock or for this thread waits for the last of these."""
        backups = (self._backups.close,) if self._backups is not None else ()
        holders = (self.engine.close, self.devices.close, self._scribe.close, self.loop.close, self._store.close)
        ends = (self._turn_away, self.last_act, self._leave_ground, self._say_gone, self._on_change)
        take_all((*self.on_leaving, self._shut, *backups, *holders, *ends), self._fail)

    def _shut(self) -> None:
        self._closed = True

    def _leave_ground(self) -> None:
        if self._scribe.ended:
            self.ground.close()

    def _say_gone(self) -> None:
        self._gone = True

    def _turn_away(self) -> None:
        """From any thread; each ticket once."""
        tickets, self._answered = self._answered, []
        with suppress(IndexError):
            while True:
                tickets.append(self._inbox.popleft())
        gone = OwnerGone("the owner has left the session")
        take_all([partial(ticket.settle, gone) for ticket in tickets], self._fail)

    # News

    def _on_report(self, report: Report) -> None:
        self._reports.append(report)
        if not isinstance(report, Spawned):
            self._kick()
        elif not self._turn_due and len(self._reports) == 1:
            self.loop.call_later(SPAWN_NEWS, self._kick)

    def _kick(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.loop.call_soon(self._turn)

    def _signed(self, report: Report) -> Report:
        """An end with the crash in words, from the log's tail."""
        if not isinstance(report, AttemptEnded):
            return report
        self._ended.append((report.job, report.attempt))
        report = replace(report, usage=self.devices.usage(report.job, report.attempt))
        if not isinstance(report.outcome, Exited) or report.outcome.code == 0:
            return report
        files, reached = self.folders.files(self.scheduler.book[report.job], report.attempt), self.folders.reached
        err = reached(files.err) if files.err is not None else None
        crash = job_crash(reached(files.out), err, report.outcome.code)
        return replace(report, signature=crash.signature, message=crash.message)

    # A turn

    def _turn(self) -> None:
        self._turn_due = False
        reached(Step.TURN_BEGUN)
        self.now, step = time_and_step(self.scheduler)
        if step is not None:
            self.handle(step)
        reports, self._reports = self._reports, []
        for report in reports:
            self.handle(self._signed(report))
        if self._saver.trouble is not None:
            self._commit()  # whoever asks for something just when there is room again gets it
        before, sources = to_now(self.scheduler), dict(self.sources)
        while self._inbox:
            self._carry_out(self._inbox.popleft())
        due = self.scheduler.next_wakeup()
        if due is not None and due <= self.now:
            self.handle(Tick())
        if self.places and self._stands() and self._saver.trouble is None:
            self._place()
        if self._commit():
            self._release()
        else:
            self._go_without(before, sources)
        self._publish()
        self._answer()
        self._set_wakeup()

    def _stands(self) -> bool:
        """False: the folder is gone from its place; after this turn so is the owner."""
        if self.ousted is None and not self.ground.is_there():
            self.ousted = OUSTED.format(root=self.paths.root)
            self.journal.write(self.ousted)
            self.loop.call_soon(self.loop.stop)
        return self.ousted is None

    def _look_around(self) -> None:
        if self._stands():
            self.loop.call_later(LOOK_AROUND, self._look_around)

    def _carry_out(self, ticket: Ticket[Any]) -> None:
        asked_for, sources = self._asked_for, dict(self.sources)
        ticket.carry_out(self)
        ticket.changes = self._asked_for != asked_for or self.sources != sources
        self._answered.append(ticket)

    def _place(self) -> None:
        with self.devices.choosing(self.scheduler):
            starts = self.scheduler.place(self.now)
            for start in starts:
                if start.job.active is not None:
                    self.devices.lease(start.job.id, start.job.active.gpus)
        for start in starts:
            if start.job.issued > 1:
                self._scribe.begin_anew(start.job)
        self._outbox += starts
        reached(Step.MARKERS_REMOVED)

    def _commit(self) -> bool:
        """False: nothing was made durable; tried again soon."""
        in_trouble = self._saver.trouble is not None
        durable = self._saver.save(self.scheduler, self.sources, self._answered, self.now)
        if not durable:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = self.loop.call_later(RETRY_COMMIT, self._kick)
        elif in_trouble:
            self._kick()  # there was no placing meanwhile
        return durable

    def _go_without(self, before: TakenBack, sources: dict[str, SourceRecord]) -> None:
        """Nothing is durable, so nothing begins: what was asked for is taken back, but what ends something is done."""
        instructions, self._outbox = self._outbox, []
        withdrawn = [each.job for each in instructions if isinstance(each, Start)]
        for job in withdrawn:
            self.devices.hand_on(job.id)
            self.handle(AttemptEnded(job=job.id, attempt=job.issued, outcome=NeverRan(), at=self.now))
        changing = [ticket for ticket in self._answered if ticket.changes]
        if changing:
            self.scheduler.handle(before, self.now)
            self.sources = sources
        for ticket in changing:
            take_back(ticket, self.scheduler.book, self._saver.refusal)
        write_down(self.scheduler.book, self.engine)
        self._launcher.carry_out(orders_of(instructions), self.scheduler.board.lanes)
        self._ended += [(job.id, job.attempts[-1].number) for job in withdrawn if self._has_ended(job)]

    def _has_ended(self, job: Job) -> bool:
        """It was rerun, and is not: its marker, which was removed, is written again."""
        return bool(job.attempts) and isinstance(self.scheduler.book[job.id].state, Ended)

    def _release(self) -> None:
        outbox, self._outbox = self._outbox, []
        self._launcher.carry_out(outbox, self.scheduler.board.lanes)
        ended, self._ended = self._ended, []
        for job_id, attempt in ended:
            self._scribe.note(self.scheduler.book[job_id], over=attempt)

    def _answer(self) -> None:
        """After the snapshot, which whoever asked will look at."""
        answered, self._answered = self._answered, []
        for ticket in answered:
            ticket.settle()

    def _publish(self) -> None:
        if abs(self.now - self._eta[0]) > ETA_EVERY:
            self._eta = (self.now, self.scheduler.eta(self.now))
        snapshot = self.scheduler.snapshot()
        awaits = awaited(self.scheduler, self.now) or self._awaited_source() if not snapshot.active else ""
        self.snapshot = replace(snapshot, eta=self._eta[1], trouble=self._saver.trouble, awaits=awaits)
        self.devices.look(self.scheduler, self.snapshot, self.now)
        with self._changed_lock:
            self._changed |= self.snapshot.changed
        for look in self.on_turn:
            look(self.snapshot)
        self._on_change()

    def _awaited_source(self) -> str:
        mode, cause = self.scheduler.mode, self.scheduler.cause
        going = (source.path for source in self.sources.values() if self.places and source.goes_on(mode, cause))
        path = next(going, None)
        return f"what {path} gives" if path is not None else ""

    def _set_wakeup(self) -> None:
        due = self.scheduler.next_wakeup()
        if self._wakeup is not None:
            self._wakeup.cancel()
        if due is not None:
            # By the turn's own time: a clock that was set meanwhile is seen by the next turn, which must come.
            self._wakeup = self.loop.call_later(max(0.0, due - self.now), self._kick)
