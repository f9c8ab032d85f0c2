"""`--gpu-file`: lanes that follow a file, whatever stands in its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.owning import add, change_settings, ended, owned, spec
from support.sessions import Session, said
from support.waiting import until

from gputui.core.lanes import Lane
from gputui.gpus import hardware
from gputui.session.owner.owner import Owner


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with owned(tmp_path / "s", lanes=1) as owner:
        yield owner


def followed(owner: Owner, file: Path) -> None:
    change_settings(owner, gpu_file=str(file))


def test_the_lanes_follow_the_file(owner: Owner, tmp_path: Path) -> None:
    file = tmp_path / "gpus"
    file.write_text("# mine\nsim:3\n")
    followed(owner, file)
    until(lambda: len(owner.snapshot.lanes) == 3, "there are three lanes")


def test_an_owner_never_waits_for_the_driver_to_name_its_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for its lanes nor for the environment of a job nor for the file, where only NVML knows the GPUs."""
    if hardware.kernel_hardware().gpus:
        pytest.skip("this machine has GPUs of its own")
    (tmp_path / hardware.LIBRARY).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    asked_in: list[str] = []

    def named(search_path: str) -> tuple[hardware.Gpu, ...]:
        asked_in.append(threading.current_thread().name)
        return tuple(hardware.Gpu(index) for index in range(3))

    monkeypatch.setattr(hardware, "_gpus_by_nvml", named)
    (tmp_path / "gpus").write_text("all\n")
    with owned(tmp_path / "s", lanes=(Lane(0, ("0",)),)) as owner:
        owner.do(lambda act: owner.devices.uuid_of("0")).result(60)
        followed(owner, tmp_path / "gpus")
        until(lambda: len(owner.snapshot.lanes) == 3, "there are three lanes")
    assert asked_in == ["gputui-gpu-file"]


def test_a_fifo_in_its_place_hangs_nobody_and_the_lanes_stay(owner: Owner, tmp_path: Path) -> None:
    file = tmp_path / "gpus"
    os.mkfifo(file)
    followed(owner, file)
    log = Path(owner.paths.log)
    until(lambda: log.exists() and "not a regular file" in log.read_text(), "the owner says so")
    (job,) = add(owner, spec("true"))
    assert ended(owner, job).state.name == "succeeded"


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    session = Session(tmp_path)
    file = tmp_path / "gpus"
    os.mkfifo(file)
    done = session.run("--gpu-file", file, session.write("true"), gpus=None)
    assert done.returncode == 2
    assert said(done) == f"--gpu-file {file}: it is not a regular file; give one that can be read again and again"
