"""Killing the owner with SIGKILL at any moment: every job still runs exactly once and keeps its exit code."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.sessions import VICTIM, Process, Session
from support.waiting import PATIENCE, until

from gputui.core.job import Ended
from gputui.core.steps import Step

LATE = 25
"""Maximum time, in hundredths of a second, that a late wrapper takes before it claims."""


ONLY_WITH_KILLS = ("step", "probability", "too_late")
"""Orders that are only given while kills remain. Without a kill, a wrapper would wait forever for a revocation."""


@dataclass
class Tally:
    """The result of a drill."""

    jobs: int = 0
    kills: int = 0
    points: Counter[str] = field(default_factory=Counter)
    """Number of times that the owner killed itself at each step."""
    reissued: int = 0
    """Number of attempts that were revoked before they ran, and issued again."""
    wrong: list[str] = field(default_factory=list)
    """Descriptions of broken promises."""

    def __iadd__(self, other: Tally) -> Tally:
        self.jobs += other.jobs
        self.kills += other.kills
        self.points += other.points
        self.reissued += other.reissued
        self.wrong += other.wrong
        return self


class Drill:
    """A session whose owners get `orders` until `most_kills` of them have died. The last owner runs the other jobs."""

    def __init__(self, directory: Path, jobs: int, orders: dict[str, Any], most_kills: int, seed: int = 0) -> None:
        self.session = Session(directory)
        self._chance = random.Random(seed)
        self._tally_file = directory / "tally"
        self._orders = {**orders, "tally": str(self._tally_file)}
        self._most_kills = most_kills
        self._external = 0
        self._codes = {job: job * 7 % 256 for job in range(jobs)}
        self.session.write(*(self._command(job, code) for job, code in self._codes.items()))

    def _command(self, job: int, code: int) -> str:
        return self.session.told(job, f"sleep 0.0{self._chance.randint(0, 6)}; exit {code}")

    @property
    def kills(self) -> int:
        return self._external + len(self._points())

    def run(self, *, shoot: float = 0.0) -> Tally:
        """Run owners until all jobs have ended. `shoot` is the maximum time until an owner is killed from outside."""
        deadline = time.monotonic() + PATIENCE * 3
        while self.one_owner(shoot) or not self._drained():
            assert time.monotonic() < deadline, "the queue is not drained"
        until(lambda: not self.session.processes(), "late wrappers have met their revocation")
        return self._judge()

    def one_owner(self, shoot: float = 0.0) -> bool:
        """Run one owner and return whether it was killed."""
        words = [] if self._loaded() else ["jobs.txt"]
        orders = dict(self._orders) if self.kills < self._most_kills else {}
        # Late wrappers and shared claims stay when the kills are over.
        orders |= {key: value for key, value in self._orders.items() if key not in ONLY_WITH_KILLS}
        owner = self.session.start("--pause-after", "0", *words, program=VICTIM, gpus="0,1,2,3", env=_env(orders))
        if shoot and self.kills < self._most_kills:
            self._shoot(owner, self._chance.uniform(0.0, shoot))
        _, err = owner.communicate()
        assert owner.returncode in (0, 1, -9), err
        assert "Traceback" not in err, err
        return owner.returncode == -9

    def _shoot(self, owner: Process, after: float) -> None:
        try:
            owner.wait(after)
        except subprocess.TimeoutExpired:
            owner.kill()
            self._external += 1

    def _loaded(self) -> bool:
        return self.session.database.exists() and bool(self.session.jobs())

    def _drained(self) -> bool:
        return self._loaded() and all(isinstance(job.state, Ended) for job in self.session.jobs())

    def _points(self) -> list[str]:
        return self._tally_file.read_text().splitlines() if self._tally_file.exists() else []

    def _judge(self) -> Tally:
        jobs = self.session.jobs()
        tally = Tally(len(jobs), self.kills, Counter(self._points()))
        tally.reissued = sum(job.issued - len(job.attempts) for job in jobs)
        runs = self.session.runs()
        if len(jobs) != len(self._codes):
            tally.wrong.append(f"{len(jobs)} jobs instead of {len(self._codes)}")
        for job in jobs:
            code = self._codes[job.id]
            marker = ["FAILURE" if code else "SUCCESS"]
            facts = (runs[str(job.id)], [past.exit_code for past in job.attempts], self.session.markers(job.id))
            if facts != (1, [code], marker):
                tally.wrong.append(f"#{job.id}: runs, codes, markers = {facts}, but should be {(1, [code], marker)}")
        if claims := self.session.claims():
            tally.wrong.append(f"claims left: {claims}")
        return tally


def _env(orders: dict[str, Any]) -> dict[str, str]:
    return {"VICTIM": json.dumps(orders)}


STEPS = [step for step in Step if step not in (Step.RECOVERY_BEGUN, Step.REVOKED, Step.RECOVERED)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_kill_at_any_step_neither_loses_nor_repeats_a_job(tmp_path: Path, step: Step) -> None:
    tally = Drill(tmp_path, 6, {"step": step, "nth": 2}, most_kills=2).run()
    assert set(tally.points) == {step}, "the step was not reached"
    assert not tally.wrong


@pytest.mark.parametrize("step", [Step.RECOVERY_BEGUN, Step.REVOKED, Step.RECOVERED], ids=lambda step: step.name)
def test_a_kill_during_recovery_neither_loses_nor_repeats_a_job(tmp_path: Path, step: Step) -> None:
    """The first owner leaves an attempt committed and not spawned; the second is killed while it recovers."""
    first = Drill(tmp_path, 6, {"step": Step.DIRECTORY_MADE, "nth": 3}, most_kills=1)
    assert first.one_owner()
    second = Drill(tmp_path, 6, {"step": step, "nth": 1}, most_kills=2)
    tally = second.run()
    assert tally.points == {Step.DIRECTORY_MADE: 1, step: 1}, "the step was not reached"
    assert not tally.wrong


def test_a_rerun_killed_before_its_commit_runs_once(session: Session) -> None:
    jobs = session.write(session.told("a", f"test -e {session.directory}/fixed"))
    assert session.run(jobs).returncode == 1
    (session.directory / "fixed").touch()
    orders = {"step": Step.MARKERS_REMOVED, "nth": 1, "tally": str(session.directory / "tally")}
    killed = session.run(jobs, program=VICTIM, env={"VICTIM": json.dumps(orders)})
    assert killed.returncode == -9
    assert session.run(jobs).returncode == 0
    assert session.runs() == {"a": 2}
    assert session.markers(0) == ["SUCCESS"]


def test_random_kills_from_outside_neither_lose_nor_repeat_a_job(tmp_path: Path) -> None:
    tally = Drill(tmp_path, 40, {}, most_kills=6).run(shoot=0.6)
    assert tally.kills >= 1
    assert not tally.wrong


def test_random_kills_at_all_steps_with_late_wrappers_neither_lose_nor_repeat_a_job(tmp_path: Path) -> None:
    tally = Drill(tmp_path, 24, {"probability": 0.03, "late": LATE}, most_kills=8).run()
    assert tally.kills >= 1
    assert not tally.wrong


def late_wrappers_meet_a_recovery(directory: Path, **orders: object) -> Tally:
    """Kill the owner after it has started all wrappers, which claim only after the next owner has recovered."""
    return Drill(directory, 4, {"step": Step.WATCHED, "nth": 4, "too_late": True, **orders}, most_kills=1).run()


def test_a_wrapper_that_claims_late_finds_its_attempt_revoked(tmp_path: Path) -> None:
    tally = late_wrappers_meet_a_recovery(tmp_path)
    assert tally.reissued == 4, "every wrapper was late"
    assert not tally.wrong


def test_without_exclusive_claims_the_drill_sees_jobs_run_twice(tmp_path: Path) -> None:
    """The negative control."""
    tally = late_wrappers_meet_a_recovery(tmp_path, shared_claims=True)
    assert any("(2, " in wrong for wrong in tally.wrong), "jobs could not be made to run twice"


@pytest.mark.parametrize("owner_dies", [False, True])
def test_a_killed_wrapper_makes_its_job_lost_and_its_command_is_ended(session: Session, owner_dies: bool) -> None:
    jobs = session.write(session.told("a", "sleep 600"))
    with session.running(jobs) as owner:
        wrapper = session.claim_pid(0)
        until(lambda: session.runs(), "the command runs")
        if owner_dies:
            owner.kill()
            owner.wait()
        os.kill(wrapper, 9)
        until(lambda: wrapper not in session.processes(), "the wrapper is gone")
        assert (session.run().returncode if owner_dies else owner.wait(60)) == 1
        assert session.processes() == []
    assert session.states() == ["lost"]
    assert session.markers(0) == ["FAILURE"]
    again = session.run(jobs)
    assert "1 lost (kept)" in again.stderr
    assert again.returncode == 1
    assert session.runs() == {"a": 1}


def test_a_job_that_ends_without_an_owner_keeps_its_exit_code(session: Session) -> None:
    jobs = session.write(session.told("a", f"until test -e {session.directory}/go; do sleep 0.01; done; exit 42"))
    with session.running(jobs) as owner:
        session.claim_pid(0)
        owner.kill()
        owner.wait()
        (session.directory / "go").touch()
        until(lambda: not session.processes(), "the job has ended")
        assert session.run().returncode == 1
    assert session.last(0).exit_code == 42
    assert session.runs() == {"a": 1}


@pytest.mark.long
def test_a_thousand_kills_over_four_thousand_jobs(tmp_path: Path) -> None:
    total = Tally()
    number = 0
    while total.jobs < 4000 or total.kills < 1000:
        directory = tmp_path / str(number)
        directory.mkdir()
        total += _long_drill(directory, number)
        number += 1
        print(
            f"{total.jobs} jobs, {total.kills} kills, {total.reissued} reissued, {len(total.wrong)} wrong", flush=True
        )
        assert not total.wrong, total.wrong
    print(dict(total.points))


def _long_drill(directory: Path, number: int) -> Tally:
    orders: list[dict[str, object]] = [{}, {"probability": 0.02}, {"probability": 0.02, "late": LATE}]
    kind = number % len(orders)
    return Drill(directory, 40, orders[kind], most_kills=14, seed=number).run(shoot=0.0 if kind else 0.8)
