"""The connection between the screen's thread and a scheduler in this process or a watched one in another process."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from msgspec.structs import replace

from gputui.core.amounts import counted, moment
from gputui.core.events import (
    AddJobs,
    Edit,
    Hold,
    Mode,
    Move,
    Notify,
    PauseKind,
    Refusal,
    Release,
    Remove,
    Rerun,
    Resume,
    SetPriority,
    TryFirst,
    UserCommand,
)
from gputui.core.job import Ended, Job, JobId
from gputui.core.results import Curve
from gputui.core.scheduler import Scheduler, Undo
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.core.state import HistoryEntry
from gputui.gpus.picture import DevicesPicture
from gputui.process.watch import start_thread
from gputui.session.client import Client
from gputui.session.control.connection import ClientError, NoOwner, OwnerStopped
from gputui.session.control.handlers import Details
from gputui.session.control.watch import WatchConnection, answer
from gputui.session.devices.recording import MachineWatch
from gputui.session.devices.samplers import Monitor
from gputui.session.errors import SessionError
from gputui.session.event_loop import OwnerGone, Ticket, Work
from gputui.session.job_directories import Directories, Files
from gputui.session.lock import find_leftover_processes
from gputui.session.messages import (
    ActionsToShow,
    Commands,
    CurvesToDraw,
    Follow,
    JobInFull,
    Outcome,
    ScreenRequest,
    SpansToShow,
    WhyJobsWait,
)
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Load, Loaded, Undoable
from gputui.session.ownership.acquisition import OwnedSession
from gputui.session.session_dir import Paths
from gputui.views.status import format_counts, has_pending_work
from gputui.views.waiting import Reason

T = TypeVar("T")
RETRY_EVERY = 0.05
"""Seconds to wait between attempts while a session is being handed over."""
Post = Callable[[Callable[[], None]], object]
"""A function that schedules a call in the screen's thread. It may be called from any thread."""


UNDOABLE = (Hold, Release, SetPriority, Move, Edit, Notify, Remove, Rerun, TryFirst, Resume)
MOST_DONE = 100
"""Maximum number of commands that can be undone."""


class Done(NamedTuple):
    """Commands that this screen sent and the scheduler carried out."""

    commands: Sequence[UserCommand]
    undo: Undo | None
    """The event that takes the commands back, or None if that is impossible."""


class Bridge:
    """The session as the screen sees it. If there is no session, the snapshot is empty and commands are refused."""

    read_only = False
    """Whether another process owns the session."""

    def __init__(self, hold: Callable[[Callable[[], None]], OwnedSession] | None = None) -> None:
        """Create a bridge. `hold` acquires the session. Its argument is a function to call in the owner's thread after
        each change.
        """
        self._hold = hold
        self._holding: OwnedSession | None = None
        self._post: Post = lambda call: None
        self._on_news: Callable[[], None] = lambda: None
        self._news_posted = False
        self._empty = Scheduler().snapshot()
        self._no_picture = DevicesPicture(kind=DeviceKind.GPU, sample=None)
        self._monitor: Monitor | None = None
        self.machine = MachineWatch(lambda: self.root or os.getcwd())
        self._closed = False
        self.done: deque[Done] = deque(maxlen=MOST_DONE)
        """The commands of this screen that have not been taken back, newest last."""
        self.presence: Callable[[], dict[str, Any]] = dict
        """A function that returns facts about the terminal for other processes. It is called in the owner's thread."""
        self.on_dismissed: Callable[[], None] = lambda: None
        """A function called in the screen's thread when the user stops the session from elsewhere."""

    def connect(self, post: Post, on_news: Callable[[], None]) -> None:
        """Arrange for `on_news` to be called in the screen's thread after every change."""
        self._post, self._on_news = post, on_news
        self._news_posted = False
        self._changed()  # earlier changes were not posted

    # Life cycle

    def take(self) -> list[str]:
        """Acquire the session, start the scheduler, and return notices. Raise SessionError or Owned on failure."""
        if self._hold is None:
            self._monitor = Monitor(self._changed)
            self._monitor.start()
            return []
        self._holding = self._hold(self._changed)
        owner = self._holding.owner
        owner.presence = lambda: self.presence()
        self._holding.serving.dismissed = lambda: self.post(self.on_dismissed)
        try:
            owner.start()
        except SessionError:
            self.let_go()
            raise
        return list(owner.notices)

    def begin(self, hold: Callable[[Callable[[], None]], OwnedSession]) -> list[str]:
        """Start a session and return notices."""
        self._hold = hold
        notices = self.take()
        self._close_monitor()
        return notices

    def _close_monitor(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.close()

    def close(self) -> None:
        self._closed = True
        self.let_go()

    def let_go(self) -> None:
        """Release the session. Jobs keep running, and a daemon takes over if there is anything left to do."""
        self._close_monitor()
        holding, self._holding = self._holding, None
        if holding is not None:
            self._empty = holding.owner.snapshot
            holding.let_go(without_successor=True)

    @property
    def owner(self) -> Owner | None:
        return self._holding.owner if self._holding is not None else None

    @property
    def has_session(self) -> bool:
        return self._hold is not None

    @property
    def root(self) -> str | None:
        return self._holding.owner.paths.root if self._holding is not None else None

    @property
    def daemon_pid(self) -> int | None:
        return self._holding.serving.daemon_pid if self._holding is not None else None

    def why_gone(self) -> str | None:
        """Return an error message if the scheduler has ended unexpectedly, or None."""
        if self._holding is None or self._holding.owner.alive:
            return None
        return self._holding.why_gone()

    def unseen(self) -> str | None:
        """Return the reason why the snapshot is outdated, or None if it is current."""
        return None

    # State

    @property
    def snapshot(self) -> Snapshot:
        return self._holding.owner.snapshot if self._holding is not None else self._empty

    @property
    def picture(self) -> DevicesPicture:
        """The state of the devices, with or without a session."""
        if self._holding is not None:
            return self._holding.owner.picture
        return self._monitor.picture if self._monitor is not None else self._no_picture

    def take_changed(self) -> set[JobId]:
        self._news_posted = False
        return self._holding.owner.take_changed() if self._holding is not None else set()

    def _changed(self) -> None:
        """Notify the screen of a change. This may be called from any thread."""
        # One pending message is enough: the receiver reads the newest state. The end of the scheduler is always
        # posted, since the pending message may already have been read.
        if not self._news_posted or self.why_gone() is not None:
            self._news_posted = True
            self.post(self._on_news)

    def files(self, job: Job, attempt: int) -> Files | None:
        return self._holding.owner.directories.current_files(job, attempt) if self._holding is not None else None

    def reasons(self, jobs: Sequence[JobId], then: Callable[[dict[JobId, Reason]], None]) -> None:
        """Get the reason why each job is waiting, or what is unusual about it if it is running."""
        if jobs:
            self._ask_about(WhyJobsWait(tuple(jobs)), dict[JobId, Reason], then)
        else:
            then({})

    def details(self, job: JobId, then: Callable[[Details], None]) -> None:
        self._ask_about(JobInFull(job), Details, then)

    def curves(self, job: JobId, attempt: int | None, then: Callable[[tuple[Curve, ...]], None]) -> None:
        """Get the metrics of an attempt over time. If `attempt` is None, use the newest attempt that printed any."""
        self._ask_about(CurvesToDraw(job, attempt), tuple[Curve, ...], then)

    def spans(self, then: Callable[[list[RecordedSpan]], None]) -> None:
        """Get the recorded periods in which jobs could not start."""
        self._ask_about(SpansToShow(), list[RecordedSpan], then)

    def actions(self, then: Callable[[list[HistoryEntry]], None]) -> None:
        """Get what users recently did to running jobs."""
        self._ask_about(ActionsToShow(), list[HistoryEntry], then)

    def _ask_about(self, question: ScreenRequest, kind: Any, then: Callable[[Any], None]) -> None:
        """Ask the scheduler a question whose answer is of the type `kind`."""
        self.look(lambda owner: answer(owner, question), then)

    def look(self, question: Callable[[Owner], T], then: Callable[[T], None]) -> None:
        """Call `question` in the owner's thread to read something, then pass the answer to `then`."""
        if self._holding is not None:
            self._holding.owner.query(question, lambda reply: self.post(lambda: then(reply)))

    # Commands

    def command(self, events: Sequence[UserCommand], then: Callable[[list[Outcome]], None]) -> None:
        """Send commands. Each one is either carried out or refused."""

        def answered(outcomes: list[Outcome], undo: Undo | None = None) -> None:
            carried_out = zip(events, outcomes, strict=True)
            self._note([event for event, outcome in carried_out if outcome.refused is None], undo)
            then(outcomes)

        def refused(message: str) -> None:
            then([Outcome(None, message)])

        request = Commands(tuple(events))
        if all(isinstance(event, UNDOABLE) for event in events):
            self.do(Undoable(request), lambda reply: answered(*reply), refused)
        else:
            self.do(request, answered, refused)

    def load(self, load: Load, then: Callable[[Loaded], None], refused: Callable[[str], None]) -> None:
        def answered(reply: tuple[Loaded, Undo]) -> None:
            if reply[1].before:
                self._note([AddJobs(load.specs)], reply[1])
            then(reply[0])

        self.do(Undoable(load), answered, refused)

    def _note(self, commands: Sequence[UserCommand], undo: Undo | None) -> None:
        """Remember commands so that they can be undone."""
        if commands:
            self.done.append(Done(commands, undo if undo is not None and undo.possible else None))

    def ask(
        self, question: Callable[[Owner], Ticket[T]], then: Callable[[T], None], refused: Callable[[str], None]
    ) -> None:
        """Make a request that needs the scheduler itself, such as draining a device."""
        if self._holding is not None:
            self._answer(question(self._holding.owner), then, refused)

    def do(self, work: Work[T], then: Callable[[T], None], refused: Callable[[str], None]) -> None:
        if self._holding is None:
            refused("no session yet: press a to add a job and start one")
            return
        self._answer(self._holding.owner.do(work), then, refused)

    def _answer(self, ticket: Ticket[Any], then: Callable[[Any], None], refused: Callable[[str], None]) -> None:
        ticket.when_done(lambda done: self.post(lambda: _deliver(done, then, refused)))

    def do_and_wait(self, work: Work[T]) -> T:
        """Do the same as `do`, but wait for the result, even during a handover. Not for the UI thread."""
        while not self._closed:
            holding = self._holding
            with suppress(OwnerGone):
                if holding is not None:
                    return holding.owner.do(work).result()
            time.sleep(RETRY_EVERY)
        raise OwnerGone("the TUI was closed")

    def post(self, call: Callable[[], None]) -> None:
        """Schedule a call in the screen's thread."""
        with suppress(RuntimeError):  # the screen is closing
            self._post(call)


def _deliver(ticket: Ticket[Any], then: Callable[[Any], None], refused: Callable[[str], None]) -> None:
    try:
        outcome = ticket.outcome()
    except (Refusal, OwnerGone) as error:
        refused(str(error))
        return
    except Exception as error:  # a bug must not crash the screen
        refused(f"scheduler error: {error!r}")
        return
    then(outcome)


def host_name() -> str:
    return os.uname().nodename.partition(".")[0]


# A session owned by another process


POLL_SECONDS = 0.25
"""Seconds between polls."""
STALE_AFTER = 1.5
"""Seconds without a scheduler before the user is notified. Handing over a session takes a moment."""
MAX_QUESTIONS = 64
NO_SCHEDULER = "no scheduler is running"
READ_ONLY = "this view is read-only"


class Question(NamedTuple):
    question: ScreenRequest
    kind: Any
    """The type of the expected answer."""
    then: Callable[[Any], None]


class WatchBridge(Bridge):
    """A read-only view of a session that another process owns. A thread polls that process."""

    read_only = True

    def __init__(self, paths: Paths) -> None:
        super().__init__()
        self._paths = paths
        self._directories: Directories | None = None
        self._session: str | None = None
        self._shown: Snapshot | None = None
        self._devices: DevicesPicture | None = None
        self._differing: set[JobId] = set()
        self._lock = threading.Lock()
        self._questions: deque[Question] = deque(maxlen=MAX_QUESTIONS)
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._seen = time.time()
        """Time of the scheduler's last answer."""
        self._unseen: str | None = None
        self._replaced: str | None = None

    def take(self) -> list[str]:
        """Start polling. Raise SessionError if the first poll fails."""
        connection = None
        if self._shown is None:
            try:
                connection = WatchConnection(self._paths.private)
                connection.catch_up()
            except (ClientError, OSError) as error:
                raise SessionError(f"cannot watch {self._paths.root}: {error}") from None
            self._show(connection)
        self._stop = stop = threading.Event()
        start_thread(lambda: self._watch(connection, stop), "gputui watch")
        return []

    def let_go(self) -> None:
        self._stop.set()
        self._wanted.set()

    @property
    def has_session(self) -> bool:
        return True

    @property
    def root(self) -> str | None:
        return self._paths.root

    def why_gone(self) -> str | None:
        return self._replaced

    def unseen(self) -> str | None:
        return self._unseen

    @property
    def snapshot(self) -> Snapshot:
        return self._shown or self._empty

    @property
    def picture(self) -> DevicesPicture:
        return self._devices or self._no_picture

    def take_changed(self) -> set[JobId]:
        self._news_posted = False
        with self._lock:
            changed, self._differing = self._differing, set()
        return changed

    def files(self, job: Job, attempt: int) -> Files | None:
        return self._directories.current_files(job, attempt) if self._directories is not None else None

    def _ask_about(self, question: ScreenRequest, kind: Any, then: Callable[[Any], None]) -> None:
        self._questions.append(Question(question, kind, then))
        self._wanted.set()

    def ask(
        self, question: Callable[[Owner], Ticket[T]], then: Callable[[T], None], refused: Callable[[str], None]
    ) -> None:
        refused(READ_ONLY)

    def do(self, work: Work[T], then: Callable[[T], None], refused: Callable[[str], None]) -> None:
        refused(READ_ONLY)

    def do_and_wait(self, work: Work[T]) -> NoReturn:
        raise OwnerGone(READ_ONLY)

    # The polling thread

    def _watch(self, connection: WatchConnection | None, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                connection = connection or WatchConnection(self._paths.private)
                self._answer_questions(connection)
                if connection.catch_up():
                    self._show(connection)
                self._seen = time.time()
                if self._unseen is not None:
                    self._unseen = None
                    self._changed()
            except (NoOwner, ClientError, OSError) as error:
                _close(connection)
                connection = None
                self._set_unseen(NO_SCHEDULER if isinstance(error, NoOwner) else str(error))
            self._wanted.wait(POLL_SECONDS)
            self._wanted.clear()
        _close(connection)

    def _answer_questions(self, connection: WatchConnection) -> None:
        while self._questions:
            question = self._questions.popleft()
            try:
                reply = connection.ask(question.question, question.kind)
            except (NoOwner, OwnerStopped, OSError):  # ask the next scheduler
                self._questions.appendleft(question)
                raise
            except ClientError:
                continue  # the question has no answer
            self.post(partial(question.then, reply))

    def _show(self, connection: WatchConnection) -> None:
        snapshot, directories = connection.joined.snapshot, connection.joined.directories
        if snapshot is None or directories is None:
            return
        if self._session not in (None, directories.session):
            self._replaced = f"{self._paths.root} now holds another session; reopen it: gputui --read-only"
            self._changed()
            return
        self._session = directories.session
        before, self._shown = self._shown, snapshot
        self._devices = connection.joined.picture or self._devices
        self._directories = Directories(
            self._paths.root, directories.layout.prefix, directories.layout.job_dir, former=directories.former
        )  # fmt: skip
        with self._lock:
            self._differing |= _differing(snapshot, before)
        self._changed()

    def _set_unseen(self, reason: str) -> None:
        now = time.time()
        if now - self._seen <= STALE_AFTER or (self._unseen or "").startswith(reason):
            return
        if reason == NO_SCHEDULER:
            self._read_ends()
        self._unseen = f"{reason}; showing the state at {moment(self._seen, now)}"
        self._changed()

    def _read_ends(self) -> None:
        """Read from the store how jobs ended after the last poll, for example if `gputui run` has finished."""
        shown = self._shown
        if shown is None:
            return
        going_on = [job.id for job in shown if not isinstance(job.state, Ended)]
        with suppress(ClientError):
            followed = Client(self._paths.root).ask(Follow(going_on))
            now = {job.id: job for job in followed.jobs}
            jobs = tuple(now.get(job.id, job) for job in shown.jobs)
            active = frozenset(followed.active)
            holders = {slot: job for slot, job in shown.holders.items() if job in active}
            self._shown = replace(shown, jobs=jobs, counts=followed.counts, active=active, holders=holders)
            with self._lock:
                self._differing |= {job.id for job in followed.jobs}


def _differing(snapshot: Snapshot, before: Snapshot | None) -> set[JobId]:
    """Return the ids of the jobs that really changed. A new scheduler marks all jobs as changed."""
    if before is None or len(snapshot.changed) < len(snapshot.jobs):
        return set(snapshot.changed)
    return {
        job
        for job in snapshot.changed
        if job not in before or snapshot[job] != before[job] or snapshot.results.get(job) != before.results.get(job)
    }


def _close(connection: WatchConnection | None) -> None:
    if connection is not None:
        connection.close()


# Quitting


class Way(StrEnum):
    DETACH = "detach"
    DRAIN = "drain"
    STOP = "stop"


def farewell(snapshot: Snapshot, way: Way, root: str, daemon: int | None, *, back: str, stop: str) -> str:
    """Return the last message in the shell. `back` and `stop` are the commands that reopen and stop the session."""
    if way is Way.STOP:
        leftovers = [f"pid {pid}, {what}" for pid, what in find_leftover_processes(root)]
        if leftovers:
            return "Stopped, but these processes are still running: " + "; ".join(leftovers)
        return f"Stopped: nothing left running. {snapshot.not_begun:,} waiting. To continue: {back}, then p"
    counts = format_counts(snapshot)
    if way is Way.DRAIN:
        runs = counted(snapshot.running, "running job will finish", "running jobs will finish")
        return f"Draining. {runs}, no new jobs start. Reattach: {back}"
    if not has_pending_work(snapshot):
        if not snapshot.waiting:
            return ""
        cause = snapshot.cause
        why = f"Paused: {cause.message}" if cause is not None and cause.kind is PauseKind.CRASHES else "Paused"
        return f"{why if snapshot.mode is Mode.PAUSED else 'Left'}. {snapshot.waiting:,} waiting. Reattach: {back}"
    who = f"daemon {daemon} keeps scheduling" if daemon is not None else "no new jobs start (--no-daemon)"
    return f"Detached. {counts}; {who}. Reattach: {back} · Stop: {stop}"
