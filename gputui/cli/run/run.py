"""`gputui run`: open the session, load jobs, watch them, and exit when nothing more can happen."""

from __future__ import annotations

import sys
import threading
import time
from typing import TypeVar

from gputui.cli.command import suggest_in
from gputui.cli.follower import Streamer
from gputui.cli.output import JSON, UNREACHABLE, Exit, print_json, refuse
from gputui.cli.parser import Options
from gputui.cli.progress import print_summary, reporter
from gputui.core.amounts import counted
from gputui.core.events import Refusal
from gputui.core.job import Ended
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.process.machine import collect_rarely
from gputui.process.watch import Wakeup
from gputui.session import lock as locks
from gputui.session.environment import captured, digest
from gputui.session.event_loop import LOOK_AT_OWNER, OwnerGone, Ticket
from gputui.session.loading import RerunRules
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.requests import OpenedWithJobs, OpenSession
from gputui.session.ownership.acquisition import AlreadyOwned, OwnedSession, move_aside
from gputui.session.session_dir import Paths
from gputui.sources.kinds import Kind, parse_drafts
from gputui.sources.source import Draft
from gputui.views.status import any_can_start, starts_jobs

from .inputs import STDIN, Inputs
from .interrupts import LEAVING_COMMANDS, LeaveRequests, WayToLeave, ask_how_to_leave, describe_leaving
from .jobs import CrashNotes, OngoingSources, RunAnswer, RunJobs, StdinReader, load_messages, report_tally, tally_jobs
from .session_options import (
    WantedSlots,
    begin_request,
    confirm_conflicts,
    describe_slots,
    session_options,
    wanted_slots,
)

STREAM_EVERY = 0.1
GATHER = 0.05
"""Seconds during which changes are collected before they are reported.

Otherwise each of many quick jobs would wake this thread.
"""
T = TypeVar("T")

SLOW_ANSWER = 0.5
"""Seconds to wait for the owner's answer before a message says why it is late."""
QUIET_INPUT = 1.0
"""Seconds without input after which leaving no longer waits for the producer."""


ANSWERS = {"run": RunAnswer}


def work(options: Options) -> int:
    if options.json and options.stream:
        refuse("use either --json or --stream")
    return RunOfJobs(options).run()


class RunOfJobs:
    """One run. Its jobs are the ones it loads or, if it loads none, all unfinished jobs of the session."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = session_options(options)
        self._wake = Wakeup()
        self._idle = threading.Event()
        """Set when no job is active, so that changes are reported immediately."""
        self._jobs = RunJobs()
        self._reporter = reporter(options)
        self._sources = OngoingSources(self._reporter.say, self._wake.set)
        self._environment = captured()
        self._way: WayToLeave | None = None
        self._crash_notes = CrashNotes(self._reporter.say)
        self._reported_trouble: str | None = None

    def run(self) -> int:
        options, session = self._options, self._session
        collect_rarely()
        again = RerunRules(rerun_lost=options.rerun_lost, force_rerun=options.force_rerun, ended_before=time.time())
        inputs = Inputs(options, again, digest(self._environment), session)
        given_slots = wanted_slots(session, inputs.gpus)
        paths = Paths(session.output_dir)
        if inputs.nothing and not paths.exists():
            refuse("no jobs: use gputui run FILE or pipe commands to stdin")
        if options.dry_run:
            return self._preview(paths, inputs, given_slots)
        try:
            self._holding = self._open(paths)
        except AlreadyOwned as owned:
            from .join_owner import JoinedRun

            for notice in paths.notices:
                self._reporter.say(notice)
            return JoinedRun(options, inputs, self._environment, owned, session, given_slots).run()
        self._owner = self._holding.owner
        self._leave_requests = LeaveRequests(self._wake)
        self._holding.serving.dismissed = self._leave_requests.dismiss
        try:
            self._work(inputs, given_slots)
            status = self._finish()
        except OwnerGone:
            raise Exit(UNREACHABLE, self._holding.why_gone()) from None
        finally:
            self._holding.let_go(without_successor=True)
            self._reporter.close()
            self._wake.forget_signals()
        if self._way is None and len(self._jobs.jobs) > 1 and not JSON.on:
            print_summary(self._owner.snapshot)
        return status

    def _preview(self, paths: Paths, inputs: Inputs, given_slots: WantedSlots) -> int:
        """Show what the run would do, without changing anything."""
        from gputui.cli.dry_run import RefusedCommand, RehearsalClient, print_preview

        client = RehearsalClient(paths.root, new=self._options.new)
        loads = inputs.loads(None, self._environment)
        if inputs.follows_stdin:
            drafts = parse_drafts(sys.stdin.buffer.read(), "standard input", Kind.COMMANDS)
            loads = (*loads, inputs.load_lines(drafts, None, self._environment))
        begin, holder = begin_request(self._session, given_slots), locks.holder(paths)
        if holder is not None and holder.kind in (OwnerKind.APP, OwnerKind.RUN) and locks.is_alive(holder.pid):
            owned = AlreadyOwned(holder.kind, holder.pid)
            begin = confirm_conflicts(client, owned, self._session, given_slots, yes=self._options.yes, ask=False)
        opened = client.ask(OpenSession(begin, loads))
        for message in (describe_slots(opened.begun, given_slots.notice), *load_messages(opened.loaded)):
            if message:
                self._reporter.say(message)
        for source in inputs.ongoing:
            self._reporter.say(f"{source.path}: its jobs are not known in advance")
        jobs = [job for loaded in opened.loaded for job in loaded.jobs]
        if inputs.nothing:
            jobs = [job.id for job in client.rehearsal.snapshot if not isinstance(job.state, Ended)]
        return print_preview(client, jobs, [RefusedCommand(None, opened.refused)] if opened.refused else [])

    def _open(self, paths: Paths) -> OwnedSession:
        options, session = self._options, self._session
        if options.new:
            aside = move_aside(paths)
            if aside is not None:
                self._reporter.say(f"previous session kept as {aside}")
        if options.adopt:
            from .join_owner import adopt

            adopt(paths, yes=options.yes)
        return OwnedSession(
            paths, OwnerKind.RUN, layout=session.layout, daemon=session.daemon, on_change=self._on_change
        )

    def _work(self, inputs: Inputs, given_slots: WantedSlots) -> None:
        owner, options = self._owner, self._options
        for notice in [*owner.notices, *inputs.notices]:
            self._reporter.say(notice)
        assert owner.feeds is not None
        owner.feeds.on_fed = self._sources.on_fed
        opened = owner.snapshot
        if not self._session.daemon:
            self._jobs.adopt_from = owner.scheduler.book.next_id
        self._reporter.skip_past(opened)
        if self._sources.add(inputs.ongoing):
            self._sources.copy_output(owner.paths.yielder_log, self._reporter.copy)
        self._report_opened(self._load(inputs, given_slots), given_slots)
        self._sources.announce()
        if inputs.nothing:
            self._adopt_all(opened)

        def add(drafts: list[Draft]) -> None:
            self._jobs.add(owner.do(inputs.load_lines(drafts, owner.paths.root, self._environment)).result().jobs)
            self._wake.set()

        self._stdin = StdinReader(STDIN, add, lambda: owner.snapshot.waiting, self._wake.set)
        self._stdin.start(wanted=inputs.follows_stdin)
        self._streamer = Streamer(owner.directories) if options.stream else None
        self._check_leave_requests()
        more, copies = False, options.stream or self._sources.output is not None
        while not self._done():
            if not more:
                self._wait(STREAM_EVERY if copies or self._way is not None else None)
                self._idle.clear()
                if owner.snapshot.active:
                    self._idle.wait(GATHER)
            self._wake.clear()
            more = self._update()
            self._check_leave_requests()
        self._update()
        if self._streamer is not None:
            self._streamer.finish(owner.snapshot)

    def _load(self, inputs: Inputs, given_slots: WantedSlots) -> OpenedWithJobs:
        begin, loads = (
            begin_request(self._session, given_slots),
            inputs.loads(self._owner.paths.root, self._environment),
        )
        ticket = self._owner.do(OpenSession(begin, loads))  # before the owner's first turn with the old slots
        self._owner.start()
        return self._wait_for(ticket)

    def _wait(self, seconds: float | None) -> None:
        """Wait for changes, at most this many seconds.

        If `seconds` is None, wait until there are changes or until the owner has died without reporting any.
        """
        while not self._wake.wait(LOOK_AT_OWNER if seconds is None else seconds):
            if seconds is not None or not self._owner.alive:
                return

    def _on_change(self) -> None:
        """Wake the main thread. This is called in the owner's thread."""
        self._wake.set()
        if not self._owner.snapshot.active:
            self._idle.set()

    def _report_opened(self, opened: OpenedWithJobs, given_slots: WantedSlots) -> None:
        for loaded in opened.loaded:
            self._jobs.add(loaded.jobs)
        for message in (describe_slots(opened.begun, given_slots.notice), *load_messages(opened.loaded)):
            if message:
                self._reporter.say(message)
        if opened.refused is not None:
            raise Refusal(opened.refused)

    def _adopt_all(self, snapshot: Snapshot) -> None:
        unfinished = [job.id for job in snapshot if not isinstance(job.state, Ended)]
        if not self._sources.add(list(self._owner.sources.values())) and not unfinished:
            run = suggest_in(self._owner.paths.root, "gputui run FILE")
            raise Exit(0, f"nothing left to do in this session; add jobs with: {run}")
        self._jobs.add(unfinished)

    def _update(self) -> bool:
        """Report changes, and return whether there is more output to copy."""
        self._jobs.add(self._sources.take())
        changed = frozenset(self._owner.take_changed())
        snapshot = self._owner.snapshot
        self._reporter.update(snapshot, changed)
        self._report_trouble(snapshot.trouble)
        more = self._streamer is not None and self._streamer.update(snapshot, changed)
        self._jobs.update(snapshot, changed)
        if self._crash_notes.update(snapshot):
            self._stdin.finish.set()
        return more

    def _wait_for(self, ticket: Ticket[T]) -> T:
        """Wait for the owner's answer. Meanwhile report trouble such as a full disk."""
        while True:
            try:
                return ticket.result(SLOW_ANSWER)
            except TimeoutError:
                self._report_trouble(self._owner.snapshot.trouble)

    def _report_trouble(self, trouble: str | None) -> None:
        if trouble is not None and self._reported_trouble is None:
            self._reporter.say(trouble)
        self._reported_trouble = trouble

    def _done(self) -> bool:
        if not self._owner.alive:
            return True
        snapshot = self._owner.snapshot
        if self._way is not None:
            no_input = self._stdin.ended.is_set() or self._stdin.quiet_for(QUIET_INPUT)
            return no_input and (self._way is WayToLeave.DETACH or not snapshot.active)
        unfinished = self._jobs.unfinished
        if not snapshot.active.isdisjoint(unfinished) or not self._stdin.ended.is_set():
            return False
        if self._sources.more_may_come(snapshot, self._owner.sources):
            return False
        if not unfinished:
            return True
        can_go_on = bool(snapshot.active) or (starts_jobs(snapshot) and any_can_start(snapshot, unfinished))
        return not self._options.wait_when_paused and not can_go_on

    # Leaving

    def _check_leave_requests(self) -> None:
        requests = self._leave_requests
        way = None
        if requests.menu_wanted:
            requests.menu_wanted = False
            self._reporter.close()
            way = ask_how_to_leave(self._owner.snapshot.running, requests.pending)
        way = way or requests.take()
        if way is not None:
            self._leave(way)

    def _leave(self, way: WayToLeave) -> None:
        self._way = way
        self._stdin.finish.set()
        if way in LEAVING_COMMANDS:
            self._wait_for(self._owner.do(Commands((LEAVING_COMMANDS[way],))))
        running = self._owner.snapshot.running
        match way:
            case WayToLeave.DRAIN:
                jobs = counted(running, "job still running", "jobs still running")
                self._reporter.say(f"draining: {jobs}, no new jobs start")
            case WayToLeave.KILL:
                self._reporter.say(f"killing {counted(running, 'running job', 'running jobs')}")
            case WayToLeave.STOP:
                ended = counted(running, "running job", "running jobs")
                self._reporter.say(f"stopping: requeuing {ended}")

    def _finish(self) -> int:
        """Report the result of the run and return the exit status."""
        if not self._owner.alive:
            raise Exit(UNREACHABLE, self._holding.why_gone())
        snapshot = self._owner.snapshot
        if self._stdin.trouble is not None:
            self._reporter.say(f"{self._stdin.trouble}; all lines before it were run")
        daemon = self._holding.serving.daemon_pid
        left_behind = describe_leaving(
            snapshot,
            self._way,
            has_work=self._owner.has_work(),
            daemon=None if not self._session.daemon else f"daemon {daemon}" if daemon is not None else "a daemon",
            others=self._jobs.count_others(snapshot),
            directory=self._session.output_dir,
        )
        for message in [*self._jobs.leftovers(snapshot), left_behind]:
            if message is not None:
                self._reporter.say(plain(message))
        tally = tally_jobs(snapshot[job] for job in self._jobs.jobs)
        report_tally(tally, self._options.tally, self._reporter.say)
        if JSON.on:
            print_json(RunAnswer(self._owner.paths.root, sorted(self._jobs.jobs), **tally))
        if self._way is not None:
            return self._leave_requests.status if self._leave_requests.status is not None else 130
        if self._stdin.trouble is not None or self._sources.failed:
            return 2
        return 0 if self._jobs.succeeded(snapshot) else 1
