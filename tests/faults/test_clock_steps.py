"""Somebody sets the clock by hours, and back: limits, grace and back-offs last as long as they were meant to."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.sessions import Process, alive
from support.shifted_clock import ShiftedClock
from support.waiting import until

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
def home_of(folder: Path) -> Iterator[Home]:
    home = Home(folder)
    try:
        yield home
    finally:
        home.end()


@contextmanager
def run_of(home: Home, *words: str, jobs: int = 1) -> Iterator[Process]:
    with home.running(*words, gpus="0,1") as owner:
        until(lambda: len(home.runs()) == jobs, "the jobs run")
        for job in range(jobs):
            home.claim_pid(job)
        yield owner


def turn(home: Home) -> None:
    """The owner looks at its clock: a change that changes nothing."""
    home.command({"type": "priority", "job": 0, "priority": 30})


def show(home: Home, job: int = 0) -> dict[str, object]:
    found: dict[str, object] = home.ask("show", job=job)
    return found


@steps
def test_a_time_limit_is_neither_met_early_nor_lifted(clock: ShiftedClock, tmp_path: Path, by: float) -> None:
    with home_of(tmp_path) as home:
        slow = home.write(f"#: timeout=4\n{home.told(0, LONG)}\n#: timeout=600\n{home.told(1, LONG)}")
        begun = time.monotonic()
        with run_of(home, str(slow), jobs=2):
            clock.set(by)
            turn(home)
            until(lambda: show(home, 0)["state"] == "timed_out", "its time is over")
            assert time.monotonic() - begun >= 4
            assert show(home, 1)["state"] == "running"


@pytest.mark.parametrize("owner_dies", [False, True])
@steps
def test_grace_is_neither_cut_short_nor_endless_whoever_owns(
    clock: ShiftedClock, tmp_path: Path, by: float, owner_dies: bool
) -> None:
    stubborn = "trap 'echo asked >>asked' TERM; while :; do sleep 0.05; done"
    with home_of(tmp_path) as home, run_of(home, "--grace", "5", str(home.write(home.told(0, stubborn)))) as owner:
        until(lambda: len(home.processes()) > 1, "the command runs")
        home.waiter()
        begun = time.monotonic()
        home.command({"type": "kill", "job": 0})
        clock.set(by)
        if owner_dies:
            owner.kill()
            home.owner()
        turn(home)
        pid = home.claim_pid(0)
        until(lambda: not alive(pid), "grace is over")
        assert time.monotonic() - begun > 4.9
        until(lambda: show(home)["state"] == "killed", "it is killed")


@steps
def test_a_back_off_lasts_as_long_as_it_was_meant_to(clock: ShiftedClock, tmp_path: Path, by: float) -> None:
    with home_of(tmp_path) as home:
        fails = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}"
        uptime = f"cut -d' ' -f1 /proc/uptime >>{tmp_path}/begun; {fails}"
        jobs = home.write(f"#: retries=1\n{home.told(0, uptime)}")
        with home.running(str(jobs), gpus="0") as owner:
            until(lambda: (tmp_path / "again").exists(), "it failed")
            clock.set(by)
            assert owner.wait(60) == 0
        assert home.runs() == {"0": 2}
        first, second = map(float, (tmp_path / "begun").read_text().split())
        assert second - first > 1.9


@steps
def test_what_is_shown_of_a_running_job_goes_on_as_before(clock: ShiftedClock, tmp_path: Path, by: float) -> None:
    with home_of(tmp_path) as home, run_of(home, str(home.write(home.told(0, LONG)))):
        before = show(home)["started"]
        clock.set(by)
        turn(home)
        until(lambda: show(home)["started"] != before, "the step was seen")
        assert show(home)["started"] == pytest.approx(float(str(before)) + by, abs=2)


@steps
def test_a_file_loaded_again_reruns_what_failed_before_the_step(clock: ShiftedClock, tmp_path: Path, by: float) -> None:
    with home_of(tmp_path) as home:
        jobs = home.write(home.told(0, "exit 1"))
        assert home.run(jobs, gpus="0").returncode == 1
        clock.set(by)
        assert home.run(jobs, gpus="0").returncode == 1
        assert home.runs() == {"0": 2}


def test_whoever_sets_the_clock_however_often_no_job_is_timed_out_or_killed(
    clock: ShiftedClock, tmp_path: Path
) -> None:
    """A campaign: steps by chance, owners that die, and jobs that all end well within their limits."""
    chance = random.Random(7)
    with home_of(tmp_path) as home:
        lines = [f"#: timeout=300 retries=0\n{home.told(job, 'sleep 0.2')}" for job in range(40)]
        with home.running(str(home.write(*lines)), gpus="0,1"):
            until(lambda: home.runs(), "jobs run")
            for round in range(12):
                clock.set(chance.uniform(-1, 1) * 20 * HOUR)
                if round % 3 == 2 and (holder := home.holder()) is not None:
                    kill(holder.pid)
                ran = len(home.runs())
                until(lambda: len(home.runs()) > ran or len(home.runs()) == 40, "the queue goes on")  # noqa: B023
            until(lambda: len(home.runs()) == 40, "all ran")
            home.gone("the queue is done")
        assert set(home.states()) == {"succeeded"}
        assert set(home.runs().values()) == {1}
        for job in home.jobs():
            [attempt] = job.attempts
            assert 0 <= attempt.ended - attempt.started < HOUR
