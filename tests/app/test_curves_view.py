"""`m` chooses the metric; pressed again, it shows curves."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage

from gputui.core.job import StateName
from gputui.core.results import Direction, MainMetric
from gputui.session.owner.requests import ChooseMetric
from gputui.tui.dialogs.choosers import MetricChooser
from gputui.tui.views.curves import CurvesView

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
    table = [line for line in stage.lines() if line.startswith(" ━━")]
    assert len(table) == 2
    assert "0.2" in table[0]


@on_stage()
async def test_without_marks_the_best_jobs_are_shown_and_a_curve_can_be_hidden(stage: Stage) -> None:
    await printed(stage, *(printing(f"0.{lr}", lr) for lr in range(1, 9)))
    view = await curves(stage)
    await stage.shows("the best 6 of 8 jobs")
    assert view.jobs == [0, 1, 2, 3, 4, 5]
    await stage.press("j", "space")
    assert view.jobs == [0, 2, 3, 4, 5]
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
    assert view.jobs == [0, 1, 2, 3, 4, 5]
    assert [row.result[0] for row in view.rows() if row.result is not None] == [1, 2, 3, 4, 5, 6]
    await stage.shows("★ 1")
    await stage.press("escape")
    await stage.back_on_main()
    await stage.shows("★ 1.0")


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
