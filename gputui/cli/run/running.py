"""The life of one `gputui run`: opens the session, loads jobs, watches them, leaves when nothing more can happen."""

from __future__ import annotations

import argparse
import threading
import time
from typing import TypeVar

from gputui.cli.command import again_in
from gputui.cli.output import Exit, refuse
from gputui.cli.progress import EventLines, ProgressLine, draws_progress, tell_summary
from gputui.core.events import Refusal
from gputui.core.job import Ended
from gputui.core.snapshot import Snapshot
from gputui.gpus.lanes import GivenLanes
from gputui.logs.plain import plain
from gputui.process.machine import collect_rarely
from gputui.process.watch import Wakeup
from gputui.session.environment import captured, digest
from gputui.session.event_loop import OwnerGone, Ticket, Work
from gputui.session.loading import Again
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.requests import Load, OpenedWithJobs, OpenSession
from gputui.session.ownership.acquisition import Holding, Owned
from gputui.session.ownership.old_sessions import move_aside
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft
from gputui.views.status import any_can_start, starts_jobs

from .inputs import STDIN, Inputs, Named
from .interrupts import Behind, Leaving, WayToLeave, announced, ask, ends_of, order_of
from .jobs import Charges, CrashNotes, Feeder, Lasting, tallied, told, write
from .session_options import (
    begin_request,
    job_settings,
    layout,
    named_inputs,
    named_request,
    told_of_lanes,
    wanted_lanes,
)
from .session_options import check_layout as check_layout
from .streaming import Streamer

STREAM_EVERY = 0.1
GATHER = 0.05
"""Seconds in which news gathers before it is told, so that many quick jobs do not wake us for each."""
T = TypeVar("T")

TELL_AFTER = 0.5
"""Seconds in which the owner usually has answered long ago."""
INPUT_DRIES_UP = 1.0
"""Seconds without a line after which a user who leaves need not wait for the producer."""


class RunOfJobs:
    """One run. Its jobs are those it loaded; without any, all that the session still has to do."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._begun = time.time()
        self._wake = Wakeup()
        self._idle = threading.Event()
        """Nothing is under way: what gathers is told at once."""
        self._charges = Charges()
        self._reporter = ProgressLine() if draws_progress(options) else EventLines()
        self._lasting = Lasting(self._reporter.say, self._wake.set)
        self._environment = captured()
        self._way: WayToLeave | None = None
        self._crash_notes = CrashNotes(self._reporter.say)
        self._trouble_told: str | None = None

    def run(self) -> int:
        options = self._options
        collect_rarely()
        inputs = Inputs(self._named(), digest(self._environment), job_settings(options))
        given_lanes = wanted_lanes(options, inputs.gpus)
        paths = Paths(options.output_dir)
        if inputs.nothing and not paths.exists():
            refuse("no jobs: gputui run FILE, or commands on standard input")
        try:
            self._holding = self._open(paths)
        except Owned as owned:
            from .join_owner import JoinedRun

            for notice in paths.notices:
                self._reporter.say(notice)
            return JoinedRun(options, inputs, self._environment, owned, named_request(options, given_lanes)).run()
        self._owner = self._holding.owner
        self._leaving = Leaving(self._wake)
        self._holding.serving.dismissed = self._leaving.dismiss
        try:
            status = self._work(inputs, given_lanes)
        except OwnerGone:
            raise Exit(1, self._holding.why_gone()) from None
        finally:
            self._holding.let_go(without_successor=True)
            self._reporter.close()
            self._wake.forget_signals()
        if self._way is None and len(self._charges.jobs) > 1:
            tell_summary(self._owner.snapshot)
        return status

    def _named(self) -> Named:
        options = self._options
        again = Again(rerun_lost=options.rerun_lost, force_rerun=options.force_rerun, ended_before=self._begun)
        return named_inputs(options, again)

    def _open(self, paths: Paths) -> Holding:
        options = self._options
        check_layout(layout(options))
        if options.new:
            aside = move_aside(paths)
            if aside is not None:
                self._reporter.say(f"the session before is kept as {aside}")
        if options.adopt:
            from .join_owner import adopt

            adopt(paths, yes=options.yes)
        return Holding(
            paths, OwnerKind.RUN, layout=layout(options), keeper=not options.no_keeper, on_change=self._on_change
        )

    # Work

    def _work(self, inputs: Inputs, given_lanes: GivenLanes) -> int:
        owner, options = self._owner, self._options
        for notice in [*owner.notices, *inputs.notices]:
            self._reporter.say(notice)
        assert owner.feeds is not None
        owner.feeds.on_fed = self._lasting.fed
        opened = owner.snapshot
        if options.no_keeper:
            self._charges.welcome(owner.scheduler.book.next_id)
        self._reporter.seen(opened)
        if self._lasting.wait_for(inputs.lasting):
            self._lasting.listen(owner.paths.yielder_log, self._reporter.copy)
        request = OpenSession(begin_request(options, given_lanes), inputs.loads(owner.paths.root, self._environment))
        ticket = owner.do(request)  # before its first turn, which would use the lanes it had
        owner.start()
        self._tell_opened(self._answer(ticket), given_lanes)
        self._lasting.announce()
        if inputs.nothing:
            self._adopt_all(opened)
        feed, waiting = lambda drafts: self._feed(inputs, drafts), lambda: owner.snapshot.waiting
        self._feeder = Feeder(STDIN, feed, waiting, self._wake.set)
        if inputs.follows_stdin:
            self._feeder.start()
        else:
            self._feeder.ended.set()
        self._streamer = Streamer(owner.folders) if options.stream else None
        self._obey()
        more, copies = False, options.stream or self._lasting.prints is not None
        while not self._done():
            if not more:
                self._wake.wait(STREAM_EVERY if copies or self._way is not None else None)
                self._gather()
            self._wake.clear()
            more = self._update()
            self._obey()
        self._update()
        if self._streamer is not None:
            self._streamer.finish(owner.snapshot)
        return self._status()

    def _on_change(self) -> None:
        """In the owner's thread."""
        self._wake.set()
        if not self._owner.snapshot.active:
            self._idle.set()

    def _gather(self) -> None:
        self._idle.clear()
        if self._owner.snapshot.active:
            self._idle.wait(GATHER)

    def _tell_opened(self, opened: OpenedWithJobs, given_lanes: GivenLanes) -> None:
        for loaded in opened.loaded:
            self._charges.own(loaded.jobs)
        for sentence in [
            told_of_lanes(opened.begun, given_lanes.notice),
            *(loaded.sentence for loaded in opened.loaded),
            *(f"warning: {plain(loaded.warning)}" for loaded in opened.loaded if loaded.warning),
        ]:
            if sentence:
                self._reporter.say(sentence)
        if opened.refused is not None:
            raise Refusal(opened.refused)

    def _feed(self, inputs: Inputs, drafts: list[Draft]) -> None:
        load = Load(inputs.from_drafts(drafts), self._environment, "standard input")
        self._charges.own(self._owner.do(load).result().jobs)
        self._wake.set()

    def _adopt_all(self, snapshot: Snapshot) -> None:
        unfinished = [job.id for job in snapshot if not isinstance(job.state, Ended)]
        if not self._lasting.wait_for(list(self._owner.sources.values())) and not unfinished:
            run = again_in(self._owner.paths.root, "gputui run FILE")
            raise Exit(0, f"nothing is left to do in this session; give it jobs: {run}")
        self._charges.own(unfinished)

    def _update(self) -> bool:
        """Takes in the newest snapshot; whether the jobs have written more than was copied."""
        self._charges.own(self._lasting.take())
        changed = frozenset(self._owner.take_changed())
        snapshot = self._owner.snapshot
        self._reporter.update(snapshot, changed)
        self._tell_trouble(snapshot.trouble)
        more = self._streamer is not None and self._streamer.update(snapshot, changed)
        self._charges.update(snapshot, changed)
        if self._crash_notes.update(snapshot):
            self._feeder.to_its_end.set()
        return more

    def _asked(self, work: Work[T]) -> T:
        return self._answer(self._owner.do(work))

    def _answer(self, ticket: Ticket[T]) -> T:
        """The owner's; while it must wait for the disk, the user is told."""
        while True:
            try:
                return ticket.result(TELL_AFTER)
            except TimeoutError:
                self._tell_trouble(self._owner.snapshot.trouble)

    def _tell_trouble(self, trouble: str | None) -> None:
        if trouble is not None and self._trouble_told is None:
            self._reporter.say(trouble)
        self._trouble_told = trouble

    def _done(self) -> bool:
        if not self._owner.alive:
            return True
        snapshot = self._owner.snapshot
        if self._way is not None:
            dry = self._feeder.ended.is_set() or self._feeder.quiet_for(INPUT_DRIES_UP)
            return dry and (self._way is WayToLeave.DETACH or not snapshot.active)
        if not snapshot.active.isdisjoint(self._charges.unfinished) or not self._feeder.ended.is_set():
            return False
        if self._lasting.more_may_come(snapshot, self._owner.sources):
            return False
        return not self._charges.unfinished or (not self._options.wait_when_paused and self._stuck(snapshot))

    def _stuck(self, snapshot: Snapshot) -> bool:
        """Nothing of ours runs; does anything of ours start without somebody's help?"""
        if snapshot.active:
            return False
        return not starts_jobs(snapshot) or not any_can_start(snapshot, self._charges.unfinished)

    # Leaving

    def _obey(self) -> None:
        if self._leaving.menu_wanted:
            self._leaving.menu_wanted = False
            self._reporter.close()
            way = ask(self._owner.snapshot.running, self._leaving.wanted) or self._leaving.take()
        else:
            way = self._leaving.take()
        if way is not None:
            self._go(way)

    def _go(self, way: WayToLeave) -> None:
        """Leaving on purpose is durable before anything ends, so that nobody undoes it."""
        self._way = way
        self._feeder.to_its_end.set()
        order = order_of(way)
        if order is not None:
            self._asked(Commands((order,)))
        snapshot = self._owner.snapshot  # with what was just starting
        sentence = announced(way, snapshot.running)
        if sentence is not None:
            self._reporter.say(sentence)
        ends = ends_of(way, snapshot)
        if ends:
            self._asked(Commands(ends))

    def _status(self) -> int:
        if not self._owner.alive:
            raise Exit(1, self._holding.why_gone())
        snapshot = self._owner.snapshot
        if self._feeder.trouble is not None:
            self._reporter.say(f"{self._feeder.trouble}; what came before it was run")
        self._say_goodbye(snapshot)
        self._tell_tally(snapshot)
        if self._way is not None:
            return self._leaving.status if self._leaving.status is not None else 130
        if self._feeder.trouble is not None or self._lasting.failed:
            return 2
        return 0 if self._charges.succeeded(snapshot) else 1

    def _tell_tally(self, snapshot: Snapshot) -> None:
        tally = tallied(snapshot[job] for job in self._charges.jobs)
        write(self._options.tally, tally)
        sentence = told(tally)
        if sentence is not None:
            self._reporter.say(sentence)

    def _say_goodbye(self, snapshot: Snapshot) -> None:
        keeper = self._holding.serving.keeper_pid
        behind = Behind(
            snapshot,
            goes_on=self._owner.goes_on(),
            keeper=None if self._options.no_keeper else f"keeper {keeper}" if keeper is not None else "a keeper",
            others=self._charges.others(snapshot),
            folder=self._options.output_dir,
        )
        for sentence in [*self._charges.left(snapshot), behind.told(self._way)]:
            if sentence is not None:
                self._reporter.say(plain(sentence))
