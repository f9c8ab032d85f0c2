"""A read-only screen: keys that would change something are refused and not offered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.app import LONG, Stage, on_stage

from gputui.core.events import Drain, Mode, Pause, Resume
from gputui.core.job import StateName
from gputui.tui.actions.table import ACTIONS
from gputui.tui.bridge import Way
from gputui.tui.dialogs.ask import Ask

ACTING = [action for action in ACTIONS if action.acts]


@on_stage(read_only=True)
async def test_no_key_changes_anything(stage: Stage) -> None:
    jobs = await stage.add(LONG, "true", "true", hold=False)
    await stage.becomes(jobs[2], StateName.SUCCEEDED)
    before = [(job.id, job.state, job.priority, job.position) for job in stage.snapshot]
    await stage.shows("read-only")
    stage.said.clear()
    for job in jobs:
        await stage.go_to(job)
        await stage.press(*[action.keys[0] for action in ACTING])
        await stage.settle()
        assert stage.screen is stage.main
    assert stage.said == ["this view is read-only"] * len(ACTING) * len(jobs)
    assert [(job.id, job.state, job.priority, job.position) for job in stage.snapshot] == before
    assert stage.snapshot.mode is Mode.RUNNING


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_no_banner_offers_a_key_that_is_refused(size: tuple[int, int], tmp_path: Path) -> None:
    @on_stage(read_only=True, size=size)
    async def history(stage: Stage) -> None:
        await stage.add(LONG, *(f"echo 'ValueError: no' >&2; exit 1 # {number}" for number in range(3)), "true")
        await stage.shows("failed with the same error" if size[0] > 100 else "3 jobs, same error")
        offered = re.compile(r"\b[Rp] (Rerun|Resume|rerun|resume)")
        assert not offered.search(stage.text), stage.text
        assert "Failures" in stage.text
        await stage.press("F")
        await stage.until(lambda: stage.screen is not stage.main and "ValueError" in stage.text, "they are listed")
        assert not offered.search(stage.text), stage.text
        await stage.press("escape")
        await stage.command(Resume(), Pause())
        await stage.shows("PAUSED")
        assert not offered.search(stage.text), stage.text
        await stage.command(Drain())
        await stage.shows("DRAINING")
        assert not offered.search(stage.text), stage.text

    history(tmp_path)


@on_stage(read_only=True)
async def test_only_reading_and_quitting_are_offered(stage: Stage) -> None:
    await stage.running()
    assert "Kill" not in stage.lines()[-1]
    assert "Details" in stage.lines()[-1]
    offered = " ".join(command.title for command in stage.app.get_system_commands(stage.main))
    assert "Kill" not in offered
    assert "Details" in offered
    await stage.press("enter")
    await stage.shows("History")
    assert "Kill" not in stage.lines()[-1]
    await stage.press("escape")
    await stage.back_on_main()
    await stage.press("1", "enter")
    await stage.until(lambda: stage.screen is not stage.main, "the device is shown")
    assert "drain" not in stage.text.lower()
    await stage.press("escape")
    await stage.back_on_main()
    await stage.press("2", "q")
    assert isinstance(stage.screen, Ask)
    assert [choice.value for choice in stage.screen.choices] == [Way.DETACH]
    await stage.press("s", "r")
    assert isinstance(stage.screen, Ask)
    await stage.press("enter")
    await stage.until(lambda: stage.app.return_value is Way.DETACH, "it leaves")
