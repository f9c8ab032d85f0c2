"""Keys that stop running jobs: they ask first, and say what will happen."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage

from gputui.core.events import Mode
from gputui.core.job import Killed, StateName, Stopping
from gputui.tui.dialogs.ask import Ask

STUBBORN = "trap '' TERM; touch here; while :; do sleep 0.05; done"


@on_stage()
async def test_kill_asks_and_stops_gracefully(stage: Stage) -> None:
    [job, other] = await stage.add(LONG, LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.go_to(job)
    await stage.press("K")
    assert isinstance(stage.screen, Ask)
    await stage.shows("Kill #0?")
    assert "SIGTERM, then SIGKILL after 30 s" in stage.text
    await stage.press("escape")
    assert stage.state(job) is StateName.RUNNING, "going back does nothing"
    await stage.press("f9", "y")
    await stage.becomes(job, StateName.KILLED)
    assert stage.job(job).attempts[-1].exit_code == 143
    assert stage.state(other) is StateName.RUNNING


@on_stage(size=(160, 40))
async def test_the_dialog_counts_down_while_a_job_is_stopping_and_k_kills_at_once(stage: Stage) -> None:
    [job] = await stage.add(STUBBORN, name="stubborn")
    await stage.until(lambda: (stage.directory / "here").exists(), "it ignores SIGTERM")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K", "enter")
    await stage.becomes(job, StateName.STOPPING)
    await stage.shows("SIGKILL in")
    state = stage.job(job).state
    assert isinstance(state, Stopping)
    clock = {"now": state.deadline - 20}
    stage.main.now = lambda: clock["now"]
    await stage.press("K")
    await stage.shows("SIGKILL in 0:20")
    clock["now"] += 15
    await stage.shows("SIGKILL in 0:05")
    assert "SIGTERM" not in stage.text, "offered only once"
    await stage.press("K")
    await stage.becomes(job, StateName.KILLED)
    assert isinstance(stage.job(job).state, Killed)


@on_stage(slots=1)
async def test_the_dialog_says_how_many_of_the_marked_jobs_are_skipped(stage: Stage) -> None:
    done = await stage.add("true", "true")
    for job in done:
        await stage.becomes(job, StateName.SUCCEEDED)
    [held] = await stage.add("true", hold=True)
    await stage.press("*", "K")
    await stage.shows(f"Kill #{held}?")
    await stage.shows("skipped: 2 jobs that have already ended")
    await stage.press("y")
    await stage.becomes(held, StateName.KILLED)


@on_stage(slots=1)
async def test_a_waiting_job_can_be_killed_too(stage: Stage) -> None:
    [job] = await stage.add("true", hold=True)
    await stage.press("K", "y")
    await stage.becomes(job, StateName.KILLED)
    await stage.press("K")
    await stage.told("#0 is neither running nor waiting")


@on_stage()
async def test_suspend_asks_and_the_same_key_continues(stage: Stage) -> None:
    job = await stage.running()
    await stage.press("S")
    await stage.shows("It stays frozen until you press S again and keeps its GPU memory.")
    await stage.press("S")
    await stage.becomes(job, StateName.SUSPENDED)
    await stage.shows("S Continue")
    await stage.press("S")
    await stage.becomes(job, StateName.RUNNING)


@on_stage(slots=1)
async def test_requeue_stops_the_attempt_and_queues_the_job(stage: Stage) -> None:
    job = await stage.running()
    await stage.press("p")
    await stage.press("B")
    await stage.shows("Stops gracefully and goes back to the queue; the checkpoint directory stays.")
    await stage.press("enter")
    await stage.becomes(job, StateName.QUEUED)
    assert stage.job(job).issued == 1
    await stage.press("S")
    await stage.told("#0 is not running")


@on_stage(slots=3)
async def test_kill_applies_to_marked_jobs_and_counts_hidden_ones(stage: Stage) -> None:
    jobs = await stage.add(LONG, LONG, LONG)
    await stage.becomes(jobs[2], StateName.RUNNING)
    await stage.press("g", "*", "/", *"#0", "enter")
    assert stage.shown == [0]
    await stage.shows("3 marked, 2 not shown")
    await stage.press("K")
    await stage.shows("2 not shown in this view")
    await stage.press("y")
    for job in jobs:
        await stage.becomes(job, StateName.KILLED)
    assert stage.table.marks == set()


@on_stage(slots=1)
async def test_requeue_warns_that_the_job_would_restart_at_once(stage: Stage) -> None:
    again = "Next in the queue: #0; restarts at once (press p to pause first)."
    await stage.running()
    await stage.press("B")
    await stage.shows(again)
    await stage.press("escape", "p")
    await stage.until(lambda: stage.main.snapshot.mode is Mode.PAUSED, "it is paused")
    await stage.press("B")
    await stage.shows("goes back to the queue")
    assert again not in stage.text
    await stage.press("escape", "p")
    await stage.until(lambda: stage.main.snapshot.mode is Mode.RUNNING, "it goes on")
    await stage.add("true", priority=90)
    await stage.press("B")
    await stage.shows("goes back to the queue")
    assert again not in stage.text, "another job is before it in the line"
