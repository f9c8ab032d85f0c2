"""Every line of the queue is exactly as wide as the pane, whatever jobs are called and however narrow it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from support.queues import NOW, STATES, TEXTS, Queue, job, jobs

from gputui.core.job import Job
from gputui.core.views.naming import Names
from gputui.logs.plain import FORBIDDEN, plain
from gputui.tui.model.columns import ColumnLayout, Told, layout
from gputui.tui.model.rows import PARAMETER, QUEUE_ORDER, SORTS, Rows

NARROWEST, WIDEST = 17, 250


def laid_out(width: int, *of: Job, sort: str = QUEUE_ORDER, progress: bool = False) -> tuple[ColumnLayout, Told, Rows]:
    names = Names()
    rows = Rows(names)
    rows.sort = sort
    rows.rebuild(Queue(list(of)).snapshot)
    rows.learn(of)
    longest = max((len(names.of(each)) for each in of), default=0)
    return layout(width, rows, len(of), longest, progress=progress), Told(names, now=NOW), rows


def lines(width: int, *of: Job, **whys: str) -> list[str]:
    made, told, _ = laid_out(width, *of)
    told.whys = {int(number.removeprefix("why")): words for number, words in whys.items()}
    return [made.line(each, told).rstrip() for each in of]


@settings(max_examples=200)
@given(st.data())
def test_every_line_is_exactly_as_wide_as_asked(data: st.DataObject) -> None:
    width = data.draw(st.integers(NARROWEST, WIDEST))
    of = [data.draw(jobs(number)) for number in range(data.draw(st.integers(1, 4)))]
    sort = data.draw(st.sampled_from([QUEUE_ORDER, *SORTS, PARAMETER + "lr"]))
    made, told, rows = laid_out(width, *of, sort=sort, progress=data.draw(st.booleans()))
    told.whys = {0: plain(data.draw(TEXTS))}
    told.progress = {0: "61%"}
    for line in (made.header(rows), *(made.line(each, told, mark="▌") for each in of)):
        assert cell_len(line) == width
        assert not any(ord(letter) in FORBIDDEN for letter in line)


@pytest.mark.parametrize("width", range(NARROWEST, WIDEST + 1))
def test_at_every_width_the_sign_and_the_number_are_there(width: int) -> None:
    [line] = lines(width, job(7, STATES[9], name="resnet"))
    assert cell_len(line) <= width
    assert line.split()[:2] == ["7", "✗"]
    assert width < 40 or "resnet" in line


def test_a_row_tells_its_state_in_a_word_and_why_it_waits() -> None:
    found = lines(90, job(0, STATES[5], name="one"), job(1, name="two"), why1="needs a lane; all are taken")
    assert found == [
        "   0 ● running    30 0          1:40 one",
        "   1 · queued     30                 two          needs a lane; all are taken",
    ]


def test_a_long_name_leaves_room_for_what_is_to_be_said_and_takes_it_where_nothing_is() -> None:
    name = "a-name-that-is-much-longer-than-there-is-room-for-in-this-pane-of-the-queue"
    failed, queued = lines(90, job(0, STATES[9], name=name), job(1, name=name))
    assert "…" in failed
    assert failed.endswith("ValueError: no")
    assert len(queued) == 90
    assert queued.endswith("…")


def test_parameters_have_columns_of_their_own_and_others_keep_their_names() -> None:
    swept = job(0, params={"lr": "0.1", "bs": "32"})
    other, named = job(1, command="prepare"), job(2, params={"lr": "0.2", "bs": "8"}, name="the-best")
    made, told, rows = laid_out(110, swept, other, named)
    assert made.header(rows).split() == ["id", "state", "pri", "gpu", "time", "lr", "bs"]
    assert [made.line(each, told).split()[4:] for each in (swept, other, named)] == [
        ["0.1", "32"],
        ["prepare"],
        ["0.2", "8", "the-best"],
    ]


def test_a_click_on_a_title_finds_its_column() -> None:
    made, _, rows = laid_out(120, job(0))
    header = made.header(rows)
    for title in ("id", "state", "pri", "gpu", "time", "job"):
        column = made.column_at(header.index(title))
        assert column is not None
        assert column.title == title
    assert made.column_at(500) is None


def test_the_column_that_is_sorted_by_says_in_which_direction() -> None:
    made, _, rows = laid_out(120, job(0), sort="pri")
    assert "pr▾" in made.header(rows)
    rows.reverse = True
    assert "pr▴" in made.header(rows)


def test_why_a_job_waited_is_not_said_of_it_once_it_is_something_else() -> None:
    told = Told(Names(), whys={0: "needs a lane", 1: "1 job is ahead of it"})
    told.forget([0, 7])
    assert told.whys == {1: "1 job is ahead of it"}
