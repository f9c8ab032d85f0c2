"""`m` chooses the metric; pressed again, it shows curves."""

from __future__ import annotations

import math

import pytest
from support.app import LONG, Stage, on_stage

from gputui.core.job import StateName
from gputui.core.results import Direction, MainMetric
from gputui.session.owner.requests import ChooseMetric
from gputui.tui.dialogs.choosers import MetricChooser
from gputui.tui.views.curves import CurvesView, smoothed

NO_METRIC = MainMetric("", Direction.UNKNOWN)


def printing(lr: str, scale: float, *, steps: bool = True) -> str:
    step = "epoch {e} " if steps else ""
    program = f"for e in range(1, 9): print(f'{step}val_loss={{{scale} / e:.4f}} acc={{e}}')"
    return f'python3 -c "{program}" --lr {lr} --data x'


async def printed(stage: Stage, *commands: str) -> None:
    await stage.add(*commands)
    last = len(commands) - 1
    for job in range(last + 1):
        await stage.becomes(job, StateName.SUCCEEDED)
    await stage.until(lambda: all(job in stage.main.snapshot.results for job in range(last + 1)), "results are read")


async def curves(stage: Stage) -> CurvesView:
    await stage.press("m", "m")
    return await stage.opens(CurvesView)


@on_stage()
async def test_curves_of_the_marked_jobs_share_one_chart(stage: Stage) -> None:
    await printed(stage, printing("0.1", 2.0), printing("0.2", 1.0), printing("0.3", 4.0))
    await stage.go_to(0)
    await stage.press("space")
    await stage.go_to(1)
    await stage.press("space")
    view = await curves(stage)
    await stage.shows("2 marked jobs, by step")
    await stage.until(lambda: all(f"#{job}" in stage.text for job in (0, 1)), "both are there")
    assert "#2" not in stage.text
    assert [row.job.id for row in view.rows()] == [1, 0]
    assert "★ 0.125" in stage.text
    assert "lower is better" in stage.text
    best, second = (line for line in stage.lines() if line.startswith(" ━"))
    assert "0.2" in best
    assert best[2] != second[2], "they have different signs"


@on_stage()
async def test_without_marks_the_best_jobs_are_shown_and_a_curve_can_be_hidden(stage: Stage) -> None:
    await printed(stage, *(printing(f"0.{lr}", lr) for lr in range(10, 20)))
    view = await curves(stage)
    await stage.shows("the best 8 of 10 jobs")
    assert view.jobs == [0, 1, 2, 3, 4, 5, 6, 7]
    await stage.press("j", "space")
    assert view.jobs == [0, 2, 3, 4, 5, 6, 7]
    await stage.press("x")
    await stage.shows("by time")
    await stage.until(lambda: set(view.jobs) <= set(view._curves), "their points are there")
    await stage.press("m")
    await stage.until(lambda: view.metric == "acc", "the next metric")
    await stage.press("escape")
    await stage.back_on_main()


@on_stage()
async def test_the_chosen_direction_decides_which_jobs_are_best(stage: Stage) -> None:
    """Of `acc` one would guess the other."""
    await printed(stage, *(f"for e in 1 2 3; do echo epoch $e acc=$((e + {number})); done" for number in range(8)))
    stage.main.bridge.do(ChooseMetric("acc min"), lambda _: None, lambda why: None)
    await stage.until(lambda: (stage.main.snapshot.metric or NO_METRIC).direction is Direction.DOWN, "it is painted")
    view = await curves(stage)
    assert view.jobs == list(range(8))
    assert [row.result[0] for row in view.rows() if row.result is not None] == [1, 2, 3, 4, 5, 6, 7, 8]
    await stage.shows("★ 1")
    await stage.press("escape")
    await stage.back_on_main()
    await stage.shows("★ 1.0")


@on_stage()
async def test_the_cursor_the_zoom_and_the_scales(stage: Stage) -> None:
    await printed(stage, printing("0.1", 2.0), printing("0.2", 1.0))
    view = await curves(stage)
    await stage.until(lambda: " acc   higher is better" in stage.text, "the other metric is beside the main one")
    assert any(line.startswith(" 0.150 ┄") for line in stage.lines()), "the scale is logarithmic"
    await stage.press("L")
    await stage.until(lambda: not any(line.startswith(" 0.150 ┄") for line in stage.lines()), "it is linear")
    await stage.press("right", "left")
    await stage.shows("cursor at 7")
    best = next(line for line in stage.lines() if line.startswith(" ━●"))
    assert "0.142" in best, "its value at step 7"
    assert " 7 " in best, "the accuracy at step 7"
    await stage.press("+")
    assert view.window == (4.5, 8.0)
    await stage.press("<", "<")
    assert view.window == (2.75, 6.25)
    await stage.press("-")
    assert view.window is None
    await stage.shows("smoothing 4%")
    await stage.press("e")
    await stage.until(lambda: "smoothing" not in stage.text, "curves are shown as printed")
    await stage.press("escape")
    await stage.back_on_main()


def test_smoothing_removes_noise_and_does_not_lag() -> None:
    line = [(float(x), 3.0 - x / 10) for x in range(30)]
    assert [y for _, y in smoothed(line, 0.1)] == pytest.approx([y for _, y in line]), "also at both ends"
    noisy = [(x, y + (0.1 if number % 2 else -0.1)) for number, (x, y) in enumerate(line)]
    assert max(abs(y - line[at][1]) for at, (_, y) in enumerate(smoothed(noisy, 0.07))) < 0.05
    assert smoothed(noisy, 0.0) == noisy
    with_nan = [*line[:10], (10.0, math.nan), *line[11:]]
    assert len(smoothed(with_nan, 0.07)) == len(line)


@on_stage()
async def test_m_and_enter_choose_the_metric(stage: Stage) -> None:
    await printed(stage, printing("0.1", 2.0))
    await stage.press("m")
    await stage.opens(MetricChooser)
    before = stage.main.snapshot.metric
    assert before is not None
    other = "acc" if before.name == "val_loss" else "val_loss"
    await stage.press("j" if before.name == "val_loss" else "k", "enter")
    await stage.until(lambda: (stage.snapshot.metric or before).name == other, "it is compared by the other one")


@on_stage()
async def test_without_steps_curves_are_plotted_by_time(stage: Stage) -> None:
    await printed(stage, printing("0.1", 2.0, steps=False))
    await curves(stage)
    await stage.shows("by time")


@on_stage()
async def test_without_results_m_says_what_a_result_is(stage: Stage) -> None:
    await stage.add(LONG)
    await stage.press("m")
    await stage.told("no job has printed a result yet")
