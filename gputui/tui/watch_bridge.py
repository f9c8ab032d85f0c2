"""A session that another process owns, as a screen that only looks sees it: live, over the owner's socket.

A thread of its own asks, so the screen never waits; when the owner goes it looks for the next one. Nothing here changes
the session, and nobody there notices when it ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from msgspec.structs import replace

from gputui.core.job import Ended, Job, JobId
from gputui.core.results import Curve
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.spans import RecordedSpan
from gputui.core.views.amounts import moment
from gputui.gpus.picture import DevicesPicture
from gputui.process.threads import begin
from gputui.session.control.client import Client, ClientError, NoOwner, OwnerStopped
from gputui.session.control.job_details import Details
from gputui.session.control.looking_on import LookingOn
from gputui.session.errors import SessionError
from gputui.session.files.folders import Files, Folders
from gputui.session.files.paths import Paths
from gputui.session.messages.socket_requests import Follow
from gputui.session.messages.watch_requests import CurvesToDraw, JobInFull, LookRequest, SpansToShow, WhyJobsWait
from gputui.session.owner.owner import Owner
from gputui.session.owner.ticket import OwnerGone, Ticket, Work

from .bridge import Bridge

T = TypeVar("T")
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
