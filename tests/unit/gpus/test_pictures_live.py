"""The owner's and the monitor's pictures of fake GPUs, read by the real bindings."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.app import Stage, opened
from support.sessions import add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Kill
from gputui.core.job import StateName
from gputui.core.slots import DeviceKind, Slot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.gpus.hardware import kernel_hardware
from gputui.gpus.history import LoadOwner
from gputui.gpus.picture import DevicePicture, SlotState
from gputui.gpus.sample import Status
from gputui.session.control.handlers import shown_slots
from gputui.session.devices.samplers import Monitor
from gputui.session.devices.slot_changes import enable, kill_leftovers, stop_commands
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner

IDLE: dict[str, Any] = {"mem_used": "1G"}


@pytest.fixture(autouse=True)
def _on_fake_cards(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def app(nvml: Any, tmp_path: Path) -> Iterator[Owner]:
    """An app that uses the first two of three cards."""
    nvml.set([IDLE, IDLE, IDLE])
    with owned(tmp_path / "s", (Slot(0, ("0",)), Slot(1, ("1",))), OwnerKind.APP) as owner:
        yield owner


def device(seen: Owner | Monitor, index: int) -> DevicePicture | None:
    return next((each for each in seen.picture.devices if each.sample.index == index), None)


def device_when(
    seen: Owner | Monitor, index: int, condition: Callable[[DevicePicture], object], what: str
) -> DevicePicture:
    """The device, once the condition holds for it."""
    found: list[DevicePicture] = []

    def holds() -> bool:
        found[:] = [each for each in (device(seen, index),) if each is not None and condition(each)]
        return bool(found)

    until(holds, what)
    return found[0]


def test_gpus_are_shown_with_their_jobs_and_can_be_added(app: Owner) -> None:
    unused = device_when(app, 2, lambda found: found.state is SlotState.OFF and found.sample.uuid, "GPU 2 is off")
    [job] = add(app, spec("sleep 600"))
    shown = device_when(app, 0, lambda found: found.state is SlotState.BUSY, "GPU 0 has the job")
    assert shown.jobs == (job,)
    assert enable(app, unused).result(60) == "GPU 2 accepts jobs again"
    assert [slot.devices for slot in app.snapshot.slots] == [("0",), ("1",), ("2",)]
    app.do(Commands(stop_commands(shown, app.snapshot, Kill))).result(60)
    ended(app, job)


def test_leftover_processes_can_be_killed_and_no_others(
    app: Owner, nvml: Any, external_process: int, tmp_path: Path
) -> None:
    [job] = add(app, spec(f"setsid sleep 600 & echo $! >{tmp_path}/left"))
    ended(app, job)
    left = int((tmp_path / "left").read_text())
    try:
        nvml.set([{"mem_used": "3G", "procs": [f"{left} 2G C", f"{external_process} 1G C"]}, IDLE, IDLE])
        shown = device_when(app, 0, lambda found: found.leftovers, "what it left is seen")
        assert [(each.pid, each.job, each.attempt) for each in shown.leftovers] == [(left, job, 1)]
        assert kill_leftovers(app, shown).result(60) == f"killing leftovers of #{job} on GPU 0"
        until(lambda: not _lives(left), "it has already ended")
        assert _lives(external_process)
    finally:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        content = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return content.rpartition(") ")[2][0] not in "ZX"


def test_a_hostile_token_does_not_harm_the_owner(app: Owner, nvml: Any) -> None:
    token = {**os.environ, "GPUTUI_RUN": f"{app.identity.uuid}.x.y"}
    hostile = subprocess.Popen(["sleep", "600"], env=token)
    try:
        nvml.set([{"mem_used": "3G", "procs": [f"{hostile.pid} 2G C"]}, IDLE, IDLE])
        until(
            lambda: not app.alive or ((found := device(app, 0)) is not None and found.external_processes),
            "it was looked at",
        )
    finally:
        hostile.kill()
        hostile.wait()
    assert app.alive


def test_the_monitor_shows_gpus_without_a_session(nvml: Any, external_process: int) -> None:
    nvml.set([{"mem_used": "11G", "util": "37", "procs": [f"{external_process} 10G C"]}, IDLE])
    monitor = Monitor()
    monitor.start()
    try:
        shown = device_when(monitor, 0, lambda found: found.sample.utilization == 37, "figures come")
        assert (shown.state, shown.external_processes, shown.jobs) == (None, (), ())
        assert [process.pid for process in shown.sample.processes] == [external_process]
    finally:
        monitor.close()


def test_a_session_started_from_the_monitor_uses_the_gpus_it_shows(
    nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML knows them, though this machine has no device node of theirs."""
    if kernel_hardware().gpus:
        pytest.skip("this machine has cards of its own")
    nvml.set([IDLE, IDLE])

    async def history(stage: Stage) -> None:
        await stage.until(lambda: stage.main.gpus.device is not None, "the cards are shown")
        await stage.press("a")
        await stage.type("echo $CUDA_VISIBLE_DEVICES")
        await stage.press("enter")
        await stage.becomes(0, StateName.SUCCEEDED)
        assert [(slot.kind, slot.devices) for slot in stage.snapshot.slots] == [
            (DeviceKind.GPU, ("0",)),
            (DeviceKind.GPU, ("1",)),
        ]
        assert stage.job(0).attempts[0].gpus == ("0",)
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, history=history) == 0


def test_the_monitor_closes_at_once_although_the_driver_hangs(nvml: Any) -> None:
    nvml.set([IDLE, IDLE], delays={"nvmlDeviceGetUtilizationRates@1": 600.0})
    monitor = Monitor()
    monitor.start()
    device_when(monitor, 1, lambda found: found.sample.status is Status.STALE, "a GPU is stale")
    monitor.close()  # would not return if it waited for the driver


def test_without_gpus_the_monitor_shows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputui.session.devices.samplers.driver_present", lambda: False)
    news: list[int] = []
    monitor = Monitor(lambda: news.append(1))
    monitor.start()
    try:
        until(lambda: monitor.picture.host is not None and monitor.picture.host.utilization is not None, "it is shown")
        assert monitor.picture.kind is DeviceKind.CPU
        assert news
    finally:
        monitor.close()


def test_external_processes_and_lost_gpus_are_recorded(nvml: Any, app: Owner, external_process: int) -> None:
    def spans() -> list[RecordedSpan]:
        return app.do(lambda act: app.store.spans()).result(60)

    busy = {"mem_used": "11G", "util": 90, "procs": [f"{external_process} 10G C"]}
    nvml.set([IDLE, busy, IDLE])
    until(lambda: any(span.kind is SpanKind.EXTERNAL for span in spans()), "its coming is stored")
    shown = device_when(app, 1, lambda found: found.share.owner is LoadOwner.OTHERS, "the load is theirs")
    assert f"pid {external_process}, 10.0G" in (shown.blocked or "")
    assert [slot.state for slot in shown_slots(app.snapshot)] == ["free", "blocked"]
    nvml.set([IDLE, IDLE, IDLE], errors={"*@0": "GPU_IS_LOST"})
    device_when(app, 1, lambda found: found.free_at is not None, "it is counted down")
    until(lambda: any(span.kind is SpanKind.TROUBLE for span in spans()), "the lost card is stored")
    until(lambda: all(span.until for span in spans() if span.kind is SpanKind.EXTERNAL), "its leaving is stored")
    held = next(span for span in spans() if span.kind is SpanKind.EXTERNAL)
    assert (held.device, held.pid, held.memory) == ("1", external_process, 10 * 1024**3)
    lost = next(span for span in spans() if span.kind is SpanKind.TROUBLE)
    assert (lost.device, lost.until) == ("0", None)
    assert device_when(app, 0, lambda found: found.warnings, "a warning").warnings[0].words.startswith("lost at ")
