"""`run`: what signals do to its jobs; many quick jobs run once each."""

from __future__ import annotations

import os
import signal

import pytest
from support.sessions import Session, alive
from support.waiting import signal_another_thread, until

STUBBORN = "trap : TERM; while :; do sleep 0.05; done"


def test_sigterm_requeues_even_a_job_that_ignores_it(session: Session) -> None:
    jobs = session.write(session.told("a", STUBBORN), session.told("b"))
    with session.running(jobs, "--grace", "0.3", gpus="0") as owner:
        until(lambda: session.runs(), "the job runs")
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(60) == 143
        assert session.processes() == []
    assert session.states() == ["queued", "queued"]
    assert session.runs() == {"a": 1}


def test_sigterm_to_another_thread_lets_a_job_save_its_checkpoint(session: Session) -> None:
    saves = f"trap 'echo saved >>{session.directory}/saved; exit 0' TERM; while :; do sleep 0.02; done"
    jobs = session.write(session.told("a", saves))
    with session.running(jobs, "--grace", "30", gpus="0") as owner:
        until(lambda: session.runs(), "the job runs")
        signal_another_thread(owner.pid, signal.SIGTERM)
        assert owner.wait(60) == 143
    assert (session.directory / "saved").read_text() == "saved\n"
    assert session.states() == ["queued"]


def test_a_kill_reaches_grandchildren_that_left_the_session(session: Session) -> None:
    pids = session.directory / "pids"
    daemon = f"setsid sh -c 'echo $$ >>{pids}; trap : TERM; while :; do sleep 0.05; done' &"
    jobs = session.write(session.told("a", f"{daemon} wait; sleep 600"))
    with session.running(jobs, "--grace", "0.3", gpus="0") as owner:
        until(lambda: pids.exists() and pids.read_text().endswith("\n"), "the grandchild runs")
        grandchild = int(pids.read_text())
        assert os.getsid(grandchild) == grandchild
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(60) == 143
        assert not alive(grandchild)
        assert session.processes() == []


def test_a_terminal_that_hangs_up_leaves_the_jobs_running(session: Session) -> None:
    jobs = session.write(session.told("a", f"{session.waits}; exit 4"))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs(), "the job runs")
        owner.send_signal(signal.SIGHUP)
        assert owner.wait(60) == 129
        assert session.processes()
        session.gate.touch()
        assert session.run(gpus="0").returncode == 1
    assert session.last(0).exit_code == 4
    assert session.runs() == {"a": 1}


@pytest.mark.parametrize(
    ("count", "gpus"), [(500, "0x4,1x4"), pytest.param(2000, "0x4,1x4", marks=pytest.mark.long), (200, "0x200")]
)
def test_many_quick_jobs_each_run_once(session: Session, count: int, gpus: str) -> None:
    jobs = session.write(*(f"echo {job} >>{session.lines}; exit {job % 3}" for job in range(count)))
    done = session.run(jobs, "--pause-after", "0", gpus=gpus)
    assert done.returncode == 1
    assert session.runs() == {str(job): 1 for job in range(count)}
    assert [job.attempts[-1].exit_code for job in session.jobs()] == [job % 3 for job in range(count)]
    assert session.claims() == []
