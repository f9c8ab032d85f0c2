"""The clock is set by hours, and back: time limits, grace periods and back-offs keep their length."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.sessions import Home, Process, alive, kill
from support.waiting import until

_SITE = """\
import os, time
_true_time = time.time
_path = os.environ.get("SHIFTED_CLOCK")
def _shifted():
    try:
        with open(_path) as file:
            return _true_time() + float(file.read() or 0)
    except (OSError, ValueError):
        return _true_time()
if _path:
    time.time = _shifted
"""


class ShiftedClock:
    """A clock that is ahead of the true time in all processes started with `environment`."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        site = directory / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE)
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        self.environment = {"SHIFTED_CLOCK": str(self._file), "PYTHONPATH": path}
        self.set(0.0)

    def set(self, ahead: float) -> None:
        """Set how many seconds the clock is ahead. Readers never see a half-written file."""
        part = self._file.with_suffix(".part")
        part.write_text(str(ahead))
        part.replace(self._file)


HOUR = 3600.0
LONG = "exec sleep 600"
steps = pytest.mark.parametrize("by", [-5 * HOUR, 5 * HOUR])


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShiftedClock:
    made = ShiftedClock(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@contextmanager
def run_of(home: Home, *words: str, jobs: int = 1) -> Iterator[Process]:
    with home.running(*words, gpus="0,1") as owner:
        until(lambda: len(home.runs()) == jobs, "the jobs run")
        for job in range(jobs):
            home.claim_pid(job)
        yield owner


def show(home: Home, job: int = 0) -> dict[str, object]:
    found: dict[str, object] = home.ask("show", job=job)
    return found


@steps
def test_a_time_limit_keeps_its_length(clock: ShiftedClock, home: Home, by: float) -> None:
    slow = home.write(f"#: timeout=4\n{home.told(0, LONG)}\n#: timeout=600\n{home.told(1, LONG)}")
    started = time.monotonic()
    with run_of(home, str(slow), jobs=2):
        clock.set(by)
        home.command({"type": "priority", "job": 0, "priority": 30})  # the owner reads its clock
        until(lambda: show(home, 0)["state"] == "timed_out", "its time is over")
        assert time.monotonic() - started >= 4
        assert show(home, 1)["state"] == "running"


@pytest.mark.parametrize("owner_dies", [False, True])
@steps
def test_a_grace_period_keeps_its_length_also_with_a_new_owner(
    clock: ShiftedClock, home: Home, by: float, owner_dies: bool
) -> None:
    stubborn = "trap 'echo asked >>asked' TERM; while :; do sleep 0.05; done"
    with run_of(home, "--grace", "2", str(home.write(home.told(0, stubborn)))) as owner:
        until(lambda: len(home.processes()) > 1, "the command runs")
        home.waiter()
        started = time.monotonic()
        home.command({"type": "kill", "job": 0})
        clock.set(by)
        if owner_dies:
            owner.kill()
            home.owner()
        home.command({"type": "priority", "job": 0, "priority": 30})  # the owner reads its clock
        pid = home.claim_pid(0)
        until(lambda: not alive(pid), "grace period over")
        assert time.monotonic() - started > 1.9
        until(lambda: show(home)["state"] == "killed", "it is killed")


@steps
def test_a_back_off_keeps_its_length(clock: ShiftedClock, home: Home, tmp_path: Path, by: float) -> None:
    fails = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}"
    uptime = f"cut -d' ' -f1 /proc/uptime >>{tmp_path}/starts; {fails}"
    jobs = home.write(f"#: retries=1\n{home.told(0, uptime)}")
    with home.running(str(jobs), gpus="0") as owner:
        until(lambda: (tmp_path / "again").exists(), "it failed once")
        clock.set(by)
        assert owner.wait(60) == 0
    assert home.runs() == {"0": 2}
    first, second = map(float, (tmp_path / "starts").read_text().split())
    assert second - first > 1.9


@steps
def test_reloading_a_file_reruns_jobs_that_failed_before_the_step(clock: ShiftedClock, home: Home, by: float) -> None:
    jobs = home.write(home.told(0, "exit 1"))
    assert home.run(jobs, gpus="0").returncode == 1
    clock.set(by)
    assert home.run(jobs, gpus="0").returncode == 1
    assert home.runs() == {"0": 2}


def test_random_clock_steps_time_out_or_kill_no_job(clock: ShiftedClock, home: Home) -> None:
    """Random steps, killed owners, and jobs that all end well within their limits."""
    chance = random.Random(7)
    lines = [f"#: timeout=300 retries=0\n{home.told(job, 'sleep 0.2')}" for job in range(40)]
    with home.running(str(home.write(*lines)), gpus="0,1"):
        until(lambda: home.runs(), "jobs still running")
        for round in range(12):
            clock.set(chance.uniform(-1, 1) * 20 * HOUR)
            if round % 3 == 2 and (holder := home.holder()) is not None:
                kill(holder.pid)
            ran = len(home.runs())
            until(lambda: len(home.runs()) > ran or len(home.runs()) == 40, "the queue continues")  # noqa: B023
        until(lambda: len(home.runs()) == 40, "all ran")
        home.gone("the queue is done")
    assert set(home.states()) == {"succeeded"}
    assert set(home.runs().values()) == {1}
    for job in home.jobs():
        [attempt] = job.attempts
        assert 0 <= attempt.ended - attempt.started < HOUR
