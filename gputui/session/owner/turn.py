"""The owner's turn: handle all that happened, place jobs once, commit, release, publish, answer.

What the scheduler instructed is done only when the change is durable. What could not be made durable is kept and
offered again.
"""

from __future__ import annotations

from typing import Any

from gputui.core.events import AttemptEnded, Event, NeverRan, Refusal, Tick
from gputui.core.instructions import Instruction, Start
from gputui.core.job import Ended, Job, JobId
from gputui.core.steps import Step, reached
from gputui.core.taking_back import TakenBack, to_now
from gputui.core.views.standing import awaited
from gputui.engines.protocol import Report
from gputui.session.environment import digest
from gputui.session.errors import CommitFailed
from gputui.session.feeds.feed_request import Fed
from gputui.session.files.layouts import Layout, in_the_way
from gputui.session.store.source_record import SourceRecord

from .clock import time_and_step
from .crash_words import told_in_full
from .folder_check import FolderCheck
from .loop import Timer
from .parts import Parts
from .publication import Publication
from .ticket import Ticket
from .without_room import needs_room, orders_of, take_back, write_down

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
        self._results.take_in(self._saver)
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
        return told_in_full(report, self.scheduler.book[report.job], self._devices, self._folders)

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
