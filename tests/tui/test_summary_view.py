"""`=`: what came of a session; shown by itself only where it takes nothing away."""

from __future__ import annotations

import time

from support.stage import LONG, Stage, on_stage
from textual.events import Key, MouseMove, Paste

from gputui.core.job import StateName
from gputui.session.saved_state import note_screen_seen as note_look
from gputui.session.saved_state import screen_seen_at as last_look
from gputui.tui.main_screen import MainScreen
from gputui.tui.views import summary
from gputui.tui.views.summary import SummaryView

PROGRAM = """import sys
lr, seed = float(sys.argv[2]), int(sys.argv[4])
print(f"epoch 1/1 val_loss: {abs(lr - 0.03) + seed / 100:.4f}")
"""


def train(lr: float, seed: int) -> str:
    return f"python3 train.py --lr {lr} --seed {seed}"


def results_of(stage: Stage, job: int) -> bool:
    known = stage.snapshot.results.get(job)
    return known is not None and bool(known.metrics)


async def swept(stage: Stage) -> None:
    (stage.folder / "train.py").write_text(PROGRAM)
    await stage.add(*(train(lr, seed) for lr in (0.3, 0.03, 0.003) for seed in (0, 1)), "echo bad >&2; exit 3")
    await stage.becomes(6, StateName.FAILED)
    await stage.until(lambda: all(results_of(stage, job) for job in range(6)), "all results were read")


@on_stage()
async def test_the_best_the_parameters_and_the_failures_are_on_one_screen(stage: Stage) -> None:
    await swept(stage)
    await stage.press("equals_sign")
    assert isinstance(stage.screen, SummaryView)
    await stage.shows("6 ok")
    await stage.shows("By parameter   val_loss of 6 jobs")
    text = stage.text
    assert "lower is better" in text
    assert "1 failed" in text
    assert "Best by val_loss" in text
    assert "same job, other seed: 0.0100 apart" in text
    assert "1 × " in text
    head = next(line for line in stage.lines() if "second half" in line)
    assert ("gpu" in head.split()) == any(job.attempts[-1].gpus for job in stage.snapshot if job.attempts)
    assert stage.screen.job == 2
    await stage.press("j")
    assert [job.id for job in stage.screen.chosen() or ()] != [2]
    await stage.press("escape")
    assert isinstance(stage.screen, MainScreen)


@on_stage()
async def test_who_comes_back_after_hours_is_told_what_happened_meanwhile(stage: Stage) -> None:
    await swept(stage)
    main, owner = stage.main, stage.main.bridge.owner
    assert owner is not None
    private = owner.paths.private
    note_look(private, time.time() - 7200)
    main.occasion.__init__(main)  # type: ignore[misc]  # as when the screen is opened anew
    main.look()
    await stage.shows("Since you left")
    assert "6 ok   ·   1 failed" in stage.text
    assert (last_look(private) or 0) > time.time() - 60


@on_stage()
async def test_when_the_last_job_ends_and_nobody_types_it_opens_by_itself(stage: Stage) -> None:
    await stage.add("true", f"until test -e {stage.folder / 'gate'}; do sleep 0.01; done")
    await stage.becomes(1, StateName.RUNNING)
    stage.main.look()
    stage.app._last_input -= summary.STILL + 1
    (stage.folder / "gate").touch()
    await stage.until(lambda: isinstance(stage.screen, SummaryView), "the summary is there")


@on_stage()
async def test_who_comes_back_to_a_screen_left_alone_is_shown_what_happened_meanwhile(stage: Stage) -> None:
    await stage.add(LONG)
    await stage.becomes(0, StateName.RUNNING)
    stage.app._last_input -= summary.AWAY + 60
    left = time.time() - summary.AWAY - 60
    stage.main.look()
    await stage.add("true", "exit 3")
    await stage.becomes(2, StateName.FAILED)
    stage.main.look()
    assert stage.screen is stage.main, "work goes on, and nobody is there"
    await stage.press("j")
    stage.main.look()
    await stage.until(lambda: isinstance(stage.screen, SummaryView), "the summary is there")
    await stage.shows("Since you left")
    assert "1 ok   ·   1 failed" in stage.text
    assert abs((stage.main.occasion.left or 0) - left) < 30


@on_stage()
async def test_a_summary_that_opened_while_nobody_was_there_tells_who_comes_back_what_is_new(stage: Stage) -> None:
    await stage.add("true", f"until test -e {stage.folder / 'gate'}; do sleep 0.01; done")
    await stage.becomes(1, StateName.RUNNING)
    stage.app._last_input -= summary.AWAY - 600
    stage.main.look()
    (stage.folder / "gate").touch()
    await stage.until(lambda: isinstance(stage.screen, SummaryView), "the summary is there")
    stage.app._last_input -= 1200
    stage.main.look()
    assert "Since you left" not in stage.text
    await stage.press("k")
    stage.main.look()
    await stage.shows("Since you left")


@on_stage()
async def test_what_ended_behind_an_open_view_is_told_when_somebody_is_there_again(stage: Stage) -> None:
    await stage.add("true", f"until test -e {stage.folder / 'gate'}; do sleep 0.01; done")
    await stage.becomes(1, StateName.RUNNING)
    stage.main.look()
    await stage.press("t")
    stage.app._last_input -= summary.STILL + 60
    (stage.folder / "gate").touch()
    await stage.becomes(1, StateName.SUCCEEDED)
    stage.main.look()
    assert stage.said == []
    await stage.press("left")
    stage.main.look()
    await stage.told("all jobs have ended: = shows the summary")


@on_stage()
async def test_a_screen_that_nobody_looks_at_does_not_count_as_looked_at(stage: Stage) -> None:
    owner = stage.main.bridge.owner
    assert owner is not None
    private = owner.paths.private
    stage.app._last_input -= 5000
    stage.main.occasion.__init__(stage.main)  # type: ignore[misc]
    note_look(private, time.time() - 6000)
    for _ in range(3):
        stage.main.look()
    assert (last_look(private) or 0) < time.time() - 4900
    await stage.pilot.click("#table")
    await stage.press("j")
    stage.main.look()
    assert (last_look(private) or 0) > time.time() - 60


@on_stage()
async def test_keys_pastes_and_the_mouse_are_signs_of_a_user(stage: Stage) -> None:
    move = MouseMove(None, 3, 3, 1, 0, 0, False, False, False, screen_x=3, screen_y=3)
    for event in (Key("j", "j"), Paste("text"), move):
        stage.app._last_input -= 100
        stage.app.post_message(event)
        await stage.settle()
        assert stage.app.idle_for < 90, event


@on_stage()
async def test_the_end_of_the_last_job_takes_nothing_away_from_who_types(stage: Stage) -> None:
    gate = stage.folder / "gate"
    await stage.add("true", f"until test -e {gate}; do sleep 0.01; done")
    await stage.becomes(1, StateName.RUNNING)
    main = stage.screen
    assert isinstance(main, MainScreen)
    main.look()
    await stage.press("slash", "x")
    gate.touch()
    await stage.becomes(1, StateName.SUCCEEDED)
    main.look()
    await stage.told("= shows the summary")
    assert isinstance(stage.screen, MainScreen)
    assert main.filter_bar.display
