"""Keys that touch running work: they ask, they say what is at stake, and the session shows what became of it."""

from __future__ import annotations

from pathlib import Path

from support.stage import LONG, Stage, on_stage

from gputui.core.events import Mode
from gputui.core.job import Killed, StateName, Stopping
from gputui.tui.dialogs.ask import Ask

STUBBORN = "trap '' TERM; touch here; while :; do sleep 0.05; done"


@on_stage()
async def test_kill_asks_with_the_stake_and_ends_with_grace(stage: Stage) -> None:
    [job, other] = await stage.add(LONG, LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.go_to(job)
    await stage.press("K")
    assert isinstance(stage.screen, Ask)
    await stage.shows("Kill #0?")
    assert "SIGTERM, and SIGKILL after 30 s" in stage.text
    await stage.press("escape")
    assert stage.state(job) is StateName.RUNNING, "going back does nothing"
    await stage.press("f9", "y")
    await stage.becomes(job, StateName.KILLED)
    assert stage.job(job).attempts[-1].exit_code == 143
    assert stage.state(other) is StateName.RUNNING


@on_stage(size=(160, 40))
async def test_k_again_in_the_dialog_kills_at_once(stage: Stage) -> None:
    [job] = await stage.add(STUBBORN, name="stubborn")
    await stage.until(lambda: (stage.folder / "here").exists(), "it ignores SIGTERM")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K", "enter")
    await stage.becomes(job, StateName.STOPPING)
    await stage.shows("killed in")
    await stage.press("K")
    await stage.shows("being stopped; SIGKILL in")
    assert "SIGTERM" not in stage.text, "grace is offered once"
    await stage.press("K")
    await stage.becomes(job, StateName.KILLED)
    assert isinstance(stage.job(job).state, Killed)


@on_stage()
async def test_the_dialog_counts_down_while_the_job_is_being_stopped(stage: Stage) -> None:
    [job] = await stage.add(STUBBORN, name="stubborn")
    await stage.until(lambda: (stage.folder / "here").exists(), "it ignores SIGTERM")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K", "y")
    await stage.becomes(job, StateName.STOPPING)
    state = stage.job(job).state
    assert isinstance(state, Stopping)
    clock = {"now": state.deadline - 20}
    stage.main.now = lambda: clock["now"]
    await stage.press("K")
    await stage.shows("SIGKILL in 0:20")
    clock["now"] += 15
    await stage.shows("SIGKILL in 0:05")


@on_stage(lanes=1)
async def test_a_waiting_job_can_be_killed_too(stage: Stage) -> None:
    [job] = await stage.add("true", hold=True)
    await stage.press("K", "y")
    await stage.becomes(job, StateName.KILLED)
    await stage.press("K")
    await stage.told("#0 is not running and does not wait")


@on_stage()
async def test_suspend_asks_and_the_same_key_lets_it_go_on(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("S")
    await stage.shows("Its GPU memory stays taken")
    await stage.press("S")
    await stage.becomes(job, StateName.SUSPENDED)
    await stage.shows("S Continue")
    await stage.press("S")
    await stage.becomes(job, StateName.RUNNING)


@on_stage(lanes=1)
async def test_back_to_the_queue_ends_the_attempt_and_queues_the_job(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("p")
    await stage.press("B")
    await stage.shows("checkpoint folder stays")
    await stage.press("enter")
    await stage.becomes(job, StateName.QUEUED)
    assert stage.job(job).issued == 1
    await stage.press("S")
    await stage.told("#0 is not running")


@on_stage(lanes=3)
async def test_the_marked_are_meant_and_those_out_of_view_are_counted(stage: Stage) -> None:
    jobs = await stage.add(LONG, LONG, LONG)
    await stage.becomes(jobs[2], StateName.RUNNING)
    await stage.press("g", "*", "/", *"#0", "enter")
    assert stage.shown == [0]
    await stage.shows("3 marked, 2 of them not in this view")
    await stage.press("K")
    await stage.shows("2 of them are not in this view")
    await stage.press("y")
    for job in jobs:
        await stage.becomes(job, StateName.KILLED)
    assert stage.table.marks == set()


@on_stage(size=(80, 24))
async def test_a_log_written_by_a_job_is_kept_when_it_is_killed(stage: Stage) -> None:
    [job] = await stage.add(f"echo precious; {LONG}")
    await stage.shows("precious")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K", "K")
    await stage.becomes(job, StateName.KILLED)
    files = stage.app.bridge.files(stage.job(job), 1)
    assert files is not None
    assert Path(files.out).read_text() == "precious\n"


@on_stage(lanes=1)
async def test_putting_back_says_when_the_job_would_only_start_again_at_once(stage: Stage) -> None:
    again = "Nothing waits before #0: starts again at once (p pauses first)."
    [running] = await stage.add(LONG)
    await stage.becomes(running, StateName.RUNNING)
    await stage.press("B")
    await stage.shows(again)
    await stage.press("escape", "p")
    await stage.until(lambda: stage.main.snapshot.mode is Mode.PAUSED, "it is paused")
    await stage.press("B")
    await stage.shows("waits again at its place")
    assert again not in stage.text
    await stage.press("escape", "p")
    await stage.until(lambda: stage.main.snapshot.mode is Mode.RUNNING, "it goes on")
    await stage.add("true", priority=90)
    await stage.press("B")
    await stage.shows("waits again at its place")
    assert again not in stage.text, "another job is before it in the line"
