"""The main screen. It arranges the panes, passes keys to actions, and paints new snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Resize, ScreenResume, ScreenSuspend
from textual.screen import ModalScreen, Screen

from gputui.core.events import JobCommand, Mode, UserCommand
from gputui.core.job import Active, Blocked, Delayed, Held, Job, JobId, Succeeded, Waiting
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.gpus.history import EMPTY
from gputui.logs.plain import plain
from gputui.session.control.handlers import pid_of
from gputui.session.messages import Outcome
from gputui.session.saved_state import load_order, save_order
from gputui.tui.actions.devices import ask_which
from gputui.tui.actions.display import ErrorVisit
from gputui.tui.actions.offered import offered
from gputui.tui.actions.table import ACTIONS, BY_NAME, bindings
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.gpus.pane import GpuPane, rows_wanted
from gputui.tui.log.pane import AttemptLog, JobLog, LogPane, submission_note
from gputui.tui.log.view import number_after
from gputui.tui.queue.rows import METRIC, PARAMETER, QUEUE_ORDER, SECOND, SORTS, TIME
from gputui.tui.queue.table import FilterBar, QueueTable
from gputui.tui.views.base import FullView
from gputui.tui.views.summary import AutoSummary
from gputui.views.parameters import Parameters
from gputui.views.status import Alerts
from gputui.views.waiting import Reason

from .banner import MONITOR, Banner, error_rows, notices
from .chrome import Band, Divider, Footer, StatusLine
from .layout import Arrangement, Pane, arrange, read_habits, write_habits

if TYPE_CHECKING:
    from .app import GputuiApp

LOOK_EVERY = 1.0
REST_REPAINT_SECONDS = 10.0
"""Seconds between repaints of a session at rest. A minute must be a multiple of this."""
PAINT_EVERY = 0.25
"""Minimum number of seconds between repaints for new snapshots. Keys are answered immediately."""
COLUMN_STEP, ROW_STEP = 4, 1
"""Cells by which a key moves the border between the queue and the log, horizontally and vertically."""
TITLES = {DeviceKind.GPU: "GPUs", DeviceKind.CPU: "CPU", DeviceKind.SIMULATED: "GPUs", DeviceKind.SLURM: "Nodes"}


class MainScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(self, host: GputuiApp) -> None:
        """Create the screen. `host` is the app, which also knows the setup, the terminal and how to quit."""
        super().__init__()
        self.host = host
        self.bridge = bridge = host.bridge
        self.changed_keys = dict(host.setup.keys)
        """The keys changed by the user's keymap."""
        self.shown_keys = {action.name: action.shown_key for action in ACTIONS} | self.changed_keys
        self.read_only = host.setup.read_only
        self.now: Callable[[], float] = time.time
        self.names = Parameters()
        self.status = StatusLine(host.setup.where, id="status")
        bridge.take_changed()  # the snapshot read below includes them
        # Widgets are not queried because updates can arrive before they are mounted or after they are removed.
        self.banner = Banner(id="banner")
        self.gpus: GpuPane = GpuPane(id="gpus")
        self.table: QueueTable = QueueTable(bridge.snapshot, self.names, id="table")
        self.log_pane: LogPane = LogPane(id="log")
        self.panes: dict[Pane, GpuPane | QueueTable | LogPane] = {
            Pane.GPUS: self.gpus, Pane.QUEUE: self.table, Pane.LOG: self.log_pane
        }  # fmt: skip
        self.frames = {pane: Vertical() for pane in Pane}
        """Containers that each hold a pane and its band."""
        self.divider = Divider()
        self.work = Container(id="work")
        self.filter_bar = FilterBar(id="filter")
        self.footer = Footer(id="footer")
        self.pane = Pane.QUEUE
        """The focused pane."""
        self.zoomed: Pane | None = None
        self.lines_around = 2
        """Number of lines above and below the panes. The hints of the demo increase it."""
        self.habits = read_habits()
        self.auto_summary: AutoSummary = AutoSummary(self)
        self.error_visit: ErrorVisit | None = None
        self.asks_which_gpus = False
        """Whether to ask which GPUs to use as soon as the GPUs are known. This is done if no option specified them."""
        self.acts = {action.name: action.do for action in ACTIONS if action.do is not None}
        self._arranged: Arrangement | None = None
        self._top = self._banner_lines = 0
        """Number of lines between the status line and the queue, and number of lines of the banner."""
        self._kept_order = (QUEUE_ORDER, False)
        self._log_shown: JobLog | None = None
        self._painted = 0.0
        self._facts: tuple[object, ...] = ()
        """The facts shown a second ago that can change even if all jobs have ended."""
        self._paint_due = False
        self._devices_painted = False
        self._alerts = Alerts(bridge.snapshot, host.setup.where.session)

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.banner
        with self.frames[Pane.GPUS]:
            yield self.gpus.band
            yield self.gpus
        with self.work:
            with self.frames[Pane.QUEUE]:
                yield self.table.band
                yield self.table
            yield self.divider
            with self.frames[Pane.LOG]:
                yield self.log_pane.band
                yield self.log_pane
        yield self.filter_bar
        yield self.footer

    def on_mount(self) -> None:
        (self.table if self.bridge.has_session else self.gpus).focus()
        self.set_interval(LOOK_EVERY, self._tick)
        self.restore_order()
        if self.habits.wrap is not None:
            self.log_pane.wrap(self.habits.wrap)
        self.place_panes()
        self.call_after_refresh(self.paint)  # an earlier update would be lost
        self.call_after_refresh(self.look)

    # For actions

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that is painted."""
        return self.table.snapshot

    @property
    def open_views(self) -> list[FullView]:
        """The full-screen views above this screen, topmost last."""
        return [screen for screen in self.app.screen_stack if isinstance(screen, FullView)]

    @property
    def gpu_pane_focused(self) -> bool:
        """Whether the GPU pane has the focus."""
        return self.pane is Pane.GPUS and not self.open_views

    def chosen(self) -> list[Job]:
        """Return the jobs that an action applies to: the jobs marked in the queue, or else those under the cursor."""
        if self.open_views or self.gpu_pane_focused:
            return self._under_cursor()
        return self.table.chosen()

    def job_under_cursor(self) -> Job | None:
        jobs = self._under_cursor()
        if not jobs:
            self.say("no job selected")
        return jobs[0] if jobs else None

    def _under_cursor(self) -> list[Job]:
        """Return the jobs under the cursor in the topmost view, in the GPU pane or in the queue."""
        if views := self.open_views:
            return views[-1].chosen()
        if self.gpu_pane_focused:
            device = self.gpus.device
            return [self.snapshot[job] for job in device.jobs if job in self.snapshot] if device is not None else []
        cursor = self.table.cursor
        return [self.snapshot[cursor]] if cursor is not None and cursor in self.snapshot else []

    def send(self, events: Sequence[UserCommand], done: str = "", *, keeps_marks: bool = False) -> None:
        """Send commands. Notify the user of refused commands, or show the message `done` if none was refused.

        The marks are removed from the jobs, unless `keeps_marks` is set for a key that is often pressed repeatedly.
        """

        def answered(outcomes: list[Outcome]) -> None:
            refused = list(dict.fromkeys(outcome.refused for outcome in outcomes if outcome.refused is not None))
            if refused:
                more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
                self.say(refused[0] + more, grave=True)
            elif warning := next((outcome.warning for outcome in outcomes if outcome.warning), ""):
                self.say(warning, grave=True)
            elif done:
                self.say(done)
            acted_on = {event.job for event in events if isinstance(event, JobCommand)}
            if not keeps_marks and acted_on & self.table.marks:
                self.table.clear_marks()
            self.paint()

        if events:
            self.bridge.command(events, answered)

    def ask(self, screen: ModalScreen[Any], then: Callable[[Any], object]) -> None:
        def answered(answer: Any) -> None:
            then(answer)

        self.app.push_screen(screen, answered)

    def open_view(self, view: FullView) -> None:
        if not isinstance(self.app.screen, ModalScreen):  # a dialog was opened meanwhile
            self.app.push_screen(view)

    # Views are imported when they are opened, to start faster.

    def open_failures(self) -> None:
        from gputui.tui.views.failures import FailuresView

        self.open_view(FailuresView(self))

    def open_timeline(self) -> None:
        from gputui.tui.views.timeline import TimelineView

        self.open_view(TimelineView(self))

    def open_curves(self, jobs: list[JobId], which: str, metric: str) -> None:
        from gputui.tui.views.curves import CurvesView

        self.open_view(CurvesView(self, jobs, which, metric))

    def open_details(self, job: JobId) -> None:
        from gputui.tui.views.details import DetailsView

        self.open_view(DetailsView(self, job))

    def say(self, message: str, *, grave: bool = False) -> None:
        self.app.notify(plain(message), markup=False, severity="error" if grave else "information", timeout=5)

    def with_session(self, then: Callable[[], None]) -> None:
        """Call a function when there is a session, creating the session first if necessary."""
        if self.bridge.has_session:
            then()
        else:
            self.host.begin_session(then)

    def short_name(self, job: JobId) -> str:
        return self.names.of(self.snapshot[job]) if job in self.snapshot else ""

    # Keys and clicks

    def action_act(self, name: str) -> None:
        if self.read_only and BY_NAME[name].acts:
            self.say("this view is read-only")
            return
        self.acts[name](self)

    @on(QueueTable.JobOpened)
    @on(GpuPane.DeviceOpened)
    def _opened(self) -> None:
        self.action_act("details")

    @on(Band.BandClicked)
    def _band_clicked(self, event: Band.BandClicked) -> None:
        """Focus the clicked pane. If a tab of the queue was clicked, switch to it."""
        next(pane for pane in self.panes.values() if pane.band is event.band).focus()
        if event.band is self.table.band:
            self.table.band_clicked(event.part)

    @on(ScreenSuspend)
    @on(ScreenResume)
    def _show_toasts(self) -> None:
        """Hide this screen's notifications while a dialog is open, because the dialog shows them itself."""
        for rack in self.query("ToastRack"):
            rack.display = self.is_current

    # Layout

    def place_panes(self) -> None:
        width, height = self.size
        gpu_rows = rows_wanted(self.bridge.picture, width, height, unfolded=self.pane is Pane.GPUS)
        arrangement = arrange(
            width,
            height - self.lines_around - self.banner.lines,
            gpu_rows,
            self.pane,
            self.zoomed,
            gpus_only=not self.bridge.has_session,
            queue_needs=self.table.columns_needed(),
            habits=self.habits,
        )
        before, self._arranged = self._arranged, arrangement
        top = self.banner.lines + arrangement.gpus
        if arrangement != before:
            if before is not None and arrangement.queue and before.queue and self.banner.lines != self._banner_lines:
                self.table.moved_down(top - self._top)
            self._apply(arrangement)
        self._top, self._banner_lines = top, self.banner.lines

    def _apply(self, arrangement: Arrangement) -> None:
        heights = {Pane.GPUS: arrangement.gpus, Pane.QUEUE: arrangement.queue, Pane.LOG: arrangement.log}
        for pane, height in heights.items():
            self.frames[pane].display = height > 0
            self.frames[pane].styles.height = height
        beside = arrangement.side_by_side
        self.work.display = bool(arrangement.queue or arrangement.log)
        self.divider.display = beside
        self.work.styles.layout = "horizontal" if beside else "vertical"
        self.frames[Pane.QUEUE].styles.width = arrangement.queue_width if beside else "100%"
        self.frames[Pane.LOG].styles.width = "1fr" if beside else "100%"

    def go_to(self, pane: Pane) -> None:
        """Focus a pane and make room for it. Without a session, only the GPU pane can be focused."""
        self.pane = pane if self.bridge.has_session else Pane.GPUS
        if self.zoomed is not None:
            self.zoomed = self.pane
        self.place_panes()
        self.panes[self.pane].focus()

    def zoom(self, pane: Pane | None) -> None:
        """Show one pane full screen, or all panes if `pane` is None."""
        self.zoomed = pane
        self.place_panes()

    def move_border(self, direction: int) -> None:
        """Move the border between queue and log by one step and save it. 1 enlarges the queue, -1 the log."""
        before, habits = self._arranged, self.habits
        if before is not None and before.side_by_side:
            self.habits = replace(habits, queue_columns=habits.queue_columns + COLUMN_STEP * direction)
        else:
            self.habits = replace(habits, queue_rows=habits.queue_rows + ROW_STEP * direction)
        self.place_panes()
        if self._arranged == before:
            self.habits = habits
        else:
            write_habits(self.habits)

    @on(Resize)
    def _resized(self) -> None:
        self.place_panes()
        self.call_after_refresh(self.look)

    @on(DescendantFocus)
    def _focused(self, event: DescendantFocus) -> None:
        focused = next((pane for pane, widget in self.panes.items() if widget is event.widget), None)
        if focused is not None:
            self.pane = focused
            self.place_panes()
            for pane, widget in self.panes.items():
                widget.band.focus_on(pane is focused)
            self.paint_footer()

    # Painting

    def news(self) -> None:
        """Paint soon after a change. Several changes are painted together."""
        wait = PAINT_EVERY - (time.monotonic() - self._painted)
        if wait <= 0:
            self._paint_news()
        elif not self._paint_due:
            self._paint_due = True
            self.set_timer(wait, self._paint_news)

    def _paint_news(self) -> None:
        """Paint, unless only the load of devices has changed. The load is painted every second anyway."""
        self._paint_due = False
        changed = self.bridge.take_changed()
        if changed or not self._devices_painted or _differs(self.bridge.snapshot, self.snapshot):
            self.paint(changed)

    def paint(self, changed: Set[JobId] = frozenset()) -> None:
        """Paint the newest snapshot. `changed` contains jobs already taken from the bridge."""
        self._painted = time.monotonic()
        changed |= self.bridge.take_changed()
        snapshot = self.bridge.snapshot
        for message in self._alerts.update(snapshot, changed, self.now()):
            self.host.alert(message)
        self.table.show(snapshot, changed)
        self.table.update_context(now=self.now())
        self._paint_around()
        if self.table.cursor in changed:
            self.paint_log()
        for view in self.open_views:
            if view.is_mounted:
                view.paint()
        dialog = self.app.screen
        if isinstance(dialog, DeviceScreen) and dialog.is_mounted:
            dialog.show(self.bridge.picture, snapshot if self.bridge.has_session else None, self.short_name, self.now())

    def _paint_around(self) -> None:
        now, snapshot, picture, width = self.now(), self.snapshot, self.bridge.picture, self.size.width
        has_session = self.bridge.has_session
        self.status.show(snapshot, now, monitor=not has_session, read_only=self.read_only)
        trouble = picture.sample.trouble if picture.sample is not None else None
        device_trouble = f"{trouble.message}; {trouble.advice}" if trouble is not None else None
        shown = [MONITOR]
        if has_session:
            shown = notices(snapshot, device_trouble, self.bridge.unseen(), read_only=self.read_only)
        errors = error_rows(snapshot, width, now, self.short_name, read_only=self.read_only)
        self.banner.show(shown, width, errors)
        self._devices_painted = picture.sample is not None
        self.gpus.title = TITLES[picture.kind]
        self.gpus.full = self.zoomed is Pane.GPUS or not has_session  # with facts about the machine
        machine = self.bridge.machine.facts() if self.gpus.full else None
        self.gpus.show(picture, snapshot if has_session else None, self.short_name, now, machine)
        self.gpus.paint_band()
        self.place_panes()
        self.table.paint_band()
        self.log_pane.paint_band()
        self.paint_footer()

    def paint_footer(self) -> None:
        self.footer.show(offered(self), self.shown_keys)

    def _tick(self) -> None:
        """Update the screen once a second. A session at rest is painted less often."""
        self.log_pane.tick()
        if self._is_at_rest():
            self.auto_summary.check()
        else:
            self.look()

    def _is_at_rest(self) -> bool:
        """Return whether all jobs have ended and nothing has changed since the last call. Every `REST_REPAINT_SECONDS`
        seconds, return False in any case.
        """
        snapshot, picture, sample = self.bridge.snapshot, self.bridge.picture, self.bridge.picture.sample
        around = (sample.trouble, sample.host, sample.cluster) if sample is not None else ()
        repaint = int(self.now() / REST_REPAINT_SECONDS)
        facts = (repaint, replace(picture, sample=None, history=EMPTY), around, self.bridge.unseen(),
                 self.size, self.app.theme)  # fmt: skip
        before, self._facts = self._facts, facts
        ended = not (snapshot.active or snapshot.not_begun)
        alone = self.app.screen is self and not self.gpus.full and not self.asks_which_gpus
        return ended and alone and facts == before and not _differs(snapshot, self.snapshot)

    def look(self) -> None:
        """Update the times and the reasons for waiting. Called once a second unless the session is at rest."""
        if self.asks_which_gpus and self.app.screen is self and ask_which(self):
            self.asks_which_gpus = False
        self._look_at_rows()
        self.auto_summary.check()
        self.paint()

    def reset(self) -> None:
        """Start again with the snapshot of another scheduler."""
        self.bridge.take_changed()
        self._alerts = Alerts(self.bridge.snapshot, self.status.where.session)
        self.table.reset(self.bridge.snapshot)
        self.paint()
        self.paint_log()
        self.place_panes()

    # The queue

    @on(QueueTable.Highlighted)
    def _highlighted(self) -> None:
        self.paint_log()
        self.paint_footer()

    @on(QueueTable.ViewChanged)
    def _view_changed(self) -> None:
        owner, order = self.bridge.owner, (self.table.rows.sort, self.table.rows.reverse)
        if order != self._kept_order and owner is not None and self.error_visit is None and not self.read_only:
            self._kept_order = order
            save_order(owner.paths.private, order[0], reverse=order[1])
        self.table.paint_band()
        self.call_after_refresh(self._look_at_rows)

    def restore_order(self) -> None:
        """Restore the saved sort order of the queue."""
        owner = self.bridge.owner
        if owner is not None and (stored_order := load_order(owner.paths.private)) is not None:
            self._kept_order = sort, reverse = stored_order
            if sort in (*SORTS, TIME, METRIC, SECOND) or sort.startswith(PARAMETER):
                self.table.set_view(sort=sort, reverse=reverse)

    def _look_at_rows(self) -> None:
        """Update the times and the reasons shown in the visible rows."""
        jobs = self.table.visible_jobs()
        running = [job for job in jobs if isinstance(job.state, Active)] if self.table.shows_pids else []
        pids = {job.id: pid for job in running if (pid := pid_of(job)) is not None}
        self.table.update_context(now=self.now(), pids=pids)
        # While the scheduler is paused, the banner says why the queue waits.
        explained = (Waiting, Active) if self.snapshot.mode is Mode.RUNNING else (Held, Blocked, Delayed, Active)
        self.bridge.reasons([job.id for job in jobs if isinstance(job.state, explained)], self._show_reasons)

    def _show_reasons(self, reasons: dict[JobId, Reason]) -> None:
        cursor, before = self.table.cursor, self.table.context.reasons
        safe = {
            job: replace(reason, text=plain(reason.text), brief=plain(reason.brief)) for job, reason in reasons.items()
        }
        self.table.update_context(now=self.now(), reasons=safe)
        if cursor is not None and before.get(cursor) != safe.get(cursor):
            self.paint_log()

    # The log of the job under the cursor

    def paint_log(self) -> None:
        """Show the log of the job under the cursor. This is cheap if nothing has changed."""
        pane, table, snapshot = self.log_pane, self.table, self.snapshot
        metric = snapshot.metric
        pane.bold_number = number_after(metric.name) if metric is not None else None
        if table.cursor is None or table.cursor not in snapshot:
            self._log_shown = None
            pane.show(None)
            pane.note("Enter: show waiting jobs" if table.on_fold else "")
            return
        job = snapshot[table.cursor]
        result = results.get(metric.name) if metric and (results := snapshot.results.get(job.id)) else None
        pane.metric_source = (result.name, result.log) if result is not None else ("", 0)
        log = JobLog(job.id, plain(self.names.of(job)), self._attempts(job), isinstance(job.state, Waiting))
        if log != self._log_shown:
            self._log_shown = log
            pane.show(log)
        if log.attempts:
            return
        if job.submitted:
            pane.note(submission_note(job, snapshot, self.bridge.picture, self.now()))
        else:
            reason = table.context.reasons.get(job.id)
            pane.note(reason.text if reason is not None else "not started yet")

    def _attempts(self, job: Job) -> tuple[AttemptLog, ...]:
        if job.submitted and not job.attempts:
            return ()
        logs = [(attempt.number, False, not isinstance(attempt.end, Succeeded)) for attempt in job.attempts]
        if job.active is not None:
            logs.append((job.active.attempt, True, False))
        return tuple(
            AttemptLog(number, Path(files.out), Path(files.err) if files.err else None, live, failed)
            for number, live, failed in logs
            if (files := self.bridge.files(job, number)) is not None
        )


def _differs(new: Snapshot, old: Snapshot) -> bool:
    """Return whether the queue has changed. A new estimate alone does not count as a change."""

    def around(snapshot: Snapshot) -> tuple[object, ...]:
        return (snapshot.mode, snapshot.cause, snapshot.slots, snapshot.leaving, snapshot.settings, snapshot.trouble,
                snapshot.metric, snapshot.best, snapshot.paused_scopes)  # fmt: skip

    return new.jobs is not old.jobs or new.results is not old.results or around(new) != around(old)
