"""Every line of the queue is exactly as wide as the pane, for any job and width."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from support import evening
from support.app import NOW, STATES, TEXTS, job, jobs

from gputui.core.job import EngineName, Job, Placed, Running, Starting
from gputui.core.results import JobResults
from gputui.logs.plain import FORBIDDEN, plain
from gputui.tui.dialogs.choosers import sort_letters
from gputui.tui.queue.columns import ColumnLayout, TableShape, layout
from gputui.tui.queue.row_facts import NO_RESULT_SHAPE, RowContext, RowFacts, gpus_of, result_shape
from gputui.tui.queue.rows import METRIC, PARAMETER, QUEUE_ORDER, SORTS
from gputui.tui.text import Piece
from gputui.tui.theme import Look
from gputui.views.parameters import Parameters
from gputui.views.waiting import Reason

NARROWEST, WIDEST = 17, 250


def learnt(of: list[Job]) -> Parameters:
    parameters = Parameters()
    for each in of:
        parameters.learn(each)
    return parameters


def laid_out(width: int, *of: Job) -> tuple[ColumnLayout, RowContext]:
    parameters = learnt(list(of))
    columns = parameters.columns()
    shape = TableShape(len(of), columns, names=not columns or not parameters.tells_all())
    return layout(width, shape), RowContext(parameters, now=NOW)


def text(pieces: list[Piece]) -> str:
    return "".join(words for words, _ in pieces)


def lines(width: int, *of: Job, **reasons: Reason) -> list[str]:
    made, context = laid_out(width, *of)
    context.reasons = {int(number.removeprefix("why")): reason for number, reason in reasons.items()}
    return [made.text(RowFacts(each, context)) for each in of]


def sweep(width: int) -> tuple[ColumnLayout, RowContext]:
    """The sixty jobs of an evening, with results."""
    shown = evening.snapshot()
    parameters = learnt(list(shown))
    results = result_shape(shown, None, NO_RESULT_SHAPE)
    context = RowContext(parameters, now=evening.NOW, results=shown.results, shape=results, best=shown.best)
    shape = TableShape(60, parameters.columns(), names=False, results=results, peaks=True)
    return layout(width, shape), context


@settings(max_examples=200)
@given(st.data())
def test_every_line_is_exactly_as_wide_as_asked(data: st.DataObject) -> None:
    width = data.draw(st.integers(NARROWEST, WIDEST))
    of = [data.draw(jobs(number)) for number in range(data.draw(st.integers(1, 4)))]
    sort = data.draw(st.sampled_from([QUEUE_ORDER, *SORTS, PARAMETER + "lr"]))
    made, context = laid_out(width, *of)
    context.reasons = {0: Reason(plain(data.draw(TEXTS)))}
    context.results = {0: JobResults(1, progress=0.61)}
    rows = [made.line(RowFacts(each, context), mark=("▌", Look.FOCUS)) for each in of]
    for line in map(text, (made.header(sort, reverse=data.draw(st.booleans())), made.fold(12), *rows)):
        assert cell_len(line) == width
        assert not any(ord(letter) in FORBIDDEN for letter in line)


def test_every_width_shows_id_and_sign() -> None:
    for width in range(NARROWEST, WIDEST + 1):
        [line] = lines(width, job(7, STATES[9], name="resnet"))
        assert cell_len(line) <= width
        assert line.split()[:2] == ["7", "✗"]
        assert width < 40 or "resnet" in line


@pytest.mark.parametrize("width", [60, 79, 80, 100, 119, 120, 127, 140, 200])
def test_the_rows_of_a_sweep_differ_and_have_results(width: int) -> None:
    made, context = sweep(width)
    found = {tuple(value for column in made.columns if (column.sort or "").startswith(PARAMETER)
                   for value in [column.text(RowFacts(each, context))]) for each in evening.jobs()}  # fmt: skip
    assert len(found) == 60
    assert METRIC in [column.sort for column in made.columns]


def test_the_least_important_columns_are_dropped_first() -> None:
    titles = {width: [column.title for column in sweep(width)[0].columns] for width in (79, 119, 127)}
    who, what = ["id", "state", "gpu"], ["model", "lr", "bs", "seed"]
    assert titles[127] == [*who, *what, "time", "progress", "end", "val_loss", "last", "trend", "acc", "peak G"]
    assert titles[119] == titles[127][:-1]
    assert titles[79] == [*who, *what, "time", "done", "end", "val_loss", "", "acc"]
    for narrow, wide in itertools.pairwise(range(40, 140)):
        fewer, more = (len(sweep(width)[0].columns) for width in (narrow, wide))
        assert fewer <= more + 1, "a wider pane shows no less"


def test_a_row_shows_one_checkpoint_and_the_best_has_a_star() -> None:
    made, context = sweep(119)
    shown = evening.snapshot()
    assert shown.best is not None
    best = shown.results[shown.best]
    line = made.text(RowFacts(shown[shown.best], context))
    assert f"★ {best['val_loss'].best:.4f}" in line
    assert line.endswith(f"{best.at_best('acc', best['val_loss']):.1f}")
    assert "★" not in made.text(RowFacts(shown[0], context))


def test_messages_replace_progress_and_results() -> None:
    obstacles = "0 2 3 busy, 1 used by alice (pid 4121, 38 GB, 5 h)"
    found = lines(
        90, job(0, STATES[9], name="one"), job(1, name="two"), job(2, name="three"), job(3, STATES[5], name="four"),
        why1=Reason(f"waiting for a GPU: {obstacles}", obstacles),
        why2=Reason("14 jobs are ahead of it", routine=True),
        why3=Reason("holds GPU memory but has been idle for 34 min"),
    )  # fmt: skip
    assert "ValueError: no" in found[0]
    assert found[1].endswith("0 2 3 busy, 1 used by alice (pid 4121, 3…")
    assert found[2].split()[:4] == ["2", "·", "wait", "three"]
    assert "ahead" not in found[2]
    assert "holds GPU" in found[3], "what is odd about a job that runs leaves its results in sight"


def test_parameters_have_columns_and_other_jobs_their_names() -> None:
    swept = job(0, params={"lr": "0.1", "bs": "32"})
    other, named = job(1, command="prepare"), job(2, params={"lr": "0.2", "bs": "8"}, name="the-best")
    made, context = laid_out(119, swept, other, named)
    assert {"job", "lr", "bs"} <= {column.title for column in made.columns}
    told_apart = [made.text(RowFacts(each, context)) for each in (swept, other, named)]
    assert {"0.1", "32"} <= set(told_apart[0].split())
    assert "prepare" in told_apart[1]
    assert {"the-best", "0.2", "8"} <= set(told_apart[2].split())


def test_a_click_on_a_title_finds_its_column() -> None:
    made, _ = sweep(119)
    header = text(made.header(QUEUE_ORDER, reverse=False))
    for title in ("id", "state", "gpu", "lr", "time", "val_loss"):
        column = made.column_at(header.index(title))
        assert column is not None
        assert column.title == title
    assert made.column_at(500) is None


def test_the_sort_column_shows_the_direction() -> None:
    made, _ = sweep(119)
    assert "▴val_loss" in text(made.header(METRIC, reverse=False))
    assert "▾val_loss" in text(made.header(METRIC, reverse=True))
    assert "model▴" in text(made.header(PARAMETER + "model", reverse=False))


def test_every_column_has_its_own_letter_and_the_main_metric_m() -> None:
    letters = sort_letters(sweep(119)[0].columns)
    keys = [letter.key for letter in letters]
    assert len(keys) == len(set(keys))
    assert {letter.key: letter.title for letter in letters}["m"] == "val_loss"
    assert {"model", "lr", "bs", "seed", "time", "queue"} <= {letter.title for letter in letters}


def test_reasons_of_changed_jobs_are_forgotten() -> None:
    context = RowContext(
        Parameters(), reasons={0: Reason("waiting for a GPU: 0 busy"), 1: Reason("1 job is ahead of it")}
    )
    context.forget([0, 7])
    assert context.reasons == {1: Reason("1 job is ahead of it")}


def test_a_job_in_slurms_queue_is_submitted_and_its_row_says_why_it_waits() -> None:
    waiting = job(7, Starting(Placed(1, (0,), (), NOW - 60, "", engine=EngineName.SLURM)), command="train --lr 0.1")
    there = job(8, Running(Placed(1, (1,), ("gpu12:0",), NOW - 60, "", engine=EngineName.SLURM), None), command="x")
    wide, beside = lines(120, waiting, there, why7=Reason("no GPU of gpu is free; Slurm expects 14:20 (Resources)"))
    assert "◷ submitted" in wide
    assert wide.endswith("no GPU of gpu is free; Slurm expects 14:20 (Resources)")
    assert "● running" in beside
    assert "gpu12:0" in gpus_of(there)
    assert "◷ sub " in lines(60, waiting)[0]
