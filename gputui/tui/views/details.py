"""Everything about one job, with curves of its results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from gputui.core.amounts import duration_words
from gputui.core.job import Active, Ended, Job, JobId, Stopping, Suspended, Waiting
from gputui.core.results import Curve, Direction, JobResults, direction_of
from gputui.logs.crashes.excerpts import excerpt
from gputui.logs.line_index import read_tail
from gputui.logs.plain import plain
from gputui.session.control.answers import Details
from gputui.session.job_folders import INFO, commits_in
from gputui.tui.action_table import view_bindings
from gputui.tui.actions.looking import show_log
from gputui.tui.chart import Chart, ChartCurve
from gputui.tui.chrome import BandPart, Offer, OfferedKeys, offer
from gputui.tui.dialogs.ask import Reading
from gputui.tui.queue.row_facts import state_words
from gputui.tui.theme import Palette, palette_of
from gputui.views.failures import has_failed, said_of
from gputui.views.format import cut, value_text

from .base import ALWAYS, FullView, ViewRow, ViewRows
from .curves import chart_rows, points_of, step_told
from .job_facts import Subject, attempt_rows, environment_text, fact_rows, state_style, story_rows, warning_rows

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- The curves of one job ----


LEAST_HEIGHT = 6
NEWEST, EARLIER = 0, 1


def metric_names(curves: Mapping[int, Sequence[Curve]], main: str | None) -> list[str]:
    """What was printed more than once: the main metric, then those of which one knows what is good."""
    names = [curve.name for attempt_curves in curves.values() for curve in attempt_curves if len(curve.points) > 1]
    ordered = list(dict.fromkeys(names))
    return sorted(ordered, key=lambda name: (name != main, direction_of(name) is Direction.UNKNOWN))


def curve_panes(
    subject: Subject,
    curves: Mapping[int, Sequence[Curve]],
    names: Sequence[str],
    width: int,
    height: int,
    palette: Palette,
) -> list[ViewRow]:
    """As many charts as names, one below the other, and what the colours mean."""
    if not names or width < 20:
        return []
    legend = _legend(sorted(curves)[-2:], palette)
    each = (height - len(legend)) // len(names)
    if each < LEAST_HEIGHT:
        return curve_panes(subject, curves, names[:-1], width, height, palette)
    rows: list[ViewRow] = []
    for name in names:
        rows += _pane(subject, curves, name, width, each, palette)
    return [*rows, *legend]


def _pane(
    subject: Subject, curves: Mapping[int, Sequence[Curve]], name: str, width: int, height: int, palette: Palette
) -> list[ViewRow]:
    numbers = sorted(curves)[-2:]
    own = {number: next((curve.points for curve in curves[number] if curve.name == name), ()) for number in numbers}
    by_time = any(point.step is None for points in own.values() for point in points[:1])
    drawn = [
        ChartCurve(points_of(own[number], by_time=by_time), EARLIER if number != numbers[-1] else NEWEST)
        for number in reversed(numbers)
        if own[number]
    ]
    direction = subject.snapshot.direction(name)
    x_told = duration_words if by_time else None
    chart = Chart(drawn, down=direction is Direction.DOWN, x_told=x_told, upright=_silence(subject, drawn, by_time))
    lines = chart_rows(chart, width - 2, height - 2, (palette.running, palette.past), palette)
    figures = _figures(subject.results, name, direction, palette)
    band = ViewRow([(f" {plain(name)}", palette.text)], figures, band=True)
    return [band, *(ViewRow([(" ", palette.text), *line.left]) for line in lines), ViewRow()]


def _silence(subject: Subject, drawn: Sequence[ChartCurve], by_time: bool) -> float | None:
    """Where its silence began: at its last point, for nothing came since."""
    silent = subject.silent_since is not None
    newest = next((curve for curve in drawn if curve.number == NEWEST and curve.points), None)
    return newest.points[-1][0] if silent and newest is not None else None


def _figures(results: JobResults | None, name: str, direction: Direction, palette: Palette) -> list[BandPart]:
    metric_result = results.get(name, direction) if results is not None else None
    if metric_result is None:
        return []
    parts = [("last ", palette.past), (value_text(metric_result.last), palette.best)]
    if direction is not Direction.UNKNOWN:
        parts += [("   best ", palette.past), (value_text(metric_result.best), palette.best)]
        parts += (
            [(f" at {step_told(metric_result.best_step)}", palette.past)] if metric_result.best_step is not None else []
        )
    return parts


def _legend(attempts: Sequence[int], palette: Palette) -> list[ViewRow]:
    if len(attempts) < 2:
        return []
    earlier, newest = attempts
    return [ViewRow([(" ── ", palette.past), (f"attempt {earlier}", palette.past), ("   ━━ ", palette.running),
                     (f"attempt {newest}", palette.text)])]  # fmt: skip


# ---- `enter` ----


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

    def chosen(self) -> list[Job]:
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
        from .job_facts import TailDiffView

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
