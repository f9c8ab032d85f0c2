"""Others are on some cards and nobody named any: the app asks once which to use, the idle ones picked already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.devices import gpu, held, idle, picture, shown
from support.fixed import NOW, FixedBridge, session, sweep
from support.stage import Stage
from textual.widgets import SelectionList

from gputui.core.events import SetLanes
from gputui.core.lanes import Lane
from gputui.gpus.picture import DevicePicture
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.chrome import Where
from gputui.tui.dialogs.ask import Pick


def told(folder: Path, devices: list[DevicePicture], story: Callable[[Stage, FixedBridge], Awaitable[None]]) -> None:
    """The story on an app that is to ask."""
    own = [replace(device, lanes=(Lane(number, (str(number),)),)) for number, device in enumerate(devices)]
    seen = picture(*own, taken=NOW)
    assert seen.sample is not None

    async def run() -> None:
        bridge = FixedBridge(session(sweep()), seen, folder, {})
        app = GputuiApp(bridge, Setup(Where("s", "h"), {}))
        app.main.asks_which_gpus = True
        async with app.run_test(size=(120, 40)) as pilot:
            stage = Stage(app, pilot, folder)
            app.main.look()
            await stage.settle()
            await story(stage, bridge)

    asyncio.run(run())


@pytest.mark.parametrize(("keys", "kept"), [(("enter",), {0, 2, 3, 4}), (("down", "space", "enter"), None)])
def test_the_idle_ones_are_picked_and_the_others_lose_their_lanes(
    tmp_path: Path, keys: tuple[str, ...], kept: set[int] | None
) -> None:
    async def story(stage: Stage, bridge: FixedBridge) -> None:
        assert isinstance(stage.screen, Pick)
        await stage.shows("used by alice (pid 4121")
        assert len(stage.screen.query_one(SelectionList).selected) == 2
        await stage.press(*keys)
        lanes = [{lane.id for lane in event.lanes} for event in bridge.sent if isinstance(event, SetLanes)]
        assert lanes == ([kept] if kept is not None else [])
        stage.main.look()
        await stage.settle()
        assert not stage.main.asks_which_gpus
        await stage.back_on_main()

    told(tmp_path, [shown(idle(0)), held(gpu(1)), shown(idle(2))], story)


def test_nobody_is_asked_when_all_are_free(tmp_path: Path) -> None:
    async def story(stage: Stage, bridge: FixedBridge) -> None:
        assert stage.screen is stage.main
        assert bridge.sent == []

    told(tmp_path, [shown(idle(0)), shown(idle(1))], story)
