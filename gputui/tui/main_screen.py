"""The one screen: composes the panes, hands keys to actions, and paints what the bridge brings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Resize, ScreenResume, ScreenSuspend
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets._toast import ToastRack

from gputui.core.events import JobCommand, UserCommand
from gputui.core.job import Job, JobId
from gputui.core.parameter_columns import Parameters
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.session.messages import Outcome
from gputui.tui.actions.looking import CrashVisit
from gputui.tui.gpus.pane import GpuPane
from gputui.tui.log.pane import LogPane
from gputui.tui.queue.rows import Filter
from gputui.tui.queue.table import FilterBar, QueueTable
from gputui.tui.views.base import FullView
from gputui.tui.views.summary import SummaryOccasion

from .action_table import BY_NAME, bindings
from .actions import ACTS
from .banner import Banner
from .bridge import Bridge, Way
from .chrome import Band, Divider, Dragging, Footer, StatusLine, Where
from .layout import Pane
from .main_panes import PAINT_EVERY, Arranger, LogPresenter, Painter, QueuePresenter

LOOK_EVERY = 1.0


class MainScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(
        self, bridge: Bridge, where: Where, *, read_only: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.bridge = bridge
        self.read_only = read_only
        self.now = now
        self.names = Parameters()
        self.status = StatusLine(where, id="status")
        bridge.take_changed()  # the snapshot read below has all of it
        self.table: QueueTable = QueueTable(bridge.snapshot, self.names, id="table")
        self.gpus: GpuPane = GpuPane(id="gpus")
        self.log_pane: LogPane = LogPane(id="log")
        # Held here and not looked up: news may come before they are mounted, and after.
        self.banner = Banner(id="banner")
        self.work = Container(id="work")
        self.gpu_frame, self.queue_frame, self.log_frame = Vertical(), Vertical(id="queue"), Vertical()
        self.gpu_band, self.queue_band, self.log_band = Band(1, "GPUs"), Band(2, "Queue"), Band(3, "Log", pulls=True)
        self.divider = Divider()
        self.filter_bar = FilterBar(id="filter")
        self.footer = Footer(id="footer")
        self.places: Arranger = Arranger(self)
        self.queue = QueuePresenter(self)
        self.logs = LogPresenter(self)
        self.painter = Painter(self)
        self.occasion = SummaryOccasion(self)
        self.crash_visit: CrashVisit | None = None
        self.changed_keys: dict[str, str] = {}
        self.asks_which_gpus = False
        """Once the cards are seen, and if others are on some: neither a flag nor the settings named any."""
        self.acts = dict(ACTS)
        self.on_leave: Callable[[Way], None] = lambda way: None
        self.on_alert: Callable[[str], None] = lambda message: None
        """Called for what the user may want to hear of from another window."""
        self.on_add_without_session: Callable[[Callable[[], None]], None] = lambda then: None
        self.environment: Callable[[], dict[str, str]] = dict
        self.idle_for: Callable[[], float] = lambda: 0.0
        """Seconds since the user last did anything."""

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.banner
        with self.gpu_frame:
            yield self.gpu_band
            yield self.gpus
        with self.work:
            with self.queue_frame:
                yield self.queue_band
                yield self.table
            yield self.divider
            with self.log_frame:
                yield self.log_band
                yield self.log_pane
        yield self.filter_bar
        yield self.footer

    def on_mount(self) -> None:
        (self.table if self.bridge.has_session else self.gpus).focus()
        self.set_interval(PAINT_EVERY, self.log_pane.tick)
        self.set_interval(LOOK_EVERY, self.look)
        self.queue.restore_order()
        self.places.begin()
        self.call_after_refresh(self.paint)  # not before it counts as mounted, or the first news would be lost
        self.call_after_refresh(self.look)

    # What actions use

    @property
    def snapshot(self) -> Snapshot:
        """As painted."""
        return self.table.snapshot

    @property
    def pane(self) -> Pane:
        return self.places.focus

    @property
    def open_views(self) -> list[FullView]:
        """The full views over this screen, the uppermost last: as the app's own stack of screens has them."""
        return [screen for screen in self.app.screen_stack if isinstance(screen, FullView)]

    @property
    def cards_chosen(self) -> bool:
        """The keys go to the cards, not to a view or the queue."""
        return self.pane is Pane.GPUS and not self.open_views

    def chosen(self) -> list[Job]:
        """The jobs that an action applies to: those under the cursor, or else the marked jobs of the queue."""
        if self.open_views or self.cards_chosen:
            return self._under_cursor()
        return self.table.chosen()

    def job_under_cursor(self) -> Job | None:
        jobs = self._under_cursor()
        if not jobs:
            self.say("there is no job here")
        return jobs[0] if jobs else None

    def _under_cursor(self) -> list[Job]:
        """In the uppermost view, among the cards, or in the queue."""
        if views := self.open_views:
            return views[-1].chosen()
        if self.cards_chosen:
            device = self.gpus.device
            return [self.snapshot[job] for job in device.jobs if job in self.snapshot] if device is not None else []
        cursor = self.table.cursor
        return [self.snapshot[cursor]] if cursor is not None and cursor in self.snapshot else []

    def send(self, events: Sequence[UserCommand], done: str = "", *, keeps_marks: bool = False) -> None:
        """Each is carried out or refused; refusals are said, and so is success when it cannot be seen.

        Marks are removed when marked jobs were acted on, unless `keeps_marks`: the same key may well be pressed again.
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
        """Fills the screen with it; not over a dialog that was opened meanwhile."""
        if not isinstance(self.app.screen, ModalScreen):
            self.app.push_screen(view)

    # Views are imported when they are opened: most looks at a queue need none of them.

    def open_failures(self) -> None:
        from gputui.tui.views.failures import FailuresView

        self.open_view(FailuresView(self))

    def open_timeline(self) -> None:
        from gputui.tui.views.timeline import TimelineView

        self.open_view(TimelineView(self))

    def open_details(self, job: JobId) -> None:
        from gputui.tui.views.details import DetailsView

        self.open_view(DetailsView(self, job))

    def open_curves(self, jobs: list[JobId], which: str, metric: str) -> None:
        from gputui.tui.views.curves import CurvesView

        self.open_view(CurvesView(self, jobs, which, metric))

    def say(self, sentence: str, *, grave: bool = False) -> None:
        self.app.notify(plain(sentence), markup=False, severity="error" if grave else "information", timeout=5)

    def with_session(self, then: Callable[[], None]) -> None:
        """Begins a session first where there is none."""
        if self.bridge.has_session:
            then()
        else:
            self.on_add_without_session(then)

    def begun(self, where: Where) -> None:
        self.status.where = where
        self.reset()
        self.table.focus()

    # Keys

    def action_act(self, name: str) -> None:
        if self.read_only and BY_NAME[name].acts:
            self.say("this screen is read-only")
            return
        self.acts[name](self)

    @on(Footer.Clicked)
    def _clicked(self, event: Footer.Clicked) -> None:
        self.action_act(event.action)

    @on(QueueTable.JobOpened)
    @on(GpuPane.DeviceOpened)
    def _opened(self) -> None:
        self.action_act("details")

    @on(FilterBar.Typed)
    def _filter_typed(self, event: FilterBar.Typed) -> None:
        self.table.set_view(filter=Filter(event.text))

    @on(FilterBar.Done)
    def _filter_done(self, event: FilterBar.Done) -> None:
        self.footer.display = True
        if event.searches:
            self.log_pane.focus()
            if event.kept:
                self.log_pane.search(event.text)
            return
        if not event.kept:
            self.table.set_view(filter=Filter())
        self.table.focus()

    # Painting

    def news(self) -> None:
        self.painter.news()

    def paint(self) -> None:
        self.painter.paint()

    def look(self) -> None:
        """Once a second: what changes by itself."""
        self.painter.look()

    def paint_footer(self) -> None:
        self.painter.footer()

    def reset(self) -> None:
        """Another owner's pictures: nothing that was known of the jobs counts."""
        self.painter.reset()

    def short_name(self, job: JobId) -> str:
        return self.names.of(self.snapshot[job]) if job in self.snapshot else ""

    @on(ScreenSuspend)
    @on(ScreenResume)
    def _show_toasts(self) -> None:
        """A dialog shows them too: below it they would be seen twice."""
        for rack in self.query(ToastRack):
            rack.display = self.is_current

    # What the panes say

    @on(QueueTable.Highlighted)
    def _highlighted(self) -> None:
        self.logs.show()
        self.paint_footer()

    @on(QueueTable.ViewChanged)
    def _view_changed(self) -> None:
        self.queue.keep_order()
        self.queue.paint_titles()
        self.call_after_refresh(self.queue.look)

    @on(GpuPane.Headed)
    def _gpus_headed(self) -> None:
        self.painter.gpu_heading()

    @on(LogPane.TitleChanged)
    def _log_title(self) -> None:
        self.logs.paint_title()

    @on(Band.BandClicked)
    def _band_clicked(self, event: Band.BandClicked) -> None:
        """A click on a band goes to its pane, and on one of the queue's tabs to that tab."""
        panes: list[Widget] = [self.gpus, self.table, self.log_pane]
        panes[int(event.band.number) - 1].focus()
        if event.band is self.queue_band:
            self.queue.clicked(event.part)

    @on(Dragging)
    def _dragged(self, event: Dragging) -> None:
        self.places.drag(columns=event.columns, rows=event.rows)

    @on(LogPane.Noticed)
    def _log_note(self, event: LogPane.Noticed) -> None:
        self.say(event.text)

    @on(Resize)
    def _resized(self) -> None:
        self.places.arrange()
        self.call_after_refresh(self.look)

    @on(DescendantFocus)
    def _focused(self, event: DescendantFocus) -> None:
        panes = {self.gpus: Pane.GPUS, self.table: Pane.QUEUE, self.log_pane: Pane.LOG}
        pane = next((pane for widget, pane in panes.items() if widget is event.widget), None)
        if pane is not None:
            self.places.focus_on(pane)
            self.paint_footer()
