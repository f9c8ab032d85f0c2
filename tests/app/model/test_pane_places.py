"""Panes fit every terminal size, fill it, and the focused pane is visible."""

from __future__ import annotations

import itertools
from functools import cache

from gputui.tui.layout import BAND, LEAST, SIDE_BY_SIDE, Arrangement, Pane, ScreenHabits, arrange

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


def test_the_focused_pane_is_visible() -> None:
    for _, height, rows, focus, zoomed, only, made in _all():
        looked_at = Pane.GPUS if only else zoomed or focus
        if height < BAND + 1 or (looked_at is Pane.GPUS and not rows and not only and zoomed is None):
            continue
        shown = {Pane.GPUS: made.gpus, Pane.QUEUE: made.queue, Pane.LOG: made.log}[looked_at]
        assert shown > BAND, (height, rows, focus, zoomed, made)


def test_a_zoomed_pane_is_alone() -> None:
    for *_, zoomed, only, made in _all():
        if zoomed is not None or only:
            assert sorted((made.gpus, made.queue, made.log))[:2] == [0, 0]


def test_no_room_is_not_an_error() -> None:
    for height in range(-10, 6):
        made = arrange(80, height, 8, Pane.QUEUE)
        assert min(made.gpus, made.queue, made.log) >= 0
        assert made.gpus + made.queue + made.log == max(0, height)


def test_usual_terminals_show_all_three() -> None:
    for width, height in ((80, 24), (120, 40), (200, 60)):
        made = arrange(width, height - LINES, 8, Pane.QUEUE)
        assert min(made.gpus, made.queue, made.log) > BAND
        assert made.side_by_side is (width >= SIDE_BY_SIDE)


def test_the_layout_of_queue_and_log_does_not_depend_on_the_focus() -> None:
    for width, height in ((80, 24), (120, 40), (200, 60)):
        made = [arrange(width, height - LINES, 4, focus) for focus in (Pane.QUEUE, Pane.LOG)]
        assert made[0] == made[1]


def test_a_low_terminal_gives_the_log_four_lines_and_a_usual_one_a_third() -> None:
    assert arrange(80, 24 - LINES, 2, Pane.QUEUE).log == 4 + BAND
    assert arrange(120, 40 - LINES, 4, Pane.QUEUE).log == 10 + BAND


def test_beside_the_queue_the_log_gets_the_remaining_width() -> None:
    assert arrange(200, 58, 8, Pane.QUEUE, queue_needs=127).queue_width == 127
    assert arrange(200, 58, 8, Pane.QUEUE, queue_needs=190).queue_width < 200 - 40, "but it has room itself"


def test_a_moved_border_leaves_room_for_both_panes() -> None:
    usual = arrange(120, 38, 4, Pane.QUEUE)
    assert arrange(120, 38, 4, Pane.QUEUE, habits=ScreenHabits(queue_rows=3)).log == usual.log - 3
    assert arrange(120, 38, 4, Pane.QUEUE, habits=ScreenHabits(queue_rows=99)).log == LEAST + BAND
    assert arrange(120, 38, 4, Pane.QUEUE, habits=ScreenHabits(queue_rows=-99)).queue == LEAST + BAND
    assert arrange(200, 58, 4, Pane.QUEUE, queue_needs=100, habits=ScreenHabits(queue_columns=8)).queue_width == 108
