"""`--gpu-file`: slots follow a file; an unreadable one changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nvml import card
from support.sessions import Session, add, change_settings, ended, owned, said, spec
from support.waiting import until

from gputui.core.slots import Slot
from gputui.gpus import hardware
from gputui.gpus.sample import DeviceSample
from gputui.session.owner.owner import Owner


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with owned(tmp_path / "s", slots=1) as owner:
        yield owner


def test_the_owner_never_waits_for_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if hardware.kernel_hardware().gpus:
        pytest.skip("this machine has GPUs of its own")
    (tmp_path / hardware.LIBRARY).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    asked_in: list[str] = []

    def named(search_path: str) -> tuple[DeviceSample, ...]:
        asked_in.append(threading.current_thread().name)
        return tuple(card(index) for index in range(3))

    monkeypatch.setattr(hardware, "_gpus_by_nvml", named)
    (tmp_path / "gpus").write_text("all\n")
    with owned(tmp_path / "s", slots=(Slot(0, ("0",)),)) as owner:
        owner.do(lambda act: owner.devices.uuid_of("0")).result(60)
        change_settings(owner, gpu_file=str(tmp_path / "gpus"))
        until(lambda: len(owner.snapshot.slots) == 3, "there are three slots")
    assert asked_in == ["gputui-gpu-file"]


def test_slots_follow_the_file_and_stay_while_it_is_a_fifo(owner: Owner, tmp_path: Path) -> None:
    file = tmp_path / "gpus"
    os.mkfifo(file)
    change_settings(owner, gpu_file=str(file))
    log = Path(owner.paths.log)
    until(lambda: log.exists() and "not a regular file" in log.read_text(), "the owner says so")
    [job] = add(owner, spec("true"))
    assert ended(owner, job).state.name == "succeeded"
    file.unlink()
    file.write_text("# mine\nsim:3\n")
    until(lambda: len(owner.snapshot.slots) == 3, "the slots follow the file")


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    session = Session(tmp_path)
    file = tmp_path / "gpus"
    os.mkfifo(file)
    done = session.run("--gpu-file", file, session.write("true"), gpus=None)
    assert done.returncode == 2
    assert said(done) == f"--gpu-file {file}: not a regular file; it must be readable repeatedly"
