"""The power goes: no added job is lost, and what has left a trace on the disk never runs again."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import LoopDisk
from support.sessions import VICTIM, Session
from support.waiting import until

from gputui.core.job import Ended

COMMIT_INTERVAL = 5.0
"""Seconds after which ext4 has written what it was given, unless the machine is busy."""
JOBS = 400
ANOTHER_BOOT = {"program": VICTIM, "env": {"VICTIM": json.dumps({"boot": "another"})}}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    if os.getuid():
        pytest.skip("only root can mount a disk and cut its power")
    disk = LoopDisk(tmp_path / "disk")
    yield disk
    disk.unmount()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_after_a_power_cut_only_what_left_no_trace_may_run_again(tmp_path: Path, disk: LoopDisk, seed: int) -> None:
    session = Session(tmp_path)
    session.put_on(disk.folder)
    jobs = session.write(*(f"echo {job} $(date +%s.%N) >>{session.lines}; sleep 0.02" for job in range(JOBS)))
    with session.running(jobs, "--pause-after", "0", gpus="0,1,2,3"):
        until(lambda: session.lines.exists(), "jobs run")
        time.sleep(random.Random(seed).uniform(0.2, 7.0))
        disk.cut_power()
        cut = time.time()
    until(lambda: not session.processes(), "everything is dead")
    before = begun(session)
    disk.unmount()
    disk.mount()
    traced = traces(session)
    done = session.run("--pause-after", "0", gpus="0,1,2,3", **ANOTHER_BOOT)  # type: ignore[arg-type]
    assert done.returncode in (0, 1), done.stderr
    assert len(session.jobs()) == JOBS
    assert all(isinstance(job.state, Ended) for job in session.jobs())
    again = {job for job, times in begun(session).items() if len(times) > 1}
    assert all(len(times) <= 2 for times in begun(session).values())
    assert not again & traced
    early = [job for job in again if before[job][0] < cut - 2 * COMMIT_INTERVAL]
    assert not early


def begun(session: Session) -> dict[str, list[float]]:
    """When each job began, for every time it did."""
    times: dict[str, list[float]] = {}
    for line in session.lines.read_text().splitlines():
        job, at = line.split()
        times.setdefault(job, []).append(float(at))
    return times


def traces(session: Session) -> set[str]:
    """The jobs of whose attempt anything has reached the disk."""
    logs = {path.parent.name.removeprefix("job_") for path in session.root.glob("job_*/*.OUT")}
    claims = {path.name.partition(".")[0] for path in session.claims_folder.iterdir()}
    return logs | claims


@pytest.mark.parametrize("trace", ["log", "claim", "note"])
def test_what_left_a_trace_that_the_store_does_not_know_is_lost_and_not_run(tmp_path: Path, trace: str) -> None:
    """The store knows nothing of the last job's attempt, as when a power cut took its newest writes."""
    session = Session(tmp_path)
    jobs = session.write(session.told(0, "sleep 600"), *(session.told(job) for job in range(1, 101)))
    with session.running(jobs, gpus="0"):
        until((session.job_folder(0) / "INFO").exists, "the first job runs and is noted")
        until(lambda: session.runs(), "its command too")
    leave(session, trace, 100)
    assert session.run(**ANOTHER_BOOT).returncode == 1  # type: ignore[arg-type]
    assert session.runs() == {str(job): 1 for job in range(100)}
    assert session.states() == ["lost", *["succeeded"] * 99, "lost"]
    for job in (0, 100):
        assert session.last(job).signature == "the machine went down before its end was seen"


def leave(session: Session, trace: str, job: int) -> None:
    """What an attempt leaves on the disk."""
    session.job_folder(job).mkdir()
    match trace:
        case "log":
            (session.job_folder(job) / f"job_{job}.OUT").touch()
        case "claim":
            (session.claims_folder / f"{job}.1").write_text("4121\n")
        case "note":
            note = (session.job_folder(0) / "INFO").read_text()
            (session.job_folder(job) / "INFO").write_text(note.replace("id: 0", f"id: {job}"))
