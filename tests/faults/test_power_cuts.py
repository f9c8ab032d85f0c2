"""After a power cut no added job is lost, and no job that left a trace on the disk runs again."""

from __future__ import annotations

import fcntl
import json
import os
import random
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.machines import _mount
from support.sessions import VICTIM, Session
from support.waiting import until

from gputui.core.job import Ended

EXT4_IOC_SHUTDOWN = 0x8004587D


WITHOUT_FLUSHING = 2


class LoopDisk:
    """An ext4 file system in a file, from which the power can be taken."""

    def __init__(self, directory: Path, size: str = "64M") -> None:
        """Create the file system, or skip the test if that is impossible here."""
        self.directory = directory
        self._image = directory.with_suffix(".image")
        directory.mkdir()
        with open(self._image, "wb") as file:
            subprocess.run(["truncate", "--size", size, file.name], check=True)
        try:
            subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no ext4 can be made here: {error}")
        self.mount()

    def mount(self) -> None:
        _mount("-o", "loop", str(self._image), str(self.directory))

    def cut_power(self) -> None:
        """Drop what has not reached the disk. Processes with open files there must end before `mount`."""
        fd = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(fd)

    def unmount(self) -> None:
        until(lambda: not subprocess.run(["umount", str(self.directory)], capture_output=True).returncode, "it is free")


COMMIT_INTERVAL = 5.0
"""Seconds within which ext4 writes changes to the disk, unless the machine is busy."""
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
def test_after_a_power_cut_only_jobs_without_a_trace_may_run_again(session: Session, disk: LoopDisk, seed: int) -> None:
    session.put_on(disk.directory)
    jobs = session.write(*(f"echo {job} $(date +%s.%N) >>{session.lines}; sleep 0.02" for job in range(JOBS)))
    with session.running(jobs, "--pause-after", "0", gpus="0,1,2,3"):
        until(lambda: session.lines.exists(), "jobs still running")
        time.sleep(random.Random(seed).uniform(0.2, 7.0))
        disk.cut_power()
        cut = time.time()
    until(lambda: not session.processes(), "everything is dead")
    before = start_times(session)
    disk.unmount()
    disk.mount()
    traced = traces(session)
    done = session.run("--pause-after", "0", gpus="0,1,2,3", **ANOTHER_BOOT)  # type: ignore[arg-type]
    assert done.returncode in (0, 1), done.stderr
    assert len(session.jobs()) == JOBS
    assert all(isinstance(job.state, Ended) for job in session.jobs())
    again = {job for job, times in start_times(session).items() if len(times) > 1}
    assert all(len(times) <= 2 for times in start_times(session).values())
    assert not again & traced
    early = [job for job in again if before[job][0] < cut - 2 * COMMIT_INTERVAL]
    assert not early


def start_times(session: Session) -> dict[str, list[float]]:
    """Return when each job started, each time."""
    times: dict[str, list[float]] = {}
    for line in session.lines.read_text().splitlines():
        job, at = line.split()
        times.setdefault(job, []).append(float(at))
    return times


def traces(session: Session) -> set[str]:
    """Return the jobs whose attempt has left anything on the disk."""
    logs = {path.parent.name.removeprefix("job_") for path in session.root.glob("job_*/*.OUT")}
    claims = {path.name.partition(".")[0] for path in session.claims_directory.iterdir()}
    return logs | claims


@pytest.mark.parametrize("trace", ["log", "claim", "note"])
def test_an_attempt_that_left_a_trace_but_is_not_in_the_store_is_lost_and_not_run(session: Session, trace: str) -> None:
    """The store does not know the last job's attempt, as if a power cut took its newest writes."""
    jobs = session.write(session.told(0, "sleep 600"), *(session.told(job) for job in range(1, 101)))
    with session.running(jobs, gpus="0"):
        until((session.job_directory(0) / "INFO").exists, "the first job runs and is noted")
        until(lambda: session.runs(), "its command too")
    leave_trace(session, trace, 100)
    assert session.run(**ANOTHER_BOOT).returncode == 1  # type: ignore[arg-type]
    assert session.runs() == {str(job): 1 for job in range(100)}
    assert session.states() == ["lost", *["succeeded"] * 99, "lost"]
    for job in (0, 100):
        assert session.last(job).signature == "the machine went down before its end was recorded"


def leave_trace(session: Session, trace: str, job: int) -> None:
    """Write what an attempt leaves on the disk."""
    session.job_directory(job).mkdir()
    match trace:
        case "log":
            (session.job_directory(job) / f"job_{job}.OUT").touch()
        case "claim":
            (session.claims_directory / f"{job}.1").write_text("4121\n")
        case "note":
            note = (session.job_directory(0) / "INFO").read_text()
            (session.job_directory(job) / "INFO").write_text(note.replace('"id":0,', f'"id":{job},'))
