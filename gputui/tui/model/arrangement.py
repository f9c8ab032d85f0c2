"""Where the panes are, for every size of terminal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FRAME = 2
"""Rows or columns that a pane's border takes."""
SIDE_BY_SIDE = 110
"""Columns from which queue and log stand side by side."""
WIDE = 160
"""Columns from which both have room enough."""
LOW = 30
"""Below so many rows panes fold, and the focused one unfolds."""
LEAST = 3
LEAST_FOR_TWO = 2 * FRAME + LEAST + 1
"""Rows below which only the focused pane is there."""


class Pane(StrEnum):
    GPUS = "gpus"
    QUEUE = "queue"
    LOG = "log"


@dataclass(frozen=True)
class Arrangement:
    """Sizes in cells, borders included; 0: not shown."""

    gpus: int
    queue: int
    log: int
    side_by_side: bool
    queue_width: int = 0


def arrange(
    width: int, height: int, gpu_rows: int, focus: Pane, zoomed: Pane | None = None, *, gpus_only: bool = False
) -> Arrangement:
    """`height`: what is left for the panes; `gpu_rows`: lines the GPU pane would like."""
    height = max(0, height)
    if gpus_only or zoomed is Pane.GPUS:
        return Arrangement(height, 0, 0, False)
    if zoomed is not None:
        return Arrangement(0, height * (zoomed is Pane.QUEUE), height * (zoomed is Pane.LOG), False)
    gpus = _gpu_height(height, gpu_rows, focus)
    left = height - gpus
    if width >= SIDE_BY_SIDE:
        return Arrangement(gpus, left, left, True, _queue_width(width))
    if left < 2 * (LEAST + FRAME):  # too low for both: the log gives way, unless it is looked at
        return Arrangement(gpus, 0, left, False) if focus is Pane.LOG else Arrangement(gpus, left, 0, False)
    share = 3 if focus is Pane.LOG else 6 if height < LOW else 5
    queue = max(LEAST + FRAME, min(left - LEAST - FRAME, left * share // 9))
    return Arrangement(gpus, queue, left - queue, False)


def _queue_width(width: int) -> int:
    """Names and notes need a certain width; what is more is shared."""
    return width * 3 // 5 if width < WIDE else width * 11 // 20


def _gpu_height(height: int, rows: int, focus: Pane) -> int:
    if rows <= 0 or (height < LEAST_FOR_TWO and focus is not Pane.GPUS):
        return 0
    if height < LEAST_FOR_TWO:
        return height
    most = height // 2 if focus is Pane.GPUS else height // 3 if height >= LOW else height // 4
    return min(rows, max(1, most - FRAME)) + FRAME
