"""Devices as an owner shows them, and commands on a device while jobs run. Real jobs, no hardware."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Kill, Pause, Refusal, Requeue, Resume
from gputui.core.slots import DeviceKind, Slot
from gputui.core.spans import SpanKind
from gputui.gpus.picture import DevicePicture, SlotState
from gputui.session.devices.slot_changes import drain, enable, stop_commands
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner

CPU_SLOTS = tuple(Slot(number, (), DeviceKind.CPU) for number in range(2))


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
    assert (device(app, 0).state, device(app, 1).state) == (SlotState.BUSY, SlotState.FREE)
    assert device(app, 1).sample.utilization == 0
    app.do(Commands(stop_commands(device(app, 0), app.snapshot, Kill))).result(60)
    ended(app, job)
    until(lambda: device(app, 0).state is SlotState.FREE, "the device is free again")


def test_simulated_devices_are_not_sampled_while_nobody_watches(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("true"))
        ended(owner, job)
        assert owner.picture.devices == ()
        assert owner.devices.sample is None


def test_cpu_slots_show_their_jobs_and_the_machine_and_can_be_drained(tmp_path: Path) -> None:
    with owned(tmp_path / "s", CPU_SLOTS, OwnerKind.APP) as app:
        [job] = add(app, spec("while :; do :; done"))
        until(lambda: any(each.sample.utilization for each in app.picture.devices), "the slot's work shows")
        busy = next(each for each in app.picture.devices if each.jobs)
        assert busy.jobs == (job,)
        assert busy.sample.utilization
        assert app.picture.host is not None
        assert app.picture.host.memory_total
        idle = next(each for each in app.picture.devices if not each.jobs)
        message = drain(app, idle).result(60)
        assert message == f"CPU slot {idle.sample.index} drained: no jobs start there"
        assert device(app, idle.sample.index).drained
        app.do(Commands(stop_commands(busy, app.snapshot, Kill))).result(60)
        ended(app, job)


def test_devices_that_cannot_be_measured_are_shown_nevertheless(tmp_path: Path) -> None:
    slots = (Slot(0, ("0",)), Slot(1, ("1",)))
    with owned(tmp_path / "s", slots, OwnerKind.APP) as app:
        until(lambda: len(app.picture.devices) == 2, "both slots are shown")
        assert app.picture.sample is None
        assert [each.sample.utilization for each in app.picture.devices] == [None, None]


def test_a_drained_device_lets_its_job_finish_and_can_be_enabled_again(app: Owner, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    seen(app)
    [job] = add(app, spec(f"until test -e {gate}; do sleep 0.01; done"))
    until(lambda: device(app, 0).jobs == (job,), "the job has the first device")
    before = device(app, 0)
    message = f"GPU 0 draining: #{job} may finish, no new jobs start there"
    assert drain(app, before).result(60) == message
    with pytest.raises(Refusal, match="GPU 0 has no slot in this session"):
        drain(app, before).result(60)
    assert device(app, 0).state is SlotState.DRAINING
    enable(app, device(app, 0)).result(60)
    assert (device(app, 0).state, device(app, 0).slots) == (SlotState.BUSY, before.slots)
    drain(app, device(app, 0)).result(60)
    gate.touch()
    ended(app, job)
    until(lambda: device(app, 0).drained, "the device is shown as drained")
    assert len(app.snapshot.slots) == 1
    assert enable(app, device(app, 0)).result(60) == "GPU 0 accepts jobs again"
    until(lambda: device(app, 0).state is SlotState.FREE, "the device is free")
    assert sorted(slot.devices for slot in app.snapshot.slots) == [("0",), ("1",)]


def test_enabling_a_device_restores_all_its_slots(tmp_path: Path) -> None:
    words = ("0", "0", "1")
    slots = tuple(Slot(number, (word,), DeviceKind.SIMULATED) for number, word in enumerate(words))
    with owned(tmp_path / "s", slots, OwnerKind.APP) as app:
        seen(app)
        drain(app, device(app, 0)).result(60)
        assert [slot.devices for slot in app.snapshot.slots] == [("1",)]
        enable(app, device(app, 0)).result(60)
        assert sorted(slot.devices for slot in app.snapshot.slots) == [("0",), ("0",), ("1",)]


def test_the_job_of_a_device_can_be_requeued(app: Owner) -> None:
    seen(app)
    [job] = add(app, spec("sleep 600"))
    until(lambda: app.snapshot[job].state.name == "running", "the job runs")
    drain(app, device(app, 1)).result(60)
    drain(app, device(app, 0)).result(60)
    [outcome] = app.do(Commands(stop_commands(device(app, 0), app.snapshot, Requeue))).result(60)
    assert outcome.refused is None
    until(lambda: app.snapshot[job].state.name == "queued", "the job waits again")
    assert stop_commands(device(app, 0), app.snapshot, Requeue) == ()


def test_the_picture_is_the_same_object_until_something_changes(app: Owner) -> None:
    seen(app)
    pictures = []
    for _ in range(50):
        app.do(lambda act: None).result(60)
        pictures.append(app.picture)
    by_sample = {id(picture.sample): picture for picture in pictures}
    assert all(picture is by_sample[id(picture.sample)] for picture in pictures)
    drain(app, device(app, 0)).result(60)
    assert app.picture is not pictures[-1]


def test_the_next_owner_continues_the_history_of_devices(tmp_path: Path) -> None:
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
        spans = owner.do(lambda act: owner.store.spans()).result(60)
    assert [(span.kind, span.text) for span in spans] == [(SpanKind.PAUSE, "paused by you"), (SpanKind.AWAY, "")]
    assert all(span.until is not None and span.until >= span.since for span in spans)
    assert spans[1].since == 1e9
