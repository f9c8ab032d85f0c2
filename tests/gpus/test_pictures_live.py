"""What an app's owner shows of fake cards read by the real bindings, and the monitor without a session."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.opening import opened
from support.owning import add, ended, owned, spec
from support.stage import Stage
from support.waiting import until

from gputui.core.job import StateName
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.gpus.hardware import kernel_hardware
from gputui.gpus.history import LoadOwner
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.gpus.sample import Status
from gputui.session.control.answers import shown_lanes
from gputui.session.devices.lane_changes import enable, kill_leftovers, killed
from gputui.session.devices.samplers import Monitor
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
    with owned(tmp_path / "s", (Lane(0, ("0",)), Lane(1, ("1",))), OwnerKind.APP) as owner:
        yield owner


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process of nobody's session."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def device(seen: Owner | Monitor, index: int) -> DevicePicture | None:
    return next((each for each in seen.picture.devices if each.sample.index == index), None)


def state(seen: Owner, index: int) -> LaneState | None:
    found = device(seen, index)
    return found.state if found is not None and found.sample.name != "GPU" else None


def test_cards_are_shown_with_what_they_are_to_the_session(app: Owner) -> None:
    until(lambda: state(app, 2) is LaneState.OFF, "the card without a lane is off")
    [job] = add(app, spec("sleep 600"))
    until(lambda: state(app, 0) is LaneState.BUSY, "the first card has the job")
    shown = device(app, 0)
    assert shown is not None
    assert shown.jobs == (job,)
    unused = device(app, 2)
    assert unused is not None
    assert enable(app, unused).result(60) == "GPU 2 takes jobs again"
    assert [lane.devices for lane in app.snapshot.lanes] == [("0",), ("1",), ("2",)]
    app.do(Commands(killed(shown, app.snapshot))).result(60)
    ended(app, job)


def test_a_stranger_is_shown_and_counted_down_after_it_left(app: Owner, nvml: Any, stranger: int) -> None:
    nvml.set([{"mem_used": "11G", "procs": [f"{stranger} 10G C"]}, IDLE, IDLE])
    until(lambda: (found := device(app, 0)) is not None and found.strangers, "the stranger is seen")
    shown = device(app, 0)
    assert shown is not None
    assert (shown.strangers[0].pid, shown.strangers[0].user) == (stranger, pwd.getpwuid(os.getuid()).pw_name)
    assert f"pid {stranger}, 10.0G" in (shown.blocked or "")
    assert [lane.state for lane in shown_lanes(app.snapshot)] == ["blocked", "free"]
    nvml.set([IDLE, IDLE, IDLE])
    until(lambda: (found := device(app, 0)) is not None and found.free_at is not None, "it is counted down")


def test_what_an_ended_job_left_on_a_card_can_be_ended_and_nothing_else(
    app: Owner, nvml: Any, stranger: int, tmp_path: Path
) -> None:
    [job] = add(app, spec(f"setsid sleep 600 & echo $! >{tmp_path}/left"))
    ended(app, job)
    left = int((tmp_path / "left").read_text())
    try:
        nvml.set([{"mem_used": "3G", "procs": [f"{left} 2G C", f"{stranger} 1G C"]}, IDLE, IDLE])
        until(lambda: (found := device(app, 0)) is not None and found.leftovers, "what it left is seen")
        shown = device(app, 0)
        assert shown is not None
        assert [(each.pid, each.job, each.attempt) for each in shown.leftovers] == [(left, job, 1)]
        assert kill_leftovers(app, shown).result(60) == f"ending what #{job} left on GPU 0"
        until(lambda: not _lives(left), "it has ended")
        assert _lives(stranger)
    finally:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        content = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return content.rpartition(") ")[2][0] not in "ZX"


def test_a_hostile_token_on_a_card_does_not_harm_the_owner(app: Owner, nvml: Any) -> None:
    token = {**os.environ, "GPUTUI_RUN": f"{app.identity.uuid}.x.y"}
    hostile = subprocess.Popen(["sleep", "600"], env=token)
    try:
        nvml.set([{"mem_used": "3G", "procs": [f"{hostile.pid} 2G C"]}, IDLE, IDLE])
        until(lambda: not app.alive or ((found := device(app, 0)) is not None and found.strangers), "it was looked at")
    finally:
        hostile.kill()
        hostile.wait()
    assert app.alive


def test_the_monitor_shows_cards_without_a_session(nvml: Any, stranger: int) -> None:
    nvml.set([{"mem_used": "11G", "util": "37", "procs": [f"{stranger} 10G C"]}, IDLE])
    monitor = Monitor()
    monitor.start()
    try:
        until(lambda: (found := device(monitor, 0)) is not None and found.sample.utilization == 37, "figures come")
        shown = device(monitor, 0)
        assert shown is not None
        assert (shown.state, shown.strangers, shown.jobs) == (None, (), ())
        assert [process.pid for process in shown.sample.processes] == [stranger]
    finally:
        monitor.close()


def test_a_session_begun_from_the_monitor_runs_on_the_cards_it_shows(
    nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML knows them, though this machine has no device node of theirs."""
    if kernel_hardware().gpus:
        pytest.skip("this machine has cards of its own")
    nvml.set([IDLE, IDLE])

    async def story(stage: Stage) -> None:
        await stage.until(lambda: stage.main.gpus.device is not None, "the cards are shown")
        await stage.press("a")
        await stage.type("echo $CUDA_VISIBLE_DEVICES")
        await stage.press("enter")
        await stage.becomes(0, StateName.SUCCEEDED)
        assert [(lane.kind, lane.devices) for lane in stage.snapshot.lanes] == [
            (DeviceKind.GPU, ("0",)),
            (DeviceKind.GPU, ("1",)),
        ]
        assert stage.job(0).attempts[0].gpus == ("0",)
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, story=story) == 0


def test_the_monitor_closes_at_once_although_the_driver_hangs(nvml: Any) -> None:
    nvml.set([IDLE, IDLE], delays={"nvmlDeviceGetUtilizationRates@1": 25.0})
    monitor = Monitor()
    monitor.start()
    until(lambda: (found := device(monitor, 1)) is not None and found.sample.status is Status.STALE, "a card is stale")
    began = time.monotonic()
    monitor.close()
    assert time.monotonic() - began < 5, "it did not wait for the driver"


def test_without_cards_the_monitor_shows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_strangers_hours_and_a_lost_card_are_recorded_and_coloured_as_theirs(
    nvml: Any, app: Owner, stranger: int
) -> None:
    def spans() -> list[RecordedSpan]:
        return app.do(lambda act: app.spans()).result(60)

    busy = {"mem_used": "11G", "util": 90, "procs": [f"{stranger} 10G C"]}
    nvml.set([IDLE, busy, IDLE])
    until(lambda: any(span.kind is SpanKind.STRANGER for span in spans()), "its coming is stored")
    until(lambda: (seen := device(app, 1)) is not None and seen.share.owner is LoadOwner.OTHERS, "the load is theirs")
    nvml.set([IDLE, IDLE, IDLE], errors={"*@0": "GPU_IS_LOST"})
    until(lambda: any(span.kind is SpanKind.TROUBLE for span in spans()), "the lost card is stored")
    until(lambda: all(span.until for span in spans() if span.kind is SpanKind.STRANGER), "its leaving is stored")
    held = next(span for span in spans() if span.kind is SpanKind.STRANGER)
    assert (held.device, held.pid, held.memory) == ("1", stranger, 10 * 1024**3)
    lost = next(span for span in spans() if span.kind is SpanKind.TROUBLE)
    assert (lost.device, lost.until) == ("0", None)
    seen = device(app, 0)
    assert seen is not None
    assert seen.warnings[0].words.startswith("lost at ")
