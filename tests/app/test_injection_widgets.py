"""Nothing a job or a user is called can act: no markup, no escape sequence in any line of any pane or dialog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import evening
from support.app import GIB, FixedBridge, Stage, gpu, held, job, on_stage, picture, process, running
from support.sessions import spec
from textual.widgets import Static, TextArea

from gputui.core.job import Failed, Job, StateName
from gputui.gpus.picture import DevicesPicture
from gputui.logs.plain import FORBIDDEN
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.chrome import Where
from gputui.views.waiting import Reason

HOSTILE = (
    "\x1b]52;c;aGFja2Vk\x07\x1b[2J\x9b31m\x1b[?1049l[/nope][@click=app.quit]x[/][bold]\u202eevil\x00\x07\x08\r\n"
    "\ud800$(touch hacked)"
)
PRINTABLE = "[/nope][@click=app.quit]x[/] \u202e[red"


def harmless(stage: Stage) -> None:
    """What Textual would send for the whole screen, cell by cell."""
    for strip in stage.screen._compositor.render_strips(stage.app.size):
        for segment in strip:
            bad = {hex(ord(letter)) for letter in segment.text if ord(letter) in FORBIDDEN}
            assert not bad, f"{bad} in {segment.text!r}"
            assert "\x1b" not in segment.text
            assert not any("\ud800" <= letter <= "\udfff" for letter in segment.text)
            assert segment.style is None or segment.style.link is None
            assert "quit" not in str((segment.style.meta if segment.style else None) or "")


@on_stage(slots=1, settings={"pause_after": 0}, size=(160, 50))
async def test_hostile_jobs_are_harmless_in_every_dialog_and_pane(stage: Stage) -> None:
    hostile = HOSTILE.replace("\x00", "").replace("\ud800", "")
    await stage.add(
        spec(f"echo '{hostile}'; echo '{hostile}' >&2; exit 3", cwd=str(stage.directory), name=PRINTABLE),
        spec(f"{hostile}", cwd=str(stage.directory), hold=True, params={PRINTABLE: hostile}, group=hostile),
        spec("true", cwd=str(stage.directory), hold=True, name=hostile, variables={"A": hostile}),
    )
    await stage.becomes(0, StateName.FAILED)
    opened = 0
    for one in range(3):
        await stage.go_to(one)
        stage.main.look()
        await stage.settle()
        harmless(stage)
        for keys in ("enter", "enter v", "F", "F e", *"ecKDARryY"):
            await stage.press(*keys.split())
            opened += stage.screen is not stage.main
            harmless(stage)
            for _ in keys.split():
                if stage.screen is not stage.main:
                    await stage.press("escape")
            await stage.back_on_main()
    assert opened == 28, "the failed job has nothing to kill or to edit, and r y Y only say what they did"
    for keys in ("o", "* K", "escape escape / [ / n o p e ] enter", "z s l ?"):
        await stage.press(*keys.split())
        harmless(stage)
    assert not (stage.directory / "hacked").exists()


@on_stage(size=(160, 50))
async def test_hostile_text_is_harmless_in_every_field(stage: Stage) -> None:
    for key in ("a", "A"):
        await stage.press(key)
        for field in stage.screen.query("Input"):
            field.value = PRINTABLE + HOSTILE  # type: ignore[attr-defined]
        for area in stage.screen.query(TextArea):
            area.text = f"lr {HOSTILE}"
        await stage.settle()
        harmless(stage)
        await stage.press("enter", "ctrl+s")
        harmless(stage)
        await stage.press("escape")
        await stage.back_on_main()
    stage.main.say(HOSTILE, grave=True)
    await stage.settle()
    harmless(stage)


@asynccontextmanager
async def fixed_stage(directory: Path, jobs: list[Job], seen: DevicesPicture, why: str) -> AsyncIterator[Stage]:
    bridge = FixedBridge(evening.snapshot(jobs), seen, directory, {each.id: Reason(why) for each in jobs})
    app = GputuiApp(bridge, Setup(Where(HOSTILE, HOSTILE), {}))
    async with app.run_test(size=(160, 50)) as pilot:
        stage = Stage(app, pilot, directory)
        stage.main.look()
        await pilot.pause()
        yield stage


def test_hostile_users_processes_devices_and_signatures_are_shown_harmless(tmp_path: Path) -> None:
    crash = job(0, Failed(1), name=HOSTILE, command=HOSTILE, params={HOSTILE: HOSTILE})
    crash = replace(crash, attempts=(replace(crash.attempts[0], signature=HOSTILE, gpus=(HOSTILE,)),))
    evil = process(4121, 2 * GIB, command=HOSTILE, user=HOSTILE)
    cards = picture(
        held(gpu(0, name=HOSTILE, processes=(evil,)), user=HOSTILE, command=HOSTILE),
        running(gpu(1, message=HOSTILE, processes=(evil,)), 3),
    )

    async def history() -> None:
        async with fixed_stage(tmp_path, [crash, *evening.jobs()[1:]], cards, HOSTILE) as stage:
            harmless(stage)
            await stage.press("R")
            harmless(stage)
            await stage.press("escape", "1", "enter")
            harmless(stage)
            await stage.press("escape", "j", "enter")
            harmless(stage)

    asyncio.run(history())


def test_the_check_itself_detects_control_characters(tmp_path: Path) -> None:
    """With the last line of defence taken away, a forgotten gate would be noticed."""

    async def history() -> None:
        async with fixed_stage(tmp_path, evening.jobs(), evening.cards(), "") as stage:
            stage.app._last_line = type("Off", (), {"apply": lambda self, segments, background: segments})()
            stage.main.mount(Static("\x1b[2J", markup=False))
            stage.app.refresh(layout=True)
            await stage.settle()
            with pytest.raises(AssertionError):
                harmless(stage)

    asyncio.run(history())
