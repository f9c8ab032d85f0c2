"""Killing the owner with SIGKILL at any moment: every job still runs exactly once and keeps its exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.drill import LATE, Drill, Tally
from support.sessions import VICTIM, Session
from support.waiting import until

from gputui.core.steps import Step

STEPS = [step for step in Step if step not in (Step.RECOVERY_BEGUN, Step.REVOKED, Step.RECOVERED)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_kill_at_any_step_neither_loses_nor_repeats_a_job(tmp_path: Path, step: Step) -> None:
    tally = Drill(tmp_path, 6, {"step": step, "nth": 2}, most_kills=2).run()
    assert set(tally.points) == {step}, "the step was not reached"
    assert not tally.wrong


@pytest.mark.parametrize("step", [Step.RECOVERY_BEGUN, Step.REVOKED, Step.RECOVERED], ids=lambda step: step.name)
def test_a_kill_in_the_midst_of_recovery_neither_loses_nor_repeats_a_job(tmp_path: Path, step: Step) -> None:
    """The first owner leaves an attempt committed and not spawned; the second is killed while it recovers."""
    first = Drill(tmp_path, 6, {"step": Step.FOLDER_MADE, "nth": 3}, most_kills=1)
    assert first.one_owner()
    second = Drill(tmp_path, 6, {"step": step, "nth": 1}, most_kills=2)
    tally = second.run()
    assert tally.points == {Step.FOLDER_MADE: 1, step: 1}, "the step was not reached"
    assert not tally.wrong


def test_a_rerun_that_is_killed_before_it_is_committed_happens_once(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(session.told("a", f"test -e {tmp_path}/mended"))
    assert session.run(jobs).returncode == 1
    (tmp_path / "mended").touch()
    orders = {"step": Step.MARKERS_REMOVED, "nth": 1, "tally": str(tmp_path / "tally")}
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


def late_wrappers_meet_a_recovery(folder: Path, **orders: object) -> Tally:
    """All spawned, none has claimed, and the owner is dead: the next owner must not be fooled."""
    return Drill(folder, 4, {"step": Step.WATCHED, "nth": 4, "too_late": True, **orders}, most_kills=1).run()


def test_a_wrapper_that_claims_late_finds_its_attempt_revoked(tmp_path: Path) -> None:
    tally = late_wrappers_meet_a_recovery(tmp_path)
    assert tally.reissued == 4, "every wrapper was late"
    assert not tally.wrong


def test_without_exclusive_claims_the_drill_sees_jobs_run_twice(tmp_path: Path) -> None:
    """The negative control: a drill that cannot fail proves nothing."""
    tally = late_wrappers_meet_a_recovery(tmp_path, shared_claims=True)
    assert any("(2, " in wrong for wrong in tally.wrong), "jobs could not be made to run twice"


def test_a_killed_wrapper_makes_its_job_lost_and_its_command_is_ended(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(session.told("a", "sleep 600"))
    with session.running(jobs) as owner:
        wrapper = session.claim_pid(0)
        until(lambda: session.runs(), "the command runs")
        os.kill(wrapper, 9)
        assert owner.wait(60) == 1
        assert session.processes() == []
    assert session.states() == ["lost"]
    assert session.markers(0) == ["FAILURE"]
    again = session.run(jobs)
    assert "1 lost (kept)" in again.stderr
    assert again.returncode == 1
    assert session.runs() == {"a": 1}


def test_a_wrapper_killed_while_nobody_owned_makes_its_job_lost_and_its_command_is_ended(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(session.told("a", "sleep 600"))
    with session.running(jobs) as owner:
        wrapper = session.claim_pid(0)
        until(lambda: session.runs(), "the command runs")
        owner.kill()
        owner.wait()
        os.kill(wrapper, 9)
        until(lambda: wrapper not in session.processes(), "the wrapper is gone")
        assert session.run().returncode == 1
        assert session.processes() == []
    assert session.states() == ["lost"]
    assert session.runs() == {"a": 1}


def test_a_job_that_ended_while_nobody_owned_keeps_its_exit_code(tmp_path: Path) -> None:
    session = Session(tmp_path)
    jobs = session.write(session.told("a", f"until test -e {tmp_path}/go; do sleep 0.01; done; exit 42"))
    with session.running(jobs) as owner:
        session.claim_pid(0)
        owner.kill()
        owner.wait()
        (tmp_path / "go").touch()
        until(lambda: not session.processes(), "the job has ended")
        assert session.run().returncode == 1
    assert session.last(0).exit_code == 42
    assert session.runs() == {"a": 1}


@pytest.mark.long
def test_a_thousand_kills_over_four_thousand_jobs(tmp_path: Path) -> None:
    total = Tally()
    number = 0
    while total.jobs < 4000 or total.kills < 1000:
        folder = tmp_path / str(number)
        folder.mkdir()
        total += _long_drill(folder, number)
        number += 1
        print(
            f"{total.jobs} jobs, {total.kills} kills, {total.reissued} reissued, {len(total.wrong)} wrong", flush=True
        )
        assert not total.wrong, total.wrong
    print(dict(total.points))


def _long_drill(folder: Path, number: int) -> Tally:
    orders: list[dict[str, object]] = [{}, {"probability": 0.02}, {"probability": 0.02, "late": LATE}]
    kind = number % len(orders)
    return Drill(folder, 40, orders[kind], most_kills=14, seed=number).run(shoot=0.0 if kind else 0.8)
