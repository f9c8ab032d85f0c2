"""The only crossing between the screen's thread and the owner's: wishes go over as commands, pictures come back.

Nothing here waits for the owner, and the owner never waits for the screen: a stalled terminal must not hold up a job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gputui.core.events import Refusal, UserCommand
from gputui.core.job import Job, JobId
from gputui.core.lanes import DeviceKind
from gputui.core.results import Curve
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.spans import RecordedSpan
from gputui.gpus.picture import DevicesPicture
from gputui.session.control.job_details import Details, details, whys
from gputui.session.devices.machine_watch import MachineWatch
from gputui.session.devices.monitor import Monitor
from gputui.session.errors import SessionError
from gputui.session.files.folders import Files
from gputui.session.messages.replies import Outcome
from gputui.session.messages.socket_requests import Commands
from gputui.session.owner.owner import Owner
from gputui.session.owner.ticket import OwnerGone, Ticket, Work
from gputui.session.ownership.holding import Holding

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
