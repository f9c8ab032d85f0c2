"""What each parameter did, as blocks of lines: the best, the median and a range on one scale for each value."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from gputui.core.results import Direction
from gputui.core.views.parameter_effects import ParameterEffect, ValueEffect, scale_of
from gputui.core.views.summary import Summary
from gputui.core.views.summary_text import range_cells, told_value
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart

__all__ = ["effect_blocks"]

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
