"""Panes fit into every terminal: none is negative, together they fill it, and the focused one is there."""

from __future__ import annotations

import itertools
from functools import cache

from gputui.tui.model.arrangement import FRAME, LOW, SIDE_BY_SIDE, Arrangement, Pane, arrange

WIDTHS = (20, 40, 60, 79, 80, SIDE_BY_SIDE - 1, SIDE_BY_SIDE, 120, 200, 250)
LINES = 2


@cache
def _all() -> list[tuple[int, int, int, Pane, Pane | None, bool, Arrangement]]:
    found = []
    for width, height, rows, focus, zoomed, only in itertools.product(
        WIDTHS, range(6, 81), (0, 1, 2, 8, 16, 40), Pane, (None, *Pane), (False, True)
    ):
        left = height - LINES
        made = arrange(width, left, rows, focus, zoomed, gpus_only=only)
        found.append((width, left, rows, focus, zoomed, only, made))
    return found


def test_every_size_has_room_for_what_is_shown() -> None:
    for width, height, *_, made in _all():
        assert min(made.gpus, made.queue, made.log, made.queue_width) >= 0
        work = max(made.queue, made.log) if made.side_by_side else made.queue + made.log
        assert made.gpus + work == height
        assert 0 <= made.queue_width < width


def test_the_focused_pane_is_there_with_a_line_to_show_something_on() -> None:
    for _, height, rows, focus, zoomed, only, made in _all():
        looked_at = Pane.GPUS if only else zoomed or focus
        if height < FRAME + 1 or (looked_at is Pane.GPUS and not rows and not only and zoomed is None):
            continue
        shown = {Pane.GPUS: made.gpus, Pane.QUEUE: made.queue, Pane.LOG: made.log}[looked_at]
        assert shown > FRAME, (height, rows, focus, zoomed, made)


def test_a_zoomed_pane_is_alone() -> None:
    for *_, zoomed, only, made in _all():
        if zoomed is not None or only:
            assert sorted((made.gpus, made.queue, made.log))[:2] == [0, 0]


def test_no_room_at_all_is_no_error() -> None:
    for height in range(-10, 6):
        made = arrange(80, height, 8, Pane.QUEUE)
        assert min(made.gpus, made.queue, made.log) >= 0
        assert made.gpus + made.queue + made.log == max(0, height)


def test_usual_terminals_show_all_three() -> None:
    for width, height in ((80, 24), (120, 40), (200, 60)):
        made = arrange(width, height - LINES, 8, Pane.QUEUE)
        assert min(made.gpus, made.queue, made.log) > FRAME
        assert made.side_by_side is (width >= SIDE_BY_SIDE)


def test_a_low_terminal_gives_the_gpus_more_when_they_are_looked_at() -> None:
    low = LOW - 6
    assert arrange(80, low, 16, Pane.GPUS).gpus > arrange(80, low, 16, Pane.QUEUE).gpus
