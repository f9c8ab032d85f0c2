"""A view that fills the screen has the main screen's header, its own keys, and hears of news."""

from __future__ import annotations

from support.stage import LONG, Stage, on_stage
from textual.app import ComposeResult
from textual.widgets import Static

from gputui.core.job import Job, StateName
from gputui.tui.action_table import view_bindings
from gputui.tui.chrome import OfferedKeys, offer
from gputui.tui.views.base import ALWAYS, FullView


class Listed(FullView):
    BINDINGS = view_bindings("listed", "kill", "help", "details")

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.main, "F", "Listed")
        self.text = Static(markup=False)
        self.subject: list[Job] = []

    def body(self) -> ComposeResult:
        yield self.text

    def renew(self) -> None:
        self.text.update(" ".join(f"{job.id}:{job.state.name}" for job in self.snapshot))

    def offers(self) -> OfferedKeys:
        return OfferedKeys([offer("kill")], always=ALWAYS)

    def chosen(self) -> list[Job]:
        return self.subject


async def opened(stage: Stage) -> Listed:
    view = Listed(stage)
    stage.main.open_view(view)
    await stage.until(lambda: stage.screen is view, "the view is there")
    return view


@on_stage()
async def test_a_view_has_the_header_its_band_its_body_and_its_keys(stage: Stage) -> None:
    await stage.add(LONG)
    await stage.becomes(0, StateName.RUNNING)
    header = stage.lines()[0]
    await opened(stage)
    await stage.shows("0:running")
    lines = stage.lines()
    assert lines[0].split()[:3] == header.split()[:3]
    assert lines[1].startswith(" F Listed")
    assert "K Kill" in lines[-1]
    assert lines[-1].endswith("Esc Back  ? Help")


@on_stage()
async def test_a_view_hears_of_news(stage: Stage) -> None:
    await opened(stage)
    await stage.add(LONG)
    await stage.shows("0:running")


@on_stage()
async def test_escape_q_and_ctrl_c_go_back_and_leave_nothing(stage: Stage) -> None:
    for key in ("escape", "q", "ctrl+c"):
        await opened(stage)
        await stage.press(key)
        await stage.back_on_main()
        assert stage.main.open_views == []


@on_stage()
async def test_an_action_of_the_main_screen_applies_to_what_the_view_chose(stage: Stage) -> None:
    await stage.add(LONG, LONG)
    await stage.becomes(1, StateName.RUNNING)
    view = await opened(stage)
    view.subject = [stage.main.snapshot[1]]
    await stage.press("K")
    await stage.shows("#1")
    await stage.press("enter")
    await stage.until(lambda: stage.screen is view, "the question is gone")
    await stage.until(lambda: stage.state(1) is StateName.KILLED, "#1 is killed")
    assert stage.state(0) is StateName.RUNNING
