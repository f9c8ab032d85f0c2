"""The summary on the whole screen: its rows, and when it shows itself."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.amounts import counted, duration_cell, duration_words, gpu_time, moment
from gputui.core.job import Job, JobId
from gputui.core.results import Direction
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.logs.plain import plain
from gputui.session.saved_state import note_screen_seen, screen_seen_at
from gputui.tui.action_table import view_bindings
from gputui.tui.chrome import BandPart, Offer, OfferedKeys
from gputui.tui.layout import Pane
from gputui.tui.theme import STEPS, Palette, palette_of
from gputui.views.failures import learnt_parameters
from gputui.views.results_table import ParameterEffect, ResultsRow, ValueEffect, compared, scale_of
from gputui.views.status import Word, standing
from gputui.views.summary import Summary, ended_at, not_finite_lines, range_cells, summarize, summary_lines, told_value

from .base import ALWAYS, FullView, ViewRow, ViewRows, blank_row

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- When the summary shows itself ----


AWAY = 3600.0
"""Seconds without a key or the mouse after which the user has been away."""
STILL = 10.0
"""Seconds without a key or the mouse after which the user is not in the middle of something."""
NOTE_EVERY = 30.0


class SummaryOccasion:
    """Opens the summary by itself when the last job has ended, and when the user comes back. Looks once a second."""

    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._root: str | None = None
        self._left: float | None = None
        """When the user last looked, before this time."""
        self._was_idle = 0.0
        self._ran = False
        """Something ran since the summary was last shown by itself, or offered to a user who was there."""
        self._noted = 0.0

    @property
    def left(self) -> float | None:
        return self._left

    def look(self) -> None:
        main = self._main
        if main.bridge.owner is None or main.bridge.root is None:
            return
        now, idle = main.now(), main.idle_for()
        private = main.bridge.owner.paths.private
        if main.bridge.root != self._root:
            self._root = main.bridge.root
            self._come_back(screen_seen_at(private), now, main.bridge.snapshot)
        elif self._was_idle > AWAY > idle:
            self._come_back(now - self._was_idle, now, main.bridge.snapshot)
        self._was_idle = idle
        self._end(main.bridge.snapshot, now, idle)
        self._note(private, now - idle)

    def _note(self, private: str, looked: float) -> None:
        """When somebody last did something: a screen that nobody looks at says nothing new."""
        if not self._main.read_only and looked - self._noted > NOTE_EVERY:
            self._noted = looked
            note_screen_seen(private, looked)

    def _come_back(self, looked: float | None, now: float, snapshot: Snapshot) -> None:
        if looked is None or now - looked < AWAY or not _ended_since(snapshot, looked):
            return
        self._left = looked
        if isinstance(view := self._main.app.screen, SummaryView):
            view.tell_since(looked)  # it opened when the last job ended
        elif self._nothing_else_is_open():
            self.open()
        else:
            self._main.say(f"jobs ended while you were away for {duration_words(now - looked)}: = shows the summary")

    def _end(self, snapshot: Snapshot, now: float, idle: float) -> None:
        if snapshot.active:
            self._ran = True
        elif self._ran and standing(snapshot).word is Word.DONE and len(snapshot.jobs) > 1:
            if idle <= STILL:
                self._ran = False
                self._main.say("all jobs have ended: = shows the summary")
            elif self._nothing_else_is_open():
                self._ran = False
                self._left = now - idle if idle > AWAY else self._left
                self.open()

    def _nothing_else_is_open(self) -> bool:
        main = self._main
        return main.app.screen is main and not main.filter_bar.display and main.pane is Pane.QUEUE

    def open(self) -> None:
        self._main.open_view(SummaryView(self._main, self._left))


def _ended_since(snapshot: Snapshot, at: float) -> bool:
    return any(job.attempts and job.attempts[-1].ended > at for job in snapshot.jobs)


# ---- The best five jobs, as rows of the summary ----


WIDEST = 16
GROUND = 0.06
"""A trend is never finer than this share of the value: flat looks flat."""

Cell = tuple[str, bool]
"""A text, and whether it stands to the right."""


def best_rows(summary: Summary, cursor: JobId | None, width: int, palette: Palette) -> list[ViewRow]:
    metric = summary.table.metric
    without = [ViewRow([(f" {plain(line.strip())}", palette.past)]) for line in not_finite_lines(summary)]
    if metric is None or not summary.best:
        hint = "no results yet: jobs print them as val_loss=0.41" if not summary.table.rows else ""
        said = [ViewRow([(f" {hint}", palette.past)])] if hint else without
        return [*said, blank_row()] if said else []
    better = {Direction.DOWN: "lower is better", Direction.UP: "higher is better"}.get(metric.direction, "")
    others = _others(summary, width)
    beside = f"; {', '.join(map(plain, others))} at the same checkpoint" if others else ""
    left: list[BandPart] = [
        (" Best by ", palette.text),
        (plain(metric.name), palette.text + Style(bold=True, underline=True)),
        (f"  {better}{beside}", palette.past),
    ]
    band = ViewRow(left, [("m  another metric", palette.past)], band=True)
    head, *lines = _aligned(
        [_head(summary, others), *(_cells(row, summary, others, n) for n, row in enumerate(summary.best))]
    )
    ends = "  time   gpu" if any(row.gpus for row in summary.best) else "  time"
    rows = [band, ViewRow([(" " + head + ends, palette.past)])]
    for number, (row, line) in enumerate(zip(summary.best, lines, strict=True)):
        style = palette.best if not number else palette.text
        trend = f"{trend_of(row.trend):8}"
        rest = (
            f"   {duration_cell(row.seconds) if row.seconds is not None else '':>6}   {','.join(map(plain, row.gpus))}"
        )
        parts = [(" " + line, style), (trend, style if not number else palette.past), (rest, palette.past)]
        rows.append(ViewRow(parts, selected=row.job == cursor, value=row.job))
    return [*rows, *without, blank_row()]


def _others(summary: Summary, width: int) -> list[str]:
    """Two more metrics, if they are of the same phase; on a wide screen."""
    return list(summary.table.others[:2]) if width >= 110 else list(summary.table.others[:1]) if width >= 90 else []


def _head(summary: Summary, others: Sequence[str]) -> list[Cell]:
    metric = summary.table.metric
    columns: list[Cell] = [(column.title, column.is_number) for column in summary.table.columns] or [("job", False)]
    values = [(metric.name if metric is not None else "", True), *((name, True) for name in others), ("at", True)]
    return [(" ", False), ("id", True), *columns, *values, ("second half", False)]


def _cells(row: ResultsRow, summary: Summary, others: Sequence[str], number: int) -> list[Cell]:
    columns: list[Cell] = [(row.params.get(column.name, ""), column.is_number) for column in summary.table.columns]
    beside = [row.beside.get(name) for name in others]
    return [
        ("★" if not number else str(number + 1), False),
        (str(row.job), True),
        *(columns or [(row.name, False)]),
        (told_value(row.best, summary.table), True),
        *(("" if value is None else f"{value:.4g}", True) for value in beside),
        ("" if row.step is None else f"{row.step:g}", True),
        ("", False),
    ]


def _aligned(rows: list[list[Cell]]) -> list[str]:
    texts = [[(plain(text), right) for text, right in row] for row in rows]
    widths = [min(WIDEST, max(cell_len(row[at][0]) for row in texts)) for at in range(len(texts[0]))]
    widths[-1] = 0  # the trend is drawn after it
    lines = []
    for number, row in enumerate(texts):
        cells = [_shaped(text, size, right) for (text, right), size in zip(row, widths, strict=True)]
        lines.append("  ".join(cells[:-1]) + "   " + (row[-1][0] if not number else ""))
    return lines


def _shaped(text: str, size: int, right: bool) -> str:
    cut = set_cell_size(text, size) if cell_len(text) > size else text
    blanks = " " * (size - cell_len(cut))
    return blanks + cut if right else cut + blanks


def trend_of(values: Sequence[float]) -> str:
    """One glyph a value; never finer than a small share of it."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = max(high - low, GROUND * max(abs(low), abs(high)), 1e-12)
    top = len(STEPS) - 1
    return "".join(STEPS[round((value - low) / span * top)] for value in values)


# ---- What each parameter did, as blocks of lines ----


NAME = 12
MOST_CELLS, FEWEST_CELLS = 26, 10
_LOOK = {"─": "past", "━": "memory", "●": "text", "★": "best"}


def effect_blocks(summary: Summary, width: int, palette: Palette) -> list[list[list[BandPart]]]:
    """Each is a heading and a line for each value."""
    scale = scale_of(summary.effects)
    blocks = [_block(effect, summary, scale, width, palette) for effect in summary.effects]
    if summary.noise is not None:
        noise = f" same job, other seed: {told_value(summary.noise, summary.table)} apart (median)"
        blocks.append([[(noise, palette.past)]])
    return blocks


def _block(
    effect: ParameterEffect, summary: Summary, scale: tuple[float, float], width: int, palette: Palette
) -> list[list[BandPart]]:
    digits = max(6, *(cell_len(told_value(value.median, summary.table)) for value in effect.values)) + 2
    cells = max(FEWEST_CELLS, min(MOST_CELLS, width - NAME - 8 - 2 * digits))
    low, middle, high = (f"{value:g}" for value in (scale[0], (scale[0] + scale[1]) / 2, scale[1]))
    ruler = (
        f"{low}{middle:^{cells - len(low) - len(high)}}{high}" if cells >= 20 else f"{low}{high:>{cells - len(low)}}"
    )
    title = set_cell_size(plain(effect.title), NAME)
    head = [(f"  {title}", palette.text + Style(bold=True)), (f"{'n':>4}{'best':>{digits}}", palette.past)]
    lines = [[*head, (f"{'median':>{digits}} {ruler}", palette.past)]]
    lines += [_value(value, summary, scale, digits, cells, palette) for value in effect.values]
    if effect.more:
        lines.append([(f"  and {effect.more} more", palette.past)])
    return lines


def _value(
    effect: ValueEffect, summary: Summary, scale: tuple[float, float], digits: int, cells: int, palette: Palette
) -> list[BandPart]:
    metric = summary.table.metric
    is_down = metric is not None and metric.direction is Direction.DOWN
    style = palette.best if effect.has_best else palette.text
    drawn = range_cells(effect, scale, cells, is_down=is_down)
    return [
        (f"  {set_cell_size(plain(effect.value), NAME)}", style),
        (f"{effect.count:>4}", palette.past),
        (
            f"{told_value(effect.best, summary.table):>{digits}}{told_value(effect.median, summary.table):>{digits}} ",
            style,
        ),
        *((sign, getattr(palette, _LOOK.get(sign, "text"))) for sign in drawn),
    ]


# ---- The summary as rows of styled text ----


TWO_COLUMNS = 110
BOLD = Style(bold=True)
Line = list[BandPart]


def summary_rows(
    summary: Summary, cursor: JobId | None, size: tuple[int, int], now: float, palette: Palette, page: str
) -> list[ViewRow]:
    """`size`: columns and rows that are seen; `page`: the name under which a report would be written."""
    width, height = size
    half = width // 2 if width >= TWO_COLUMNS else width
    first = [blank_row(), *facts(summary, width, now, palette), blank_row()]
    rest = best_rows(summary, cursor, width, palette)
    rest += _effects(summary, half, width, palette)
    rest += _ends(summary, half, width, palette)
    since = _since(summary, now, palette)
    ways = ("as text: gputui summary", f"as a page: gputui report -o {page}", "as a table: gputui results --csv")
    rows = [*first, *rest, *since] if len(first + rest + since) <= height else [*first, *_parted(since), *rest]
    return [*rows, blank_row(), ViewRow([(" " + "     ".join(ways), palette.past)])]


def _parted(since: list[ViewRow]) -> list[ViewRow]:
    """What would be out of sight at the end comes first: it is what somebody who comes back looks for."""
    return [*since, blank_row()] if since else []


def facts(summary: Summary, width: int, now: float, palette: Palette) -> list[ViewRow]:
    """Two rows: what it is, and what it is of."""
    cells: list[tuple[str, Style, str]] = [(f"{summary.succeeded:,} ok", palette.running, f"of {summary.total:,}")]
    if summary.failed:
        cells.append(
            (f"{summary.failed:,} failed", palette.failure, f"in {counted(len(summary.failures), 'kind', 'kinds')}")
        )
    if summary.began is not None:
        cells.append((duration_words(summary.wall), palette.text, ended_at(summary, now)))
    what_ran = summary.device_words(len(summary.devices))
    if summary.gpu_seconds:
        cells.append((gpu_time(summary.gpu_seconds), palette.text, what_ran))
    if any(device.busy for device in summary.devices):
        note = ", ".join(_held(summary)) or (" " if summary.gpu_seconds else what_ran)
        cells.append((f"{(summary.busy or 0) * 100:.0f} % busy", palette.text, note))
    if summary.best and summary.table.metric is not None:
        best = summary.best[0]
        value = told_value(best.best, summary.table)
        cells.append((f"★ {value}", palette.best, f"{plain(summary.table.metric.name)} of #{best.job}"))
    while len(cells) > 2 and sum(max(cell_len(large), cell_len(small)) + 4 for large, _, small in cells) > width + 2:
        del cells[-2]  # the first and the last tell most
    above: Line = [(" ", palette.text)]
    below: Line = [(" ", palette.text)]
    for large, style, small in cells:
        room = max(cell_len(large), cell_len(small)) + 4
        above += [(" " + set_cell_size(large, room - 1), style + BOLD)]
        below += [(" " + set_cell_size(small, room - 1), palette.past)]
    return [ViewRow(above), ViewRow(below)]


def _held(summary: Summary) -> list[str]:
    held = [f"{duration_words(seconds)} {plain(user)}" for user, seconds in summary.strangers[:2]]
    return held + ([f"{duration_words(summary.paused)} paused"] if summary.paused >= 60 else [])


def _effects(summary: Summary, half: int, width: int, palette: Palette) -> list[ViewRow]:
    blocks = effect_blocks(summary, half - 1, palette)
    if not blocks:
        return []
    metric = plain(summary.table.metric.name) if summary.table.metric is not None else ""
    jobs = counted(len(compared(summary.table)), "job that succeeded", "jobs that succeeded")
    band = ViewRow([(" By parameter", palette.text), (f"   {metric} of {jobs}", palette.past)], band=True)
    columns = _dealt(blocks, 2 if half < width else 1)
    lines = [[line for block in column for line in (*block, [])][:-1] for column in columns]
    return [band, *_beside(lines, half, palette), blank_row()]


def _dealt(blocks: Sequence[Sequence[Line]], count: int) -> list[list[Sequence[Line]]]:
    """Each block into the column that is shortest by then."""
    columns: list[list[Sequence[Line]]] = [[] for _ in range(count)]
    for block in blocks:
        min(columns, key=lambda column: sum(len(block_lines) + 1 for block_lines in column)).append(block)
    return [column for column in columns if column]


def _beside(columns: Sequence[Sequence[Line]], half: int, palette: Palette) -> list[ViewRow]:
    rows = []
    for parts in zip_longest(*columns, fillvalue=[]):
        line: Line = []
        for number, part in enumerate(parts):
            line += part
            if number + 1 < len(parts):
                line.append((" " * max(1, half * (number + 1) - sum(cell_len(text) for text, _ in line)), palette.text))
        rows.append(ViewRow(line))
    return rows


def _ends(summary: Summary, half: int, width: int, palette: Palette) -> list[ViewRow]:
    failed, times = _failed(summary, half, palette), _times(summary, half, palette)
    if not failed:
        return [_band("Time", palette), *_beside([times], half, palette), blank_row()] if times else []
    if half == width:
        rows = [_band("Failed", palette), *_beside([failed], half, palette), blank_row()]
        return rows + ([_band("Time", palette), *_beside([times], half, palette), blank_row()] if times else [])
    left = " Failed".ljust(half)
    band = ViewRow([(left, palette.text), ("Time" if times else "", palette.text)], band=True)
    return [band, *_beside([failed, times], half, palette), blank_row()]


def _band(title: str, palette: Palette) -> ViewRow:
    return ViewRow([(f" {title}", palette.text)], band=True)


def _failed(summary: Summary, half: int, palette: Palette) -> list[Line]:
    lines: list[Line] = []
    for group in summary.failures[:4]:
        message = set_cell_size(plain(group.message), half - 10).rstrip()
        lines.append([(f"{group.count:>5}", palette.failure + BOLD), (" × ", palette.past), (message, palette.failure)])
        jobs = " ".join(f"#{job}" for job in group.jobs[:4]) + (" …" if group.count > 4 else "")
        shared = f"all {group.common.told}" if group.common.told else ""
        text = "  ·  ".join(part for part in (jobs, plain(shared), group.common.where) if part)
        lines.append([(" " * 8 + set_cell_size(text, half - 10).rstrip(), palette.past)])
    if len(summary.failures) > 4:
        lines.append(
            [(f"        and {counted(len(summary.failures) - 4, 'kind', 'kinds')} more: F shows them", palette.past)]
        )
    return lines


def _times(summary: Summary, half: int, palette: Palette) -> list[Line]:
    if summary.median is None or summary.longest is None or summary.shortest is None:
        return []
    lines: list[Line] = [
        [
            (" per job   ", palette.past),
            ("median ", palette.past), (duration_cell(summary.median), palette.text),
            ("   longest ", palette.past), (duration_cell(summary.longest[1]), palette.text),
            (f" #{summary.longest[0]}   shortest ", palette.past), (duration_cell(summary.shortest[1]), palette.text),
        ]
    ]  # fmt: skip
    room = min(24, max(8, half - 34))
    for device in summary.devices[:8]:
        full = round(device.share * room)
        lines.append(
            [
                (f" {set_cell_size(plain(device.named), 9)} ", palette.past),
                ("━" * full, palette.running), ("─" * (room - full), palette.line),
                (f" {device.share * 100:4.0f}%", palette.text),
                (f"   {counted(device.jobs, 'run', 'runs')}", palette.past),
            ]
        )  # fmt: skip
    if len(summary.devices) > 8:
        lines.append([(f" and {len(summary.devices) - 8} more", palette.past)])
    return lines


def _since(summary: Summary, now: float, palette: Palette) -> list[ViewRow]:
    since = summary.since
    if since is None:
        return []
    left_at = f"   {moment(since.left, now)}, {duration_words(now - since.left)} ago"
    band = ViewRow([(" Since you left", palette.text), (left_at, palette.past)], band=True)
    line: Line = [(f"  {since.succeeded:,} ok", palette.text)]
    if since.failed:
        line += [("   ·   ", palette.past), (f"{since.failed:,} failed", palette.failure)]
    if summary.best:
        best = summary.best[0]
        line.append(("   ·   ", palette.past))
        if since.best_before is not None and since.best_before[0] != best.job:
            line += [
                ("best went from ", palette.past), (told_value(since.best_before[1], summary.table), palette.text),
                (f" #{since.best_before[0]} to ", palette.past),
            ]  # fmt: skip
        else:
            line.append(("best ", palette.past))
        line += [(told_value(best.best, summary.table), palette.best), (f" #{best.job}", palette.past)]
    for user, device, seconds in since.strangers[:1]:
        line += [
            ("   ·   ", palette.past),
            (f"GPU {plain(device)} was {plain(user)}'s for {duration_words(seconds)}", palette.text),
        ]
    return [band, ViewRow(line)]


# ---- `=` ----


AGAIN = 10
"""So many times as long as it took, it is not summed up again."""


class SummaryView(FullView):
    """The cursor is on one of the best jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("summary", "details", "failures", "metric", "rerun_failed"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+d,pagedown", "scroll(1)", show=False),
        Binding("ctrl+u,pageup", "scroll(-1)", show=False),
    ]
    DEFAULT_CSS = "SummaryView #summary { height: 1fr; width: 1fr; }"

    def __init__(self, main: MainScreen, left: float | None = None) -> None:
        """`left`: when the user last looked."""
        super().__init__(main, "=", "Summary")
        self._left = left
        self.rows = ViewRows(id="summary")
        self.told: Summary | None = None
        self._of: Snapshot | None = None
        self._spans: Sequence[RecordedSpan] = ()
        self._common = ""
        self._busy_until = 0.0
        self._at_work = False
        self._cursor = 0

    def body(self) -> ComposeResult:
        yield self.rows

    def tell_since(self, left: float) -> None:
        """The user is back, and left then."""
        self._left, self._of = left, None
        self.paint()

    def renew(self) -> None:
        snapshot = self.snapshot
        if snapshot is not self._of and not self._at_work and time.monotonic() >= self._busy_until:
            self._at_work, self._of = True, snapshot
            self.main.bridge.spans(self._begin)
        self._show()

    def _begin(self, spans: Sequence[RecordedSpan]) -> None:
        self._spans = spans
        self.run_worker(self._sum_up, thread=True, exit_on_error=False)

    def _sum_up(self) -> None:
        """In another thread."""
        began, snapshot = time.monotonic(), self._of
        assert snapshot is not None
        summary = summarize(snapshot, self.main.now(), self._spans, self._left)
        common = learnt_parameters(snapshot).common()
        self.app.call_from_thread(self._summed_up, summary, common, time.monotonic() - began)

    def _summed_up(self, summary: Summary, common: str, seconds: float) -> None:
        job, best = self.job, [row.job for row in summary.best]
        self._cursor = best.index(job) if job in best else self._cursor
        self.told, self._common, self._at_work = summary, common, False
        self._busy_until = time.monotonic() + seconds * AGAIN
        self._show()
        self.paint_footer()

    def _show(self) -> None:
        if self.told is None:
            return
        palette = palette_of(self.app.theme)
        self.band.show([("   " + plain(self._common), palette.past)] if self._common else [])
        page = os.path.basename(self.main.bridge.root or "report").removesuffix("_run") + ".html"
        job = self.job
        size = (self.size.width, max(1, self.rows.size.height))
        self.rows.show(summary_rows(self.told, job, size, self.main.now(), palette, plain(page)))

    @property
    def job(self) -> JobId | None:
        best = self.told.best if self.told is not None else ()
        return best[min(self._cursor, len(best) - 1)].job if best else None

    def chosen(self) -> list[Job]:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def offers(self) -> OfferedKeys:
        row: list[Offer] = [("details", f"Details of #{self.job}")] if self.job is not None else []
        if self.told is not None and self.told.failed:
            row.append(("rerun_failed", f"Rerun {self.told.failed:,} failed"))
        row += [("metric", "Metric")] if self.told is not None and self.told.table.rows else []
        fails: list[Offer] = [("failures", "Fails")] if self.told is not None and self.told.failed else []
        return OfferedKeys(row, [("copy_summary", "Copy as text")], fails, always=ALWAYS)

    # Keys

    def action_move(self, by: int) -> None:
        best = len(self.told.best) if self.told is not None else 0
        self._cursor = max(0, min(self._cursor + by, best - 1))
        self._show()
        self.paint_footer()

    def action_scroll(self, by: int) -> None:
        self.rows.scroll_by(by * max(1, self.rows.size.height // 2))

    def act_copy_summary(self) -> None:
        if self.told is not None:
            lines = summary_lines(self.told, self.main.now())
            self.app.copy_to_clipboard("\n".join(map(plain, lines)))
            self.main.say("the summary is copied")

    @on(ViewRows.RowClicked)
    def _clicked_row(self, event: ViewRows.RowClicked) -> None:
        jobs = [row.job for row in self.told.best] if self.told is not None else []
        if event.value in jobs:
            self._cursor = jobs.index(event.value)
            self._show()
            self.paint_footer()

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        self.rows.scroll_by(event.by)
