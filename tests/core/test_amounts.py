"""Times, sizes and counts have one form each; cells never grow wider than their column; states are listed once."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.core import job as states
from gputui.core import transitions
from gputui.core.amounts import (
    DAY,
    DURATION_CELLS,
    GIB,
    HOUR,
    MIB,
    counted,
    duration_cell,
    duration_exact,
    duration_words,
    memory,
    memory_of,
    memory_words,
    moment,
)
from gputui.core.job import State, StateName
from gputui.views.format import cut, width

NOON = 1_768_219_200.0
"""A Monday, in whatever zone tests run: nothing here depends on the hour."""


@pytest.mark.parametrize(
    ("seconds", "cell", "exact", "words"),
    [
        (-5, "0:00", "0:00", "0 s"),
        (41.9, "0:41", "0:41", "41 s"),
        (3599, "59:59", "59:59", "59 m"),
        (2 * HOUR + 41 * 60 + 7, "2h41", "2:41:07", "2 h 41 m"),
        (5 * HOUR, "5h00", "5:00:00", "5 h"),
        (31 * HOUR + 7 * 60, "31h07", "1d 07:07:00", "31 h 7 m"),
        (4 * DAY + 3 * HOUR, "4d03h", "4d 03:00:00", "4 d 3 h"),
        (12 * DAY, "12d", "12d 00:00:00", "12 d"),
    ],
)
def test_durations_have_one_form_in_tables_one_where_seconds_matter_and_one_in_sentences(
    seconds: float, cell: str, exact: str, words: str
) -> None:
    assert (duration_cell(seconds), duration_exact(seconds), duration_words(seconds)) == (cell, exact, words)


@given(st.floats(-10, 9999 * DAY))
def test_a_duration_never_outgrows_its_column(seconds: float) -> None:
    assert len(duration_cell(seconds)) <= DURATION_CELLS


def test_a_moment_names_the_day_when_it_is_another_and_the_date_when_the_day_could_be_any() -> None:
    assert len(moment(NOON, NOON)) == len("12:00")
    assert moment(NOON, NOON, seconds=True) == f"{moment(NOON, NOON)}:00"
    yesterday = moment(NOON - DAY, NOON)
    assert yesterday.split() == [yesterday[:3], moment(NOON, NOON)]
    assert yesterday[:3].isalpha()
    assert moment(NOON - 7 * DAY, NOON).startswith("2026-01-0")


def test_sizes() -> None:
    assert [memory(size) for size in (None, 0, 300 * MIB, int(8.1 * GIB), 192 * GIB)] == [
        "–", "0M", "300M", "8.1G", "192G",
    ]  # fmt: skip
    assert memory_words(38 * GIB) == "38.0 GB"


@pytest.mark.parametrize(
    ("used", "total", "text", "brief"),
    [
        (int(28.1 * GIB), 40 * GIB, "28.1/40G", "28/40G"),
        (3 * GIB, 8 * GIB, "3.0/8.0G", "3.0/8.0G"),
        (512 * GIB, 2048 * GIB, "0.5/2.0T", "0.5/2.0T"),
        (None, 40 * GIB, "–/40G", "–/40G"),
        (None, None, "–", "–"),
    ],
)
def test_memory_beside_its_total(used: int | None, total: int | None, text: str, brief: str) -> None:
    assert (memory_of(used, total), memory_of(used, total, brief=True)) == (text, brief)


def test_counting() -> None:
    assert counted(1, "job", "jobs") == "1 job"
    assert counted(12_200, "job", "jobs") == "12,200 jobs"


@given(st.text(), st.integers(0, 30))
def test_a_text_cut_to_cells_fits_them_and_is_whole_where_it_fits(text: str, cells: int) -> None:
    shorter = cut(text, cells)
    assert width(shorter) <= cells
    assert shorter == text or shorter == "" or shorter.endswith("…")
    assert cut(text, width(text)) == text


def test_marks_take_no_cell_and_wide_characters_two() -> None:
    assert [width(text) for text in ("abc", "名前", "e\u0301", "\u200b", "✓")] == [3, 4, 1, 0, 1]
    assert cut("名前名前", 4) == "名…"


def test_every_state_is_in_one_list_and_the_scheduler_means_the_same_by_it() -> None:
    assert sorted(states.ALL) == sorted(StateName)
    assert len(states.ALL) == len(get_args(State))
    assert [state.name for state in transitions.WAITING] == list(states.WAITING)
    assert [state.name for state in transitions.ACTIVE] == list(states.ACTIVE)
    assert {state.name for state in transitions.ENDS} == set(states.ENDS)
