"""`=`: the summary of a session, and when it opens by itself."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec.structs import replace
from support.app import Stage, on_stage
from textual.events import Key, MouseMove, Paste

from gputui.core.events import Kill
from gputui.core.job import StateName
from gputui.session.saved_state import save_tui_seen as note_look
from gputui.session.saved_state import tui_seen_at as last_look
from gputui.tui.dialogs.forms import SweepForm
from gputui.tui.views import summary
from gputui.tui.views.summary import SummaryView
from gputui.views.summary import summarize

PROGRAM = """import sys
lr, seed = float(sys.argv[2]), int(sys.argv[4])
print(f"epoch 1/1 val_loss: {abs(lr - 0.03) + seed / 100:.4f}")
"""


def train(lr: float, seed: int) -> str:
    return f"python3 train.py --lr {lr} --seed {seed}"


def results_of(stage: Stage, job: int) -> bool:
    known = stage.snapshot.results.get(job)
    return known is not None and bool(known.metrics)


async def last_job(stage: Stage) -> Path:
    """Run a last job, which ends when the returned file is created."""
    gate = stage.directory / "gate"
    await stage.add("true", f"until test -e {gate}; do sleep 0.01; done")
    await stage.becomes(1, StateName.RUNNING)
    stage.main.look()
    return gate


async def swept(stage: Stage) -> None:
    (stage.directory / "train.py").write_text(PROGRAM)
    await stage.add(*(train(lr, seed) for lr in (0.3, 0.03, 0.003) for seed in (0, 1)), "echo bad >&2; exit 3")
    await stage.becomes(6, StateName.FAILED)
    await stage.until(lambda: all(results_of(stage, job) for job in range(6)), "all results were read")


@on_stage(size=(120, 40), settings={"pause_after": 0})
async def test_killed_jobs_are_counted_and_a_long_error_is_cut_visibly(stage: Stage) -> None:
    await stage.add(f"echo 'ValueError: {'a long text ' * 9}' >&2; exit 1", "true")
    await stage.becomes(1, StateName.SUCCEEDED)
    [held] = await stage.add("true", hold=True)
    await stage.command(Kill(job=held))
    await stage.press("equals_sign")
    await stage.opens(SummaryView)
    await stage.shows("1 killed")
    [error] = [text for text in stage.lines() if "1 × ValueError" in text]
    assert "…" in error


@on_stage()
async def test_the_summary_shows_the_best_jobs_the_parameters_and_the_failures(stage: Stage) -> None:
    await swept(stage)
    await stage.press("equals_sign")
    view = await stage.opens(SummaryView)
    for words in (
        "6 ok", "By parameter   val_loss of 6 successful jobs", "lower is better", "1 failed", "Best by val_loss",
        "between seeds: 0.0100 apart", "1 × ",
    ):  # fmt: skip
        await stage.shows(words)
    head = next(line for line in stage.lines() if "second half" in line)
    assert ("gpu" in head.split()) == any(job.attempts[-1].gpus for job in stage.snapshot if job.attempts)
    assert view.job == 2
    await stage.press("j")
    assert [job.id for job in view.chosen()] != [2]
    await stage.press("escape")
    await stage.back_on_main()


@on_stage()
async def test_after_hours_away_the_summary_shows_what_happened_meanwhile(stage: Stage) -> None:
    await swept(stage)
    main, owner = stage.main, stage.main.bridge.owner
    assert owner is not None
    private, now = owner.paths.private, time.time()
    note_look(private, now - 7200)
    main.auto_summary.__init__(main)  # type: ignore[misc]  # as when the screen is opened anew
    main.look()
    await stage.shows("Since you left")
    assert "6 ok   ·   1 failed" in stage.text
    assert (last_look(private) or 0) > now - 3600


@on_stage()
async def test_it_opens_by_itself_when_the_last_job_ends_and_nobody_types(stage: Stage) -> None:
    gate = await last_job(stage)
    stage.app._last_input -= summary.IDLE_BEFORE_OPENING + 1
    gate.touch()
    await stage.opens(SummaryView)


@on_stage()
async def test_it_opens_by_itself_when_the_user_returns(stage: Stage) -> None:
    await stage.running()
    stage.app._last_input -= summary.AWAY + 60
    left = time.time() - summary.AWAY - 60
    stage.main.look()
    await stage.add("true", "exit 3")
    await stage.becomes(2, StateName.FAILED)
    stage.main.look()
    assert stage.screen is stage.main, "work goes on, and nobody is there"
    await stage.press("j")
    stage.main.look()
    await stage.opens(SummaryView)
    await stage.shows("Since you left")
    assert "1 ok   ·   1 failed" in stage.text
    assert abs((stage.main.auto_summary.left or 0) - left) < 30


@on_stage()
async def test_a_summary_that_opened_in_the_users_absence_shows_what_is_new_on_return(stage: Stage) -> None:
    gate = await last_job(stage)
    stage.app._last_input -= summary.AWAY - 600
    gate.touch()
    await stage.opens(SummaryView)
    stage.app._last_input -= 1200
    stage.main.look()
    assert "Since you left" not in stage.text
    await stage.press("k")
    stage.main.look()
    await stage.shows("Since you left")


@on_stage()
async def test_the_end_behind_an_open_view_is_announced_when_the_user_returns(stage: Stage) -> None:
    gate = await last_job(stage)
    await stage.press("t")
    stage.app._last_input -= summary.IDLE_BEFORE_OPENING + 60
    gate.touch()
    await stage.becomes(1, StateName.SUCCEEDED)
    stage.main.look()
    assert stage.said == []
    await stage.press("left")
    stage.main.look()
    await stage.told("all jobs have ended: = shows the summary")


@on_stage()
async def test_only_input_counts_as_presence(stage: Stage) -> None:
    owner = stage.main.bridge.owner
    assert owner is not None
    private, now = owner.paths.private, time.time()
    stage.app._last_input -= 5000
    stage.main.auto_summary.__init__(stage.main)  # type: ignore[misc]
    note_look(private, now - 6000)
    for _ in range(3):
        stage.main.look()
    assert (last_look(private) or 0) < now - 4900
    await stage.pilot.click("#table")
    await stage.press("j")
    stage.main.look()
    assert (last_look(private) or 0) > now - 3600


@on_stage()
async def test_keys_pastes_and_the_mouse_count_as_input(stage: Stage) -> None:
    move = MouseMove(None, 3, 3, 1, 0, 0, False, False, False, screen_x=3, screen_y=3)
    for event in (Key("j", "j"), Paste("text"), move):
        stage.app._last_input -= 100
        stage.app.post_message(event)
        await stage.settle()
        assert stage.app.idle_for < 90, event


@on_stage()
async def test_the_end_of_the_last_job_does_not_interrupt_typing(stage: Stage) -> None:
    gate, main = await last_job(stage), stage.main
    await stage.press("slash", "x")
    gate.touch()
    await stage.becomes(1, StateName.SUCCEEDED)
    main.look()
    await stage.told("= shows the summary")
    assert stage.screen is main
    assert main.filter_bar.display


@on_stage()
async def test_a_cell_of_the_heat_map_proposes_a_sweep_around_it(stage: Stage) -> None:
    await swept(stage)
    before = len(stage.snapshot.jobs)
    await stage.press("equals_sign")
    await stage.shows("lr × seed")
    assert "★0.0000" in stage.text
    await stage.press("right")
    await stage.shows("sweep around it: lr 0.009 0.03 0.09 × seed 0")
    await stage.press("right", "up")
    await stage.shows("lr=0.3 seed=1")
    await stage.press("up")
    await stage.shows("Details of #")
    await stage.press("right", "enter")
    form = stage.screen
    assert isinstance(form, SweepForm)
    assert (form._pattern.value, form._parameters.text) == (
        "python3 train.py --lr {lr} --seed {seed}", "lr 0.009 0.03 0.09\nseed 0",
    )  # fmt: skip
    assert len(stage.snapshot.jobs) == before, "nothing is added before the form is confirmed"
    await stage.press("ctrl+s")
    await stage.until(lambda: len(stage.snapshot.jobs) == before + 3, "the sweep was added")


@on_stage(size=(80, 24))
async def test_other_parameters_are_chosen_with_p(stage: Stage) -> None:
    (stage.directory / "train.py").write_text(PROGRAM)
    await stage.add(
        *(f"{train(lr, seed)} {bs}" for lr in (0.3, 0.03) for seed in (0, 1) for bs in ("--bs 1", "--bs 2"))
    )
    await stage.until(lambda: all(results_of(stage, job) for job in range(8)), "all results were read")
    await stage.press("equals_sign")
    await stage.shows("lr × bs")
    await stage.press("right", "down")
    view = stage.screen
    assert isinstance(view, SummaryView)
    assert view.summary is not None
    view._computed(replace(view.summary, maps=()), "", 0.0)
    assert view.job is not None, "without a map, the cursor is on a job"
    view._computed(summarize(stage.snapshot, time.time()), "", 0.0)
    for parameters in ("lr × bs", "lr × seed", "bs × seed", "lr × bs"):
        await stage.shows(parameters)
        await stage.press("p")
