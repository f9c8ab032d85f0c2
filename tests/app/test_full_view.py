"""A full-screen view has the main screen's header, its own keys, and follows changes."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage
from textual.app import ComposeResult
from textual.widgets import Static

from gputui.tui.actions.offered import offer
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import OfferedKeys
from gputui.tui.views.base import ALWAYS, FullView


class Listed(FullView):
    BINDINGS = view_bindings("listed", "kill", "help", "details")

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.main, "F", "Listed")
        self.text = Static(markup=False)

    def body(self) -> ComposeResult:
        yield self.text

    def renew(self) -> None:
        self.text.update(" ".join(f"{job.id}:{job.state.name}" for job in self.snapshot))

    def offers(self) -> OfferedKeys:
        return OfferedKeys([offer("kill")], always=ALWAYS)


@on_stage()
async def test_a_view_has_header_band_body_and_keys_and_follows_changes(stage: Stage) -> None:
    header = stage.lines()[0]
    view = Listed(stage)
    stage.main.open_view(view)
    await stage.until(lambda: stage.screen is view, "the view is open")
    await stage.add(LONG)
    await stage.shows("0:running")
    lines = stage.lines()
    assert lines[0].split()[:3] == header.split()[:3]
    assert lines[1].startswith(" F Listed")
    assert "K Kill" in lines[-1]
    assert lines[-1].endswith("Esc Back  ? Help")
