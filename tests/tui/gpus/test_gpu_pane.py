"""The GPU pane on a small host app: what each row says at several widths, and what is repainted when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from support.devices import GIB, NOW, gpu, held, idle, mig, picture, process, running, shown, silent, snapshot
from support.waiting import until_then
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from gputui.core.lanes import DeviceKind, Lane
from gputui.core.views.cells import width
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState, Leftover
from gputui.gpus.sample import DeviceSample, HostSample, Sample, Status, Trouble, TroubleKind
from gputui.tui.widgets.gpus.history import History
from gputui.tui.widgets.gpus.layout import fields_for, rows_wanted
from gputui.tui.widgets.gpus.occupants import View
from gputui.tui.widgets.gpus.pane import GpuPane
from gputui.tui.widgets.gpus.rows import cell, entries

NAMES = {0: "lr=0.1 bs=32", 1: "lr=0.01"}


class WatchedPane(GpuPane):
    """Counts what is repainted."""

    painted: int = 0

    def refresh(self, *regions: Region, **changes: Any) -> Any:
        self.painted += len(regions) or 100
        return super().refresh(*regions, **changes)


class Host(App[None]):
    CSS = "GpuPane { height: 1fr; }"

    def __init__(self, *, processes: bool = False) -> None:
        super().__init__()
        self.pane = WatchedPane(processes=processes)
        self.messages: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_gpu_pane_device_highlighted(self, message: GpuPane.DeviceHighlighted) -> None:
        self.messages.append(f"highlighted {message.device.sample.index}")

    def on_gpu_pane_device_opened(self, message: GpuPane.DeviceOpened) -> None:
        self.messages.append(f"opened {message.device.sample.index}")

    def show(self, seen: DevicesPicture, now: float = NOW) -> None:
        self.pane.show(seen, SNAPSHOT, lambda job: NAMES.get(job, "job"), now)

    def rows(self) -> list[str]:
        pane = self.pane
        lines = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
        return [line for line in lines if line]


SNAPSHOT = snapshot(3)
Story = Callable[[Host, "Pilot[None]"], Coroutine[Any, Any, None]]


def on_screen(story: Story, size: tuple[int, int] = (120, 20), **settings: bool) -> None:
    async def told() -> None:
        app = Host(**settings)
        async with app.run_test(size=size) as pilot:
            await story(app, pilot)

    asyncio.run(told())


def rows(seen: DevicesPicture, columns: int = 120, height: int = 20, now: float = NOW) -> list[str]:
    found: list[str] = []

    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(seen, now)
        await pilot.pause()
        found.extend(app.rows())

    on_screen(story, (columns, height))
    return found


MACHINE = picture(running(gpu(0), 0), held(gpu(1, utilization=12, memory_used=8 * GIB, temperature=41, power=88.0)))


def test_a_row_at_120_columns_shows_everything_the_user_looks_for() -> None:
    assert rows(MACHINE) == [
        " 0 A100-40G                 ▇  97%  ━━━━━━━─── 28.1/40G  61°C  287/400W  #0 lr=0.1 bs=32"
        "                         2:11:04",
        " 1 A100-40G                 ▁  12%  ━━────────  8.0/40G  41°C   88/400W  alice python 4121 · not ours",
    ]  # fmt: skip


def test_a_row_at_80_columns_is_shorter_and_still_says_who() -> None:
    assert rows(MACHINE, 80) == [
        " 0 A100-40G        ▇  97% ━━━━── 28.1/40G 61° 287/400W #0 lr=0.1 bs=32   2:11:04",
        " 1 A100-40G        ▁  12% ━─────  8.0/40G 41°  88/400W alice python 4121 · not …",
    ]


def test_a_row_at_200_columns_has_longer_lines_of_history_and_memory() -> None:
    first = rows(MACHINE, 200)[0]
    assert first.startswith(" 0 A100-40G                     ▇  97%  ━━━━━━━━━━━───── 28.1/40G  61°C  287/400W  #0 lr")
    assert len(first) == 200


def test_eight_devices_fold_into_two_columns_in_a_low_pane() -> None:
    eight = picture(*(running(gpu(number), 0) for number in range(8)))
    found = rows(eight, 80, 4)
    assert len(found) == 4
    assert found[1] == " 1      ▇  97% 28/40G 61° #0 lr=0.1 bs…   5      ▇  97% 28/40G 61° #0 lr=0.1 bs…"


@pytest.mark.parametrize(
    ("devices", "width", "height", "expected"),
    [
        (1, 78, 24, 1), (2, 78, 24, 2), (4, 78, 24, 2), (8, 78, 24, 4), (16, 78, 24, 8),
        (4, 118, 40, 4), (8, 118, 40, 8), (16, 118, 40, 8),
        (4, 198, 60, 4), (8, 198, 60, 4), (16, 198, 60, 8), (72, 198, 60, 18), (72, 78, 24, 8),
        (8, 30, 24, 8),
    ],
)  # fmt: skip
def test_the_pane_asks_for_rows_by_the_size_of_the_screen(devices: int, width: int, height: int, expected: int) -> None:
    seen = picture(*(shown(gpu(number)) for number in range(devices)))
    assert rows_wanted(seen, width, height) == expected
    assert rows_wanted(seen, width, height, unfolded=True) == min(devices, height // 2)


def test_every_cell_is_exactly_as_wide_as_it_is_told() -> None:
    odd = picture(
        running(gpu(0), 0, 1, 2), held(gpu(1), user="名前" * 20), shown(silent(2, Status.LOST, "x" * 300, 31.0)),
        running(silent(3, Status.STALE, "no answer for 7 s"), 0), shown(mig(0, 1)),
        shown(gpu(4, processes=(process(5),))),
        host=HostSample(16, 41.7, 12 * GIB, 1500 * GIB, "Intel"),
    )  # fmt: skip
    view = View(odd, SNAPSHOT, str, NOW)
    for columns in range(1, 210):
        fields = fields_for(odd, columns)
        for entry in entries(view, processes=True):
            pieces = cell(entry, view, History(20), fields, columns)
            assert width("".join(text for text, _ in pieces)) == columns, entry


def test_devices_in_trouble_say_what_and_since_when_and_keep_their_job() -> None:
    found = rows(
        picture(
            running(silent(0, Status.STALE, "no answer for 7 s", 7.0), 0),
            shown(silent(1, Status.LOST, "fell off the bus (Xid 79)", 31.0)),
            shown(silent(2, Status.DENIED, "no permission")),
        )
    )
    assert found[0].startswith(" 0 A100-40G  ! stale: no answer for 7 s ")
    assert "#0 lr=0.1 bs=32" in found[0]
    assert found[1] == " 1 A100-40G  ! lost: fell off the bus (Xid 79) · 31 s"
    assert found[2] == " 2 A100-40G  ! denied: no permission"


def test_mig_instances_stand_below_their_parent_and_unknown_figures_are_dashes() -> None:
    found = rows(picture(shown(gpu(0, utilization=None, mig_enabled=True), state=LaneState.OFF), running(mig(0, 1), 1)))
    assert "  –  " in found[0]
    assert found[0].endswith("split into MIG instances")
    assert found[1].startswith("   └ 1g.5gb ")
    assert "1.0/4.8G     –         –  #1 lr=0.01" in found[1]


def test_memory_that_is_the_machines_own_is_called_shared() -> None:
    assert "28.1/119G shared" in rows(picture(shown(gpu(0, memory_shared=True, memory_total=119 * GIB))))[0]


def test_a_hot_device_has_a_sign_besides_its_colour() -> None:
    assert " 88°! " in rows(picture(running(gpu(0, temperature=88), 0)))[0]


LEFT = (Leftover(77, 9, 1),)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (shown(idle(0)), "free"),
        (shown(idle(0), free_at=NOW + 4), "free in 4 s: just left by others"),
        (shown(idle(0), state=LaneState.OFF, taken_off=(Lane(0, ("0",)),)), "drained"),
        (shown(idle(0), state=LaneState.OFF), "off: not in this session"),
        (shown(idle(0, visible=False), state=LaneState.OFF), "not in CUDA_VISIBLE_DEVICES"),
        (shown(idle(0), leftovers=LEFT), "pid 77 left over from #9"),
        (shown(idle(0), blocked="GPU 0 was just taken by another gputui session"), "GPU 0 was just taken by another"),
        (running(gpu(0), 0, state=LaneState.DRAINING), "draining · #0 lr=0.1 bs=32"),
        (running(gpu(0), 0, 1), "#0 + #1"),
        (shown(gpu(0, processes=(process(5),)), state=None), "alice python 5"),
        (shown(idle(0), state=None), "idle"),
    ],
)
def test_a_row_says_who_has_the_device(device: DevicePicture, words: str) -> None:
    assert f"  {words}" in rows(picture(device))[0]


def test_a_job_that_does_nothing_is_remarked_upon() -> None:
    seen = replace(picture(running(gpu(0), 0)), idle_since={0: NOW - 1200})
    assert "#0 idle for 20 m · lr=0.1 bs=32" in rows(seen)[0]


def test_cpu_lanes_stand_below_the_machine_they_share() -> None:
    host = HostSample(16, 41.7, 12 * GIB, 64 * GIB, "Intel(R) Core(TM) i7-12700H")
    lane = DeviceSample(
        index=0, uuid="CPU-0", name="x", utilization=98, memory_used=GIB, memory_total=64 * GIB, memory_shared=True
    )
    found = rows(picture(running(lane, 0), kind=DeviceKind.CPU, host=host))
    assert found[0].startswith("CPU ")
    assert found[0].endswith(" 42%  ━━━───────────── 12.0/64G  16 cores, Intel Core i7-12700H")
    assert found[1].startswith("  0 lane ")
    assert "98%" in found[1]
    assert "#0 lr=0.1 bs=32" in found[1]


def test_a_driver_in_trouble_is_said_with_what_to_do() -> None:
    trouble = Trouble(TroubleKind.MISMATCH, "the driver was upgraded", "reboot or reload the module")
    sample = Sample(kind=DeviceKind.GPU, taken=NOW, trouble=trouble)
    found = rows(DevicesPicture(kind=DeviceKind.GPU, sample=sample))
    assert found == ["! the driver was upgraded", "  reboot or reload the module"]


def test_until_the_first_sample_the_pane_says_that_it_looks() -> None:
    assert rows(DevicesPicture(kind=DeviceKind.GPU, sample=None, looking=True)) == ["looking at the GPUs …"]


def test_what_users_and_programs_are_called_cannot_act_on_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]52;c;aGk=\x07[bold]x[/nope]"
    seen = picture(
        held(gpu(0, name=hostile), user=hostile, command=hostile),
        shown(silent(1, Status.ERROR, hostile)),
        shown(idle(2), blocked=hostile),
    )
    for text in rows(seen):
        assert text.isprintable()


def test_processes_are_listed_below_their_device_while_there_is_room() -> None:
    busy = shown(gpu(0, processes=(process(5, started=NOW - 60),)), state=None)

    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(busy, shown(idle(1), state=None)))
        await pilot.pause()
        assert [row.split()[0] for row in app.rows()] == ["0", "5", "1"]
        assert app.rows()[1].split() == ["5", "alice", "10.0G", "1:00", "/usr/bin/python", "train.py"]
        await pilot.resize_terminal(120, 2)
        await until_then(lambda: [row.split()[0] for row in app.rows()] == ["0", "1"], "only devices are listed")

    on_screen(story, processes=True)


def test_the_same_again_repaints_nothing_and_a_change_only_its_line() -> None:
    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(MACHINE)
        await pilot.pause()
        app.pane.painted = 0
        app.show(MACHINE)
        assert app.pane.painted == 0
        app.show(MACHINE, NOW + 1)
        assert app.pane.painted == 1, "the time of the job on the first device"
        app.show(replace(MACHINE, devices=(MACHINE.devices[0], shown(idle(1)))), NOW + 1)
        assert app.pane.painted == 2

    on_screen(story)


def test_the_cursor_moves_over_devices_and_stays_on_its_device_when_others_come_and_go() -> None:
    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(4))))
        app.pane.focus()
        await pilot.press("j", "down", "k", "j")
        assert app.pane.selected is not None
        assert app.pane.selected.index == 2
        app.show(picture(*(shown(gpu(number)) for number in (0, 2, 3))))
        assert app.pane.selected.index == 2
        await pilot.press("G", "down", "enter")
        assert app.messages == [
            "highlighted 1", "highlighted 2", "highlighted 1", "highlighted 2", "highlighted 3", "opened 3",
        ]  # fmt: skip
        await pilot.press("g")
        assert app.pane.selected.index == 0
        app.show(DevicesPicture(kind=DeviceKind.GPU, sample=None))
        assert app.pane.selected is None
        await pilot.press("j", "enter")

    on_screen(story)


def test_a_click_puts_the_cursor_on_a_device_of_either_column() -> None:
    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(8))))
        await pilot.pause()
        await pilot.click(GpuPane, offset=(50, 1))
        assert app.messages[-1] == "highlighted 5"
        await pilot.click(GpuPane, offset=(3, 3))
        assert app.messages[-1] == "highlighted 3"

    on_screen(story, (80, 4))


def test_more_devices_than_fit_are_scrolled_with_the_cursor() -> None:
    async def story(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(40))))
        app.pane.focus()
        await pilot.pause()
        assert app.rows()[0].startswith(" 0 ")
        await pilot.press("G")
        await pilot.pause()
        assert app.rows()[-1].lstrip().startswith("39 ")

    on_screen(story, (60, 6))
