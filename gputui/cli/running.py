"""The life of one `gputui run`: opens the session, loads jobs, watches them, leaves when nothing more can happen."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
from typing import TypeVar

from gputui.core.events import Drain, Kill, Pause, PauseKind, Requeue, UserCommand
from gputui.core.job import Ended, JobId, Stopping, Succeeded
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.mode import Mode
from gputui.core.outlook import any_can_start
from gputui.core.snapshot import Snapshot
from gputui.gpus.hardware import find_hardware
from gputui.gpus.lanes import lanes as lanes_for
from gputui.gpus.wanted import All, BadGpus, parse_gpus
from gputui.session import gpu_file
from gputui.session.environment import captured, digest
from gputui.session.loading import Again
from gputui.session.lock import OwnerKind
from gputui.session.moving_aside import move_aside
from gputui.session.opening import Layout
from gputui.session.owner import Owner
from gputui.session.paths import Paths
from gputui.session.requests import Begin, Commands, Load
from gputui.session.serving import Serving
from gputui.session.takeover import Owned, become_owner
from gputui.session.ticket import OwnerGone, Work
from gputui.sources.kinds import Wanted
from gputui.sources.settings import JobSettings
from gputui.sources.source import Draft

from .driver import refuse_broken_driver
from .feeding import Feeder
from .inputs import STDIN, Inputs, Named, Source
from .lasting import Lasting
from .layouts import check_layout as check_layout
from .leaving import Leaving, Way, ask, farewell
from .report import EventLines, ProgressLine
from .streaming import Streamer
from .words import Exit, refuse

STREAM_EVERY = 0.1
GATHER = 0.05
"""Seconds in which news gathers before it is told, so that many quick jobs do not wake us for each."""
T = TypeVar("T")

TELL_AFTER = 0.5
"""Seconds in which the owner usually has answered long ago."""
GC_THRESHOLD = 100_000
INPUT_DRIES_UP = 1.0
"""Seconds without a line after which a user who leaves need not wait for the producer."""


class Running:
    """One run. Its jobs are those it loaded; without any, all that the session still has to do."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._wake = threading.Event()
        self._idle = threading.Event()
        """Nothing is under way: what gathers is told at once."""
        self._jobs: set[JobId] = set()
        self._unfinished: set[JobId] = set()
        self._changed: set[JobId] = set()
        self._reporter = ProgressLine() if sys.stderr.isatty() and not options.verbose else EventLines()
        self._lasting = Lasting(self._reporter.say, self._wake.set)
        self._environment = captured()
        self._way: Way | None = None
        self._paused_told = False
        self._trouble_told: str | None = None

    def run(self) -> int:
        options = self._options
        # A long queue is many objects and no cycles: looking for some took a third of the time of opening it.
        gc.set_threshold(GC_THRESHOLD)
        inputs = Inputs(self._named(), digest(self._environment), self._settings())
        lanes = self._lanes(inputs.gpus)
        paths = Paths(options.output_dir)
        if inputs.nothing and not paths.exists():
            refuse("no jobs: gputui run FILE, or commands on standard input")
        try:
            self._owner = self._open(paths)
        except Owned as owned:
            from .following import Following

            return Following(options, inputs, self._environment, owned).run()
        try:
            return self._work(inputs, lanes)
        except OwnerGone:
            raise Exit(1, self._why_gone()) from None
        finally:
            self._serving.without_successor = True
            self._owner.close()
            self._reporter.close()

    def _why_gone(self) -> str:
        if self._serving.handed_over:
            return "the session was taken over by another gputui, which goes on with it"
        failure = (self._owner.failure or "no reason is known").splitlines()[-1]
        return f"the scheduler failed; its jobs run on: {failure} ({self._owner.paths.log})"

    def _named(self) -> Named:
        options = self._options
        return Named(
            jobs=[*([options.job_file] if options.job_file else []), *options.jobs],
            job_yielder=options.job_yielder,
            follow=options.follow,
            wanted=Wanted(options.task, options.force_rerun),
            again=Again(rerun_lost=options.rerun_lost, force_rerun=options.force_rerun),
        )

    def _settings(self) -> JobSettings:
        options = self._options
        if options.timeout == 0:
            refuse("--timeout 0 would end every job at once; leave it out for no limit")
        return JobSettings(
            retries=options.retries,
            timeout=options.timeout,
            shell=options.shell,
            login_shell=options.login_shell or None,
            group=options.project,
        )

    def _lanes(self, named_by_input: str | None) -> tuple[Lane, ...]:
        hardware = find_hardware()
        try:
            if self._options.gpu_file:
                self._lane_notice = None
                return gpu_file.read(self._options.gpu_file)
            if self._options.gpus is None and named_by_input is not None:
                self._options.gpus = parse_gpus(named_by_input)
            given = lanes_for(self._options.gpus or All(), hardware)
        except BadGpus as error:
            refuse(str(error))
        except OSError as error:
            refuse(f"--gpu-file {self._options.gpu_file}: {error.strerror}")
        if hardware.gpus and any(lane.kind is DeviceKind.GPU for lane in given.lanes):
            refuse_broken_driver()
        self._lane_notice = given.notice
        return given.lanes

    def _open(self, paths: Paths) -> Owner:
        options = self._options
        layout = Layout(options.prefix, options.job_dir)
        check_layout(layout)
        if options.new:
            aside = move_aside(paths)
            if aside is not None:
                self._reporter.say(f"the session before is kept as {aside}")
        made = paths.create()
        ownership = become_owner(paths, OwnerKind.RUN, keeper=not options.no_keeper)
        self._leaving = Leaving(self._wake.set)
        owner = Owner(paths, ownership.lock, OwnerKind.RUN, layout=layout, made_folder=made, on_change=self._on_change)
        self._serving = Serving(owner, keeper=not options.no_keeper, keeper_pid=ownership.keeper)
        return owner

    # Work

    def _work(self, inputs: Inputs, lanes: tuple[Lane, ...]) -> int:
        owner, options = self._owner, self._options
        for notice in [*owner.notices, *inputs.notices]:
            self._reporter.say(notice)
        assert owner.feeds is not None
        owner.feeds.on_fed = self._lasting.fed
        opened = owner.snapshot
        self._reporter.seen(opened)
        owner.start()
        self._begin(lanes)
        for source in inputs.sources:
            self._load(source)
        if self._lasting.wait_for(inputs.lasting):
            self._asked(Load((), self._environment, "", sources=tuple(inputs.lasting)))
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
        while not self._done():
            self._wake.wait(STREAM_EVERY if options.stream or self._way is not None else None)
            self._gather()
            self._wake.clear()
            self._update()
            self._obey()
        self._update()
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

    def _begin(self, lanes: tuple[Lane, ...]) -> None:
        options = self._options
        begin = Begin(
            lanes=lanes,
            given=options.gpus is not None,
            change_lanes=options.set or options.gpu_file is not None,
            cpu_jobs=max(1, len(os.sched_getaffinity(0)) // 2),
            pause_after=options.pause_after,
            grace=options.grace,
            at_most=options.at_most,
            keep_free=options.keep_free,
            ignore_strangers=options.ignore_strangers or None,
            ignored=tuple(options.ignore.split(",")) if options.ignore else None,
            gpu_file=os.path.abspath(options.gpu_file) if options.gpu_file else None,
        )
        begun = self._asked(begin)
        if begun.kept and begun.differ:
            had = " ".join(",".join(lane.devices) or lane.kind for lane in begun.lanes)
            self._reporter.say(f"this session keeps its lanes ({had}); --set gives it the ones of --gpus")
        elif not begun.kept and self._lane_notice is not None:
            self._reporter.say(self._lane_notice)

    def _load(self, source: Source) -> None:
        records = (source.record,) if source.record is not None else ()
        loaded = self._asked(Load(source.specs, self._environment, source.origin, self._named().again, records))
        self._reporter.say(loaded.sentence)
        self._own(loaded.jobs)

    def _feed(self, inputs: Inputs, drafts: list[Draft]) -> None:
        load = Load(inputs.from_drafts(drafts), self._environment, "standard input")
        self._own(self._owner.do(load).result().jobs)
        self._wake.set()

    def _own(self, jobs: list[JobId]) -> None:
        self._jobs.update(jobs)
        self._unfinished.update(jobs)
        self._changed.update(jobs)

    def _adopt_all(self, snapshot: Snapshot) -> None:
        unfinished = [job.id for job in snapshot if not isinstance(job.state, Ended)]
        if not self._lasting.wait_for(list(self._owner.sources.values())) and not unfinished:
            raise Exit(0, "nothing is left to do in this session; give it jobs: gputui run FILE")
        self._own(unfinished)

    def _update(self) -> None:
        """Takes in the newest snapshot."""
        self._own(self._lasting.take())
        changed = frozenset(self._owner.take_changed())
        snapshot = self._owner.snapshot
        self._reporter.update(snapshot, changed)
        self._tell_trouble(snapshot.trouble)
        if self._streamer is not None:
            self._streamer.update(snapshot, changed)
        fresh, self._changed = self._changed, set()
        for job_id in (changed | fresh) & self._jobs:
            if isinstance(snapshot[job_id].state, Ended):
                self._unfinished.discard(job_id)
            else:
                self._unfinished.add(job_id)
        if snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES:
            self._tell_pause(snapshot.cause.message)

    def _asked(self, work: Work[T]) -> T:
        """The owner's answer; while it must wait for the disk, the user is told."""
        ticket = self._owner.do(work)
        while True:
            try:
                return ticket.result(TELL_AFTER)
            except TimeoutError:
                self._tell_trouble(self._owner.snapshot.trouble)

    def _tell_trouble(self, trouble: str | None) -> None:
        if trouble is not None and self._trouble_told is None:
            self._reporter.say(trouble)
        self._trouble_told = trouble

    def _tell_pause(self, message: str) -> None:
        if not self._paused_told:
            self._paused_told = True
            self._feeder.to_its_end.set()
            self._reporter.say(f"paused: {message}")

    def _done(self) -> bool:
        if not self._owner.alive:
            return True
        snapshot = self._owner.snapshot
        if self._way is not None:
            dry = self._feeder.ended.is_set() or self._feeder.quiet_for(INPUT_DRIES_UP)
            return dry and (self._way is Way.DETACH or not snapshot.active)
        if not snapshot.active.isdisjoint(self._unfinished) or not self._feeder.ended.is_set():
            return False
        if self._lasting.more_may_come(snapshot, self._owner.sources):
            return False
        return not self._unfinished or (not self._options.wait_when_paused and self._stuck(snapshot))

    def _stuck(self, snapshot: Snapshot) -> bool:
        """Nothing of ours runs; does anything of ours start without somebody's help?"""
        if snapshot.mode is not Mode.RUNNING:
            return not snapshot.active
        if snapshot.active:
            return False
        return not any_can_start(snapshot, self._unfinished)

    # Leaving

    def _obey(self) -> None:
        if self._leaving.menu_wanted:
            self._leaving.menu_wanted = False
            self._reporter.close()
            way = ask(self._owner.snapshot.running)
        else:
            way = self._leaving.take()
        if way is not None:
            self._go(way)

    def _go(self, way: Way) -> None:
        """Leaving on purpose is durable before anything ends, so that nobody undoes it."""
        self._way = way
        self._feeder.to_its_end.set()
        snapshot = self._owner.snapshot
        events: list[UserCommand] = []
        match way:
            case Way.DRAIN:
                self._reporter.say(f"draining: {snapshot.running} running jobs go on, nothing new starts")
                events = [Drain()]
            case Way.KILL:
                self._reporter.say(f"killing {snapshot.running} running jobs")
                events = [Pause(PauseKind.INTERRUPTED), *(Kill(job=job) for job in snapshot.active)]
            case Way.STOP:
                self._reporter.say(f"stopping: {snapshot.running} running jobs are ended and wait again")
                events = [Pause(PauseKind.STOPPED), *_requeues(snapshot)]
        if events:
            self._asked(Commands(tuple(events)))

    def _status(self) -> int:
        if not self._owner.alive:
            raise Exit(1, self._why_gone())
        snapshot = self._owner.snapshot
        if self._feeder.trouble is not None:
            self._reporter.say(f"{self._feeder.trouble}; what came before it was run")
        left = farewell(snapshot, self._way, f"gputui run{self._where()}")
        if left is not None:
            self._reporter.say(left)
        if self._way is not None:
            return self._leaving.status if self._leaving.status is not None else 130
        if self._feeder.trouble is not None or self._lasting.failed:
            return 2
        return 0 if all(isinstance(snapshot[job].state, Succeeded) for job in self._jobs) else 1

    def _where(self) -> str:
        folder = self._options.output_dir
        return "" if folder == "gputui_run" else f" --output-dir {folder}"


def _requeues(snapshot: Snapshot) -> list[UserCommand]:
    return [Requeue(job=job) for job in snapshot.active if not isinstance(snapshot[job].state, Stopping)]
