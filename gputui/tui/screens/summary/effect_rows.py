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


def effect_blocks(told: Summary, width: int, palette: Palette) -> list[list[list[BandPart]]]:
    """Each is a heading and a line for each value."""
    scale = scale_of(told.effects)
    blocks = [_block(effect, told, scale, width, palette) for effect in told.effects]
    if told.noise is not None:
        noise = f" same job, other seed: {told_value(told.noise, told.table)} apart (median)"
        blocks.append([[(noise, palette.past)]])
    return blocks


def _block(
    effect: ParameterEffect, told: Summary, scale: tuple[float, float], width: int, palette: Palette
) -> list[list[BandPart]]:
    digits = max(6, *(cell_len(told_value(one.median, told.table)) for one in effect.values)) + 2
    cells = max(FEWEST_CELLS, min(MOST_CELLS, width - NAME - 8 - 2 * digits))
    low, middle, high = (f"{value:g}" for value in (scale[0], (scale[0] + scale[1]) / 2, scale[1]))
    ruler = (
        f"{low}{middle:^{cells - len(low) - len(high)}}{high}" if cells >= 20 else f"{low}{high:>{cells - len(low)}}"
    )
    title = set_cell_size(plain(effect.title), NAME)
    head = [(f"  {title}", palette.text + Style(bold=True)), (f"{'n':>4}{'best':>{digits}}", palette.past)]
    lines = [[*head, (f"{'median':>{digits}} {ruler}", palette.past)]]
    lines += [_value(one, told, scale, digits, cells, palette) for one in effect.values]
    if effect.more:
        lines.append([(f"  and {effect.more} more", palette.past)])
    return lines


def _value(
    one: ValueEffect, told: Summary, scale: tuple[float, float], digits: int, cells: int, palette: Palette
) -> list[BandPart]:
    metric = told.table.metric
    is_down = metric is not None and metric.direction is Direction.DOWN
    style = palette.best if one.has_best else palette.text
    drawn = range_cells(one, scale, cells, is_down=is_down)
    return [
        (f"  {set_cell_size(plain(one.value), NAME)}", style),
        (f"{one.count:>4}", palette.past),
        (f"{told_value(one.best, told.table):>{digits}}{told_value(one.median, told.table):>{digits}} ", style),
        *((sign, getattr(palette, _LOOK.get(sign, "text"))) for sign in drawn),
    ]
