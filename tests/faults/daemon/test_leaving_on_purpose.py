"""Drain, stop and Ctrl-C are durable before anything ends, so no daemon undoes them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sessions import Home, Process
from support.waiting import signal_another_thread, until

from gputui.core.events import Mode, PauseKind
from gputui.core.job import Succeeded


def sleepers(home: Home, *, count: int = 4) -> Process:
    """Start a run of long jobs, two of them running."""
    run = home.start(home.write(*(home.told(number, "exec sleep 600") for number in range(count))))
    until(lambda: len(home.runs()) == 2, "two jobs run")
    home.waiter()
    return run


def assert_paused(home: Home, kind: PauseKind, waiting: int) -> None:
    """Check that no process is left that could undo the pause, and that the queue is kept."""
    assert home.members() == []
    assert home.processes() == []
    scheduler = home.load()
    assert scheduler.mode is Mode.PAUSED
    assert scheduler.cause is not None
    assert scheduler.cause.kind is kind
    assert scheduler.snapshot().waiting == waiting


def stop_subcommand(home: Home, run: Process) -> None:
    assert home.call("stop").returncode == 0


def terminate(home: Home, run: Process) -> None:
    run.terminate()


@pytest.mark.parametrize("stop", [terminate, stop_subcommand], ids=lambda stop: stop.__name__)
def test_jobs_that_end_while_the_run_is_stopped_are_not_run_again(
    home: Home, stop: Callable[[Home, Process], None]
) -> None:
    jobs = home.write(*(f"sleep 0.03 # {number}" for number in range(200)))
    for _ in range(3):
        with home.running(jobs, gpus="sim:4") as run:
            assert run.stdout is not None
            for _ in range(5):
                run.stdout.readline()
            stop(home, run)
            run.communicate(timeout=60)
    again = [job for job in home.jobs() if job.state.name == "queued" or len(job.attempts) > 1]
    unfair = [past for job in again for past in job.attempts if past.exit_code == 0 and past.end != Succeeded()]
    # A job that ends between our look at it and the signal cannot be distinguished from one that caught it.
    assert len(unfair) <= 1


def test_a_job_that_catches_the_signal_and_exits_with_0_is_requeued(home: Home) -> None:
    catching = home.told("a", "trap 'exit 0' TERM; touch ready; while :; do sleep 0.01; done")
    with home.running(home.write(catching)) as run:
        until((home.directory / "ready").exists, "the job listens")
        run.terminate()
        run.communicate(timeout=60)
    [job] = home.jobs()
    assert (job.state.name, [past.exit_code for past in job.attempts]) == ("queued", [0])


SEEN_LATE = """
import sys, time
if "run" in sys.orig_argv:
    from gputui.session.owner.owner import Owner
    publish = Owner._publish
    def publish_late(self):
        if any(job.active is not None for job in self.scheduler.book):
            Owner._publish = publish
            while not self.inbox:
                time.sleep(0.01)
        publish(self)
    Owner._publish = publish_late
"""
"""The snapshot with the started job is published only when the next request arrives."""


@pytest.mark.parametrize("publish", ["", SEEN_LATE], ids=["at once", "late"])
def test_a_stopped_run_ends_its_job_although_its_pipe_stays_open(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: str
) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(publish)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "late"))
    with home.running("-", stdin=subprocess.PIPE) as run:
        assert run.stdin is not None
        run.stdin.write(home.told("a", "exec sleep 600") + "\n")
        run.stdin.flush()
        until(home.runs, "the job runs")
        run.terminate()
        assert run.wait(60) == 143
        assert_paused(home, PauseKind.STOPPED, waiting=1)


@pytest.mark.parametrize("signals", [[signal.SIGUSR1], [signal.SIGINT], [signal.SIGINT] * 2])
def test_a_drained_run_lets_its_jobs_end_and_leaves_no_daemon(home: Home, signals: list[signal.Signals]) -> None:
    """Some tools send two interrupts at once, which count as one."""
    run = home.start(home.write(*(home.told(label, f"{home.waits}; exit 3") for label in range(4))))
    until(lambda: len(home.runs()) == 2, "two jobs run")
    for number in signals:
        run.send_signal(number)
    until(lambda: home.ask("status")["scheduler"]["state"] == Mode.DRAINING, "it drains")
    home.gate.touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "draining" in err
    assert_paused(home, PauseKind.DRAINED, waiting=2)
    assert home.states() == ["failed", "failed", "queued", "queued"]
    assert home.run().returncode == 1
    assert home.runs() == {"0": 1, "1": 1, "2": 1, "3": 1}


def test_a_second_interrupt_kills_and_leaves_no_daemon(home: Home) -> None:
    run = sleepers(home)
    run.send_signal(signal.SIGINT)
    until(lambda: home.ask("status")["scheduler"]["state"] == Mode.DRAINING, "it drains")

    def killing() -> bool:
        """A second interrupt counts only a second after the first."""
        run.send_signal(signal.SIGINT)
        return bool(home.ask("status")["scheduler"]["cause"])

    until(killing, "it kills")
    _, err = run.communicate()
    assert run.returncode == 130
    assert "killing 2 running" in err
    assert_paused(home, PauseKind.INTERRUPTED, waiting=2)
    assert home.states() == ["killed", "killed", "queued", "queued"]


@pytest.mark.parametrize("kind", [PauseKind.STOPPED, PauseKind.INTERRUPTED])
def test_a_stop_ends_all_jobs_even_if_nothing_follows_the_request(home: Home, kind: PauseKind) -> None:
    """The client that sent it and the scheduler that stored it are both gone, so a daemon must finish it."""
    run = sleepers(home)
    home.command({"type": "pause", "kind": kind})
    run.kill()
    run.communicate()
    home.gone()
    assert_paused(home, kind, waiting=4 if kind is PauseKind.STOPPED else 2)
    assert set(home.runs().values()) == {1}


def test_a_daemon_drains_on_the_same_signal_in_any_thread(home: Home) -> None:
    home.begin(home.told("a", home.waits), "true", "true")
    home.command({"type": "slots", "slots": [{"id": 0, "devices": ["0"]}]})
    home.resume()
    until(home.runs, "the first job runs")
    signal_another_thread(home.owner(), signal.SIGUSR1)
    until(lambda: home.ask("status")["scheduler"]["state"] == Mode.DRAINING, "it drains")
    home.gate.touch()
    home.gone()
    assert_paused(home, PauseKind.DRAINED, waiting=2)
