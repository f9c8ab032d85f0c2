"""`F`: failed jobs by crash, and keys that rerun, change or hold a whole kind of them."""

from __future__ import annotations

from support.stage import HELD, Stage, on_stage

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
    """Two jobs with bs 256 that crashed alike, one that crashed otherwise, and some that wait."""
    (stage.folder / "train.py").write_text(PROGRAM)
    await stage.command(Settings(pause_after=0))
    await stage.add(train(256, "a", 1), train(256, "a", 2), "exit 7", train(64, "a"))
    await stage.until(lambda: stage.snapshot.count(StateName.FAILED) == 3, "three have failed")
    await stage.becomes(3, StateName.SUCCEEDED)
    for number in range(waiting):
        await stage.add(train(256 if number % 2 else 64, "b", number), not_before=9e9)
    await stage.press("F")
    view = stage.screen
    assert isinstance(view, FailuresView)
    await stage.shows("2 ×")
    while view.group is None or view.group.count != 2:
        await stage.press("j")
    return view


@on_stage()
async def test_kinds_are_shown_with_a_true_message_what_is_shared_and_the_failing_line(stage: Stage) -> None:
    await failed(stage)
    text = stage.text
    assert "3 jobs in 2 kinds" in text
    assert f"2 × {ERROR}" in text
    assert "all bs=256" in text
    assert "train.py:7 step" in text
    assert "go(bs)" in text
    assert "1 × exit code 7" in text


@on_stage()
async def test_r_runs_the_whole_kind_again_and_nothing_else(stage: Stage) -> None:
    await failed(stage)
    (stage.folder / "train.py").write_text("")
    await stage.press("r")
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.becomes(1, StateName.SUCCEEDED)
    assert [len(stage.job(job).attempts) for job in range(3)] == [2, 2, 1]


@on_stage()
async def test_only_the_marked_jobs_of_a_kind_are_run_again(stage: Stage) -> None:
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
    await stage.shows("nothing changes yet")
    await stage.press("backspace", "backspace", "backspace", "8")
    await stage.shows("2 of 2 change")
    await stage.shows("enter reruns 2")
    await stage.press("enter")
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.becomes(1, StateName.SUCCEEDED)
    assert [stage.job(job).spec.command for job in (0, 1)] == [train(8, "a", 1), train(8, "a", 2)]


@on_stage()
async def test_an_edit_that_breaks_a_command_or_changes_nothing_is_refused_in_a_sentence(stage: Stage) -> None:
    await failed(stage)
    await stage.press("e", "enter")
    await stage.shows("nothing changes yet")
    await stage.press("'")
    await stage.shows("a quotation mark would be left open in #")
    await stage.press("backspace", "(", "enter")
    await stage.shows("would be broken: ")
    await stage.press("ctrl+a", "ctrl+k", "shift+tab", "X")
    await stage.shows("none of the 2 commands holds")
    await stage.press("escape", "escape")
    await stage.back_on_main()
    assert [len(stage.job(job).attempts) for job in (0, 1)] == [1, 1]


@on_stage()
async def test_h_holds_the_waiting_jobs_that_share_what_the_kind_shares(stage: Stage) -> None:
    view = await failed(stage, waiting=4)
    assert view.group is not None
    assert view.group.common.told == "bs=256 data=a"
    await stage.press("h")
    await stage.told("no job that is not held waits with bs=256 data=a")
    await stage.add(train(256, "a", 9), train(256, "a", 10), not_before=9e9)
    await stage.shows("Hold 2 alike")
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
    await stage.until(lambda: stage.main.places.zoomed is Pane.LOG, "the log fills the screen")
    assert stage.table.cursor == job
    await stage.shows(ERROR)


@on_stage()
async def test_the_cursor_stays_on_its_kind_when_a_newer_one_comes(stage: Stage) -> None:
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


@on_stage(size=(80, 24))
async def test_a_narrow_screen_with_room_shows_the_jobs_above_the_traceback(stage: Stage) -> None:
    await failed(stage)
    await stage.until(lambda: "go(bs)" in stage.text and "seed" in stage.text, "both are there")
    text = stage.text
    assert text.index("seed") < text.index("go(bs)") < text.index(ERROR, text.index("go(bs)"))
    await stage.press("tab", "j")
    await stage.until(lambda: "go(bs)" in stage.text, "keys go to the jobs, nothing is hidden")


@on_stage()
async def test_without_failures_it_says_so(stage: Stage) -> None:
    await stage.add("true", **HELD)
    await stage.press("F")
    await stage.shows("no job has failed")
    await stage.press("r", "e", "h", "l", "j", "tab", "space", "escape", "escape")
    await stage.back_on_main()


@on_stage(lanes=1)
async def test_of_a_kind_that_is_run_again_one_is_tried_first_and_the_others_wait_for_it(stage: Stage) -> None:
    await stage.add(*(f"exit 1 # {number}" for number in range(3)), "true")
    await stage.until(lambda: stage.snapshot.count(StateName.FAILED) == 3, "three have failed alike")
    await stage.press("F")
    await stage.shows("Rerun 3, one first")
    await stage.press("r")
    await stage.told("3 jobs queued again, #2 is tried first")
    await stage.until(lambda: sum(len(stage.job(job).attempts) == 2 for job in range(3)) == 1, "one has been tried")
    assert sum(stage.state(job) is StateName.QUEUED for job in range(3)) == 2
