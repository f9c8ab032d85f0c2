"""Keys for priority, position, hold, removal and marks."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage

from gputui.core.job import StateName


async def has_line(stage: Stage, line: list[int]) -> None:
    await stage.until(lambda: stage.line == line, f"the line is {line}, not {stage.line}")


@on_stage()
async def test_priority_changes_in_steps_up_to_its_limit(stage: Stage) -> None:
    jobs = await stage.add(*["true"] * 3, hold=True)
    await stage.go_to(1)
    await stage.press("+")
    await stage.until(lambda: stage.job(1).priority == 40, "the priority is 40")
    assert stage.line == [1, 0, 2]
    assert stage.table.cursor == 1
    for wanted in (50, 60, 70, 80, 90, 99):
        await stage.press("+")
        await stage.until(lambda: stage.job(1).priority == wanted, f"the priority is {wanted}")  # noqa: B023
    await stage.press("-")
    await stage.until(lambda: stage.job(1).priority == 89, "the priority is 89")
    assert [stage.job(job).priority for job in jobs] == [30, 89, 30]


@on_stage()
async def test_rows_move_up_down_top_and_bottom(stage: Stage) -> None:
    await stage.add(*["true"] * 4, hold=True)
    await stage.go_to(1)
    for key, line in (("[", [1, 0, 2, 3]), ("]", [0, 1, 2, 3]), ("}", [0, 2, 3, 1]), ("{", [1, 0, 2, 3])):
        await stage.press(key)
        await has_line(stage, line)
        assert stage.table.cursor == 1
        assert stage.shown == line


@on_stage()
async def test_marked_jobs_move_together_and_stay_marked_for_the_next_press(stage: Stage) -> None:
    await stage.add(*["true"] * 4, hold=True)
    await stage.go_to(1)
    await stage.press("space", "space")
    assert stage.table.marks == {1, 2}
    await stage.press("{")
    await has_line(stage, [1, 2, 0, 3])
    for key, line in (("}", [0, 3, 1, 2]), ("[", [0, 1, 2, 3]), ("]", [0, 3, 1, 2])):
        await stage.press(key)
        await has_line(stage, line)
    await stage.press("+")
    await stage.until(lambda: [stage.job(job).priority for job in range(4)] == [30, 40, 40, 30], "both are raised")
    assert stage.table.marks == {1, 2}
    await stage.press("escape")
    assert stage.table.marks == set()


@on_stage()
async def test_the_view_follows_a_moved_job(stage: Stage) -> None:
    await stage.add(*["true"] * 100, hold=True)
    await stage.press("G")
    assert stage.table.cursor == 99
    await stage.press("{")
    await stage.until(lambda: stage.line[0] == 99, "it is first")
    assert stage.table.cursor == 99
    assert 99 in [job.id for job in stage.table.visible_jobs()]


@on_stage(slots=1)
async def test_h_holds_and_h_releases(stage: Stage) -> None:
    await stage.press("p")
    [job] = await stage.add("true")
    await stage.press("h")
    await stage.becomes(job, StateName.HELD)
    await stage.press("h")
    await stage.becomes(job, StateName.QUEUED)
    await stage.press("p")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.press("h")
    await stage.told("#0 is not waiting")
    await stage.press("]")
    await stage.told("#0 is not waiting, so it cannot be moved")
    await stage.press("+")
    await stage.told("#0 has ended; priority has no effect")


@on_stage()
async def test_remove_asks_and_keeps_the_files(stage: Stage) -> None:
    [job, other] = await stage.add("echo kept", LONG)
    await stage.becomes(job, StateName.SUCCEEDED)
    files = stage.app.bridge.files(stage.job(job), 1)
    assert files is not None
    await stage.go_to(job)
    await stage.press("D")
    await stage.shows("Removes it from the list. Files stay.")
    await stage.press("escape")
    assert not stage.job(job).archived
    await stage.press("delete", "y")
    await stage.until(lambda: stage.job(job).archived, "it is archived")
    with open(files.out) as out:
        assert out.read() == "kept\n"
    await stage.until(lambda: stage.shown == [other], "its row is gone")
    await stage.press("D")
    await stage.told(f"#{other} is running; kill it first (K)")


@on_stage()
async def test_marks_by_key_by_range_and_all(stage: Stage) -> None:
    await stage.add(*["true"] * 6, hold=True)
    await stage.press("g", "space")
    assert stage.table.marks == {0}
    assert stage.table.cursor == 1, "the cursor goes on, so that space space marks two"
    await stage.press("v", "j", "j", "v")
    assert stage.table.marks == {0, 1, 2, 3}
    await stage.press("j")
    assert stage.table.marks == {0, 1, 2, 3}, "the range was ended"
    await stage.press("*")
    assert stage.table.marks == set(range(6))
    await stage.press("*")
    assert stage.table.marks == set()
    await stage.press("v", "G")
    await stage.shows("2 marked")
    await stage.press("h")
    await stage.until(lambda: stage.state(5) is StateName.SUCCEEDED, "the marked are released")
    assert [stage.state(job) for job in range(4)] == [StateName.HELD] * 4


@on_stage()
async def test_moving_keys_move_the_cursor(stage: Stage) -> None:
    await stage.add(*["true"] * 200, hold=True)
    keys = {"j": 1, "down": 2, "k": 1, "up": 0, "G": 199, "g": 0, "end": 199, "home": 0}
    for key, job in keys.items():
        await stage.press(key)
        assert stage.table.cursor == job, key
    for key in ("ctrl+d", "pagedown"):
        before = stage.table.cursor
        await stage.press(key)
        assert before is not None
        assert stage.table.cursor is not None
        assert stage.table.cursor > before + 5
    await stage.press("pageup", "ctrl+u")
    assert stage.table.cursor == 0
