"""The summary view, its lines, and the conditions under which it opens by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gputui.core.amounts import HOUR, counted, duration_cell, duration_words, energy, gpu_time, moment
from gputui.core.job import Job, JobId
from gputui.core.results import Direction
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.logs.plain import plain
from gputui.session.saved_state import save_tui_seen, tui_seen_at
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.layout import Pane
from gputui.tui.text import Column, Line, Piece, Pieces, beside, blank, heading, table
from gputui.tui.theme import STEPS, Ground, Look, bold
from gputui.views.failures import learn_parameters
from gputui.views.results_table import ParameterEffect, ResultsRow, ValueEffect, compared, scale_of
from gputui.views.status import StatusWord, queue_status
from gputui.views.summary import (
    Summary,
    ended_at,
    format_result,
    not_finite_lines,
    range_cells,
    summarize,
    summary_lines,
)

from .base import ALWAYS, FullView

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# Automatic opening

AWAY = 3600.0
"""Seconds without input after which the user counts as away."""
IDLE_BEFORE_OPENING = 10.0
"""Seconds without input after which the view may open by itself."""
NOTE_EVERY = 30.0


class AutoSummary:
    """The automatic opening of the summary after the last job or when the user comes back. Checked once a second."""

    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._root: str | None = None
        self.left: float | None = None
        """The time at which the user went away, or None."""
        self._was_idle = 0.0
        self._ran = False
        """Whether jobs have run since the summary was last shown or offered."""
        self._saved_at = 0.0

    def check(self) -> None:
        main = self._main
        if main.bridge.owner is None or main.bridge.root is None:
            return
        now, idle = main.now(), main.host.idle_for
        private = main.bridge.owner.paths.private
        if main.bridge.root != self._root:
            self._root = main.bridge.root
            self._handle_return(tui_seen_at(private), now, main.bridge.snapshot)
        elif self._was_idle > AWAY > idle:
            self._handle_return(now - self._was_idle, now, main.bridge.snapshot)
        self._was_idle = idle
        self._handle_end(main.bridge.snapshot, now, idle)
        self._save_input_time(private, now - idle)

    def _save_input_time(self, private: str, seen_at: float) -> None:
        """Save the time of the last input."""
        if not self._main.read_only and seen_at - self._saved_at > NOTE_EVERY:
            self._saved_at = seen_at
            save_tui_seen(private, seen_at)

    def _handle_return(self, seen_at: float | None, now: float, snapshot: Snapshot) -> None:
        if (
            seen_at is None
            or now - seen_at < AWAY
            or not any(job.attempts and job.attempts[-1].ended > seen_at for job in snapshot.jobs)
        ):
            return
        self.left = seen_at
        if isinstance(view := self._main.app.screen, SummaryView):
            view.show_since(seen_at)  # the view has been open since the last job ended
        elif self._nothing_else_is_open():
            self.open()
        else:
            self._main.say(f"jobs ended while you were away for {duration_words(now - seen_at)}: = shows the summary")

    def _handle_end(self, snapshot: Snapshot, now: float, idle: float) -> None:
        if snapshot.active:
            self._ran = True
        elif self._ran and queue_status(snapshot).word is StatusWord.DONE and len(snapshot.jobs) > 1:
            if idle <= IDLE_BEFORE_OPENING:
                self._ran = False
                self._main.say("all jobs have ended: = shows the summary")
            elif self._nothing_else_is_open():
                self._ran = False
                self.left = now - idle if idle > AWAY else self.left
                self.open()

    def _nothing_else_is_open(self) -> bool:
        main = self._main
        return main.app.screen is main and not main.filter_bar.display and main.pane is Pane.QUEUE

    def open(self) -> None:
        self._main.open_view(SummaryView(self._main, self.left))


# The best jobs

WIDEST = 16
GROUND = 0.06
"""Minimum scale of a trend as a share of the value, so that noise looks flat."""


def best_rows(summary: Summary, cursor: JobId | None, width: int) -> list[Line]:
    metric = summary.table.metric
    without = [Line([(f" {plain(line.strip())}", Look.PAST)]) for line in not_finite_lines(summary)]
    if metric is None or not summary.best:
        hint = "no results yet: print e.g. val_loss=0.41" if not summary.table.rows else ""
        notes = [Line([(f" {hint}", Look.PAST)])] if hint else without
        return [*notes, Line()] if notes else []
    better = {Direction.DOWN: "lower is better", Direction.UP: "higher is better"}.get(metric.direction, "")
    others = _others(summary, width)
    beside = f"; {', '.join(map(plain, others))} at the same checkpoint" if others else ""
    band = heading(
        (" Best by ", Look.TEXT),
        (plain(metric.name), Look.TITLE),
        (f"  {better}{beside}", Look.PAST),
        right=[("m  another metric", Look.PAST)],
    )
    head, *lines = table(_best_columns(summary, others), width)
    rows = [band, Line([blank(1), *head])]
    for row, pieces in zip(summary.best, lines, strict=True):
        ground = Ground.CURSOR if row.job == cursor else Ground.PAGE
        rows.append(Line([blank(1), *pieces], ground, value=row.job))
    return [*rows, *without, Line()]


def _others(summary: Summary, width: int) -> list[str]:
    """Return as many metrics besides the main one as the width allows."""
    return list(summary.table.others[:2]) if width >= 110 else list(summary.table.others[:1]) if width >= 90 else []


def _best_columns(summary: Summary, others: Sequence[str]) -> list[Column]:
    best, metric = summary.best, summary.table.metric

    def column(title: str, value: Callable[[ResultsRow], str], *, to_right: bool = True) -> Column:
        looks = [Look.BEST, *[Look.TEXT] * len(best)]
        return Column(plain(title), [(plain(value(row)), look) for row, look in zip(best, looks, strict=False)],
                      to_right, most=WIDEST)  # fmt: skip

    def past(title: str, value: Callable[[ResultsRow], str], *, to_right: bool = False) -> Column:
        return Column(title, [(plain(value(row)), Look.PAST) for row in best], to_right)

    def beside(name: str) -> Callable[[ResultsRow], str]:
        return lambda row: "" if (value := row.beside.get(name)) is None else f"{value:.4g}"

    def parameter(name: str) -> Callable[[ResultsRow], str]:
        return lambda row: row.params.get(name, "")

    ranks = {row.job: str(number) for number, row in enumerate(best, 1)} | {best[0].job: "★"}
    parameters = [column(each.title, parameter(each.name), to_right=each.is_number) for each in summary.table.columns]
    gpus = [past("gpu", lambda row: ",".join(row.gpus))] if any(row.gpus for row in best) else []

    def wh(row: ResultsRow) -> str:
        return "" if row.used.kwh is None else f"{'≈ ' if row.used.is_estimated else ''}{row.used.kwh * 1000:.3g}"

    energies = [past("Wh", wh, to_right=True)] if any(row.used.kwh is not None for row in best) else []
    return [
        column("", lambda row: ranks[row.job], to_right=False),
        column("id", lambda row: str(row.job)),
        *(parameters or [column("job", lambda row: row.label, to_right=False)]),
        column(metric.name if metric is not None else "", lambda row: format_result(row.best, summary.table)),
        *(column(name, beside(name)) for name in others),
        column("at", lambda row: "" if row.step is None else f"{row.step:g}"),
        past("second half", lambda row: trend_of(row.trend)),
        past("  time", lambda row: f"{duration_cell(row.seconds) if row.seconds is not None else '':>6}"),
        *gpus,
        *energies,
    ]


def trend_of(values: Sequence[float]) -> str:
    """Return a trend with one glyph for each value."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = max(high - low, GROUND * max(abs(low), abs(high)), 1e-12)
    top = len(STEPS) - 1
    return "".join(STEPS[round((value - low) / span * top)] for value in values)


# Effects of parameters

NAME = 12
MOST_CELLS, FEWEST_CELLS = 26, 10
_LOOKS = {"─": Look.PAST, "━": Look.MEMORY, "★": Look.BEST}


def effect_blocks(summary: Summary, width: int) -> list[list[list[Piece]]]:
    """Return a block of lines for each parameter: a heading and a line for each of its values."""
    scale = scale_of(summary.effects)
    blocks = [_block(effect, summary, scale, width) for effect in summary.effects]
    if summary.noise is not None:
        noise = f" between seeds: {format_result(summary.noise, summary.table)} apart (median)"
        blocks.append([[(noise, Look.PAST)]])
    return blocks


def _block(effect: ParameterEffect, summary: Summary, scale: tuple[float, float], width: int) -> list[list[Piece]]:
    digits = max(6, *(cell_len(format_result(value.median, summary.table)) for value in effect.values)) + 2
    cells = max(FEWEST_CELLS, min(MOST_CELLS, width - NAME - 8 - 2 * digits))
    low, middle, high = (f"{value:g}" for value in (scale[0], (scale[0] + scale[1]) / 2, scale[1]))
    ruler = (
        f"{low}{middle:^{cells - len(low) - len(high)}}{high}" if cells >= 20 else f"{low}{high:>{cells - len(low)}}"
    )
    title = set_cell_size(plain(effect.title), NAME)
    head = [(f"  {title}", Look.BOLD), (f"{'n':>4}{'best':>{digits}}", Look.PAST)]
    lines = [[*head, (f"{'median':>{digits}} {ruler}", Look.PAST)]]
    lines += [_value(value, summary, scale, digits, cells) for value in effect.values]
    if effect.more:
        lines.append([(f"  and {effect.more} more", Look.PAST)])
    return lines


def _value(effect: ValueEffect, summary: Summary, scale: tuple[float, float], digits: int, cells: int) -> list[Piece]:
    metric = summary.table.metric
    is_down = metric is not None and metric.direction is Direction.DOWN
    look = Look.BEST if effect.has_best else Look.TEXT
    drawn = range_cells(effect, scale, cells, is_down=is_down)
    best, median = format_result(effect.best, summary.table), format_result(effect.median, summary.table)
    return [
        (f"  {set_cell_size(plain(effect.value), NAME)}", look),
        (f"{effect.count:>4}", Look.PAST),
        (f"{best:>{digits}}{median:>{digits}} ", look),
        *((sign, _LOOKS.get(sign, Look.TEXT)) for sign in drawn),
    ]


# The lines

TWO_COLUMNS = 110


def summary_rows(summary: Summary, cursor: JobId | None, size: tuple[int, int], now: float, page: str) -> list[Line]:
    """Return the lines. `size` contains the visible columns and rows. `page` is the file name for a report."""
    width, height = size
    half = width // 2 if width >= TWO_COLUMNS else width
    first = [Line(), *facts(summary, width, now), Line()]
    rest = best_rows(summary, cursor, width)
    rest += _effects(summary, half, width)
    rest += _ends(summary, half, width)
    since = _since(summary, now)
    ways = ("as text: gputui summary", f"as a page: gputui report -o {page}", "as a table: gputui results --csv")
    if len(first + rest + since) <= height:
        rows = [*first, *rest, *since]
    else:  # put the changes since the user left first, because the end is out of sight
        rows = [*first, *since, *([Line()] if since else []), *rest]
    return [*rows, Line(), Line([(" " + "     ".join(ways), Look.PAST)])]


def facts(summary: Summary, width: int, now: float) -> list[Line]:
    """Return two lines: large figures, and below them what they mean."""
    cells: list[tuple[str, Look, str]] = [(f"{summary.succeeded:,} ok", Look.RUNNING, f"of {summary.total:,}")]
    if summary.failed:
        cells.append(
            (f"{summary.failed:,} failed", Look.FAILURE, f"with {counted(len(summary.failures), 'error', 'errors')}")
        )
    if summary.began is not None:
        cells.append((duration_words(summary.wall), Look.TEXT, ended_at(summary, now)))
    what_ran = summary.device_words()
    if summary.gpu_seconds:
        note = summary.used.energy_text if width < TWO_COLUMNS and summary.used.kwh is not None else what_ran
        cells.append((gpu_time(summary.gpu_seconds), Look.TEXT, note))
    if summary.used.kwh is not None and width >= TWO_COLUMNS:
        each = summary.used.kwh / summary.runs
        cells.append((summary.used.energy_text, Look.TEXT, f"{energy(each)} a run"))
    if any(device.busy for device in summary.devices):
        note = ", ".join(_idle_reasons(summary)) or (" " if summary.gpu_seconds else what_ran)
        cells.append((f"{(summary.busy or 0) * 100:.0f}% busy", Look.TEXT, note))
    if summary.best and summary.table.metric is not None:
        best = summary.best[0]
        value = format_result(best.best, summary.table)
        cells.append((f"★ {value}", Look.BEST, f"{plain(summary.table.metric.name)} of #{best.job}"))
    while len(cells) > 2 and sum(max(cell_len(large), cell_len(small)) + 4 for large, _, small in cells) > width + 2:
        del cells[-2]  # the first and the last are the most important
    above: list[Piece] = [(" ", Look.TEXT)]
    below: list[Piece] = [(" ", Look.TEXT)]
    for large, look, small in cells:
        room = max(cell_len(large), cell_len(small)) + 4
        above += [(" " + set_cell_size(large, room - 1), bold(look))]
        below += [(" " + set_cell_size(small, room - 1), Look.PAST)]
    return [Line(above), Line(below)]


def _idle_reasons(summary: Summary) -> list[str]:
    held = [f"{duration_words(seconds)} {plain(user)}" for user, seconds in summary.external_processes[:2]]
    return held + ([f"{duration_words(summary.paused)} paused"] if summary.paused >= 60 else [])


def _effects(summary: Summary, half: int, width: int) -> list[Line]:
    blocks = effect_blocks(summary, half - 1)
    if not blocks:
        return []
    metric = plain(summary.table.metric.name) if summary.table.metric is not None else ""
    jobs = counted(len(compared(summary.table)), "successful job", "successful jobs")
    band = heading((" By parameter", Look.TEXT), (f"   {metric} of {jobs}", Look.PAST))
    columns: list[list[Pieces]] = [[] for _ in range(2 if half < width else 1)]
    for block in blocks:
        shortest = min(columns, key=len)
        shortest += [[], *block] if shortest else block
    return [band, *_side_by_side(columns, half), Line()]


def _side_by_side(columns: Sequence[Sequence[Pieces]], half: int) -> list[Line]:
    return [Line(pieces) for pieces in beside([column for column in columns if column], half)]


def _ends(summary: Summary, half: int, width: int) -> list[Line]:
    failed, times = _failed(summary, half), _times(summary, half)
    if not failed or half == width:
        parts = [(title, lines) for title, lines in ((" Failed", failed), (" Time", times)) if lines]
        return [row for title, lines in parts for row in (heading((title, Look.TEXT)), *map(Line, lines), Line())]
    band = heading((" Failed".ljust(half) + ("Time" if times else ""), Look.TEXT))
    return [band, *_side_by_side([failed, times], half), Line()]


def _failed(summary: Summary, half: int) -> list[Pieces]:
    lines: list[Pieces] = []
    for group in summary.failures[:4]:
        message = set_cell_size(plain(group.message), half - 10).rstrip()
        lines.append([(f"{group.count:>5}", Look.FAILURE_BOLD), (" × ", Look.PAST), (message, Look.FAILURE)])
        jobs = " ".join(f"#{job}" for job in group.jobs[:4]) + (" …" if group.count > 4 else "")
        shared = f"all {group.common.parameters_text}" if group.common.parameters_text else ""
        text = "  ·  ".join(part for part in (jobs, plain(shared), group.common.where) if part)
        lines.append([(" " * 8 + set_cell_size(text, half - 10).rstrip(), Look.PAST)])
    if len(summary.failures) > 4:
        lines.append(
            [(f"        and {counted(len(summary.failures) - 4, 'more error', 'more errors')}: press F", Look.PAST)]
        )
    return lines


def _times(summary: Summary, half: int) -> list[Pieces]:
    if summary.median is None or summary.longest is None or summary.shortest is None:
        return []
    lines: list[Pieces] = [
        [
            (" per job   ", Look.PAST),
            ("median ", Look.PAST), (duration_cell(summary.median), Look.TEXT),
            ("   longest ", Look.PAST), (duration_cell(summary.longest[1]), Look.TEXT),
            (f" #{summary.longest[0]}   shortest ", Look.PAST), (duration_cell(summary.shortest[1]), Look.TEXT),
        ]
    ]  # fmt: skip
    room = min(24, max(8, half - 34))
    for device in summary.devices[:8]:
        full = round(device.share * room)
        lines.append(
            [
                (f" {set_cell_size(plain(device.label), 9)} ", Look.PAST),
                ("━" * full, Look.RUNNING), ("─" * (room - full), Look.LINE),
                (f" {device.share * 100:4.0f}%", Look.TEXT),
                (f"   {counted(device.jobs, 'run', 'runs')}", Look.PAST),
            ]
        )  # fmt: skip
    if len(summary.devices) > 8:
        lines.append([(f" and {len(summary.devices) - 8} more", Look.PAST)])
    return lines + _groups(summary, half)


MOST_GROUPS = 6


def _groups(summary: Summary, half: int) -> list[Pieces]:
    """Return what each group has used, largest first."""
    groups = sorted(summary.groups if summary.gpu_seconds else (), key=lambda each: -each.used.gpu_hours)
    width = min(max((cell_len(plain(each.group)) for each in groups), default=0), max(8, half - 40))
    lines: list[Pieces] = []
    for each in groups[:MOST_GROUPS]:
        jobs = f"   {counted(each.jobs, 'job', 'jobs'):>9}   "
        used = f"{gpu_time(each.used.gpu_hours * HOUR):>10}   {each.used.energy_text:>10}".rstrip()
        lines.append([(f" {set_cell_size(plain(each.group), width)}", Look.TEXT), (jobs, Look.PAST), (used, Look.TEXT)])
    if len(groups) > MOST_GROUPS:
        lines.append([(f" and {len(groups) - MOST_GROUPS} more groups", Look.PAST)])
    return [[], *lines] if lines else []


def _since(summary: Summary, now: float) -> list[Line]:
    since = summary.since
    if since is None:
        return []
    left_at = f"   {moment(since.left, now)}, {duration_words(now - since.left)} ago"
    band = heading((" Since you left", Look.TEXT), (left_at, Look.PAST))
    line: list[Piece] = [(f"  {since.succeeded:,} ok", Look.TEXT)]
    if since.failed:
        line += [("   ·   ", Look.PAST), (f"{since.failed:,} failed", Look.FAILURE)]
    if summary.best:
        best = summary.best[0]
        line.append(("   ·   ", Look.PAST))
        if since.best_before is not None and since.best_before[0] != best.job:
            line += [
                ("best went from ", Look.PAST), (format_result(since.best_before[1], summary.table), Look.TEXT),
                (f" #{since.best_before[0]} to ", Look.PAST),
            ]  # fmt: skip
        else:
            line.append(("best ", Look.PAST))
        line += [(format_result(best.best, summary.table), Look.BEST), (f" #{best.job}", Look.PAST)]
    for user, device, seconds in since.external_processes[:1]:
        line += [
            ("   ·   ", Look.PAST),
            (f"GPU {plain(device)} used by {plain(user)} for {duration_words(seconds)}", Look.TEXT),
        ]
    return [band, Line(line)]


# The view

PAUSE_FACTOR = 10
"""Length of the pause before the next computation, as a multiple of the duration of the last one."""


class SummaryView(FullView):
    """The summary view. The cursor is on one of the best jobs. The key is `=`."""

    BINDINGS: ClassVar[list[BindingType]] = view_bindings("summary", "details", "failures", "metric", "rerun_failed")
    DEFAULT_CSS = "SummaryView #summary { height: 1fr; width: 1fr; }"

    def __init__(self, main: MainScreen, left: float | None = None) -> None:
        """Create the view. `left` is the time when the user went away."""
        super().__init__(main, "=", "Summary")
        self._left = left
        self.rows = LinesView(id="summary")
        self.summary: Summary | None = None
        self._snapshot: Snapshot | None = None
        """The snapshot that was summarized last."""
        self._common = ""
        self._next_at = 0.0
        self._computing = False
        self._cursor = 0

    def body(self) -> ComposeResult:
        yield self.rows

    def show_since(self, left: float) -> None:
        """Show what has changed since the user left."""
        self._left, self._snapshot, self._next_at = left, None, 0.0
        self.paint()

    def renew(self) -> None:
        snapshot = self.snapshot
        if snapshot is not self._snapshot and not self._computing and time.monotonic() >= self._next_at:
            self._computing, self._snapshot = True, snapshot
            self.main.bridge.spans(partial(self._spans_loaded, snapshot))
        self._show()

    def _spans_loaded(self, snapshot: Snapshot, spans: Sequence[RecordedSpan]) -> None:
        self.run_worker(partial(self._compute, snapshot, spans), thread=True, exit_on_error=False)

    def _compute(self, snapshot: Snapshot, spans: Sequence[RecordedSpan]) -> None:
        """Compute the summary in a thread."""
        began = time.monotonic()
        summary = summarize(snapshot, self.main.now(), spans, self._left)
        common = learn_parameters(snapshot).common()
        self.app.call_from_thread(self._computed, summary, common, time.monotonic() - began)

    def _computed(self, summary: Summary, common: str, seconds: float) -> None:
        job, best = self.job, [row.job for row in summary.best]
        self._cursor = best.index(job) if job in best else self._cursor
        self.summary, self._common, self._computing = summary, common, False
        # `show_since` may have been called meanwhile.
        self._next_at = time.monotonic() + seconds * PAUSE_FACTOR if self._snapshot is not None else 0.0
        self.renew()
        self.paint_footer()

    def _show(self) -> None:
        if self.summary is None:
            return
        self.band.show([("   " + plain(self._common), Look.PAST)] if self._common else [])
        page = os.path.basename(self.main.bridge.root or "report").removesuffix("_run") + ".html"
        job = self.job
        size = (self.size.width, max(1, self.rows.size.height))
        self.rows.show(summary_rows(self.summary, job, size, self.main.now(), plain(page)))

    @property
    def job(self) -> JobId | None:
        best = self.summary.best if self.summary is not None else ()
        return best[min(self._cursor, len(best) - 1)].job if best else None

    def scrolled(self) -> LinesView:
        return self.rows

    def chosen(self) -> list[Job]:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def offers(self) -> OfferedKeys:
        row: list[Offer] = [("details", f"Details of #{self.job}")] if self.job is not None else []
        if self.summary is not None and self.summary.failed:
            row.append(("rerun_failed", f"Rerun {self.summary.failed:,} failed"))
        row += [("metric", "Metric")] if self.summary is not None and self.summary.table.rows else []
        fails: list[Offer] = [("failures", "Failures")] if self.summary is not None and self.summary.failed else []
        return OfferedKeys(row, [("copy_summary", "Copy as text")], fails, always=ALWAYS)

    # Keys

    def action_move(self, by: int) -> None:
        best = len(self.summary.best) if self.summary is not None else 0
        self._cursor = max(0, min(self._cursor + by, best - 1))
        self._show()
        self.paint_footer()

    def act_copy_summary(self) -> None:
        if self.summary is not None:
            lines = summary_lines(self.summary, self.main.now())
            self.app.copy_to_clipboard("\n".join(map(plain, lines)))
            self.main.say("summary copied")

    @on(LinesView.LineClicked)
    def _clicked_row(self, event: LinesView.LineClicked) -> None:
        jobs = [row.job for row in self.summary.best] if self.summary is not None else []
        if event.value in jobs:
            self._cursor = jobs.index(event.value)
            self._show()
            self.paint_footer()
