"""The line at the top: at every width it fits, and gives up names before it gives up what matters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.fixed import NOW, session, sweep

from gputui.core.job import Ended, Held
from gputui.tui.widgets.status import Where, status_text

WHERE = Where("lr-sweep", "lab7")


@pytest.mark.parametrize("width", range(20, 251))
def test_it_fits_every_width_that_has_room_for_the_counts(width: int) -> None:
    line = status_text(WHERE, session(sweep()), NOW, width)
    counts = "2 run · 8 wait · 2 ok · 1 failed"
    if width >= 50:
        assert line.cell_len <= width + 3
        assert counts in line.plain[:width]


def test_what_there_is_room_for_is_told() -> None:
    at = {width: status_text(WHERE, session(sweep()), NOW, width).plain.split() for width in (60, 80, 120)}
    assert at[120][:4] == ["gputui", "lr-sweep", "@", "lab7"]
    assert at[120][-1] == "13:46"
    assert "RUNNING" in at[60]
    assert "lr-sweep" in at[60]


def test_nothing_left_to_do_is_done_never_running() -> None:
    over = [job for job in sweep() if isinstance(job.state, Ended)]
    line = status_text(WHERE, session(over), NOW, 120).plain
    assert "✓ DONE" in line
    assert "RUNNING" not in line


def test_what_a_session_waits_for_is_told_as_far_as_there_is_room() -> None:
    held = [job for job in sweep() if isinstance(job.state, Held)]
    stands = replace(session(held), awaits="1 held job; release lets it start")
    assert "◷ WAITING" in status_text(WHERE, stands, NOW, 60).plain
    assert "1 held job; release lets it start" in status_text(WHERE, stands, NOW, 140).plain
    for width in range(50, 200):
        assert status_text(WHERE, stands, NOW, width).cell_len <= width + 3
