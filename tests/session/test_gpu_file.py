"""`--gpu-file`: lanes that follow a file, whatever stands in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.owning import add, change_settings, ended, owned, spec
from support.sessions import Session, said
from support.waiting import until

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
