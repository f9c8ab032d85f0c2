"""The owner: the one process that holds a session's lock and runs its scheduler."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from gputui.core.book import Book
from gputui.core.events import SetLanes
from gputui.core.job import Job, JobId, Stopping
from gputui.core.lanes import Lane
from gputui.core.results import Curve, JobResults
from gputui.core.scheduler import Moment
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.core.steps import Step, reached
from gputui.engines.protocol import EngineFactory, Since, Survivor
from gputui.gpus.picture import DevicesPicture
from gputui.process.watch import NoThread, begin
from gputui.session.devices.lane_changes import GpuFile
from gputui.session.engine_choice import engines
from gputui.session.errors import SessionError
from gputui.session.event_loop import Ticket, Work
from gputui.session.feeds import Feeds
from gputui.session.job_folders import Folders
from gputui.session.layouts import Layout
from gputui.session.loading import SourceRecord
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import Commands
from gputui.session.saved_state import LastLook, forget_look, leave_look, leave_notices
from gputui.session.session_dir import Paths
from gputui.session.store.backup import Backups
from gputui.session.store.opening import open_session
from gputui.session.store.store import Identity
from gputui.views.status import goes_on, standing

from .hang_watch import watch_for_hangs
from .turn import FolderCheck, Parts, Publication, Turn, take_all

# ---- What a new owner must find out before it starts anything ----


def recover(parts: Parts) -> None:
    """In the owner's thread, before its first turn."""
    reached(Step.RECOVERY_BEGUN)
    forget_look(parts.ground.paths.private)
    book, since = parts.scheduler.book, parts.opened.since
    parts.engine.recover(survivors(book, parts.folders, since=since))
    parts.engine.gc(all_dead=since is not Since.NOTHING)
    for job, attempt in unnoted_ends(book, parts.engine.claimed()):
        parts.info_writer.note(job, over=attempt)
    reached(Step.RECOVERED)


def survivors(book: Book, folders: Folders, *, since: Since) -> list[Survivor]:
    """Every attempt that the store says is under way."""
    under_way = []
    for job_id in sorted(book.active):
        job = book[job_id]
        assert job.active is not None
        out = folders.reached(folders.files(job, job.active.attempt).out)
        placed = job.active
        under_way.append(
            Survivor(
                job=job_id,
                attempt=placed.attempt,
                since=since,
                out=out,
                engine=placed.engine,
                stopping=isinstance(job.state, Stopping),
            )
        )
    return under_way


def unnoted_ends(book: Book, claimed: Iterable[tuple[JobId, int]]) -> list[tuple[Job, int]]:
    """A claim whose attempt has ended is an end that an earlier owner did not live to note."""
    ends = []
    for job_id, attempt in claimed:
        if job_id in book and any(past.number == attempt for past in book[job_id].attempts):
            ends.append((book[job_id], attempt))
    return ends


# ---- The owner ----


T = TypeVar("T")


class Owner:
    """Opened in the caller's thread, which gets the errors; then runs in its own until `close`."""

    presence: Callable[[], dict[str, Any]] = dict
    """What else others may know of this owner: an app tells of its terminal."""
    failure: str | None = None
    """What ended the owner's thread, if anything did."""
    _thread: threading.Thread | None = None
    _backups: Backups | None = None
    _gpu_file: GpuFile | None = None
    _closed = False
    _gone = False
    """Said before the last news: whoever hears it while the thread still ends must not take it for any other."""

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
        make_engine: EngineFactory = engines,
    ) -> None:
        """`places`: False for a client that looks or changes the queue, but starts nothing."""
        self.paths, self.lock, self.kind, self.places, self.since = paths, lock, kind, places, time.time()
        opening = partial(open_session, paths, layout or Layout(), made_folder=made_folder, adopt=adopt)
        self.parts = parts = Parts(
            paths, opening, make_engine, lambda: self._turn.take(), looked_at=kind is OwnerKind.APP
        )
        self.journal, self.ground, self.folders, self.loop = parts.journal, parts.ground, parts.folders, parts.loop
        self.scheduler, self.engine, self.devices = parts.scheduler, parts.engine, parts.devices
        self.notices = parts.opened.notices
        self._keep_notices()
        self._folder_check = FolderCheck(paths.root, parts.ground, parts.journal, parts.loop)
        self._publication = Publication(parts.scheduler, parts.results, on_change)
        self._turn = Turn(parts, self._publication, self._folder_check, self.since, places=places)
        self.on_turn = self._publication.on_turn
        self.on_leaving: list[Callable[[], None]] = []
        """Called in the owner's thread before anything is closed."""
        self.last_act: Callable[[], None] = lambda: None
        """Called when everything is closed but the lock is still held."""
        self.feeds = Feeds(self) if places else None
        if places:
            watch_for_hangs(self)

    def _keep_notices(self) -> None:
        """An app and a run tell them at once; of the others somebody who can read hears later."""
        for notice in self.notices:
            self.journal.write(notice)
        if self.kind in (OwnerKind.KEEPER, OwnerKind.CLIENT):
            leave_notices(self.ground.paths.private, [each for each in self.notices if each not in self.paths.notices])

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

    @property
    def alive(self) -> bool:
        return not self._gone and self._thread is not None and self._thread.is_alive()

    def do(self, work: Work[T]) -> Ticket[T]:
        """Asks for something; from any thread."""
        ticket: Ticket[T] = Ticket(work)
        self.parts.news.inbox.append(ticket)
        if self._closed or (self._thread is not None and not self._thread.is_alive()):
            self._turn_away()
        else:
            self.loop.call_soon_threadsafe(self.parts.news.kick)
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
        if self._thread is None and not self._closed:
            self._let_go()  # it never began
        self.leave()
        self.wait()

    def leave(self) -> None:
        """As `close`, without waiting; also from the owner's own thread."""
        if not self._closed:
            self.loop.call_soon_threadsafe(self.loop.stop)

    def wait(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def snapshot(self) -> Snapshot:
        return self._publication.snapshot

    def take_changed(self) -> set[JobId]:
        """The jobs that changed since it was asked last; a snapshot read afterwards has all of it."""
        return self._publication.take_changed()

    @property
    def picture(self) -> DevicesPicture:
        """The devices as they were last seen; an app's owner keeps it new."""
        return self.devices.picture

    @property
    def sources(self) -> dict[str, SourceRecord]:
        return self._turn.sources

    @property
    def ousted(self) -> str | None:
        """The sentence for the user when the session's folder is not at its place any more."""
        return self._folder_check.ousted

    def goes_on(self) -> bool:
        """Something runs, will start by itself, or may still be given by a source."""
        snapshot = self.snapshot
        feeds = any(source.goes_on(snapshot.mode, snapshot.cause) for source in self.sources.values())
        return feeds or goes_on(snapshot)

    def environment_of(self, name: str) -> dict[str, str]:
        """The environment with this digest; from any thread."""
        return self.do(lambda act: self.environment(name)).result()

    # For the owner's thread

    def take(self, ticket: Ticket[Any]) -> None:
        self.parts.news.ask(ticket)

    def take_in(self) -> None:
        """Makes durable what sources gave, and does nothing else, if nothing failed."""
        if self.failure is None:
            self._turn.take_in()

    def reply_to(self, request: str) -> bytes | None:
        """What was answered to a request that came before, if it did."""
        return self.parts.store.reply_to(request)

    def environment(self, name: str) -> dict[str, str]:
        return self.parts.launcher.environment(name)

    def story(self, job: JobId) -> list[Moment]:
        return self.parts.store.story(job)

    def spans(self) -> list[RecordedSpan]:
        """What kept jobs from starting, as far as it is stored."""
        return self.parts.store.spans()

    def curves(self, job: JobId, attempt: int | None = None) -> tuple[Curve, ...]:
        """How the metrics of an attempt went; None: of the newest that printed any."""
        return self.parts.results.curves(job, attempt)

    def catch_up(self) -> None:
        """Reads results here and now, for an owner that stays only for one answer."""
        self.parts.results.reader.catch_up()

    def results_of(self, job: JobId) -> dict[int, JobResults]:
        """What each attempt came to."""
        return self.parts.results.attempts(job)

    @property
    def identity(self) -> Identity:
        return self.parts.saver.identity

    # The thread

    def _run(self) -> None:
        try:
            recover(self.parts)
            self.parts.news.kick()
            if self.places:
                self._begin_placing()
            self.loop.run()
        except BaseException:
            self._fail()
        finally:
            self._let_go()

    def _begin_placing(self) -> None:
        self._backups = Backups(self.loop, self.parts.store, self.ground.paths, self.journal)
        self.devices.recording.keep_written(self.loop, time.time())
        self._folder_check.look_around()
        self.parts.results.read_past()
        self._gpu_file = GpuFile(self.loop, lambda: self.scheduler.settings.gpu_file, self._set_lanes, self.journal)

    def _set_lanes(self, lanes: tuple[Lane, ...]) -> None:
        ticket = Ticket(Commands((SetLanes(lanes),)))
        ticket.when_done(self._lanes_set)
        self.take(ticket)

    def _lanes_set(self, ticket: Ticket[Any]) -> None:
        if self.parts.saver.trouble is not None and self._gpu_file is not None:
            self._gpu_file.look_again()

    # Its end

    def _fail(self) -> None:
        """Called for what was just raised; raises nothing, even if there is no memory left to tell of it."""
        with suppress(BaseException):
            trace = traceback.format_exc()
            self.failure = self.failure or trace
            self.journal.write(trace)

    def _let_go(self) -> None:
        """Whoever waits for an answer, for the lock or for this thread waits for the last of these."""
        backups = (self._backups.close,) if self._backups is not None else ()
        publication = self._publication
        closers = (self._shut, *backups, *self.parts.closers(), publication.settle, self._leave_look)
        ends = (self._turn_away, self.last_act, self.parts.leave_ground, self._say_gone, publication.on_change)
        take_all((*self.on_leaving, *closers, *ends), self._fail)

    def _leave_look(self) -> None:
        look = LastLook(standing(self.snapshot).word, dict(self.snapshot.counts), self.scheduler.board.engine)
        leave_look(self.ground.paths.private, look)

    def _shut(self) -> None:
        self._closed = True

    def _say_gone(self) -> None:
        self._gone = True

    def _turn_away(self) -> None:
        self.parts.news.turn_away(self._fail)
