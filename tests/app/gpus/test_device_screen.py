"""The dialog about one device: its processes, and the choices that it offers."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from support.app import GIB, NOW, gpu, idle, picture, process, running, shown
from support.app import device_snapshot as snapshot
from textual.app import App
from textual.widgets import OptionList, Static

from gputui.core.slots import Slot
from gputui.gpus.picture import DevicePicture, DevicesPicture, Leftover, SlotState
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.gpus.occupants import DeviceChoice

SNAPSHOT = snapshot(3)
ON_IT = (
    process(999, 28 * GIB, command="python train.py", user="me", started=NOW - 7800),
    process(4121, 2 * GIB, command="[/nope] \x1b[2J", user="[@click=app.quit]al"),
    process(77, 300 * 1024**2, command="python left.py", user="me"),
)
BUSY = running(gpu(0, processes=ON_IT), 0, leftovers=(Leftover(77, 9, 1),))
DRAINED = shown(idle(0), state=SlotState.OFF, taken_off=(Slot(0, ("0",)),))


def opened(
    device: DevicePicture, *keys: str, read_only: bool = False, later: DevicesPicture | None = None
) -> tuple[DeviceChoice | None, str, list[str]]:
    """The answer, the list of processes, and the choices, after these keys."""
    answers: list[DeviceChoice | None] = []
    seen = replace(picture(device), pids={999: 0})

    async def drive() -> tuple[DeviceChoice | None, str, list[str]]:
        app: App[None] = App()
        async with app.run_test(size=(120, 40)) as pilot:
            screen = DeviceScreen(device, seen, SNAPSHOT, _name, NOW, read_only=read_only)
            app.push_screen(screen, answers.append)
            await pilot.pause()
            if later is not None:
                screen.show(later, SNAPSHOT, _name, NOW)
                await pilot.pause()
            text = str(screen.query_one("#processes", Static).render())
            options = screen.query_one(OptionList)
            offers = [str(options.get_option_at_index(number).prompt) for number in range(options.option_count)]
            await pilot.press(*keys)
            await pilot.pause()
            return answers[0] if answers else None, text, offers

    return asyncio.run(drive())


def _name(job: int) -> str:
    return "lr=0.1"


def test_processes_are_listed_with_their_owner() -> None:
    _, text, _ = opened(BUSY)
    lines = text.splitlines()
    assert lines[0].split() == ["pid", "whose", "memory", "age", "command"]
    assert lines[1].split() == ["999", "#0", "28.0G", "2h10", "python", "train.py"]
    assert lines[2].split()[0] == "4121"
    assert "external" in lines[2]
    assert lines[2].endswith("[/nope] ")
    assert lines[3].split() == ["77", "left", "over", "from", "#9", "300M", "–", "python", "left.py"]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("d",), DeviceChoice.DRAIN),
        (("B",), DeviceChoice.REQUEUE),
        (("K",), DeviceChoice.KILL),
        (("X",), DeviceChoice.KILL_LEFTOVERS),
        (("down", "down", "enter"), DeviceChoice.REQUEUE),
        (("escape",), None),
        (("enter",), None),
    ],
)
def test_keys_choose(keys: tuple[str, ...], answer: DeviceChoice | None) -> None:
    assert opened(BUSY, *keys)[0] is answer


def test_only_what_is_possible_now_is_offered() -> None:
    assert opened(BUSY)[2] == [
        "d  drain: start no more jobs here; #0 may finish",
        "B  requeue #0; checkpoints are kept",
        "K  kill #0",
        "X  kill leftovers of #9 (pid 77)",
    ]
    assert opened(DRAINED)[2] == ["d  enable: jobs may start here"]
    assert opened(DRAINED, "d")[0] is DeviceChoice.ENABLE
    assert opened(DRAINED, "K")[0] is None
    assert opened(shown(idle(0, mig_enabled=True), state=SlotState.OFF))[2] == []

    assert [offer[:1] for offer in opened(running(gpu(0), 0, elsewhere=True))[2]] == ["B", "K"], "a cluster's GPU"


def test_a_read_only_view_and_a_monitor_offer_nothing() -> None:
    assert opened(BUSY, "K", read_only=True)[::2] == (None, [])
    assert opened(replace(BUSY, state=None), "K")[::2] == (None, [])


def test_it_is_updated_while_it_is_open() -> None:
    _, text, offers = opened(BUSY, later=picture(DRAINED))
    assert text == "no processes"
    assert offers == ["d  enable: jobs may start here"]


def test_a_long_list_of_processes_scrolls() -> None:
    crowded = running(gpu(0, processes=tuple(process(1000 + number, GIB) for number in range(40))), 0)

    async def drive() -> None:
        app: App[None] = App()
        async with app.run_test(size=(80, 24)) as pilot:
            screen = DeviceScreen(crowded, picture(crowded), SNAPSHOT, _name, NOW)
            app.push_screen(screen)
            await pilot.pause()
            await pilot.press("G")
            await pilot.pause()
            assert screen.page.scroll_offset.y == screen.page.max_scroll_y > 0
            await pilot.press("k", "ctrl+u")
            assert 0 < screen.page.scroll_offset.y < screen.page.max_scroll_y
            await pilot.press("g")
            assert screen.page.scroll_offset.y == 0

    asyncio.run(drive())
