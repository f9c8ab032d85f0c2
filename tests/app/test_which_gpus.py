"""If others use some GPUs and no option names any, the app asks once which to use; idle ones are preselected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.app import NOW, FixedBridge, Stage, gpu, held, idle, picture, shown
from support.evening import snapshot
from textual.widgets import SelectionList

from gputui.core.events import SetSlots
from gputui.core.slots import Slot
from gputui.gpus.picture import DevicePicture
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.chrome import Where
from gputui.tui.dialogs.ask import Pick


def told(
    directory: Path, devices: list[DevicePicture], history: Callable[[Stage, FixedBridge], Awaitable[None]]
) -> None:
    own = [replace(device, slots=(Slot(number, (str(number),)),)) for number, device in enumerate(devices)]
    seen = picture(*own, taken=NOW)
    assert seen.sample is not None

    async def run() -> None:
        bridge = FixedBridge(snapshot(), seen, directory, {})
        app = GputuiApp(bridge, Setup(Where("s", "h"), {}))
        app.main.asks_which_gpus = True
        async with app.run_test(size=(120, 40)) as pilot:
            stage = Stage(app, pilot, directory)
            app.main.look()
            await stage.settle()
            await history(stage, bridge)

    asyncio.run(run())


@pytest.mark.parametrize(("keys", "kept"), [(("enter",), {0, 2, 3}), (("down", "space", "enter"), None)])
def test_idle_gpus_are_preselected_and_the_others_lose_their_slots(
    tmp_path: Path, keys: tuple[str, ...], kept: set[int] | None
) -> None:
    async def history(stage: Stage, bridge: FixedBridge) -> None:
        assert isinstance(stage.screen, Pick)
        await stage.shows("used by alice (pid 4121")
        assert len(stage.screen.query_one(SelectionList).selected) == 2
        await stage.press(*keys)
        slots = [{slot.id for slot in event.slots} for event in bridge.sent if isinstance(event, SetSlots)]
        assert slots == ([kept] if kept is not None else [])
        stage.main.look()
        await stage.settle()
        assert not stage.main.asks_which_gpus
        await stage.back_on_main()

    told(tmp_path, [shown(idle(0)), held(gpu(1)), shown(idle(2))], history)


def test_it_does_not_ask_when_all_are_free(tmp_path: Path) -> None:
    async def history(stage: Stage, bridge: FixedBridge) -> None:
        assert stage.screen is stage.main
        assert bridge.sent == []

    told(tmp_path, [shown(idle(0)), shown(idle(1))], history)
