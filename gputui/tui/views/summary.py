"""The summary view, its lines, and the conditions under which it opens by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

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
from gputui.sources.sweep import pattern_of, with_field
from gputui.tui.actions.adding import ask_sweep
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.layout import Pane
from gputui.tui.text import BAR, Column, Line, Piece, Pieces, beside, blank, fit, heading, table
from gputui.tui.theme import HEAT, STEPS, Ground, Look, bold, palette_of
from gputui.views.failures import learn_parameters
from gputui.views.format import cut
from gputui.views.heat_map import HeatMap, around, find_map
from gputui.views.results_table import ParameterEffect, ResultsRow, ValueEffect, compared, scale_of
from gputui.views.status import StatusWord, queue_status
from gputui.views.summary import (
    Summary,
    count_words,
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

    def past(title: str, value: Callable[[ResultsRow], str], *, to_right: bool = False, rank: int = 0) -> Column:
        return Column(title, [(plain(value(row)), Look.PAST) for row in best], to_right, rank)

    def beside(name: str) -> Callable[[ResultsRow], str]:
        return lambda row: "" if (value := row.beside.get(name)) is None else f"{value:.4g}"

    def parameter(name: str) -> Callable[[ResultsRow], str]:
        return lambda row: row.params.get(name, "")

    ranks = {row.job: str(number) for number, row in enumerate(best, 1)} | {best[0].job: "★"}
    parameters = [column(each.title, parameter(each.name), to_right=each.is_number) for each in summary.table.columns]
    gpus = [past("gpu", lambda row: ",".join(row.gpus))] if any(row.gpus for row in best) else []

    def wh(row: ResultsRow) -> str:
        return "" if row.used.kwh is None else f"{'≈ ' if row.used.is_estimated else ''}{row.used.kwh * 1000:.3g}"

    hours = past("GPU-h", lambda row: f"{row.used.gpu_hours:.2f}", to_right=True, rank=2)
    energies = [hours] if any(row.used.gpu_hours for row in best) else []
    energies += [past("Wh", wh, to_right=True, rank=1)] if any(row.used.kwh is not None for row in best) else []
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


class MapScene(NamedTuple):
    """The heat map that is shown, and what its cells look like."""

    heat_map: HeatMap
    cursor: tuple[int, int] | None
    """Row and column of the cell under the cursor, or None if the cursor is on a job."""
    signs: bool
    """Whether cells have signs, because the terminal has no background colours."""
    others: bool
    """Whether there are maps of other parameters."""


def summary_rows(
    summary: Summary, cursor: JobId | None, scene: MapScene | None, size: tuple[int, int], now: float, page: str
) -> list[Line]:
    """Return the lines. `size` contains the visible columns and rows. `page` is the file name for a report."""
    width, height = size
    half = width // 2 if width >= TWO_COLUMNS else width
    first = [Line(), *facts(summary, width, now), Line()]
    rest = best_rows(summary, cursor, width)
    rest += _effects(summary, scene, half, width)
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
    if summary.killed:
        cells.append((f"{summary.killed:,} killed", Look.WARNING, " "))
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


def _effects(summary: Summary, scene: MapScene | None, half: int, width: int) -> list[Line]:
    """Return the heat map and the effects of single parameters, side by side if there is room."""
    blocks = effect_blocks(summary, half - 1)
    if not blocks:
        return []
    metric = plain(summary.table.metric.name) if summary.table.metric is not None else ""
    jobs = counted(len(compared(summary.table)), "successful job", "successful jobs")
    title: list[Piece] = [(" By parameter", Look.TEXT), (f"   {metric} of {jobs}", Look.PAST)]
    if scene is None or half == width:
        columns: list[list[Pieces]] = [[] for _ in range(2 if half < width else 1)]
        for block in blocks:
            shortest = min(columns, key=len)
            shortest += [[], *block] if shortest else block
        rows = [heading(*title), *_side_by_side(columns, half), Line()]
        if scene is None:
            return rows
        return [heading(*map_title(scene, metric)), *map(Line, map_lines(summary, scene, width - 2)), Line(), *rows]
    band = heading(*fit(map_title(scene, metric), half), *title)
    effects: list[Pieces] = [line for block in blocks for line in (*block, [])]
    return [band, *_side_by_side([map_lines(summary, scene, half - 2), effects[:-1]], half), Line()]


# The heat map

MOST_CELL, LEAST_CELL = 12, 9
_HEAT_SIGNS = "▁▂▃▄▅▆"


def map_title(scene: MapScene, metric: str) -> list[Piece]:
    look = Look.TEXT if scene.cursor is None else Look.TITLE
    keys = "   p  other parameters" if scene.others else ""
    return [(" ", Look.TEXT), (plain(scene.heat_map.title), look), (f"   median {metric}{keys}", Look.PAST)]


def map_lines(summary: Summary, scene: MapScene, width: int) -> list[Pieces]:
    """Return the lines of a heat map: two for each row of cells, then what the cell under the cursor contains."""
    heat_map = scene.heat_map
    names = [plain(value) for value in heat_map.rows.values]
    first = min(14, max(cell_len(plain(heat_map.rows.title)), *map(cell_len, names))) + 3
    room = max(LEAST_CELL, min(MOST_CELL, (width - first) // len(heat_map.columns.values) - 1))
    shown = max(1, (width - first) // (room + 1))
    start = max(0, scene.cursor[1] - shown + 1) if scene.cursor is not None else 0
    columns = range(start, min(len(heat_map.columns.values), start + shown))
    values = [plain(heat_map.columns.values[column]) for column in columns]
    title = f"{plain(heat_map.columns.title)}="
    titles = [title + value if cell_len(title + value) <= room else cut(value, room) for value in values]
    head: list[Piece] = [(f"{set_cell_size(plain(heat_map.rows.title).rjust(first - 2), first - 2)}  ", Look.PAST)]
    lines: list[Pieces] = [
        head + [(set_cell_size(cut(title, room).center(room), room + 1), Look.PAST) for title in titles]
    ]
    for row, name in enumerate(names):
        above: list[Piece] = [(f"{set_cell_size(cut(name, first - 3).rjust(first - 2), first - 2)} ", Look.TEXT)]
        below: list[Piece] = [(" " * (first - 1), Look.TEXT)]
        for column in columns:
            cell, at_cursor = heat_map.cells[row][column], scene.cursor == (row, column)
            look = HEAT[cell.shade] if cell.median is not None else Look.PAST
            sign = _HEAT_SIGNS[cell.shade] if scene.signs and cell.median is not None else ""
            star = "★" if heat_map.best == (row, column) else ""
            median = f"{star}{sign}{format_result(cell.median, summary.table)}" if cell.median is not None else ""
            bar: Piece = (BAR, Look.MARK) if at_cursor else (" ", Look.TEXT)
            above += [bar, (f"{median:^{room}}", look)]
            below += [bar, (f"{count_words(cell):^{room}}", look)]
        lines += [above, below]
    return lines + (_cell_facts(summary, heat_map, *scene.cursor) if scene.cursor is not None else [])


def _cell_facts(summary: Summary, heat_map: HeatMap, row: int, column: int) -> list[Pieces]:
    """Return lines about the cell under the cursor and the sweep that Enter proposes."""
    rows, columns = heat_map.rows, heat_map.columns
    pair = f"{rows.title}={rows.values[row]} {columns.title}={columns.values[column]}"
    best = best_in_cell(summary, heat_map, (row, column))
    facts = f"   best {format_result(best.best, summary.table)} #{best.job}" if best is not None else ""
    values = [f"{axis.title} {' '.join(around(axis, index))}" for axis, index in ((rows, row), (columns, column))]
    jobs = len(around(rows, row)) * len(around(columns, column))
    hours = summary.used.gpu_hours / max(1, summary.runs) * jobs
    cost = f", ≈ {gpu_time(hours * HOUR)}" if hours else ""
    return [
        [(f" {plain(pair)}", Look.BOLD), (facts, Look.PAST)],
        [(" Enter", Look.BOLD), (f" sweep around it: {plain(' × '.join(values))}", Look.PAST)],
        [(f"       {counted(jobs, 'job', 'jobs')}{cost}; asks first", Look.PAST)],
    ]


def best_in_cell(summary: Summary, heat_map: HeatMap, cell: tuple[int, int]) -> ResultsRow | None:
    """Return the best of the succeeded jobs in a cell, or None if there are none."""
    pair = heat_map.rows.values[cell[0]], heat_map.columns.values[cell[1]]
    names = heat_map.rows.name, heat_map.columns.name
    return next((row for row in compared(summary.table) if tuple(map(row.params.get, names)) == pair), None)


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
        message = cut(plain(group.message), half - 10)
        lines.append([(f"{group.count:>5}", Look.FAILURE_BOLD), (" × ", Look.PAST), (message, Look.FAILURE)])
        jobs = " ".join(f"#{job}" for job in group.jobs[:4]) + (" …" if group.count > 4 else "")
        shared = f"all {group.common.parameters_text}" if group.common.parameters_text else ""
        text = "  ·  ".join(part for part in (jobs, plain(shared), group.common.where) if part)
        lines.append([(" " * 8 + cut(text, half - 10), Look.PAST)])
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
        self._map: tuple[str, str] | None = None
        """The parameters of the heat map that is shown, or None for the first map."""
        self._cell: tuple[int, int] | None = None
        """The cell under the cursor, or None if the cursor is on a job."""

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
        job, best, before = self.job, [row.job for row in summary.best], self._heat_map()
        self._cursor = best.index(job) if job in best else self._cursor
        self.summary, self._common, self._computing = summary, common, False
        if self._cell is not None and before is not None and (heat_map := self._heat_map()) is not before:
            self._cell = heat_map.same_cell(before, self._cell) if heat_map is not None else None
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
        scene = None
        if (heat_map := self._heat_map()) is not None:
            signs = palette_of(self.app.theme).rules
            scene = MapScene(heat_map, self._cell, signs, others=len(self.summary.maps) > 1)
        lines = summary_rows(self.summary, job, scene, size, self.main.now(), plain(page))
        marked = [number for number, line in enumerate(lines) if any(look is Look.MARK for _, look in line.pieces)]
        if marked and heat_map is not None and self._cell is not None:  # show what is below the map as well
            last = marked[0] + 2 * (len(heat_map.rows.values) - self._cell[0]) + 2
            self.rows.show(lines, (marked[0], last))
        else:
            self.rows.show(lines)

    def _heat_map(self) -> HeatMap | None:
        """Return the heat map that is shown, or None if there is none."""
        maps = self.summary.maps if self.summary is not None else ()
        chosen = find_map(maps, self._map) if self._map is not None else None
        return chosen or next(iter(maps), None)

    @property
    def job(self) -> JobId | None:
        """The job under the cursor, or None if the cursor is in the heat map."""
        if self._cell is not None:
            return None
        best = self.summary.best if self.summary is not None else ()
        return best[min(self._cursor, len(best) - 1)].job if best else None

    def scrolled(self) -> LinesView:
        return self.rows

    def chosen(self) -> list[Job]:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def offers(self) -> OfferedKeys:
        row: list[Offer] = [("details", f"Details of #{self.job}")] if self.job is not None else []
        if self._cell is not None:
            row = [("details", "Sweep around"), ("cell_right", "Cell")]
        if self.summary is not None and len(self.summary.maps) > 1:
            row.append(("other_parameters", "Parameters"))
        if self.summary is not None and self.summary.failed:
            row.append(("rerun_failed", f"Rerun {self.summary.failed:,} failed"))
        row += [("metric", "Metric")] if self.summary is not None and self.summary.table.rows else []
        fails: list[Offer] = [("failures", "Failures")] if self.summary is not None and self.summary.failed else []
        return OfferedKeys(row, [("copy_summary", "Copy as text")], fails, always=ALWAYS)

    # Keys

    def action_move(self, by: int) -> None:
        """Move the cursor through the best jobs and then through the rows of the heat map."""
        best = len(self.summary.best) if self.summary is not None else 0
        heat_map = self._heat_map()
        rows = len(heat_map.rows.values) if heat_map is not None else 0
        place = self._cursor if self._cell is None else best + self._cell[0]
        place = max(0, min(place + by, best + rows - 1))
        column = self._cell[1] if self._cell is not None else heat_map.best[1] if heat_map is not None else 0
        self._cell = (place - best, column) if place >= best else None
        self._keep_map(heat_map)
        self._cursor = min(place, best - 1)
        self._show()
        self.paint_footer()

    def act_cell_left(self) -> None:
        self._move_sideways(-1)

    def act_cell_right(self) -> None:
        self._move_sideways(1)

    def _move_sideways(self, by: int) -> None:
        """Move the cursor to another column of the heat map, or into the map if it is not there yet."""
        heat_map = self._heat_map()
        if heat_map is None:
            return
        if self._cell is None:
            self._cell = heat_map.best
        else:
            row, column = self._cell
            self._cell = row, max(0, min(column + by, len(heat_map.columns.values) - 1))
        self._keep_map(heat_map)
        self._show()
        self.paint_footer()

    def _keep_map(self, heat_map: HeatMap | None) -> None:
        """Keep showing a map while the cursor is in it, even if other parameters have larger effects by now."""
        if self._cell is not None and heat_map is not None:
            self._map = heat_map.rows.name, heat_map.columns.name

    def act_other_parameters(self) -> None:
        """Show the heat map of the next pair of parameters."""
        maps = self.summary.maps if self.summary is not None else ()
        if not maps or (heat_map := self._heat_map()) is None:
            return
        following = maps[(maps.index(heat_map) + 1) % len(maps)]
        self._map = following.rows.name, following.columns.name
        self._cell = following.best if self._cell is not None else None
        self._show()
        self.paint_footer()

    def act_details(self) -> None:
        """Show the details of the job under the cursor, or the form for a sweep around the cell under the cursor."""
        if self._cell is None:
            self.main.acts["details"](self.main)
        elif self.main.read_only:
            self.main.say("this view is read-only")
        else:
            self._sweep_around(self._cell)

    def _sweep_around(self, cell: tuple[int, int]) -> None:
        heat_map = self._heat_map()
        best = best_in_cell(self.summary, heat_map, cell) if self.summary is not None and heat_map is not None else None
        best = best or (self.summary.best[0] if self.summary is not None else None)
        if heat_map is None or best is None or best.job not in self.snapshot:
            return
        spec = self.snapshot[best.job].spec
        pattern, lines = pattern_of(spec.command), []
        for axis, index in ((heat_map.rows, cell[0]), (heat_map.columns, cell[1])):
            pattern = with_field(pattern, axis.name) or pattern
            lines.append(" ".join((axis.name, *around(axis, index))))
        ask_sweep(self.main, pattern, "\n".join(lines), spec.cwd)

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
