"""The GPU pane in a small app: its rows at several widths, its cursor, and when it repaints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from support.app import GIB, NOW, gpu, held, idle, picture, process, running, shown, silent
from support.app import device_snapshot as snapshot
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from gputui.core.amounts import moment
from gputui.core.slots import DeviceKind, Slot
from gputui.gpus.history import DeviceShare, HistoryRecorder, LoadOwner, find_warnings
from gputui.gpus.machine import MachineFacts
from gputui.gpus.picture import DevicePicture, DevicesPicture, Leftover, SlotState
from gputui.gpus.sample import DeviceSample, HostSample, MigInstance, Sample, Slowdown, Status, Trouble
from gputui.tui.gpus import occupants as figures
from gputui.tui.gpus.full import totals
from gputui.tui.gpus.occupants import View, short
from gputui.tui.gpus.page import Room
from gputui.tui.gpus.pane import GpuPane, draw
from gputui.tui.gpus.rows import block, entries, fields_for, rows_wanted
from gputui.tui.theme import LOADS, OTHERS_LOADS
from gputui.views.format import width


def mig(index: int, number: int) -> DeviceSample:
    return DeviceSample(index=index, uuid=f"MIG-{index}-{number}", name="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                        memory_used=GIB, memory_total=int(4.75 * GIB), parent=f"GPU-{index}",
                        mig=MigInstance(number, 0))  # fmt: skip


NAMES = {0: "lr=0.1 bs=32", 1: "lr=0.01"}


class WatchedPane(GpuPane):
    """Counts what is repainted."""

    painted: int = 0

    def refresh(self, *regions: Region, **changes: Any) -> Any:
        self.painted += len(regions) or 100
        return super().refresh(*regions, **changes)


class Host(App[None]):
    CSS = "GpuPane { height: 1fr; }"

    def __init__(self, *, full: bool = False) -> None:
        super().__init__()
        self.pane = WatchedPane()
        self.pane.full = full
        self.opened: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_gpu_pane_device_opened(self, message: GpuPane.DeviceOpened) -> None:
        self.opened.append(message.device.sample.index)

    @property
    def cursor(self) -> int | None:
        return self.pane.selected.index if self.pane.selected is not None else None

    def show(self, seen: DevicesPicture, now: float = NOW) -> None:
        self.pane.show(seen, SNAPSHOT, lambda job: NAMES.get(job, "job"), now)

    def rows(self) -> list[str]:
        pane = self.pane
        lines = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
        return [line for line in lines if line]


SNAPSHOT = snapshot(3)
Steps = Callable[[Host, "Pilot[None]"], Coroutine[Any, Any, None]]


def on_screen(steps: Steps, size: tuple[int, int] = (120, 20), **settings: bool) -> None:
    async def drive() -> None:
        app = Host(**settings)
        async with app.run_test(size=size) as pilot:
            await steps(app, pilot)

    asyncio.run(drive())


def rows(
    seen: DevicesPicture, columns: int = 120, height: int = 20, now: float = NOW, *, full: bool = False
) -> list[str]:
    found: list[str] = []

    async def steps(app: Host, pilot: Pilot[None]) -> None:
        app.show(seen, now)
        await pilot.pause()
        found.extend(app.rows())

    on_screen(steps, (columns, height), full=full)
    return found


def with_history(seen: DevicesPicture, *shares: DeviceShare) -> DevicesPicture:
    """As the pane gets it after half an hour at the same load."""
    recorder = HistoryRecorder()
    by_key = dict(zip((device.sample.key for device in seen.devices), shares, strict=False))
    for second in range(1800):
        sample = replace(seen.sample, taken=NOW - 1800 + second) if seen.sample is not None else None
        assert sample is not None
        recorder.observe(sample, by_key)
    devices = tuple(replace(each, share=by_key.get(each.sample.key, DeviceShare())) for each in seen.devices)
    return replace(seen, history=recorder.frozen(), devices=devices)


OURS, THEIRS = DeviceShare(LoadOwner.OURS, 28 * GIB, 0), DeviceShare(LoadOwner.OTHERS, 0, 8 * GIB)
MACHINE = with_history(
    picture(running(gpu(0), 0), held(gpu(1, utilization=12, memory_used=8 * GIB, temperature=41, power=88.0))),
    OURS,
    THEIRS,
)


def test_a_row_at_120_columns() -> None:
    assert rows(MACHINE) == [
        " 0 A100 40G  ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆  97%   ━━━━━━━━──── 28.1/40G  61°C  287/400   #0 lr=0.1 bs=32",
        (
            " 1 A100 40G  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  12%   ━━──────────  8.0/40G  41°C   88/400   alice python 4121 · "
            "external"
        ),
    ]


def test_a_row_at_80_columns_is_shorter() -> None:
    assert rows(MACHINE, 80) == [
        " 0 A100 40G ▆▆▆▆▆▆▆▆   97% ━━━━── 28.1/40G 61° 287/400 #0 lr=0.1 bs=32",
        " 1 A100 40G ▁▁▁▁▁▁▁▁   12% ━─────  8.0/40G 41°  88/400 alice python 4121 · exte…",
    ]


def test_on_a_tall_screen_a_device_has_two_lines_with_a_braille_graph() -> None:
    found = rows(MACHINE, 200, 60)
    assert [line[:3] for line in found] == [" 0 ", "   ", " 1 ", "   "]
    assert set(found[1][13:60]) <= {chr(0x28FF)}
    assert "2:11:04 elapsed" in found[1]


def test_eight_devices_fold_into_two_columns_in_a_low_pane() -> None:
    eight = with_history(picture(*(running(gpu(number), 0) for number in range(8))))
    found = rows(eight, 80, 4)
    assert len(found) == 4
    assert found[1] == " 1 ▆▆▆▆▆▆▆▆   97% 28.1/40G 61° #0 lr=0…   5 ▆▆▆▆▆▆▆▆   97% 28.1/40G 61° #0 lr=0…"


@pytest.mark.parametrize(
    ("devices", "width", "height", "expected"),
    [
        (1, 78, 24, 1), (2, 78, 24, 2), (4, 78, 24, 2), (8, 78, 24, 4), (16, 78, 24, 8),
        (4, 118, 40, 4), (8, 118, 40, 8), (16, 118, 40, 8),
        (4, 198, 60, 8), (8, 198, 60, 16), (16, 198, 60, 8), (72, 198, 60, 18), (72, 78, 24, 8),
        (8, 30, 24, 8),
    ],
)  # fmt: skip
def test_the_pane_asks_for_rows_by_the_size_of_the_screen(devices: int, width: int, height: int, expected: int) -> None:
    seen = picture(*(shown(gpu(number)) for number in range(devices)))
    assert rows_wanted(seen, width, height) == expected
    tall = height >= 56 and 2 * devices <= height // 2
    assert rows_wanted(seen, width, height, unfolded=True) == (2 * devices if tall else min(devices, height // 2))


def odd_picture() -> DevicesPicture:
    """Devices with long texts, problems, missing figures and wide characters."""
    busy = gpu(1, processes=tuple(process(5 + number, started=NOW - 60) for number in range(9)), temperature=90,
               slowed_by=(Slowdown.HEAT,), clock=1000, clock_limit=2000, ecc_uncorrected=3, pcie_replays=7)  # fmt: skip
    odd = picture(
        running(gpu(0), 0, 1, 2), held(busy, user="名前" * 20), shown(silent(2, Status.LOST, "x; y" * 300, 31.0)),
        running(silent(3, Status.STALE, "no response for 7 s"), 0), shown(mig(0, 1)), shown(gpu(14, power=None)),
        shown(gpu(4, processes=(process(5),))), host=HostSample(16, 41.7, 12 * GIB, 1500 * GIB, "Intel"),
    )  # fmt: skip
    assert odd.sample is not None
    warnings = find_warnings(odd.sample, {})
    devices = tuple(replace(each, warnings=warnings.get(each.sample.key, ())) for each in odd.devices)
    return replace(odd, devices=devices)


def test_every_block_has_exactly_its_width() -> None:
    odd = odd_picture()
    view = View(odd, SNAPSHOT, str, NOW)
    for columns in range(1, 210):
        for tall in (False, True):
            fields = fields_for(odd, columns, tall=tall)
            for entry in entries(view):
                for section in block(entry, view, fields, columns, lines=1 + tall):
                    assert width(section.text) == columns, entry


@pytest.mark.parametrize("height", [1, 10, 22, 38, 58])
def test_every_line_of_the_full_screen_has_exactly_its_width(height: int) -> None:
    facts = MachineFacts(cores=2, busy=9.0, memory_used=GIB, memory_total=4 * GIB, load=1.0)
    for machine in (None, facts):
        view = View(odd_picture(), SNAPSHOT, lambda job: "名前" * 9, NOW, machine)
        for columns in range(30, 230, 7):
            for line in draw(view, Room(columns, height, full=True, title=7)).lines:
                assert sum(width(section.text) for section in line) == columns, line


def test_devices_with_problems_name_them_and_keep_their_job() -> None:
    found = rows(picture(
        running(silent(0, Status.STALE, "no response for 7 s", 7.0), 0),
        shown(silent(1, Status.LOST, "fell off the bus (Xid 79)", 31.0)),
        shown(silent(2, Status.DENIED, "no permission")),
    ))  # fmt: skip
    assert found[0].startswith(" 0 A100 40G  ! stale: no response for 7 s ")
    assert "#0 lr=0.1 bs=32" in found[0]
    assert found[1] == " 1 A100 40G  ! lost: fell off the bus (Xid 79) · 31 s"
    assert found[2] == " 2 A100 40G  ! denied: no permission"


def test_mig_instances_follow_their_gpu_and_unknown_figures_are_dashes() -> None:
    found = rows(picture(shown(gpu(0, utilization=None, mig_enabled=True), state=SlotState.OFF), running(mig(0, 1), 1)))
    assert "  –  " in found[0]
    assert found[0].endswith("split into MIG instances")
    assert found[1].startswith("   └ 1g.5gb ")
    assert "1.0/4.8G     –        –   #1 lr=0.01" in found[1]


LEFT = (Leftover(77, 9, 1),)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (shown(idle(0)), "free"),
        (shown(idle(0), free_at=NOW + 4), "free in 4 s: just released"),
        (shown(idle(0), state=SlotState.OFF, taken_off=(Slot(0, ("0",)),)), "drained"),
        (shown(idle(0), state=SlotState.OFF), "off: not in this session"),
        (shown(idle(0, visible=False), state=SlotState.OFF), "not in CUDA_VISIBLE_DEVICES"),
        (shown(idle(0), leftovers=LEFT), "pid 77 left over from #9"),
        (shown(idle(0), blocked="just taken by another gputui session"), "just taken by another"),
        (running(gpu(0), 0, state=SlotState.DRAINING), "draining · #0 lr=0.1 bs=32"),
        (running(gpu(0), 0, 1), "#0 + #1"),
        (running(gpu(0), 2), "#2 idle for 20 min · job"),
        (shown(gpu(0, processes=(process(5),)), state=None), "alice python 5"),
        (shown(idle(0), state=None), "idle"),
        (shown(gpu(0, memory_shared=True, memory_total=119 * GIB)), "28.1/119G shared"),
        (running(gpu(0, temperature=88), 0), "88°! "),
    ],
)
def test_a_row_shows_who_uses_the_device(device: DevicePicture, words: str) -> None:
    assert f" {words}" in rows(replace(picture(device), idle_since={2: NOW - 1200}))[0]


def test_cpu_slots_follow_their_machine() -> None:
    host = HostSample(16, 41.7, 12 * GIB, 64 * GIB, "Intel(R) Core(TM) i7-12700H")
    slot = DeviceSample(
        index=0, uuid="CPU-0", name="x", utilization=98, memory_used=GIB, memory_total=64 * GIB, memory_shared=True
    )
    found = rows(picture(running(slot, 0), kind=DeviceKind.CPU, host=host))
    assert found[0].startswith(" CPU ")
    assert found[0].endswith(" 42%   ━━────────── 12.0/64G   16 cores, Intel Core i7-12700H")
    assert found[1].startswith("   0 slot ")
    assert "98%" in found[1]
    assert "#0 lr=0.1 bs=32" in found[1]


def test_a_driver_problem_is_shown_with_what_to_do() -> None:
    trouble = Trouble("the driver was upgraded", "reboot or reload the module")
    sample = Sample(kind=DeviceKind.GPU, taken=NOW, trouble=trouble)
    found = rows(DevicesPicture(kind=DeviceKind.GPU, sample=sample))
    assert found == [" ! the driver was upgraded", "   reboot or reload the module"]
    assert rows(DevicesPicture(kind=DeviceKind.GPU, sample=None, looking=True)) == [" detecting GPUs …"]


def test_hostile_names_are_made_harmless() -> None:
    hostile = "\x1b[2J\x1b]52;c;aGk=\x07[bold]x[/nope]"
    seen = picture(
        held(gpu(0, name=hostile), user=hostile, command=hostile),
        shown(silent(1, Status.ERROR, hostile)),
        shown(idle(2), blocked=hostile),
    )
    for text in rows(seen):
        assert text.isprintable()


def test_full_screen_each_gpu_lists_its_processes() -> None:
    ours = process(5, user="mira", started=NOW - 3661, host_memory=3 * GIB, command="python train.py --lr 0.1")
    theirs = process(
        6, 2 * GIB, started=NOW - 60, host_memory=GIB, command="/usr/bin/python3 -m ipykernel_launcher -f x"
    )
    seen = replace(picture(running(gpu(0, processes=(ours, theirs)), 0), shown(idle(1))), pids={5: 0})
    found = rows(seen, 120, 38, full=True)
    assert found[0].endswith("mira         5  1:01:01   10.0     3.0  #0 lr=0.1 bs=32")
    assert found[1].endswith("alice        6     1:00    2.0     1.0  ipykernel_launcher…")
    assert any(line.endswith("free") and line.startswith(" 1 A100 40G") for line in found)


def test_graphs_of_external_load_have_their_own_color() -> None:
    view = View(MACHINE, SNAPSHOT, str, NOW)
    lines = draw(view, Room(120, 38, full=True, title=7)).lines
    inks = [{look for text, look in line[0].pieces if any("\u2801" <= char <= "\u28ff" for char in text)}
            for line in lines if line[0].value]  # fmt: skip
    assert inks[0] <= set(LOADS)
    assert any(each and each <= set(OTHERS_LOADS) for each in inks)


def test_totals_per_user_follow_the_gpus() -> None:
    mine = replace(picture(running(gpu(0, processes=(process(5, user="mira"),)), 0),
                           held(gpu(1, processes=(process(4121, 31 * GIB),)), pid=4121), shown(idle(2)),
                           shown(silent(3, Status.LOST, "gone"))), pids={5: 0})  # fmt: skip
    found = totals(mine)
    assert [(user.name, user.gpus, user.memory // GIB, user.ours) for user in found.users] == [
        ("mira", 1, 10, True), ("alice", 1, 31, False),
    ]  # fmt: skip
    assert (found.free, found.lost) == (1, 1)
    narrow = rows(mine, 80, 22, full=True)
    assert any(line.startswith(" Users  mira 1 GPU 10 G   alice 1 GPU 31 G   1 free   1 lost") for line in narrow)


def test_a_user_with_jobs_and_external_processes_is_one_row() -> None:
    """A job, a notebook outside the session, and a job with hidden processes."""
    notebook = held(gpu(1, processes=(process(4121, 2 * GIB, user="mira"),)), pid=4121)
    seen = picture(running(gpu(0, processes=(process(5, user="mira"),)), 0), notebook, running(gpu(2, processes=()), 1))
    (user,) = totals(replace(seen, pids={5: 0})).users
    assert (user.name, user.gpus, user.ours) == ("mira", 3, True)


def test_warnings_come_before_processes_and_say_since_when() -> None:
    hot = gpu(0, temperature=89, slowed_by=(Slowdown.HEAT,), clock=1410, clock_limit=1980,
              processes=tuple(process(number) for number in range(20, 29)))  # fmt: skip
    lost = gpu(1, status=Status.LOST, message="fell off the bus; only a reboot brings it back")
    seen = picture(running(hot, 0), shown(lost))
    assert seen.sample is not None
    warnings = find_warnings(seen.sample, {"GPU-0 heat": NOW - 480, "GPU-1 lost": NOW - 720})
    seen = replace(seen, devices=tuple(replace(each, warnings=warnings[each.sample.key]) for each in seen.devices))
    found = "\n".join(rows(seen, 80, 22, full=True))
    for words in (
        f"! thermal throttling since {moment(NOW - 480, NOW)}: 1410/1980 MHz", "89°!",
        f"✗ lost at {moment(NOW - 720, NOW)}: fell off the bus", "Only a reboot brings it back.",
    ):  # fmt: skip
        assert words in found


def test_only_changed_lines_are_repainted() -> None:
    async def steps(app: Host, pilot: Pilot[None]) -> None:
        app.show(MACHINE)
        await pilot.pause()
        app.pane.painted = 0
        app.show(MACHINE)
        assert app.pane.painted == 0
        app.show(MACHINE, NOW + 1)
        assert app.pane.painted == 0, "graphs step when their time has come"
        app.show(replace(MACHINE, devices=(MACHINE.devices[0], shown(idle(1)))), NOW + 1)
        assert app.pane.painted == 1

    on_screen(steps)


def test_the_cursor_stays_on_its_device_when_others_come_and_go() -> None:
    async def steps(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(4))))
        app.pane.focus()
        await pilot.press("j", "down", "k", "j")
        assert app.cursor == 2
        app.show(picture(*(shown(gpu(number)) for number in (0, 2, 3))))
        assert app.cursor == 2
        await pilot.press("G", "down", "enter")
        assert app.opened == [3]
        await pilot.press("g")
        assert app.cursor == 0
        app.show(DevicesPicture(kind=DeviceKind.GPU, sample=None))
        assert app.cursor is None
        await pilot.press("j", "enter")

    on_screen(steps)


def test_a_click_moves_the_cursor_in_either_column() -> None:
    async def steps(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(8))))
        await pilot.pause()
        await pilot.click(GpuPane, offset=(50, 1))
        assert app.cursor == 5
        await pilot.click(GpuPane, offset=(3, 3))
        assert app.cursor == 3

    on_screen(steps, (80, 4))


def test_the_pane_scrolls_with_the_cursor() -> None:
    async def steps(app: Host, pilot: Pilot[None]) -> None:
        app.show(picture(*(shown(gpu(number)) for number in range(40))))
        app.pane.focus()
        await pilot.pause()
        assert app.rows()[0].startswith("  0 ")
        await pilot.press("G")
        await pilot.pause()
        assert app.rows()[-1].lstrip().startswith("39 ")

    on_screen(steps, (60, 6))


def test_unknown_figures_are_never_zero() -> None:
    assert figures.percent(None).strip() == "–"
    assert figures.memory(None, None) == "–"
    assert figures.memory(None, 40 * GIB) == "–/40G"
    assert figures.temperature(None) == "–"
    assert figures.power(None, 400.0) == "–"


@pytest.mark.parametrize("total", [int(4.75 * GIB), 16 * GIB, 40 * GIB, 80 * GIB, 192 * GIB, 1500 * GIB])
def test_memory_fits_its_field(total: int) -> None:
    for brief in (False, True):
        room = figures.memory_width(total, brief=brief)
        assert all(len(figures.memory(total * part // 97, total, brief=brief)) <= room for part in range(98))


@pytest.mark.parametrize(
    ("name", "brief"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100 40G"),
        ("NVIDIA A100 80GB PCIe", "A100 80G"),
        ("NVIDIA H100 80GB HBM3", "H100 80G"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Tesla V100-SXM2-16GB", "V100 16G"),
        ("Quadro RTX 8000", "RTX 8000"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA", "NVIDIA"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "Intel Xeon E5-2680 v4"),
    ],
)
def test_names_are_shortened_to_model_and_memory(name: str, brief: str) -> None:
    assert short(name) == brief
