"""`F`: failed jobs by error, and keys that rerun, edit or hold all jobs with an error."""

from __future__ import annotations

from support.app import HELD, Stage, on_stage

from gputui.core.events import Settings
from gputui.core.job import StateName
from gputui.tui.layout import Pane
from gputui.tui.views.failures import FailuresView

ERROR = "ValueError: no such size"
TRACE = f'Traceback (most recent call last):\n  File "train.py", line 7, in step\n    go(bs)\n{ERROR}'
PROGRAM = f"""import sys
if sys.argv[2] == '256' and sys.argv[4] == 'a':
    sys.stderr.write('''{TRACE}\n''')
    sys.exit(1)
"""


def train(bs: int, data: str, seed: int = 0) -> str:
    return f"python3 train.py --bs {bs} --data {data} --seed {seed}"


async def failed(stage: Stage, *, waiting: int = 0) -> FailuresView:
    """Two jobs with bs 256 and the same error, one with another error, and some waiting jobs."""
    (stage.directory / "train.py").write_text(PROGRAM)
    await stage.command(Settings(pause_after=0))
    await stage.add(train(256, "a", 1), train(256, "a", 2), "exit 7", train(64, "a"))
    await stage.until(lambda: stage.snapshot.count(StateName.FAILED) == 3, "three have failed")
    await stage.becomes(3, StateName.SUCCEEDED)
    for number in range(waiting):
        await stage.add(train(256 if number % 2 else 64, "b", number), not_before=9e9)
    await stage.press("F")
    view = await stage.opens(FailuresView)
    await stage.shows("2 ×")
    while view.group is None or view.group.count != 2:
        await stage.press("j")
    return view


@on_stage()
async def test_errors_are_shown_with_message_common_parameters_and_failing_line(stage: Stage) -> None:
    await failed(stage)
    wanted = ("3 jobs, 2 errors", f"2 × {ERROR}", "all bs=256", "train.py:7 step", "go(bs)", "1 × exit code 7")
    assert not [words for words in wanted if words not in stage.text]
    assert "4/4" in stage.lines()[0], "the header of the main screen"
    assert stage.lines()[-1].endswith("Esc Back  ? Help")


@on_stage()
async def test_r_reruns_all_jobs_with_the_error_and_no_other(stage: Stage) -> None:
    await failed(stage)
    (stage.directory / "train.py").write_text("")
    await stage.press("r")
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.becomes(1, StateName.SUCCEEDED)
    assert [len(stage.job(job).attempts) for job in range(3)] == [2, 2, 1]


@on_stage()
async def test_only_marked_jobs_are_rerun(stage: Stage) -> None:
    view = await failed(stage)
    await stage.press("tab", "space")
    (marked,) = view.marked
    await stage.press("r")
    await stage.until(lambda: len(stage.job(marked).attempts) == 2, "it ran again")
    assert len(stage.job(1 - marked).attempts) == 1


@on_stage()
async def test_rerun_with_an_edit_runs_what_the_preview_shows(stage: Stage) -> None:
    await failed(stage)
    await stage.press("e")
    await stage.shows("no change yet: enter a replacement")
    await stage.press("backspace", "backspace", "backspace", "8")
    await stage.shows("2 of 2 change")
    await stage.shows("Enter: rerun 2")
    await stage.press("enter")
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.becomes(1, StateName.SUCCEEDED)
    assert [stage.job(job).spec.command for job in (0, 1)] == [train(8, "a", 1), train(8, "a", 2)]


@on_stage()
async def test_an_edit_that_breaks_a_command_or_changes_nothing_is_refused(stage: Stage) -> None:
    await failed(stage)
    await stage.press("e", "enter")
    await stage.shows("no change yet: enter a replacement")
    await stage.press("'")
    await stage.shows("replace both quotes or none")
    await stage.press("backspace", "(", "enter")
    await stage.shows("would be invalid")
    await stage.press("ctrl+a", "ctrl+k", "shift+tab", "X")
    await stage.shows("none of the 2 commands contains")
    await stage.press("escape", "escape")
    await stage.back_on_main()
    assert [len(stage.job(job).attempts) for job in (0, 1)] == [1, 1]


@on_stage()
async def test_h_holds_waiting_jobs_with_the_common_parameters(stage: Stage) -> None:
    view = await failed(stage, waiting=4)
    assert view.group is not None
    assert view.group.common.parameters_text == "bs=256 data=a"
    await stage.press("h")
    await stage.told("no other waiting job has bs=256 data=a")
    await stage.add(train(256, "a", 9), train(256, "a", 10), not_before=9e9)
    await stage.shows("Hold 2 similar")
    await stage.press("h")
    await stage.becomes(8, StateName.HELD)
    await stage.becomes(9, StateName.HELD)
    assert stage.state(5) is StateName.DELAYED


@on_stage()
async def test_l_opens_the_log_at_the_error(stage: Stage) -> None:
    view = await failed(stage)
    job = view.job
    await stage.press("l")
    await stage.back_on_main()
    await stage.until(lambda: stage.main.zoomed is Pane.LOG, "the log fills the screen")
    assert stage.table.cursor == job
    await stage.shows(ERROR)


@on_stage()
async def test_the_cursor_stays_on_its_error_when_a_newer_one_appears(stage: Stage) -> None:
    view = await failed(stage)
    await stage.add("echo 'KeyError: 3' >&2; exit 3")
    await stage.shows("KeyError")
    assert view.group is not None
    assert view.group.message == ERROR


@on_stage(size=(80, 14))
async def test_a_low_narrow_screen_shows_the_traceback_or_the_jobs(stage: Stage) -> None:
    await failed(stage)
    await stage.shows("go(bs)")
    await stage.press("tab")
    await stage.until(lambda: "go(bs)" not in stage.text and "seed" in stage.text, "the jobs are there instead")
    assert all(len(line) <= 80 for line in stage.lines())


@on_stage()
async def test_without_failures_it_says_so(stage: Stage) -> None:
    await stage.add("true", **HELD)
    await stage.press("F")
    await stage.shows("no failed jobs")
    await stage.press("r", "e", "h", "l", "j", "tab", "space", "escape", "escape")
    await stage.back_on_main()
