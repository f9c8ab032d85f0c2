"""Rerunning jobs: one, or failed jobs by error, during a pause after errors or not."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage
from textual.widgets import SelectionList

from gputui.core.events import Mode, PauseKind
from gputui.core.job import StateName
from gputui.tui.dialogs.ask import Pick

NEEDS_TIMM = """test -e fixed || { echo "ModuleNotFoundError: No module named 'timm'" >&2; exit 1; }; echo trained"""


@on_stage(slots=1)
async def test_the_same_error_pauses_the_scheduler_and_one_key_reruns_the_jobs(stage: Stage) -> None:
    jobs = await stage.add(*(f"{NEEDS_TIMM} {number}" for number in range(3)), "echo later")
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "the breaker trips")
    cause = stage.snapshot.cause
    assert cause is not None
    assert cause.kind is PauseKind.CRASHES
    await stage.shows("3 jobs failed with the same error  ModuleNotFoundError: No module named 'timm'")
    await stage.shows("R Rerun the 3, one first   p Resume now   ! Go to error   F Failures: edit and rerun")
    await stage.shows("#3 ")
    await stage.shows("if it succeeds or runs for 1:00, all continue")
    await stage.press("!")
    await stage.until(lambda: stage.table.cursor == jobs[2], "the cursor is on the crash")
    await stage.shows("3 Log   #2")
    assert stage.state(jobs[3]) is StateName.QUEUED

    (stage.directory / "fixed").touch()
    await stage.press("R")
    assert isinstance(stage.screen, Pick)
    await stage.shows("3 × ModuleNotFoundError: No module named 'timm'   #0 #1 #2")
    await stage.shows("One runs first; the others start once it succeeds or runs for 1:00.")
    await stage.shows("Enter: rerun, one first")
    assert len(stage.screen.query_one(SelectionList).selected) == 1, "this pause is picked already"
    await stage.press("enter")
    await stage.told("3 jobs queued again, #0 runs first")
    for job in jobs:
        await stage.becomes(job, StateName.SUCCEEDED)
    assert [stage.job(job).issued for job in jobs] == [2, 2, 2, 1]
    assert stage.snapshot.mode is Mode.RUNNING
    await stage.until(lambda: "PAUSED" not in stage.text, "the banner is gone")


@on_stage(slots=1, size=(120, 40), settings={"probe": 0.0})
async def test_during_a_probe_reruns_start_after_it(stage: Stage) -> None:
    jobs = await stage.add(*("exit 1" for _ in range(3)), LONG)
    await stage.becomes(jobs[3], StateName.RUNNING)
    await stage.shows("probe: #3 ")
    await stage.shows("R Rerun the 3, after #3")
    await stage.press("R")
    await stage.shows("Probe #3 is running: they start once it succeeds or runs for 1:00.")
    await stage.shows("Enter: rerun, after #3")
    await stage.press("escape", "F")
    await stage.shows("Rerun 3, after #3")
    await stage.press("e")
    await stage.press("escape", "r")
    await stage.told("3 jobs queued again; they start once #3 succeeds or runs for 1:00")
    assert [stage.state(job) for job in jobs[:3]] == [StateName.QUEUED] * 3


@on_stage(slots=1)
async def test_R_twice_reruns_all_at_once(stage: Stage) -> None:
    jobs = await stage.add(*(f"{NEEDS_TIMM} {number}" for number in range(3)), "echo later")
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "the breaker trips")
    await stage.shows("failed with the same error")
    (stage.directory / "fixed").touch()
    await stage.press("R")
    await stage.press("R")
    for job in jobs:
        await stage.becomes(job, StateName.SUCCEEDED)
    assert len({stage.job(job).attempts[-1].number for job in jobs[:3]} | {2}) == 1


@on_stage(slots=1, settings={"pause_after": 0})
async def test_failed_jobs_are_grouped_by_error_and_only_picked_ones_rerun(stage: Stage) -> None:
    for key in ("!", "R"):
        await stage.press(key)
        await stage.told("no job has failed")
        stage.said.clear()
    await stage.add("echo ValueError: a; exit 1", "exit 3", "exit 3", "true")
    await stage.becomes(3, StateName.SUCCEEDED)
    await stage.press("p", "R")
    listed = stage.screen.query_one(SelectionList)
    assert listed.option_count == 2
    assert len(listed.selected) == 2, "without a pause all are picked"
    await stage.press("a", "space")
    await stage.until(lambda: len(listed.selected) == 1, "one group is picked")
    await stage.press("enter")
    await stage.told("2 jobs queued again")
    await stage.until(lambda: stage.job(2).issued == 2, "they run again, and the scheduler was resumed")
    assert stage.job(0).issued == 1
    await stage.press("R", "escape")
    await stage.back_on_main()


@on_stage(slots=1)
async def test_r_reruns_an_ended_job_and_asks_if_it_succeeded(stage: Stage) -> None:
    [failed, good, running] = await stage.add("exit 1", "true", LONG)
    await stage.becomes(running, StateName.RUNNING)
    await stage.go_to(running)
    await stage.press("r")
    await stage.told("has not ended; B requeues running jobs")
    await stage.go_to(good)
    await stage.press("r")
    await stage.shows("It succeeded. Rerunning makes a new attempt")
    await stage.press("escape")
    assert stage.state(good) is StateName.SUCCEEDED
    await stage.press("r", "y")
    await stage.becomes(good, StateName.QUEUED)
    await stage.go_to(failed)
    await stage.press("r")
    await stage.becomes(failed, StateName.QUEUED)
    assert [attempt.number for attempt in stage.job(failed).attempts] == [1], "the old attempt is kept"


@on_stage(slots=1)
async def test_resuming_without_rerunning_starts_the_other_jobs(stage: Stage) -> None:
    jobs = await stage.add("exit 1", "exit 1", "exit 1", "true")
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "the breaker trips")
    await stage.shows("PAUSED")
    await stage.press("p")
    await stage.becomes(jobs[3], StateName.SUCCEEDED)
    assert [stage.state(job) for job in jobs[:3]] == [StateName.FAILED] * 3


@on_stage(slots=1, size=(240, 40))
async def test_the_message_of_an_error_is_that_of_its_newest_job(stage: Stage) -> None:
    jobs = await stage.add(*(f"echo 'ValueError: bad shape {n}x128'; exit 1" for n in (61, 62, 63)), "true")
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "the breaker trips: they differ in numbers only")
    await stage.shows("3 jobs failed with the same error  ValueError: bad shape 63x128")
    await stage.shows("2 variants")
    for number in (61, 62, 63):
        await stage.shows(f"bad shape {number}x128")
    await stage.press("R")
    await stage.shows("[x] 3 × ValueError: bad shape 63x128   #0 #1 #2")
    await stage.press("space")
    await stage.shows("[ ] 3 × ValueError: bad shape 63x128")
    await stage.press("escape", "!", "enter")
    await stage.shows("attempt 1 failed: ValueError: bad shape 63x128")
    assert [stage.job(job).attempts[-1].reason for job in jobs[:2]] == [
        "ValueError: bad shape 61x128",
        "ValueError: bad shape 62x128",
    ]


@on_stage(slots=1, size=(120, 40))
async def test_a_pause_does_not_move_the_cursor_and_a_key_goes_to_the_error_and_back(
    stage: Stage,
) -> None:
    await stage.add(*(f"echo {number}" for number in range(40)), hold=True)
    await stage.go_to(20)
    line = next(y for y, text in enumerate(stage.lines()) if text.startswith("  20 "))
    jobs = await stage.add(*(f"{NEEDS_TIMM} {number}" for number in range(3)))
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "the breaker trips")
    await stage.shows("No module named 'timm'")
    assert stage.table.cursor == 20
    assert stage.lines()[line].startswith("  20 "), "on the line where it was"
    await stage.press("p")
    await stage.until(lambda: "PAUSED" not in stage.text, "the banner is gone")
    assert stage.lines()[line].startswith("  20 "), "and where it was before"
    await stage.press("/", "2", "enter", "!")
    assert stage.table.cursor == jobs[2]
    await stage.press("!")
    assert (stage.table.cursor, stage.table.rows.filter.written) == (20, "2")
