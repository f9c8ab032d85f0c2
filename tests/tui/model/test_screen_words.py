"""The words and signs by which jobs are told: short, never colour alone, never wider than their column."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.operations import operations
from support.queues import NOW, STATES, job

from gputui.core.amounts import counted
from gputui.core.job import Active, Delayed, Running, Starting, StateName, Stopping, Suspended
from gputui.logs.plain import plain
from gputui.tui.chrome import band_line
from gputui.tui.log.view import breaks
from gputui.tui.queue.row_facts import clock, moment, note_of, stake, state_words, time_of
from gputui.tui.theme import palette_of
from gputui.tui.views.base import ViewRow, row_strip
from gputui.views.format import SIGNS, cut, width

DAY = 86400


def test_every_state_has_a_sign_and_a_word_and_no_two_look_the_same_but_two_ways_to_fail() -> None:
    assert set(SIGNS) == set(StateName)
    words = [state_words(job(0, state)) for state in STATES]
    assert len(set(words)) == len(STATES) - 1
    assert state_words(job(0, STATES[12])) == "✗ timed out"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0:00"), (0, "0:00"), (59.9, "0:59"), (187, "3:07"), (7864, "2:11:04"), (DAY, "1d 00h"),
     (12.2 * DAY, "12d 04h")],
)  # fmt: skip
def test_a_clock(seconds: float, words: str) -> None:
    assert clock(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(5, "5 s"), (61, "1 m"), (33120, "9 h 12 m"), (3 * DAY, "72 h 00 m")])
def test_the_stake_is_told_as_one_says_it(seconds: float, words: str) -> None:
    assert stake(seconds) == words


def test_a_moment_names_the_day_when_it_is_another() -> None:
    assert moment(NOW, NOW) == "13:46"
    assert moment(NOW - DAY, NOW) == "Sun 11 Jan 13:46"


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_times_fit_their_column(state: object) -> None:
    for later in (0, 5000, 90 * DAY):
        assert len(time_of(job(0, state), NOW + later)) <= 7  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [each for each in STATES if isinstance(each, Active)], ids=lambda state: state.name)
def test_the_time_of_a_job_with_a_gpu_counts_from_its_start_in_every_state(
    state: Starting | Running | Suspended | Stopping,
) -> None:
    assert time_of(job(0, state), state.placed.since + 65) == "1:05"


def test_how_long_a_delayed_job_waits_still_fits_the_column() -> None:
    for seconds in (0, 59, 3599, 3600, 40000, DAY - 1, DAY, 300 * DAY):
        assert len(time_of(job(0, Delayed(NOW + seconds, "why")), NOW)) <= 7
    assert time_of(job(0, Delayed(NOW + 65, "why")), NOW) == "in 1:05"


def test_notes_say_what_is_going_on() -> None:
    notes = {state.name: note_of(job(0, state), NOW) for state in STATES}
    assert notes[StateName.STOPPING] == "killed in 9 s"
    assert note_of(job(0, STATES[7]), NOW + 60) == "being killed"
    assert notes[StateName.FAILED] == "ValueError: no"
    assert notes[StateName.SUCCEEDED] == notes[StateName.RUNNING] == notes[StateName.KILLED] == ""
    assert "#0" in notes[StateName.SKIPPED]


def test_counting() -> None:
    assert counted(1, "job", "jobs") == "1 job"
    assert counted(1200, "job", "jobs") == "1,200 jobs"


@pytest.mark.parametrize("words", ["tqdm hang", "a name that is longer than what there is room for"])
def test_what_ends_a_line_is_apart_from_what_begins_it_at_every_width(words: str) -> None:
    palette = palette_of("gputui-dark")
    for columns in range(20, 80):
        left, right = [("3 Log   ", palette.text), (words, palette.text)], [("OUT · following", palette.past)]
        for line in (band_line(left, right, columns, palette), row_strip(ViewRow(left, right), columns, palette)):
            assert re.search(r"\sOUT · following\s?$", line.text), line.text
            assert line.cell_length == columns


ODD_SIGNS = (
    *("a", " ", "é", "日", "✓", "●", "…", "❤", "❤\ufe0f", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽"),
    *("e\u0301", "\u0301", "\u200b", "\u200d", "\ufe0f", "\u00ad"),
)
ODD_TEXTS = st.lists(st.sampled_from(ODD_SIGNS), max_size=20).map("".join)


@given(
    st.lists(st.sampled_from(ODD_SIGNS), max_size=20).map("".join) | st.text(max_size=40).map(plain), st.integers(0, 30)
)
def test_a_text_is_as_wide_everywhere_and_no_sign_is_cut_in_two(text: str, cells: int) -> None:
    """On the screen, in a table of a command, and in a wrapped log."""
    assert width(text) == cell_len(text)
    short = cut(text, cells)
    assert cell_len(short) <= cells
    assert (short == text) == (cell_len(text) <= cells)
    rows = breaks(text, max(2, cells))
    assert all(cell_len(text[start:stop]) <= max(2, cells) for start, stop in pairwise([*rows, len(text)]))


def test_a_text_of_any_length_is_cut_at_the_same_cost() -> None:
    assert operations(lambda: cut("é日" * 100_000, 40)) < 50_000
