"""The one screen: composes the panes, hands keys to actions, and paints what the bridge brings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Resize
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from gputui.core.events import UserCommand
from gputui.core.job import Active, Job, JobId, Waiting
from gputui.core.naming import Names
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.logs.progress import ProgressReader
from gputui.session.requests import Outcome
from gputui.tui.actions import BY_NAME, bindings
from gputui.tui.acting import ACTS
from gputui.tui.acting.footing import offered
from gputui.tui.bridge import Bridge
from gputui.tui.leaving import Way
from gputui.tui.model.arrangement import Pane, arrange
from gputui.tui.widgets.banner import Banner, notices
from gputui.tui.widgets.footer import Footer
from gputui.tui.widgets.gpus.pane import GpuPane, rows_wanted
from gputui.tui.widgets.logs.pane import AttemptLog, JobLog, LogPane
from gputui.tui.widgets.queue.table import QueueTable
from gputui.tui.widgets.status import StatusLine, Where

PAINT_EVERY = 0.25
"""Seconds between repaints for news; keys are answered at once."""
LOOK_EVERY = 1.0
MOST_PROGRESS = 24
"""Rows whose log is looked at for progress."""


class MainScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(self, bridge: Bridge, where: Where, *, read_only: bool, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.bridge = bridge
        self.where = where
        self.read_only = read_only
        self.now = now
        self.names = Names()
        self.table = QueueTable(bridge.snapshot, self.names, id="table")
        self.gpus = GpuPane(id="gpus")
        self.log_pane = LogPane(id="log")
        self.changed_keys: dict[str, str] = {}
        self.zoomed: Pane | None = None
        self.pane = Pane.QUEUE
        self._progress = ProgressReader()
        self._painted = 0.0
        self._paint_due = False
        self._shown_log: JobLog | None = None
        self._cause: object = None
        self.on_leave: Callable[[Way], None] = lambda way: None
        self.on_add_without_session: Callable[[Callable[[], None]], None] = lambda then: None
        self.environment: Callable[[], dict[str, str]] = dict

    def compose(self) -> ComposeResult:
        yield StatusLine(self.where, id="status")
        yield Banner(id="banner")
        yield self.gpus
        with Container(id="work"):
            with Vertical(id="queue"):
                yield self.table
                yield Input(placeholder="state:failed lr=0.1 text !not", compact=True, id="filter")
            yield self.log_pane
        yield Footer(id="footer")

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self.table.focus()
        self.set_interval(PAINT_EVERY, self.log_pane.tick)
        self.set_interval(LOOK_EVERY, self._look)
        self.paint()
        self.call_after_refresh(self._look)

    # What actions use

    @property
    def snapshot(self) -> Snapshot:
        """As painted."""
        return self.table.snapshot

    def job_under_cursor(self) -> Job | None:
        job = self.table.cursor
        if job is None:
            self.say("there is no job here")
        return self.snapshot[job] if job is not None else None

    def send(self, events: Sequence[UserCommand], done: str = "") -> None:
        """Each is carried out or refused; refusals are said, and so is success when it cannot be seen."""

        def answered(outcomes: list[Outcome]) -> None:
            refused = [outcome.refused for outcome in outcomes if outcome.refused is not None]
            if refused:
                more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
                self.say(refused[0] + more, grave=True)
            elif done:
                self.say(done)
            self.table.clear_marks()
            self.paint()

        if events:
            self.bridge.command(events, answered)

    def ask(self, screen: ModalScreen[Any], then: Callable[[Any], object]) -> None:
        self.app.push_screen(screen, lambda answer: then(answer) and None)

    def say(self, sentence: str, *, grave: bool = False) -> None:
        self.app.notify(plain(sentence), markup=False, severity="error" if grave else "information", timeout=5)

    def with_session(self, then: Callable[[], None]) -> None:
        """Begins a session first where there is none."""
        if self.bridge.has_session:
            then()
        else:
            self.on_add_without_session(then)

    def show_job(self, job: JobId) -> None:
        self.paint()
        self.table.move_to(job)

    def leave(self, way: Way) -> None:
        self.on_leave(way)

    # Keys

    def action_act(self, name: str) -> None:
        if self.read_only and BY_NAME[name].acts:
            self.say("this screen is read-only")
            return
        ACTS[name](self)

    @on(Footer.Clicked)
    def _clicked(self, event: Footer.Clicked) -> None:
        self.action_act(event.action)

    @on(QueueTable.Opened)
    def _opened(self) -> None:
        self.action_act("details")

    # Painting

    def news(self) -> None:
        """Something changed; painted at once or a little later, so that many changes are one repaint."""
        wait = PAINT_EVERY - (time.monotonic() - self._painted)
        if wait <= 0:
            self.paint()
        elif not self._paint_due:
            self._paint_due = True
            self.set_timer(wait, self.paint)

    def paint(self) -> None:
        self._paint_due, self._painted = False, time.monotonic()
        if not self.is_mounted:
            return
        changed = self.bridge.take_changed()
        snapshot = self.bridge.snapshot
        now = self.table.told.now = self.now()
        self.table.show(snapshot, changed)
        self._paint_lines(snapshot, now)
        self._paint_gpus(now)
        if self.table.cursor in changed:
            self._show_log()
        self._go_to_crash(snapshot)

    def _paint_lines(self, snapshot: Snapshot, now: float) -> None:
        monitor = not self.bridge.has_session
        self.query_one(StatusLine).show(snapshot, now, monitor=monitor, read_only=self.read_only)
        picture = self.bridge.picture
        trouble = picture.sample.trouble if picture is not None and picture.sample is not None else None
        sentence = f"{trouble.message}; {trouble.advice}" if trouble is not None else None
        if self.query_one(Banner).show(notices(snapshot, sentence)):
            self.arrange()
        self.query_one(Footer).show(offered(self), self.changed_keys)
        self._paint_titles()

    def _paint_gpus(self, now: float) -> None:
        picture = self.bridge.picture
        if picture is None:
            return
        self.gpus.show(picture, self.snapshot, self._short_name, now)
        if self._gpu_rows() != self._arranged_gpu_rows:
            self.arrange()

    def _short_name(self, job: JobId) -> str:
        return self.names.of(self.snapshot[job]) if job in self.snapshot else ""

    def _paint_titles(self) -> None:
        rows, table = self.table.rows, self.table
        tabs = "  ".join(f"[{tab}]" if tab is rows.tab else str(tab) for tab in type(rows.tab))
        title = Text(f"2 Queue  {tabs}")
        common = plain(self.names.common())
        if common:
            title.append(f"  {common} …", "dim")
        queue = self.query_one("#queue")
        queue.border_title = title
        marked = f"{len(table.marks):,} marked" if table.marks else ""
        hidden = table.hidden_marks()
        parts = [marked + (f", {hidden:,} not in this view" if hidden else ""), self._filter_words()]
        queue.border_subtitle = Text(" · ".join(part for part in parts if part))

    def _filter_words(self) -> str:
        rows = self.table.rows
        return f"/{plain(rows.filter.written)}: {len(rows):,} shown" if rows.filter else ""

    def _go_to_crash(self, snapshot: Snapshot) -> None:
        """When the breaker trips, the cursor is taken to the crash: that is the log the user wants to read."""
        cause = snapshot.cause
        if cause is not None and cause.jobs and self._cause is None and cause.jobs[-1] in snapshot:
            self.table.move_to(cause.jobs[-1])
        self._cause = cause

    # What is looked at now and then

    def _look(self) -> None:
        """Times, progress, and why jobs wait: of the rows in sight only."""
        jobs = self.table.visible_jobs()
        running = [job for job in jobs if isinstance(job.state, Active)]
        self.table.told.progress = {
            job.id: found.text for job in running[:MOST_PROGRESS] if (found := self._progress_of(job)) is not None
        }
        self.table.told.now = self.now()
        self.table.repaint_jobs(job.id for job in running)
        waiting = [job.id for job in jobs if isinstance(job.state, Waiting | Active)]
        self.bridge.whys(waiting, self._whys_came)
        self._paint_lines(self.snapshot, self.now())
        self._paint_gpus(self.now())

    def _progress_of(self, job: Job) -> Any:
        files = self.bridge.files(job, job.active.attempt) if job.active is not None else None
        return self._progress.read(Path(files.out), Path(files.err or files.out)) if files is not None else None

    def _whys_came(self, whys: dict[JobId, str]) -> None:
        before, self.table.told.whys = self.table.told.whys, {job: plain(words) for job, words in whys.items()}
        changed = {job for job in (*before, *whys) if before.get(job) != self.table.told.whys.get(job)}
        self.table.repaint_jobs(changed)
        if self.table.cursor in changed:
            self._show_log()

    # The log

    @on(QueueTable.Highlighted)
    def _highlighted(self) -> None:
        self._show_log()
        self.query_one(Footer).show(offered(self), self.changed_keys)

    @on(QueueTable.ViewChanged)
    def _view_changed(self) -> None:
        self._paint_titles()
        self.call_after_refresh(self._look)

    def _show_log(self) -> None:
        job_id = self.table.cursor
        if job_id is None or job_id not in self.snapshot:
            self.log_pane.show(None)
            self.log_pane.note("")
            return
        job = self.snapshot[job_id]
        log = JobLog(job.id, plain(self.names.of(job)), self._attempts(job))
        if log != self._shown_log:
            self._shown_log = log
            self.log_pane.show(log)
        if not log.attempts:
            self.log_pane.note(self.table.told.whys.get(job.id) or f"#{job.id} has not started yet")

    def _attempts(self, job: Job) -> tuple[AttemptLog, ...]:
        numbers = [attempt.number for attempt in job.attempts]
        if job.active is not None:
            numbers.append(job.active.attempt)
        found = []
        for number in numbers:
            files = self.bridge.files(job, number)
            if files is not None:
                live = job.active is not None and number == job.active.attempt
                found.append(AttemptLog(number, Path(files.out), Path(files.err) if files.err else None, live))
        return tuple(found)

    @on(LogPane.TitleChanged)
    def _log_title(self, event: LogPane.TitleChanged) -> None:
        self.log_pane.border_title = Text(f"3 {plain(event.title)}")

    @on(LogPane.Note)
    def _log_note(self, event: LogPane.Note) -> None:
        self.say(event.text)

    # Where everything is

    _arranged_gpu_rows = -1

    def _gpu_rows(self) -> int:
        picture = self.bridge.picture
        return rows_wanted(picture, self.size.width, self.size.height) if picture is not None else 0

    @on(Resize)
    def _resized(self) -> None:
        self.arrange()

    @on(DescendantFocus)
    def _focused(self, event: DescendantFocus) -> None:
        panes = {self.gpus: Pane.GPUS, self.table: Pane.QUEUE, self.log_pane: Pane.LOG}
        pane = panes.get(event.widget)  # type: ignore[call-overload]
        if pane is not None and pane is not self.pane:
            self.pane = pane
            self.arrange()
            self.query_one(Footer).show(offered(self), self.changed_keys)

    def arrange(self) -> None:
        self._arranged_gpu_rows = self._gpu_rows()
        lines = 2 + 2 * len(self.query_one(Banner).notices)
        zoomed = self.zoomed
        monitor = not self.bridge.has_session
        sizes = arrange(self.size.width, self.size.height - lines, self._arranged_gpu_rows, self.pane, zoomed,
                        gpus_only=monitor)  # fmt: skip
        work, queue = self.query_one("#work"), self.query_one("#queue")
        self.gpus.display = sizes.gpus > 0
        self.gpus.styles.height = sizes.gpus
        work.display = bool(sizes.queue or sizes.log)
        work.styles.layout = "horizontal" if sizes.side_by_side else "vertical"
        queue.display, self.log_pane.display = sizes.queue > 0, sizes.log > 0
        queue.styles.height = sizes.queue
        queue.styles.width = sizes.queue_width if sizes.side_by_side else "100%"
        self.log_pane.styles.height = sizes.log
        self.log_pane.styles.width = "1fr" if sizes.side_by_side else "100%"
