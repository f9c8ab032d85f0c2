"""The summary as rows of styled text: facts, the best, parameters on one scale, failures, times, since you left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from gputui.core.job import JobId
from gputui.core.views.amounts import counted, duration_cell, duration_words, gpu_time, moment
from gputui.core.views.parameter_effects import compared
from gputui.core.views.summary import Summary
from gputui.core.views.summary_text import ended_at, told_value
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow, blank_row

from .best_rows import best_rows
from .effect_rows import effect_blocks

__all__ = ["summary_rows"]

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
    if summary.gpu_seconds:
        cells.append((gpu_time(summary.gpu_seconds), palette.text, counted(len(summary.devices), "GPU", "GPUs")))
        cells.append((f"{(summary.busy or 0) * 100:.0f} % busy", palette.text, ", ".join(_held(summary)) or " "))
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
