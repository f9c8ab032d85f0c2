"""Filter, tabs, sort order, zoom, columns: what the queue shows."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from support.app import LONG, Stage, on_stage
from support.sessions import simulated_slots, spec
from textual.widgets import Input

from gputui.core.events import Pause, Resume
from gputui.core.job import StateName
from gputui.session.control.handlers import Details
from gputui.session.saved_state import load_order, save_order
from gputui.tui.dialogs.choosers import sort_letters
from gputui.tui.layout import Pane
from gputui.tui.queue import table
from gputui.tui.queue.rows import PARAMETER, QUEUE_ORDER, TIME, Tab

LR = PARAMETER + "lr"


def tab(stage: Stage) -> Tab:
    return stage.table.rows.tab


def lit(stage: Stage) -> str:
    """The tab that stands out in the title, as it is painted."""
    strips = stage.screen._compositor.render_strips(stage.app.size)
    title = next(strip for strip in strips if "2 Queue" in strip.text)
    [found] = [word for part in title if part.style is not None and part.style.bold and not part.style.underline
               for word in part.text.split() if word in list(Tab)]  # fmt: skip
    return found


def zoomed(stage: Stage) -> Pane | None:
    return stage.main.zoomed


def columns(stage: Stage) -> list[tuple[str, int]]:
    return [(column.title, column.width) for column in stage.table.current_layout().columns]


@on_stage(slots=1)
async def test_a_filter_applies_while_typing_and_escape_clears_it(stage: Stage) -> None:
    await stage.add("train resnet", "train vit", "eval resnet", hold=True)
    await stage.press("/", *"res")
    assert stage.shown == [0, 2]
    await stage.press("enter")
    assert stage.shown == [0, 2]
    await stage.shows("/res: 2 shown")
    assert stage.app.focused is stage.table
    await stage.press("j")
    assert stage.table.cursor == 2
    await stage.press("/")
    assert stage.main.query_one("#filter", Input).value == "res", "the filter can be gone on with"
    await stage.type(" !eval")
    assert stage.shown == [0]
    await stage.press("escape")
    assert stage.shown == [0, 1, 2]
    await stage.shows("? Help")
    await stage.press("/", *"vit", "enter", "escape")
    assert stage.shown == [0, 1, 2]
    await stage.press("/", *"zzz", "enter")
    await stage.shows("no matches: Esc to show all")
    await stage.press("h", "enter", "y", "K")
    await stage.told("no job selected")
    assert stage.state(0) is StateName.HELD


@on_stage(slots=1, settings={"pause_after": 0})
async def test_tabs_turn_with_the_arrows_and_escape_goes_back_to_all(stage: Stage) -> None:
    [good, bad, running] = await stage.add("true", "exit 1", LONG)
    await stage.becomes(running, StateName.RUNNING)
    seen = []
    for _ in Tab:
        await stage.press("right")
        assert lit(stage) == tab(stage)
        seen.append((tab(stage), sorted(stage.shown)))
    assert seen == [
        (Tab.ACTIVE, [running]),
        (Tab.FAILED, [bad]),
        (Tab.DONE, [good]),
        (Tab.ALL, [good, bad, running]),
    ]
    await stage.press("left")
    assert tab(stage) is Tab.DONE
    await stage.press("escape")
    assert tab(stage) is Tab.ALL


@on_stage(size=(200, 40))
async def test_s_sorts_by_the_column_of_a_letter_and_s_s_restores_the_queue_order(stage: Stage) -> None:
    await stage.add(
        *(spec("train", cwd=str(stage.directory), hold=True, params={"lr": value}, priority=30 + number)
          for number, value in enumerate(["10", "9", "1e-2"]))
    )  # fmt: skip
    assert stage.shown == [2, 1, 0]
    for letter, sort, first, then in (("i", "id", [0, 1, 2], [2, 1, 0]), ("l", LR, [2, 1, 0], [0, 1, 2])):
        await stage.press("s")
        await stage.shows("Sort by")
        await stage.press(letter)
        await stage.back_on_main()
        assert (stage.table.rows.sort, stage.shown) == (sort, first)
        await stage.press("s", letter)
        assert (stage.table.rows.sort, stage.shown) == (sort, then)
    await stage.press("s", "escape")
    assert stage.table.rows.sort == LR
    await stage.press("s", "s")
    assert (stage.table.rows.sort, stage.shown) == (QUEUE_ORDER, [2, 1, 0])


@on_stage(size=(80, 24))
async def test_s_lists_every_letter_on_a_narrow_screen(stage: Stage) -> None:
    params = {"learning_rate": "0", "batch_size": "0", "model": "0", "optimizer": "0", "weight_decay": "0"}
    await stage.add(
        *(spec("train", cwd=str(stage.directory), hold=True, params=dict.fromkeys(params, value)) for value in "12")
    )
    await stage.press("s")
    letters = sort_letters(stage.table.current_layout().columns)
    shown = " ".join(" ".join(stage.lines()).split())
    assert all(f"{letter.key} {letter.title}" in shown for letter in letters)
    assert len(" ".join(f"{letter.key} {letter.title} " for letter in letters)) > 80, "more than one line"
    assert "again: reverse" in shown
    await stage.press("s")
    await stage.back_on_main()


@on_stage(size=(200, 40))
async def test_a_long_queue_is_sorted_in_slices_and_the_newest_order_wins(stage: Stage) -> None:
    await stage.add("train --lr 3", "train --lr 1", "train --lr 2", hold=True)
    with patch.object(table, "LONG", 0):
        stage.table.set_view(sort="id")
        assert stage.table.rows.sort == QUEUE_ORDER, "nothing is sorted at once"
        stage.table.set_view(sort=QUEUE_ORDER)
        await stage.until(lambda: not any(each.group == "sort" for each in stage.app.workers), "the sort has ended")
        assert stage.table.rows.sort == QUEUE_ORDER
        stage.table.set_view(sort=LR)
        await stage.until(lambda: stage.table.rows.sort == LR, "it is sorted")
        assert stage.shown == [1, 2, 0]
        stage.table.move_to(0)
        stage.table.sort_by(LR)
        assert stage.table.rows.reverse, "the order of the same column is only turned"
        stage.table.sort_by("id")
        await stage.until(lambda: stage.table.rows.sort == "id", "it is sorted")
        assert (stage.shown, stage.table.cursor) == ([0, 1, 2], 0)


@on_stage()
async def test_a_short_queue_has_no_scroll_bar_even_after_a_banner_has_appeared(stage: Stage) -> None:
    await stage.add("train --lr 3", "train --lr 1", hold=True)
    await stage.command(Pause())
    await stage.shows("PAUSED  by you")
    assert stage.table.scroll_offset.y == 0
    assert not stage.table.show_vertical_scrollbar


@pytest.mark.parametrize("count", [8, 12, 30])
def test_no_row_is_hidden_above_while_there_are_blank_rows_below(count: int, tmp_path: Path) -> None:
    """Whatever changes: the cursor, the rows, the banner or the size."""

    @on_stage(size=(120, 40))
    async def body(stage: Stage) -> None:
        table = stage.table

        async def check(what: str) -> None:
            await stage.settle()
            assert table.scroll_offset.y <= max(0, len(table.rows) - (table.size.height - 1)), what

        await stage.add(*["true"] * count, hold=True)
        for row in (0, 3, count - 1):
            for banner in (Pause(), Resume(), Pause()):
                await stage.go_to(stage.line[row])
                await stage.command(banner)
                await check(f"{banner} with the cursor in row {row}")
                for height in (24, 60, 32, 40):
                    await stage.pilot.resize_terminal(120, height)
                    await check(f"{height} lines with the cursor in row {row}")
            await stage.press("end")
            for tab in (Tab.FAILED, Tab.ACTIVE, Tab.ALL):
                table.set_view(tab=tab)
                await check(tab)
            await stage.command(Resume())

    body(tmp_path)


@on_stage(size=(200, 40))
async def test_a_click_on_a_heading_sorts_by_it_and_again_reverses(stage: Stage) -> None:
    await stage.add("train --lr 2", "train --lr 1", hold=True, priority=50)
    header = stage.table.render_line(0).text
    for reverse in (False, True, False):
        await stage.pilot.click("#table", offset=(header.index(" lr ") + 1, 0))
        assert (stage.table.rows.sort, stage.table.rows.reverse) == (LR, reverse)


@on_stage(size=(80, 24))
async def test_a_click_takes_the_cursor_there_and_a_double_click_opens_it(stage: Stage) -> None:
    await stage.add("echo one", "echo two", hold=True)
    await stage.pilot.click("#table", offset=(10, 2))
    assert stage.table.cursor == 1
    await stage.pilot.double_click("#table", offset=(10, 1))
    await stage.shows("History")
    assert "#0" in stage.text
    await stage.press("escape")
    await stage.back_on_main()


@on_stage(size=(120, 40))
async def test_zoom_gives_a_pane_the_whole_screen_and_back(stage: Stage) -> None:
    await stage.add("true", hold=True)
    await stage.press("z")
    assert zoomed(stage) is Pane.QUEUE
    main = stage.main
    others = main.frames[Pane.LOG], main.frames[Pane.GPUS]
    await stage.until(lambda: not any(frame.display for frame in others), "the queue is alone")
    await stage.press("tab")
    assert zoomed(stage) is Pane.LOG, "another pane is zoomed in its place"
    await stage.until(lambda: stage.main.log_pane.size.width > 110, "the log is alone")
    await stage.press("escape")
    assert zoomed(stage) is None
    await stage.press("1", "z")
    await stage.until(lambda: stage.main.gpus.size.height > 30, "the GPUs are alone")
    await stage.press("z", "2")
    await stage.until(lambda: all(frame.display for frame in others), "all are back")


@on_stage(slots=1)
async def test_the_cursor_stays_on_its_job_while_others_change(stage: Stage) -> None:
    jobs = await stage.add("true", "true", "true", LONG)
    await stage.go_to(jobs[3])
    await stage.becomes(jobs[3], StateName.RUNNING)
    assert stage.table.cursor == jobs[3]
    assert stage.shown[0] == jobs[3]
    await stage.add("true", priority=99)
    assert stage.table.cursor == jobs[3]


@on_stage(size=(200, 40), slots=1)
async def test_rows_show_progress_or_why_a_job_waits(
    stage: Stage,
) -> None:
    await stage.add(f"printf ' 61%%|######    | 61/100 [00:01<00:01]\\r' >&2; {LONG}")
    await stage.add("true", name="first")
    await stage.add(spec("true", cwd=str(stage.directory), name="last", after=("first",)))
    await stage.until(lambda: "━━━━━━────  61%" in stage.text, "its row tells how far it is")
    await stage.shows("waiting for #1 (queued)")
    await stage.press("j")
    await stage.until(lambda: "waiting for a slot" in stage.text, "in place of the log of a job without one")
    rows = "\n".join(stage.table.render_line(y).text for y in range(4))
    assert "waiting for a slot" not in rows, "that is just the line"


@on_stage(size=(160, 40))
async def test_removed_jobs_leave_no_columns(stage: Stage) -> None:
    await stage.add("train --lr 1", "train --lr 2", hold=True, group="g")
    await stage.add("make a", "make b", hold=True, group="other")
    [swept] = await stage.add("train --lr 3 --bs 9", hold=True, group="g", params={"lr": "3", "bs": "9"})
    await stage.shows("bs")
    for job in (2, 3, swept):
        await stage.go_to(job)
        await stage.press("D", "y")
    await stage.until(lambda: stage.shown == [0, 1], "they are off the list")
    await stage.until(lambda: "bs" not in stage.table.render_line(0).text, "the column is gone")
    assert stage.table.render_line(0).text.split()[:3] == ["id", "state", "lr"]
    assert stage.table.parameters.common() == "train"


@on_stage(slots=1)
async def test_sorting_by_time_follows_the_running_jobs(stage: Stage) -> None:
    short, long = "sleep 0.01", "sleep 0.6"
    await stage.add(long, short, long.replace("6", "9"), LONG)
    await stage.becomes(3, StateName.RUNNING)
    stage.table.set_view(sort=TIME, reverse=False)
    assert [job for job in stage.shown if job != 3] == [1, 0, 2], "not the order in which they started"
    await stage.until(lambda: stage.shown == [1, 0, 2, 3], "what runs goes on in the order as time passes")
    await stage.press("s", "t")
    assert stage.shown == [3, 2, 0, 1]


@on_stage(slots=1, size=(170, 40))
async def test_with_enough_room_there_is_a_pid_column(stage: Stage) -> None:
    await stage.add(f"{LONG} 1")
    await stage.until(lambda: stage.snapshot.running == 1, "it runs")
    await stage.press("z")
    asked: list[Details] = []

    def ask() -> bool:
        stage.main.bridge.details(0, asked.append)
        return bool(asked and asked[-1].pid)

    await stage.until(ask, "its pid is known")
    await stage.until(lambda: f"{asked[-1].pid}" in stage.text, "the pid of the command")
    assert columns(stage)[-1][0] == "pid"
    await stage.press("z")
    await stage.until(lambda: "pid" not in dict(columns(stage)), "beside a log the room is the log's")


@on_stage(slots=1)
async def test_the_sort_order_is_saved_with_the_session(stage: Stage) -> None:
    await stage.add("train --lr 0.1", "train --lr 0.01", hold=True)
    owner = stage.main.bridge.owner
    assert owner is not None
    await stage.press("s", "l")
    await stage.until(lambda: load_order(owner.paths.private) == (LR, False), "it is kept")
    await stage.press("s", "l")
    await stage.until(lambda: load_order(owner.paths.private) == (LR, True), "and turned round")
    stage.table.set_view(sort=QUEUE_ORDER, reverse=False)
    save_order(owner.paths.private, LR, reverse=True)
    stage.main.restore_order()
    assert (stage.table.rows.sort, stage.table.rows.reverse) == (LR, True)
    save_order(owner.paths.private, "no such column", reverse=False)
    stage.main.restore_order()
    assert stage.table.rows.sort == LR, "an unknown column is ignored"


@on_stage(slots=1, size=(80, 24))
async def test_a_long_filter_is_cut_and_its_count_is_shown(stage: Stage) -> None:
    await stage.add("train resnet --lr 0.1", "train resnet --lr 0.01", hold=True)
    await stage.press("/", *"state:held lr=0.1 train resnet", "enter")
    await stage.shows("…: 1 shown")


@on_stage(slots=simulated_slots(2), size=(160, 40))
async def test_columns_stay_while_jobs_run_and_change_with_jobs_metrics_and_size(stage: Stage) -> None:
    gates = [stage.directory / f"gate{number}" for number in range(4)]
    then = ["true", "exit 3", "echo val_loss=0.5", "true"]
    for number in range(4):
        script = f"until test -e {gates[number]}; do sleep 0.01; done; {then[number]}"
        (stage.directory / f"lr{number}.sh").write_text(script)
    (stage.directory / "train").write_text('. "./lr$2.sh"')
    await stage.add(*(f"sh train --lr {number} --model resnet{number} --optimizer adam{number}" for number in range(4)))
    await stage.becomes(1, StateName.RUNNING)
    before = columns(stage)
    await stage.go_to(3)
    await stage.press("-")
    await stage.until(lambda: stage.job(3).priority == 20, "it is less urgent")
    gates[0].touch()
    await stage.becomes(0, StateName.SUCCEEDED)
    gates[1].touch()
    await stage.becomes(1, StateName.FAILED)
    await stage.press("right", "right", "left", "left", "g", "G")
    await stage.settle()
    assert columns(stage) == before
    gates[2].touch()
    await stage.until(lambda: ("val_loss", 8) in columns(stage), "a metric has a column")
    [bare] = await stage.add("sleep 100 && echo nothing in particular")
    await stage.until(lambda: bare in stage.shown, "it is there")
    assert "job" not in [title for title, _ in columns(stage)], "no column for a single job"
    await stage.shows("sleep 100 echo nothin")
    await stage.pilot.resize_terminal(110, 40)
    await stage.until(lambda: "pri" in dict(columns(stage)), "priorities differ by now")
    assert "last" not in dict(columns(stage)), "there is less room"
    gates[3].touch()


TRAINING = """\
for epoch in 1 2 3 4 5 6 7 8; do echo "epoch $epoch/10 val_loss: $1.$((9 - epoch))"; done
test -z "$2" || until test -e "$2"; do sleep 0.01; done
"""


@on_stage(slots=1)
async def test_runs_behind_their_siblings_have_a_sign_a_filter_and_an_explanation(stage: Stage) -> None:
    (stage.directory / "train.sh").write_text(TRAINING)
    gate = stage.directory / "gate"
    await stage.add(*(f"sh train.sh {level}" for level in (0, 0, 1, 1, 1)))
    for job in range(5):
        await stage.until(lambda job=job: job in stage.snapshot.results, f"#{job} has results")  # type: ignore[misc]
    await stage.add(f"sh train.sh 4 {gate}", "echo waits")
    await stage.until(lambda: 5 in stage.snapshot.behind, "it is behind")
    await stage.shows("« 4.1000")
    await stage.press("/", *"behind", "enter")
    assert stage.shown == [5]
    await stage.press("*")
    assert stage.table.marks == {5}
    await stage.press("m")
    await stage.shows("« #5 is behind at step 8: val_loss 4.1000; median of 5 similar runs 1.1000")
    await stage.press("escape", "escape", "escape")
    await stage.press("/", *"!behind", "enter")
    assert 5 not in stage.shown
    assert len(stage.shown) == 6
    gate.touch()
    await stage.until(lambda: not stage.snapshot.behind, "an ended run is not behind")
    await stage.shows("7 shown")
