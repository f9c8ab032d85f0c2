"""Filter, tabs, order, zoom and the way back: what is shown changes, the session does not."""

from __future__ import annotations

from support.stage import LONG, Stage, on_stage, spec
from textual.widgets import Input

from gputui.core.job import StateName
from gputui.tui.model.arrangement import Pane
from gputui.tui.model.rows import PARAMETER, QUEUE_ORDER, TIME, Tab

LR = PARAMETER + "lr"


def tab(stage: Stage) -> Tab:
    return stage.table.rows.tab


def lit(stage: Stage) -> str:
    """The tab that stands out in the title, as it is painted."""
    strips = stage.screen._compositor.render_strips(stage.app.size)
    title = next(strip for strip in strips if "2 Queue" in strip.text)
    [found] = [part.text for part in title if part.style is not None and part.style.bold and part.text in list(Tab)]
    return found


def zoomed(stage: Stage) -> Pane | None:
    return stage.main.places.zoomed


@on_stage(lanes=1)
async def test_a_filter_works_while_one_types_and_escape_takes_it_away(stage: Stage) -> None:
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
    await stage.shows("nothing matches: esc shows all")
    await stage.press("h", "enter", "y", "K")
    await stage.told("there is no job here")
    assert stage.state(0) is StateName.HELD


@on_stage(lanes=1, settings={"pause_after": 0})
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
        (Tab.DONE, [good, bad]),
        (Tab.ALL, [good, bad, running]),
    ]
    await stage.press("left")
    assert tab(stage) is Tab.DONE
    await stage.press("escape")
    assert tab(stage) is Tab.ALL


@on_stage(size=(200, 40))
async def test_s_sorts_by_each_column_up_and_down_and_a_click_on_a_title_too(stage: Stage) -> None:
    await stage.add(
        *(spec("train", str(stage.folder), hold=True, params={"lr": value}, priority=30 + number)
          for number, value in enumerate(["10", "9", "1e-2"]))
    )  # fmt: skip
    assert stage.shown == [2, 1, 0]
    orders = []
    for _ in range(11):
        await stage.press("s")
        orders.append((stage.table.rows.sort, stage.shown))
    up, down = [0, 1, 2], [2, 1, 0]
    columns = [("id", up, down), ("state", up, down), ("pri", down, up), (TIME, up, up), (LR, down, up)]
    assert orders == [
        *((column, shown) for column, first, then in columns for shown in (first, then)),
        (QUEUE_ORDER, down),
    ]
    header = stage.table.render_line(0).text
    for wanted in (("pri", False), ("pri", True), (QUEUE_ORDER, False)):
        await stage.pilot.click("#table", offset=(header.index("pri"), 0))
        assert (stage.table.rows.sort, stage.table.rows.reverse) == wanted


@on_stage(size=(80, 24))
async def test_a_click_takes_the_cursor_there_and_a_double_click_opens_it(stage: Stage) -> None:
    await stage.add("echo one", "echo two", hold=True)
    await stage.pilot.click("#table", offset=(10, 2))
    assert stage.table.cursor == 1
    await stage.pilot.double_click("#table", offset=(10, 1))
    await stage.shows("Story")
    assert "#0" in stage.text
    await stage.press("escape")
    await stage.back_on_main()


@on_stage(size=(120, 40))
async def test_zoom_gives_a_pane_the_whole_screen_and_back(stage: Stage) -> None:
    await stage.add("true", hold=True)
    await stage.press("z")
    assert zoomed(stage) is Pane.QUEUE
    await stage.until(lambda: not stage.main.log_pane.display and not stage.main.gpus.display, "the queue is alone")
    await stage.press("tab")
    assert zoomed(stage) is Pane.LOG, "another pane is zoomed in its place"
    await stage.until(lambda: stage.main.log_pane.size.width > 110, "the log is alone")
    await stage.press("escape")
    assert zoomed(stage) is None
    await stage.press("1", "z")
    await stage.until(lambda: stage.main.gpus.size.height > 30, "the GPUs are alone")
    await stage.press("z", "2")
    await stage.until(lambda: stage.main.log_pane.display and stage.main.gpus.display, "all are back")


@on_stage(lanes=1)
async def test_the_cursor_stays_on_its_job_while_others_come_and_go(stage: Stage) -> None:
    jobs = await stage.add("true", "true", "true", LONG)
    await stage.go_to(jobs[3])
    await stage.becomes(jobs[3], StateName.RUNNING)
    assert stage.table.cursor == jobs[3]
    assert stage.shown[0] == jobs[3]
    await stage.add("true", priority=99)
    assert stage.table.cursor == jobs[3]


@on_stage(size=(200, 40), lanes=1)
async def test_rows_of_running_jobs_tell_progress_and_waiting_ones_why(stage: Stage) -> None:
    await stage.add(f"printf ' 61%%|######    | 61/100 [00:01<00:01]\\r' >&2; {LONG}", "true", name="train")
    await stage.until(lambda: " 61% train" in stage.text, "its row tells how far it is")
    await stage.shows("needs a lane")
    await stage.press("j")
    await stage.until(lambda: stage.text.count("needs a lane") == 2, "in place of the log of a job without one, too")


@on_stage(size=(160, 40))
async def test_removed_jobs_leave_neither_columns_nor_a_spoilt_title(stage: Stage) -> None:
    await stage.add("train --lr 1", "train --lr 2", hold=True, group="g")
    await stage.add("make a", "make b", hold=True, group="other")
    [swept] = await stage.add("train --lr 3 --bs 9", hold=True, group="g", params={"lr": "3", "bs": "9"})
    await stage.shows("bs")
    assert "train --lr …" not in stage.text
    for job in (2, 3, swept):
        await stage.go_to(job)
        await stage.press("D", "y")
    await stage.until(lambda: stage.shown == [0, 1], "they are off the list")
    await stage.shows("train --lr …")
    assert "bs" not in stage.table.render_line(0).text
    assert "lr=1" in stage.text


@on_stage(lanes=1)
async def test_sorted_by_time_the_jobs_are_in_the_order_of_what_that_column_shows(stage: Stage) -> None:
    short, long = "sleep 0.01", "sleep 0.6"
    await stage.add(long, short, long.replace("6", "9"), LONG)
    await stage.becomes(3, StateName.RUNNING)
    stage.table.set_view(sort=TIME, reverse=False)
    assert stage.shown[:3] in ([1, 0, 2], [3, 1, 0], [1, 3, 0]), "not the order in which they began"
    await stage.until(lambda: stage.shown == [1, 0, 2, 3], "what runs goes on in the order as time passes")
    await stage.press("s")
    assert stage.shown == [3, 2, 0, 1]
