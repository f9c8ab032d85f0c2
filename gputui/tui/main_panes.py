"""What the main screen does for its panes: places, painting, queue and log."""

from __future__ import annotations

import time
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.cells import cell_len
from rich.style import Style

from gputui.core.events import Mode
from gputui.core.job import Active, Blocked, Delayed, Held, Job, JobId, Succeeded, Waiting
from gputui.core.lanes import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.logs.plain import plain
from gputui.session.control.answers import pid_of
from gputui.session.saved_state import keep_order, kept_order
from gputui.tui.actions.devices import ask_which
from gputui.tui.actions.offered import offered
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.gpus.pane import rows_wanted
from gputui.tui.log.pane import AttemptLog, JobLog, submission_note
from gputui.tui.log.view import number_after
from gputui.tui.queue.row_facts import best_result
from gputui.tui.queue.rows import METRIC, PARAMETER, QUEUE_ORDER, SECOND, SHOWN_STATES, SORTS, TIME, Tab
from gputui.views.format import cut, is_submitted
from gputui.views.status import Alerts

from .banner import MONITOR, crash_rows, notices
from .chrome import BandPart
from .layout import Arrangement, Dragged, Pane, arrange, read_habits, write_habits
from .theme import Palette, palette_of

if TYPE_CHECKING:
    from .main_screen import MainScreen


# ---- layout ----


COLUMN_STEP, ROW_STEP = 4, 1
"""By how much a key moves the border between queue and log."""


class Arranger:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self.lines = 2
        """The line at the top and the line at the bottom; whoever adds one counts it here."""
        self.focus = Pane.QUEUE
        self.zoomed: Pane | None = None
        self.habits = read_habits()
        self._made: Arrangement | None = None
        self._top = self._banner = 0
        """Lines above the queue, besides the one at the top; and those of the banner."""

    @property
    def side_by_side(self) -> bool:
        return self._made is not None and self._made.side_by_side

    def begin(self) -> None:
        """As it was left the last time."""
        if self.habits.wrap is not None:
            self._main.log_pane.wrap(self.habits.wrap)
        self.arrange()

    def arrange(self) -> None:
        main = self._main
        height = main.size.height - self.lines - main.banner.lines
        arrangement = arrange(
            main.size.width,
            height,
            self._gpu_rows(),
            self.focus,
            self.zoomed,
            gpus_only=not main.bridge.has_session,
            queue_needs=main.table.columns_needed(),
            dragged=Dragged(self.habits.queue_rows, self.habits.queue_columns),
        )
        top = main.banner.lines + arrangement.gpus
        if arrangement != self._made:
            if self._made is not None and arrangement.queue and self._made.queue and main.banner.lines != self._banner:
                main.table.moved_down(top - self._top)
            self._made = arrangement
            self._apply(arrangement)
        self._top, self._banner = top, main.banner.lines

    def focus_on(self, pane: Pane) -> None:
        """The keys go there now."""
        main = self._main
        self.focus = pane
        self.arrange()
        for band, own in ((main.gpu_band, Pane.GPUS), (main.queue_band, Pane.QUEUE), (main.log_band, Pane.LOG)):
            band.focus_on(own is pane)

    def drag(self, *, columns: int = 0, rows: int = 0) -> None:
        """Moves the border between queue and log, as far as both have room."""
        before, habits = self._made, self.habits
        self.habits = replace(
            habits, queue_columns=habits.queue_columns + columns, queue_rows=habits.queue_rows + rows
        )  # fmt: skip
        self.arrange()
        if self._made == before:
            self.habits = habits
        else:
            write_habits(self.habits)

    def step(self, direction: int) -> None:
        """By a key: the queue gets more, or the log."""
        if self.side_by_side:
            self.drag(columns=COLUMN_STEP * direction)
        else:
            self.drag(rows=ROW_STEP * direction)

    def keep_wrap(self, wrap: bool) -> None:
        self.habits = replace(self.habits, wrap=wrap)
        write_habits(self.habits)

    def _gpu_rows(self) -> int:
        size = self._main.size
        return rows_wanted(self._main.bridge.picture, size.width, size.height, unfolded=self.focus is Pane.GPUS)

    def _apply(self, arrangement: Arrangement) -> None:
        main = self._main
        frames = (
            (main.gpu_frame, arrangement.gpus),
            (main.queue_frame, arrangement.queue),
            (main.log_frame, arrangement.log),
        )
        for widget, height in frames:
            widget.display = height > 0
            widget.styles.height = height
        main.work.display = bool(arrangement.queue or arrangement.log)
        main.divider.display = arrangement.side_by_side
        main.work.styles.layout = "horizontal" if arrangement.side_by_side else "vertical"
        main.queue_frame.styles.width = arrangement.queue_width if arrangement.side_by_side else "100%"
        main.log_frame.styles.width = "1fr" if arrangement.side_by_side else "100%"


# ---- What the queue pane says besides its rows ----


LEAST_FILTER = 4
"""Cells of a filter in the band, however little room there is."""


class QueuePresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._order = (QUEUE_ORDER, False)
        """As it is kept."""

    def restore_order(self) -> None:
        """As the queue was sorted when it was last looked at."""
        owner, table = self._main.bridge.owner, self._main.table
        if owner is not None and (stored_order := kept_order(owner.paths.private)) is not None:
            self._order = stored_order
            if stored_order[0] in (*SORTS, TIME, METRIC, SECOND) or stored_order[0].startswith(PARAMETER):
                table.set_view(sort=stored_order[0], reverse=stored_order[1])

    def keep_order(self) -> None:
        main, rows = self._main, self._main.table.rows
        order = (rows.sort, rows.reverse)
        if order != self._order and main.bridge.owner is not None and main.crash_visit is None and not main.read_only:
            self._order = order
            keep_order(main.bridge.owner.paths.private, rows.sort, reverse=rows.reverse)

    def paint_titles(self) -> None:
        """What stands in the band: tabs with their counts, what all jobs share, the best."""
        main, palette = self._main, palette_of(self._main.app.theme)
        rows, gap = main.table.rows, ("  ", palette.text)
        parts: list[BandPart] = [("   ", palette.text)]
        for tab in Tab:
            chosen = tab is rows.tab
            count = main.snapshot.count(*SHOWN_STATES[tab])
            alarm = palette.failure if tab is Tab.FAILED and count else palette.best if chosen else palette.past
            parts += [(f"{tab} ", palette.best if chosen else palette.past), (f"{count:,}", alarm), gap]
        best = self._best(palette)
        used = sum(cell_len(text) for text, _ in (*parts, gap, *best)) + len("2 Queue ")
        parts += [gap, *self._told(palette, main.queue_band.size.width - used)]
        main.queue_band.show(parts, best)

    def clicked(self, part: int | None) -> None:
        """On a part of the band; those of the tabs come first, three for each."""
        if part is not None and 0 <= (number := (part - 1) // 3) < len(Tab):
            self._main.table.set_view(tab=list(Tab)[number])

    def _told(self, palette: Palette, room: int) -> list[BandPart]:
        """Marks and the filter, while there are any, or else what all commands share."""
        table = self._main.table
        hidden = table.hidden_marks()
        marked = f"{len(table.marks):,} marked" if table.marks else ""
        marked += f", {hidden:,} of them not in this view" if hidden else ""
        count = f": {len(table.rows):,} shown"
        written = cut(plain(table.rows.filter.written), max(LEAST_FILTER, room - len(marked) - len(count) - 4))
        words = " · ".join(part for part in (marked, f"/{written}{count}" if table.rows.filter else "") if part)
        if words:
            return [(words, palette.focus + Style(bold=True))]
        return [(plain(table.parameters.common()), palette.past)]

    def _best(self, palette: Palette) -> list[BandPart]:
        """The answer is on the screen even when its row is not."""
        best = best_result(self._main.snapshot)
        return [(f"★ #{best.job} {best.text}", palette.best)] if best is not None else []

    def look(self) -> None:
        """Times, and why jobs wait: of the rows in sight only."""
        table = self._main.table
        jobs = table.visible_jobs()
        running = [job for job in jobs if isinstance(job.state, Active)]
        pids = {job.id: pid for job in running if (pid := pid_of(job)) is not None} if table.shows_pids else {}
        table.tell(now=self._main.now(), pids=pids)
        explained = [job.id for job in jobs if isinstance(job.state, self._explained())]
        self._main.bridge.whys(explained, self._whys_came)

    def _explained(self) -> tuple[type, ...]:
        """While the scheduler is paused its banner says why the queue waits; a row need not repeat it."""
        if self._main.snapshot.mode is Mode.RUNNING:
            return Waiting, Active
        return Held, Blocked, Delayed, Active

    def _whys_came(self, whys: dict[JobId, str]) -> None:
        table = self._main.table
        before = table.told.whys
        table.tell(now=self._main.now(), whys={job: plain(words) for job, words in whys.items()})
        if table.cursor is not None and before.get(table.cursor) != table.told.whys.get(table.cursor):
            self._main.logs.show()


# ---- Shows the log of the job under the cursor ----


class LogPresenter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._shown: JobLog | None = None

    def show(self) -> None:
        """Cheap when nothing about the job changed."""
        pane, table = self._main.log_pane, self._main.table
        metric = table.snapshot.metric
        pane.bold_number = number_after(metric.name) if metric is not None else None
        if table.cursor is None or table.cursor not in table.snapshot:
            self._shown = None
            pane.show(None)
            pane.note("enter shows those that wait" if table.on_fold else "")
            return
        job = table.snapshot[table.cursor]
        result = results.get(metric.name) if metric and (results := table.snapshot.results.get(job.id)) else None
        pane.metric_source = (result.name, result.log) if result is not None else ("", 0)
        attempts = () if is_submitted(job) and not job.attempts else self._attempts(job)
        log = JobLog(job.id, plain(self._main.short_name(job.id)), attempts)
        if log != self._shown:
            self._shown = log
            pane.show(log)
        if not log.attempts:
            pane.note(self._why_not(job))

    def _why_not(self, job: Job) -> str:
        main = self._main
        if is_submitted(job):
            return submission_note(job, main.table.snapshot, main.bridge.picture, main.now())
        return main.table.told.whys.get(job.id) or "it has not started yet"

    def paint_title(self) -> None:
        pane, palette = self._main.log_pane, palette_of(self._main.app.theme)
        head, facts = pane.heading
        self._main.log_band.show(
            [("   ", palette.text), (head, palette.text)], [(facts, palette.past)] if facts else []
        )

    def _attempts(self, job: Job) -> tuple[AttemptLog, ...]:
        logs = [
            self._log(job, attempt.number, failed=not isinstance(attempt.end, Succeeded)) for attempt in job.attempts
        ]
        if job.active is not None:
            logs.append(self._log(job, job.active.attempt, live=True))
        return tuple(log for log in logs if log is not None)

    def _log(self, job: Job, number: int, *, live: bool = False, failed: bool = False) -> AttemptLog | None:
        files = self._main.bridge.files(job, number)
        if files is None:
            return None
        return AttemptLog(number, Path(files.out), Path(files.err) if files.err else None, live, failed)


# ---- Whether a new snapshot tells anything new ----


def alike(new: Snapshot, old: Snapshot) -> bool:
    """Nothing that the screen tells of the queue differs; that it will be done a little later is no news."""
    return new.jobs is old.jobs and new.results is old.results and _around(new) == _around(old)


def _around(snapshot: Snapshot) -> tuple[object, ...]:
    return (snapshot.mode, snapshot.cause, snapshot.lanes, snapshot.leaving, snapshot.settings, snapshot.trouble,
            snapshot.metric, snapshot.best, snapshot.cautions)  # fmt: skip


# ---- When the main screen is painted, and all that is painted around the queue ----


PAINT_EVERY = 0.25
"""Seconds between repaints for news; keys are answered at once."""
TITLES = {
    DeviceKind.GPU: "GPUs",
    DeviceKind.CPU: "CPU",
    DeviceKind.SIMULATED: "GPUs",
    DeviceKind.SLURM: "Nodes",
}


class Painter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._painted = 0.0
        self._paint_due = False
        self._devices_painted = False
        self._alerts = Alerts(main.bridge.snapshot, main.status.where.session)

    def news(self) -> None:
        """Something changed; painted at once or a little later, so that many changes are one repaint."""
        wait = PAINT_EVERY - (time.monotonic() - self._painted)
        if wait <= 0:
            self._paint_news()
        elif not self._paint_due:
            self._paint_due = True
            self._main.set_timer(wait, self._paint_news)

    def _paint_news(self) -> None:
        """The figures of devices alone change every second: they are painted with the clocks, in one go."""
        main = self._main
        self._paint_due = False
        changed = main.bridge.take_changed()
        if changed or not self._devices_painted or not alike(main.bridge.snapshot, main.snapshot):
            self.paint(changed)

    def paint(self, changed: Set[JobId] = frozenset()) -> None:
        """`changed`: what was taken from the bridge already."""
        main = self._main
        self._painted = time.monotonic()
        changed |= main.bridge.take_changed()
        snapshot = main.bridge.snapshot
        for message in self._alerts.look(snapshot, changed, main.now()):
            main.on_alert(message)
        main.table.show(snapshot, changed)
        main.table.tell(now=main.now())
        self._paint_around()
        if main.table.cursor in changed:
            main.logs.show()
        for view in main.open_views:
            if view.is_mounted:
                view.paint()
        self._renew_device_dialog()

    def _renew_device_dialog(self) -> None:
        main, screen = self._main, self._main.app.screen
        if isinstance(screen, DeviceScreen) and screen.is_mounted:
            snapshot = main.snapshot if main.bridge.has_session else None
            screen.show(main.bridge.picture, snapshot, main.short_name, main.now())

    def reset(self) -> None:
        """All anew."""
        main = self._main
        main.bridge.take_changed()
        self._alerts = Alerts(main.bridge.snapshot, main.status.where.session)
        main.table.reset(main.bridge.snapshot)
        self.paint()
        main.logs.show()
        main.places.arrange()

    def look(self) -> None:
        """Once a second: what changes by itself."""
        main = self._main
        if main.asks_which_gpus and main.app.screen is main and ask_which(main):
            main.asks_which_gpus = False
        main.queue.look()
        main.occasion.look()
        self.paint()

    def footer(self) -> None:
        self._main.footer.show(offered(self._main), self._main.changed_keys)

    def _paint_around(self) -> None:
        main = self._main
        now, snapshot, picture = main.now(), main.snapshot, main.bridge.picture
        main.status.show(snapshot, now, monitor=not main.bridge.has_session, read_only=main.read_only)
        self._devices_painted = picture.sample is not None
        trouble = picture.sample.trouble if picture.sample is not None else None
        sentence = f"{trouble.message}; {trouble.advice}" if trouble is not None else None
        only_looks = main.read_only
        said = [MONITOR]
        if main.bridge.has_session:
            said = notices(snapshot, sentence, main.bridge.unseen(), read_only=only_looks)
        palette, width = palette_of(main.app.theme), main.size.width
        crashes = crash_rows(snapshot, width, palette, now, main.short_name, read_only=only_looks)
        main.banner.show(said, width, crashes)
        self._paint_gpus(picture, now)
        main.places.arrange()
        main.queue.paint_titles()
        self.footer()

    def _paint_gpus(self, picture: DevicesPicture, now: float) -> None:
        """Zoomed, or where there is nothing else, it shows the machine too."""
        main = self._main
        session = main.bridge.has_session
        main.gpus.title = TITLES[picture.kind]
        main.gpus.full = main.places.zoomed is Pane.GPUS or not session
        machine = main.bridge.machine.facts() if main.gpus.full else None
        main.gpus.show(picture, main.snapshot if session else None, main.short_name, now, machine)
        self.gpu_heading()

    def gpu_heading(self) -> None:
        """The band over the cards names their columns."""
        main = self._main
        main.gpu_band.head(1, main.gpus.title)
        main.gpu_band.show(*main.gpus.heading())
