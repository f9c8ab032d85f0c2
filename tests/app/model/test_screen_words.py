"""Words and signs for jobs: unique without colours, and never wider than their column."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from support.app import NOW, STATES, job
from support.core import operations

from gputui.core.job import JobSpec, StateName, Terminal
from gputui.logs.plain import plain
from gputui.tui.log.view import breaks
from gputui.tui.queue.row_facts import note_of, state_words
from gputui.tui.text import Line
from gputui.tui.theme import Ground, Look, palette_of
from gputui.views.format import SIGNS, cut, width

DAY = 86400


def test_every_state_has_a_sign_and_a_distinct_word_except_two_kinds_of_failure() -> None:
    assert set(SIGNS) == set(StateName)
    words = [state_words(job(0, state)) for state in STATES]
    assert len(set(words)) == len(STATES) - 1
    assert state_words(job(0, STATES[12])) == "✗ timed out"


def test_an_interactive_job_is_shown_with_its_terminal_while_it_runs() -> None:
    spec = JobSpec(command="python", cwd="/", environment="", terminal=Terminal("a socket", "pts/3"))
    running, ended = (replace(job(0, state), spec=spec) for state in (STATES[5], STATES[9]))
    assert running.state.name is StateName.RUNNING
    assert (state_words(running), note_of(running, NOW)) == ("● exec", "in terminal pts/3")
    assert "exec" not in state_words(ended) + note_of(ended, NOW)


def test_notes() -> None:
    notes = {state.name: note_of(job(0, state), NOW) for state in STATES}
    assert notes[StateName.STOPPING] == "SIGKILL in 9 s"
    assert note_of(job(0, STATES[7]), NOW + 60) == "killing"
    assert notes[StateName.FAILED] == "ValueError: no"
    assert notes[StateName.SUCCEEDED] == notes[StateName.RUNNING] == notes[StateName.KILLED] == ""
    assert "#0" in notes[StateName.SKIPPED]


@pytest.mark.parametrize("words", ["tqdm hang", "a name that is longer than what there is room for"])
def test_the_right_part_of_a_line_is_apart_from_the_left_one_at_every_width(words: str) -> None:
    palette = palette_of("gputui-dark")
    for columns in range(20, 80):
        left, right = [("3 Log   ", Look.TEXT), (words, Look.TEXT)], [("OUT · following", Look.PAST)]
        for line in (Line(left, ground, right).strip(columns, palette) for ground in (Ground.BAND, Ground.PAGE)):
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
def test_widths_agree_and_no_character_is_cut_in_two(text: str, cells: int) -> None:
    """On the screen, in a table of a command, and in a wrapped log."""
    assert width(text) == cell_len(text)
    short = cut(text, cells)
    assert cell_len(short) <= cells
    assert (short == text) == (cell_len(text) <= cells)
    rows = breaks(text, max(2, cells))
    assert all(cell_len(text[start:stop]) <= max(2, cells) for start, stop in pairwise([*rows, len(text)]))


def test_cutting_a_long_text_is_cheap() -> None:
    assert operations(lambda: cut("é日" * 100_000, 40)) < 50_000
