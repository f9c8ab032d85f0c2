"""The only crossing between the screen's thread and the owner: of this process, or of another one that is watched."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from msgspec.structs import replace

from gputui.core.amounts import counted, moment
from gputui.core.events import Mode, PauseKind, Refusal, UserCommand
from gputui.core.job import Ended, Job, JobId
from gputui.core.lanes import DeviceKind
from gputui.core.results import Curve
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.gpus.picture import DevicesPicture
from gputui.process.watch import begin
from gputui.session.client import Client
from gputui.session.control.answers import Details, details, whys
from gputui.session.control.connection import ClientError, NoOwner, OwnerStopped
from gputui.session.control.watch import LookingOn
from gputui.session.devices.recording import MachineWatch
from gputui.session.devices.samplers import Monitor
from gputui.session.errors import SessionError
from gputui.session.event_loop import OwnerGone, Ticket, Work
from gputui.session.job_folders import Files, Folders
from gputui.session.lock import left_of
from gputui.session.messages import (
    Commands,
    CurvesToDraw,
    Follow,
    JobInFull,
    LookRequest,
    Outcome,
    SpansToShow,
    WhyJobsWait,
)
from gputui.session.owner.owner import Owner
from gputui.session.ownership.acquisition import Holding
from gputui.session.session_dir import Paths
from gputui.views.status import counts_told, goes_on

# ---- The only crossing between the screen's thread and the owner's ----


T = TypeVar("T")
HANDED_ON_WITHIN = 0.05
"""Seconds after which a session that was passed on is asked for again."""
Post = Callable[[Callable[[], None]], None]
"""Has something called in the screen's thread, soon; may be called from any thread."""


class Bridge:
    """A session as the screen sees it. Without one it shows an empty picture and refuses what needs one."""

    only_looks = False
    """Another process owns the session."""

    def __init__(self, hold: Callable[[Callable[[], None]], Holding] | None = None) -> None:
        """`hold` takes the session and has the given function called, in the owner's thread, at each change."""
        self._hold = hold
        self._holding: Holding | None = None
        self._post: Post = lambda call: None
        self._on_news: Callable[[], None] = lambda: None
        self._news_posted = False
        self._empty = Scheduler().snapshot()
        self._no_picture = DevicesPicture(kind=DeviceKind.GPU, sample=None)
        self._monitor: Monitor | None = None
        self.machine = MachineWatch(lambda: self.root or os.getcwd())
        """The machine itself, for whoever shows it; any thread may ask."""
        self._closed = False
        self.presence: Callable[[], dict[str, Any]] = dict
        """What others may know of this screen's terminal; asked in the owner's thread."""
        self.on_dismissed: Callable[[], None] = lambda: None
        """Called in the screen's thread when the user stops the session from elsewhere."""

    def connect(self, post: Post, on_news: Callable[[], None]) -> None:
        """From now on `on_news` is called in the screen's thread after every change."""
        self._post, self._on_news = post, on_news
        self._news_posted = False
        self._changed()  # what was posted before went nowhere, perhaps that the owner is gone

    # The session's life

    def take(self) -> list[str]:
        """Becomes the owner and lets it work; what the user must be told. Raises SessionError or Owned."""
        if self._hold is None:
            self._monitor = Monitor(self._changed)
            self._monitor.start()
            return []
        self._holding = self._hold(self._changed)
        owner = self._holding.owner
        owner.presence = lambda: self.presence()
        self._holding.serving.dismissed = lambda: self._post(self.on_dismissed)
        try:
            owner.start()
        except SessionError:
            self.let_go()
            raise
        return list(owner.notices)

    def begin(self, hold: Callable[[Callable[[], None]], Holding]) -> list[str]:
        """A screen without a session gets one."""
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
        """Jobs run on; a keeper follows if there is anything for it to do."""
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
    def keeper_pid(self) -> int | None:
        return self._holding.serving.keeper_pid if self._holding is not None else None

    def why_gone(self) -> str | None:
        """The sentence, if the owner has ended by itself."""
        if self._holding is None or self._holding.owner.alive:
            return None
        return self._holding.why_gone()

    def unseen(self) -> str | None:
        """The sentence, if what is shown is not how it is now."""
        return None

    # Pictures

    @property
    def snapshot(self) -> Snapshot:
        return self._holding.owner.snapshot if self._holding is not None else self._empty

    @property
    def picture(self) -> DevicesPicture:
        """Of the devices; also without a session."""
        if self._holding is not None:
            return self._holding.owner.picture
        return self._monitor.picture if self._monitor is not None else self._no_picture

    def take_changed(self) -> set[JobId]:
        self._news_posted = False
        return self._holding.owner.take_changed() if self._holding is not None else set()

    def _changed(self) -> None:
        """From any thread. One message under way is enough, for whoever reads it sees the newest; but one that
        is read and not painted yet would not tell that the owner is gone."""
        if not self._news_posted or self.why_gone() is not None:
            self._news_posted = True
            self.post(self._on_news)

    def files(self, job: Job, attempt: int) -> Files | None:
        return self._holding.owner.folders.written(job, attempt) if self._holding is not None else None

    def whys(self, jobs: Sequence[JobId], then: Callable[[dict[JobId, str]], None]) -> None:
        """Why each of these waits, or what is odd about one that runs."""
        if not jobs:
            then({})
        elif self._holding is not None:
            self.look(lambda owner: whys(owner, jobs), then)

    def details(self, job: JobId, then: Callable[[Details], None]) -> None:
        self.look(lambda owner: details(owner, job), then)

    def curves(self, job: JobId, attempt: int | None, then: Callable[[tuple[Curve, ...]], None]) -> None:
        """How the metrics of an attempt went; None: of the newest that printed any."""
        self.look(lambda owner: owner.curves(job, attempt), then)

    def spans(self, then: Callable[[list[RecordedSpan]], None]) -> None:
        """What kept jobs from starting."""
        self.look(lambda owner: owner.spans(), then)

    def look(self, question: Callable[[Owner], T], then: Callable[[T], None]) -> None:
        """What only the owner's thread may look at; nothing changes by it."""
        if self._holding is not None:
            self._holding.owner.look(question, lambda answer: self.post(lambda: then(answer)))

    # Wishes

    def command(self, events: Sequence[UserCommand], then: Callable[[list[Outcome]], None]) -> None:
        """Each is carried out or refused on its own."""
        self.do(Commands(tuple(events)), then, lambda sentence: then([Outcome(None, sentence)]))

    def ask(
        self, question: Callable[[Owner], Ticket[T]], then: Callable[[T], None], refused: Callable[[str], None]
    ) -> None:
        """Something that the owner itself is needed for: what is done about a device."""
        if self._holding is not None:
            self._answer(question(self._holding.owner), then, refused)

    def do(self, work: Work[T], then: Callable[[T], None], refused: Callable[[str], None]) -> None:
        if self._holding is None:
            refused("there is no session yet: a adds a job and begins one")
            return
        self._answer(self._holding.owner.do(work), then, refused)

    def _answer(self, ticket: Ticket[Any], then: Callable[[Any], None], refused: Callable[[str], None]) -> None:
        ticket.when_done(lambda done: self.post(lambda: _deliver(done, then, refused)))

    def do_and_wait(self, work: Work[T]) -> T:
        """For threads that are not the screen's; a session that is just being passed on is waited for."""
        while not self._closed:
            holding = self._holding
            with suppress(OwnerGone):
                if holding is not None:
                    return holding.owner.do(work).result()
            time.sleep(HANDED_ON_WITHIN)
        raise OwnerGone("the screen was closed")

    def post(self, call: Callable[[], None]) -> None:
        """Has it called in the screen's thread; a screen that is just closing hears nothing more."""
        with suppress(RuntimeError):
            self._post(call)


def _deliver(ticket: Ticket[Any], then: Callable[[Any], None], refused: Callable[[str], None]) -> None:
    try:
        answer = ticket.outcome()
    except (Refusal, OwnerGone) as error:
        refused(str(error))
        return
    except Exception as error:  # a defect of ours costs this one wish, not the screen
        refused(f"the scheduler failed at this: {error!r}")
        return
    then(answer)


def host_name() -> str:
    return os.uname().nodename.partition(".")[0]


# ---- A session that another process owns, as a screen that only looks sees it ----


EVERY = 0.25
"""Seconds between two questions for what is new."""
NOBODY_AFTER = 1.5
"""Seconds without an owner after which it is said: one that passes the session on takes a moment."""
MOST_QUESTIONS = 64
NOBODY = "nobody owns this session now"
ONLY_LOOKS = "this screen is read-only"


class Question:
    """What a view wants to know, and who is told."""

    def __init__(self, look: LookRequest, kind: Any, then: Callable[[Any], None]) -> None:
        self.look, self.kind, self.then = look, kind, then


class WatchBridge(Bridge):
    only_looks = True

    def __init__(self, paths: Paths) -> None:
        super().__init__()
        self._paths = paths
        self._folders: Folders | None = None
        self._session: str | None = None
        self._shown: Snapshot | None = None
        self._devices: DevicesPicture | None = None
        self._differing: set[JobId] = set()
        self._lock = threading.Lock()
        self._questions: deque[Question] = deque(maxlen=MOST_QUESTIONS)
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._seen = time.time()
        """When the owner was last heard."""
        self._unseen: str | None = None
        self._replaced: str | None = None

    # Its life

    def take(self) -> list[str]:
        """Looks for the first time, or again after a stop. Raises NoOwner if nobody ever was there, or SessionError."""
        looking = None
        if self._shown is None:
            try:
                looking = LookingOn(self._paths.private)
                looking.catch_up()
            except (ClientError, OSError) as error:
                raise SessionError(f"cannot look on at {self._paths.root}: {error}") from None
            self._show(looking)
        self._stop = stop = threading.Event()
        begin(lambda: self._watch(looking, stop), "gputui looks on")
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

    # Pictures

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
        return self._folders.written(job, attempt) if self._folders is not None else None

    def whys(self, jobs: Sequence[JobId], then: Callable[[dict[JobId, str]], None]) -> None:
        if jobs:
            self._ask(WhyJobsWait(tuple(jobs)), dict[JobId, str], then)
        else:
            then({})

    def details(self, job: JobId, then: Callable[[Details], None]) -> None:
        self._ask(JobInFull(job), Details, then)

    def curves(self, job: JobId, attempt: int | None, then: Callable[[tuple[Curve, ...]], None]) -> None:
        self._ask(CurvesToDraw(job, attempt), tuple[Curve, ...], then)

    def spans(self, then: Callable[[list[RecordedSpan]], None]) -> None:
        self._ask(SpansToShow(), list[RecordedSpan], then)

    def _ask(self, look: LookRequest, kind: Any, then: Callable[[Any], None]) -> None:
        self._questions.append(Question(look, kind, then))
        self._wanted.set()

    # Wishes: none is granted

    def ask(
        self, question: Callable[[Owner], Ticket[T]], then: Callable[[T], None], refused: Callable[[str], None]
    ) -> None:
        refused(ONLY_LOOKS)

    def do(self, work: Work[T], then: Callable[[T], None], refused: Callable[[str], None]) -> None:
        refused(ONLY_LOOKS)

    def do_and_wait(self, work: Work[T]) -> NoReturn:
        raise OwnerGone(ONLY_LOOKS)

    # In the thread that asks

    def _watch(self, looking: LookingOn | None, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                looking = looking or LookingOn(self._paths.private)
                self._answer_questions(looking)
                if looking.catch_up():
                    self._show(looking)
                self._heard()
            except (NoOwner, ClientError, OSError) as error:
                _close(looking)
                looking = None
                self._tell_unseen(NOBODY if isinstance(error, NoOwner) else str(error))
            self._wanted.wait(EVERY)
            self._wanted.clear()
        _close(looking)

    def _answer_questions(self, looking: LookingOn) -> None:
        """One that could not be asked is asked of the next owner."""
        while self._questions:
            question = self._questions.popleft()
            try:
                answer = looking.ask(question.look, question.kind)
            except (NoOwner, OwnerStopped, OSError):
                self._questions.appendleft(question)
                raise
            except ClientError:
                continue  # it has no answer
            self.post(lambda given_answer=answer, then=question.then: then(given_answer))  # type: ignore[misc]

    def _show(self, looking: LookingOn) -> None:
        snapshot, folders = looking.joined.snapshot, looking.joined.folders
        if snapshot is None or folders is None:
            return
        if self._session not in (None, folders.session):
            self._replaced = f"another session is in {self._paths.root} now; gputui --read-only looks on there"
            self._changed()
            return
        self._session = folders.session
        before, self._shown = self._shown, snapshot
        self._devices = looking.joined.picture or self._devices
        self._folders = Folders(
            self._paths.root, folders.layout.prefix, folders.layout.job_dir, former=folders.former
        )  # fmt: skip
        with self._lock:
            self._differing |= _differing(snapshot, before)
        self._changed()

    def _heard(self) -> None:
        self._seen = time.time()
        if self._unseen is not None:
            self._unseen = None
            self._changed()

    def _tell_unseen(self, sentence: str) -> None:
        now = time.time()
        if now - self._seen <= NOBODY_AFTER or (self._unseen or "").startswith(sentence):
            return
        if sentence == NOBODY:
            self._read_ends()
        self._unseen = f"{sentence}; this is how it was at {moment(self._seen, now)}"
        self._changed()

    def _read_ends(self) -> None:
        """What the last owner did after it was last heard, as a run that ends with its jobs: from the store, once."""
        shown = self._shown
        if shown is None:
            return
        going_on = [job.id for job in shown if not isinstance(job.state, Ended)]
        with suppress(ClientError):
            followed = Client(self._paths.root).ask(Follow(going_on))
            jobs = shown.jobs
            for job in followed.jobs:
                jobs = jobs if job == shown[job.id] else jobs.set(job.id - shown.first_id, job)
            active = frozenset(followed.active)
            holders = {lane: job for lane, job in shown.holders.items() if job in active}
            self._shown = replace(shown, jobs=jobs, counts=followed.counts, active=active, holders=holders)
            with self._lock:
                self._differing |= {job.id for job in followed.jobs}


def _differing(snapshot: Snapshot, before: Snapshot | None) -> set[JobId]:
    """The next owner tells everything anew, and most of it is as it was."""
    if before is None or len(snapshot.changed) < len(snapshot.jobs):
        return set(snapshot.changed)
    return {
        job
        for job in snapshot.changed
        if job not in before or snapshot[job] != before[job] or snapshot.results.get(job) != before.results.get(job)
    }


def _close(looking: LookingOn | None) -> None:
    if looking is not None:
        looking.close()


# ---- The ways to leave, and what the shell says afterwards ----


class Way(StrEnum):
    DETACH = "detach"
    DRAIN = "drain"
    STOP = "stop"


def farewell(snapshot: Snapshot, way: Way, root: str, keeper: int | None, *, back: str, stop: str) -> str:
    """What the shell shows afterwards; `back`, `stop`: the commands that open this session again, and that end it."""
    if way is Way.STOP:
        return _stopped(snapshot, root, back)
    counts = counts_told(snapshot)
    if way is Way.DRAIN:
        runs = counted(snapshot.running, "running job goes on to its end", "running jobs go on to their end")
        return f"Draining. {runs}, nothing new starts. Back: {back}"
    if not goes_on(snapshot):
        return _quiet(snapshot, back)
    who = f"keeper {keeper} schedules on" if keeper is not None else "nobody schedules on (--no-keeper)"
    return f"Detached. {counts}; {who}. Back: {back} · Stop: {stop}"


def _quiet(snapshot: Snapshot, back: str) -> str:
    if not snapshot.waiting:
        return ""
    cause = snapshot.cause
    crashed = cause is not None and cause.kind is PauseKind.CRASHES
    why = f"Paused: {cause.message}" if crashed and cause is not None else "Paused"
    return f"{why if snapshot.mode is Mode.PAUSED else 'Left'}. {snapshot.waiting:,} waiting. Back: {back}"


def _stopped(snapshot: Snapshot, root: str, back: str) -> str:
    leftovers = [f"pid {pid}, {what}" for pid, what in left_of(root)]
    if leftovers:
        return "Stopped, but still there: " + "; ".join(leftovers)
    return f"Stopped: nothing of gputui runs here any more. {snapshot.not_begun:,} waiting. To go on: {back}, then p"
