"""`enter`: all that can be said of one job, and curves of what it printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from gputui.core.job import Active, Ended, Job, JobId, Stopping, Suspended, Waiting
from gputui.core.results import Curve
from gputui.core.views.cells import cut
from gputui.core.views.failures import has_failed, said_of
from gputui.logs.crashes.excerpts import excerpt
from gputui.logs.plain import plain
from gputui.logs.tail import read_tail
from gputui.session.control.job_details import Details
from gputui.session.files.commits import commits_in
from gputui.session.files.job_folder import INFO
from gputui.tui.actions.looking import show_log
from gputui.tui.actions.table import view_bindings
from gputui.tui.looks.palette import Palette, palette_of
from gputui.tui.model.words import state_words
from gputui.tui.screens.reading import Reading
from gputui.tui.screens.view import ALWAYS, FullView
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.footer import Offer, OfferedKeys, offer
from gputui.tui.widgets.view_rows import ViewRow, ViewRows

from .attempts import attempt_rows
from .curves import curve_panes, metric_names
from .environment import environment_text
from .facts import Subject, fact_rows, state_style, story_rows, warning_rows

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

NARROW = 100
CURVES_AT_ONCE = 2
SHARED = (
    "kill", "suspend", "requeue", "rerun", "hold", "edit", "priority_up", "priority_down", "copy_command", "copy_path",
    "copy_as_new", "pager", "tell_me", "failures",
)  # fmt: skip


class DetailsView(FullView):
    """`j` and `k` go to the next job of the queue as it is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("details", *SHARED),
        Binding("j,down", "step(1)", show=False),
        Binding("k,up", "step(-1)", show=False),
        Binding("ctrl+d,pagedown", "scroll(1)", show=False),
        Binding("ctrl+u,pageup", "scroll(-1)", show=False),
        Binding("enter", "act('back')", show=False),
    ]
    DEFAULT_CSS = """
    DetailsView #warning { height: auto; }
    DetailsView #columns { height: 1fr; }
    DetailsView #told { width: 1fr; height: 1fr; }
    DetailsView #between { width: 1; height: 1fr; }
    DetailsView #curves { width: 1fr; height: 1fr; }
    """

    def __init__(self, main: MainScreen, job: JobId) -> None:
        super().__init__(main, f"#{job}", plain(main.short_name(job)))
        self.job = job
        self.details: Details | None = None
        self.curves: dict[int, tuple[Curve, ...]] = {}
        self._asked: object = None
        self._first_metric = 0
        self.warning = ViewRows(id="warning")
        self.told = ViewRows(id="told")
        self.between = ViewRows(id="between")
        self.right = ViewRows(id="curves")

    def body(self) -> ComposeResult:
        yield self.warning
        with Horizontal(id="columns"):
            yield self.told
            yield self.between
            yield self.right

    # What the owner is asked

    def _ask(self, job: Job) -> None:
        """Again when the job changed, or prints more."""
        key = (job, self.snapshot.results.get(job.id))
        if key == self._asked and job.active is None:
            return
        self._asked = key
        job_id = self.job
        self.main.bridge.details(job_id, lambda details: self._found(job_id, details))
        numbers = [attempt.number for attempt in job.attempts] + ([job.active.attempt] if job.active else [])
        for number in numbers[-2:]:
            self.main.bridge.curves(job_id, number, lambda curves, number=number: self._drawn(job_id, number, curves))  # type: ignore[misc]

    def _found(self, job: JobId, details: Details) -> None:
        if job == self.job and self.is_attached and details != self.details:
            self.details = details
            self.paint()

    def _drawn(self, job: JobId, attempt: int, curves: tuple[Curve, ...]) -> None:
        if job == self.job and self.is_attached and curves and curves != self.curves.get(attempt):
            self.curves[attempt] = curves
            self.paint()

    # What is shown

    def renew(self) -> None:
        if self.job not in self.snapshot:
            self.go_back()
            return
        job, palette = self.snapshot[self.job], palette_of(self.app.theme)
        self._ask(job)
        self._title(job, palette)
        if self.details is None or self.details.job.id != self.job:
            return
        subject = self._subject(job, self.details)
        warning = warning_rows(subject, self.size.width, palette)
        self.warning.styles.height = len(warning)
        self.warning.display = bool(warning)
        self.warning.show(warning)
        names = metric_names(self.curves, self.snapshot.metric.name if self.snapshot.metric is not None else None)
        self._lay_out(subject, names, palette, len(warning))

    def _title(self, job: Job, palette: Palette) -> None:
        number = job.active.attempt if job.active is not None else job.attempts[-1].number if job.attempts else 0
        attempts = len(job.attempts) + (job.active is not None)
        left: list[BandPart] = [("   ", palette.text), (state_words(job), state_style(job, palette))]
        left += [(f"   attempt {number} of {attempts}", palette.past)] if attempts > 1 else []
        place = self.main.table.rows.number_of(self.job)
        where = f"{place[0]:,} of {place[1]:,}   " if place is not None else ""
        right = [(f"{where}k j  other jobs", palette.past)]
        self.band.number = number_told = f"#{job.id}"
        beside = sum(cell_len(text) for text, _ in (*left, *right)) + len(number_told) + 5
        self.band.show(left, right, title=cut(plain(self.main.names.of(job)), max(8, self.size.width - beside)))

    def _subject(self, job: Job, details: Details) -> Subject:
        picture = self.main.bridge.picture
        used = [
            process.memory
            for device in picture.devices
            for process in device.sample.processes
            if process.memory is not None and picture.pids.get(process.pid) == job.id
        ]
        info = read_tail(os.path.join(details.folder, INFO)).decode("utf-8", "replace")
        memory_used = sum(used) if used else None
        return Subject(
            details, job, self.snapshot, self.main.now(), self.status.where.host, commits_in(info), memory_used
        )

    def _lay_out(self, subject: Subject, names: list[str], palette: Palette, warned: int) -> None:
        width, height = self.size.width, self.size.height - 3 - warned
        shown = (names[self._first_metric :] + names[: self._first_metric])[:CURVES_AT_ONCE]
        beside = bool(shown) and width >= NARROW
        self.between.display = self.right.display = beside
        if beside:
            left = width * 7 // 15
            self.told.styles.width, self.right.styles.width = left, width - left - 1
            rows = self._rows(subject, left, palette)
            panes = curve_panes(subject, self.curves, shown, width - left - 1, height, palette)
            self.right.show(panes)
            self.between.show([ViewRow([("│", palette.line)])] * height)
        else:
            self.told.styles.width = "1fr"
            rows = self._rows(subject, width, palette)
            rows += curve_panes(subject, self.curves, shown[:1], width, min(14, max(8, height // 2)), palette)
        self.told.show(rows)

    def _rows(self, subject: Subject, width: int, palette: Palette) -> list[ViewRow]:
        metric = self.snapshot.metric.name if self.snapshot.metric is not None else None
        several = len(subject.job.attempts) + (subject.job.active is not None) > 1
        compare: list[BandPart] = [("d", palette.best), ("  compare", palette.past)] if several else []
        return [
            ViewRow([(" Job", palette.text)], band=True),
            *fact_rows(subject, width, palette),
            ViewRow(),
            ViewRow([(" Attempts", palette.text)], compare, band=True),
            *attempt_rows(subject, subject.details.results, metric, width, palette),
            ViewRow(),
            ViewRow([(" Story", palette.text)], band=True),
            *story_rows(subject, width, palette),
        ]

    # Keys

    def offers(self) -> OfferedKeys:
        if self.job not in self.snapshot:
            return OfferedKeys(always=ALWAYS)
        job = self.snapshot[self.job]
        row: list[Offer] = [("job_log", "Log at the error" if has_failed(job) else "Log"), *_for_state(job)]
        several = len(job.attempts) + (job.active is not None) > 1
        row += [offer("compare_attempts")] if several else []
        more = [offer("copy_command"), offer("environment")]
        more += [offer("details_metric")] if len(metric_names(self.curves, None)) > CURVES_AT_ONCE else []
        return OfferedKeys(row, more, always=ALWAYS)

    def chosen(self) -> list[Job] | None:
        return [self.snapshot[self.job]] if self.job in self.snapshot else []

    def action_step(self, by: int) -> None:
        job = self.main.table.rows.beside(self.job, by)
        if job is None:
            return
        self.job = job
        self.main.table.move_to(job)
        self.details, self.curves, self._asked, self._first_metric = None, {}, None, 0
        self.told.top = 0
        self.paint()

    def action_scroll(self, pages: int) -> None:
        self.told.scroll_by(pages * max(1, self.told.size.height // 2))

    def act_details_metric(self) -> None:
        names = metric_names(self.curves, None)
        self._first_metric = (self._first_metric + CURVES_AT_ONCE) % max(1, len(names))
        self.paint()

    def act_environment(self) -> None:
        if self.details is not None:
            environment = self.details.environment
            self.main.ask(
                Reading(f"#{self.job}", [lambda: environment_text(environment)], "j k scroll"), lambda _: None
            )

    def act_compare_attempts(self) -> None:
        from .tail_diff import TailDiffView

        job = self.snapshot[self.job]
        numbers = [attempt.number for attempt in job.attempts] + ([job.active.attempt] if job.active else [])
        if len(numbers) < 2:
            self.main.say(f"#{job.id} has run only once: there is nothing to compare")
        else:
            self.main.open_view(TailDiffView(self.main, job.id, numbers[-2], numbers[-1]))

    def act_job_log(self) -> None:
        """At the error, where there is one."""
        job = self.snapshot[self.job]
        needle = stream = ""
        if has_failed(job) and job.attempts:
            files = self.main.bridge.files(job, job.attempts[-1].number)
            if files is not None:
                crash = excerpt(files.out, files.err, said_of(job), job.spec.cwd)
                needle, stream = crash.needle, crash.stream
        show_log(self.main, job.id, needle, stream)

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        event.rows.scroll_by(event.by)


def _for_state(job: Job) -> list[Offer]:
    if isinstance(job.state, Stopping):
        return [("kill", "Kill now")]
    if isinstance(job.state, Active):
        return [
            offer("kill"),
            ("suspend", "Continue" if isinstance(job.state, Suspended) else "Suspend"),
            offer("requeue"),
        ]
    if isinstance(job.state, Waiting):
        return [("hold", "Hold" if job.state.name != "held" else "Release"), offer("edit"), offer("priority_up")]
    return [offer("rerun"), offer("copy_as_new")] if isinstance(job.state, Ended) else []
