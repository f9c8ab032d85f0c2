"""What an owner shows of its devices, and what can be done about one while jobs run. Real jobs, no hardware."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Pause, Refusal, Resume
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.spans import SpanKind
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.session.devices.lane_changes import drain, enable, killed, requeued
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner

CPU_LANES = tuple(Lane(number, (), DeviceKind.CPU) for number in range(2))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Owner]:
    """An app's session on two simulated devices."""
    with owned(tmp_path / "s", kind=OwnerKind.APP) as owner:
        yield owner


def device(owner: Owner, index: int) -> DevicePicture:
    return next(each for each in owner.picture.devices if each.sample.index == index)


def seen(owner: Owner) -> None:
    until(lambda: owner.picture.sample is not None and len(owner.picture.devices) == 2, "both devices are shown")


def test_jobs_on_simulated_devices_make_them_busy_for_an_app(app: Owner) -> None:
    seen(app)
    [job] = add(app, spec("sleep 600"))
    until(lambda: (device(app, 0).sample.utilization or 0) > 50, "the device works")
    assert device(app, 0).jobs == (job,)
    assert (device(app, 0).state, device(app, 1).state) == (LaneState.BUSY, LaneState.FREE)
    assert device(app, 1).sample.utilization == 0
    app.do(Commands(killed(device(app, 0), app.snapshot))).result(60)
    ended(app, job)
    until(lambda: device(app, 0).state is LaneState.FREE, "the device is free again")


def test_nobody_measures_for_the_eye_where_nobody_looks(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("true"))
        ended(owner, job)
        assert owner.picture.devices == ()
        assert owner.devices.sample is None


def test_cpu_lanes_show_their_jobs_and_the_machine(tmp_path: Path) -> None:
    with owned(tmp_path / "s", CPU_LANES, OwnerKind.APP) as app:
        [job] = add(app, spec("while :; do :; done"))
        until(lambda: any(each.sample.utilization for each in app.picture.devices), "the lane's work shows")
        busy = next(each for each in app.picture.devices if each.jobs)
        assert busy.jobs == (job,)
        assert busy.sample.utilization
        assert app.picture.host is not None
        assert app.picture.host.memory_total
        app.do(Commands(killed(busy, app.snapshot))).result(60)
        ended(app, job)


def test_lanes_on_devices_that_nobody_can_measure_are_shown_all_the_same(tmp_path: Path) -> None:
    lanes = (Lane(0, ("0",)), Lane(1, ("1",)))
    with owned(tmp_path / "s", lanes, OwnerKind.APP) as app:
        until(lambda: len(app.picture.devices) == 2, "both lanes are shown")
        assert app.picture.sample is None
        assert [each.sample.utilization for each in app.picture.devices] == [None, None]


def test_a_drained_device_gives_its_job_to_the_end_and_can_be_enabled_again(app: Owner, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    seen(app)
    [job] = add(app, spec(f"until test -e {gate}; do sleep 0.01; done"))
    until(lambda: device(app, 0).jobs == (job,), "the job has the first device")
    said = drain(app, device(app, 0)).result(60)
    assert said == f"GPU 0 is draining: #{job} may end, then nothing starts there"
    assert device(app, 0).state is LaneState.DRAINING
    gate.touch()
    ended(app, job)
    until(lambda: device(app, 0).drained, "the device is shown as drained")
    assert len(app.snapshot.lanes) == 1
    assert enable(app, device(app, 0)).result(60) == "GPU 0 takes jobs again"
    until(lambda: device(app, 0).state is LaneState.FREE, "the device is free")
    assert sorted(lane.devices for lane in app.snapshot.lanes) == [("0",), ("1",)]


def test_a_device_enabled_while_it_drains_keeps_its_lane_and_its_job(app: Owner) -> None:
    seen(app)
    [job] = add(app, spec("sleep 600"))
    until(lambda: device(app, 0).jobs == (job,), "the job has the first device")
    before = device(app, 0).lanes
    drain(app, device(app, 0)).result(60)
    enable(app, device(app, 0)).result(60)
    assert device(app, 0).state is LaneState.BUSY
    assert device(app, 0).lanes == before
    app.do(Commands(killed(device(app, 0), app.snapshot))).result(60)
    ended(app, job)


def test_a_device_with_several_lanes_gets_them_all_back(tmp_path: Path) -> None:
    words = ("0", "0", "1")
    lanes = tuple(Lane(number, (word,), DeviceKind.SIMULATED) for number, word in enumerate(words))
    with owned(tmp_path / "s", lanes, OwnerKind.APP) as app:
        seen(app)
        drain(app, device(app, 0)).result(60)
        assert [lane.devices for lane in app.snapshot.lanes] == [("1",)]
        enable(app, device(app, 0)).result(60)
        assert sorted(lane.devices for lane in app.snapshot.lanes) == [("0",), ("0",), ("1",)]


def test_a_drained_cpu_lane_stays_in_sight(tmp_path: Path) -> None:
    with owned(tmp_path / "s", CPU_LANES, OwnerKind.APP) as app:
        until(lambda: app.picture.sample is not None, "the lanes are shown")
        assert drain(app, device(app, 1)).result(60) == "CPU lane 1 is drained: nothing starts there"
        assert device(app, 1).drained
        enable(app, device(app, 1)).result(60)
        assert device(app, 1).state is LaneState.FREE


def test_what_was_drained_already_is_refused(app: Owner) -> None:
    seen(app)
    shown = device(app, 0)
    drain(app, shown).result(60)
    with pytest.raises(Refusal, match="GPU 0 has no lane in this session"):
        drain(app, shown).result(60)


def test_the_job_of_a_device_can_be_put_back_into_the_queue(app: Owner) -> None:
    seen(app)
    [job] = add(app, spec("sleep 600"))
    until(lambda: app.snapshot[job].state.name == "running", "the job runs")
    drain(app, device(app, 1)).result(60)
    drain(app, device(app, 0)).result(60)
    [outcome] = app.do(Commands(requeued(device(app, 0), app.snapshot))).result(60)
    assert outcome.refused is None
    until(lambda: app.snapshot[job].state.name == "queued", "the job waits again")
    assert requeued(device(app, 0), app.snapshot) == ()


def test_the_picture_is_the_same_object_until_a_sample_or_a_lane_changes(app: Owner) -> None:
    seen(app)
    pictures = []
    for _ in range(50):
        app.do(lambda act: None).result(60)
        pictures.append(app.picture)
    by_sample = {id(picture.sample): picture for picture in pictures}
    assert all(picture is by_sample[id(picture.sample)] for picture in pictures)
    drain(app, device(app, 0)).result(60)
    assert app.picture is not pictures[-1]


def test_the_history_of_devices_goes_on_in_the_next_owner(tmp_path: Path) -> None:
    with owned(tmp_path / "s", kind=OwnerKind.APP) as owner:
        until(lambda: "SIM-0" in owner.picture.history.tracks, "something was recorded")
        first = owner.picture.history.tracks["SIM-0"][0]
    with owned(tmp_path / "s", kind=OwnerKind.APP) as owner:
        until(lambda: "SIM-0" in owner.picture.history.tracks, "the history is there again")
        later = owner.picture.history.tracks["SIM-0"][0]
    assert len(later.figures[0]) - (later.last - first.last) >= len(first.figures[0])


def test_pauses_and_times_without_an_owner_are_recorded(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        owner.do(Commands((Pause(),))).result(60)
        owner.do(Commands((Resume(),))).result(60)
    os.utime(tmp_path / "s" / ".gputui" / "history", (1e9, 1e9))
    with owned(tmp_path / "s") as owner:
        spans = owner.do(lambda act: owner.spans()).result(60)
    assert [(span.kind, span.text) for span in spans] == [(SpanKind.PAUSE, "paused by you"), (SpanKind.AWAY, "")]
    assert all(span.until is not None and span.until >= span.since for span in spans)
    assert spans[1].since == 1e9
