"""A daemon exits when there is nothing to do; a job added at that very moment still runs."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.sessions import Home, alive, kill, stop
from support.waiting import until

from gputui.session import lock as locks
from gputui.session.lock import OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.ownership.acquisition import QUIET_FOR, OwnerServer
from gputui.session.ownership.daemon import start_daemon_and_wait
from gputui.session.session_dir import Paths


def test_a_daemon_exits_when_no_waiting_job_can_start(home: Home) -> None:
    home.begin("true")
    home.ask("status", work=True)  # the queue is paused
    home.gone()
    assert not (home.private / "control.sock").exists()
    load = home.load_of("true")
    load["specs"][0]["request"] = {"gpus": 9}
    home.ask("load", **load)
    home.command({"type": "hold", "job": 0}, {"type": "resume"})
    home.ask("status", work=True)
    home.gone()
    assert home.states() == ["held", "queued"]


def test_a_job_added_while_the_daemon_exits_runs_once(home: Home, kills: int) -> None:
    home.begin()
    home.command({"type": "resume"})
    times = kills // 2 + 1
    for number in range(times):
        home.add(home.told(number))
        until(lambda: not home.ask_quietly(), "the daemon is about to leave", seconds=QUIET_FOR * 20)
    home.gone()
    assert home.runs() == {str(number): 1 for number in range(times)}
    assert set(home.states()) == {"succeeded"}


def test_concurrent_adds_while_daemons_die_run_once(home: Home, kills: int) -> None:
    home.begin()
    home.command({"type": "resume"})
    labels = [[f"{side}.{number}" for number in range(kills)] for side in range(4)]
    with ThreadPoolExecutor(len(labels)) as pool:
        adding = [pool.submit(lambda mine: [home.add(home.told(label)) for label in mine], mine) for mine in labels]
        victim = 0
        for _ in range(kills):
            victim = home.owner(but=victim)
            time.sleep(random.uniform(0.0, 0.3))
            kill(victim)
            home.ask("status", work=True)
        for each in adding:
            each.result()
    home.gone()
    assert home.runs() == {label: 1 for mine in labels for label in mine}


def test_a_job_added_when_a_run_ends_is_run_by_its_daemon(home: Home, kills: int) -> None:
    for number in range(kills):
        run = home.start(home.write(home.told(f"run{number}"), name=f"{number}.txt"))
        until(lambda wanted=f"run{number}": home.runs()[wanted], "its job has run")  # type: ignore[misc]
        home.add(home.told(f"added{number}"))
        run.communicate()
        assert run.returncode == 0
    home.gone()
    expected = {f"{origin}{number}": 1 for origin in ("run", "added") for number in range(kills)}
    assert home.runs() == expected


def test_a_job_added_after_the_scheduler_decided_to_exit_gets_a_daemon(home: Home) -> None:
    home.begin()
    home.command({"type": "resume"})
    alone, followed = (leave_after(home, *commands) for commands in ((), ("exec sleep 600",)))
    assert not alive(alone)
    assert home.owner() == followed


def leave_after(home: Home, *commands: str) -> int:
    """Let a scheduler in this process exit, with these jobs added just before; return its waiting daemon."""
    paths = Paths(str(home.root))
    lock = locks.take(paths)
    assert lock is not None
    lock.sign(OwnerKind.RUN)
    owner = Owner(paths, lock, OwnerKind.RUN)
    serving = OwnerServer(owner)
    owner.start()
    until(lambda: serving.daemon_pid is not None, "it has a waiter")
    serving.without_successor = True
    if commands:
        home.add(*commands)
    waiter = serving.daemon_pid
    owner.close()
    lock.release()
    assert waiter is not None
    return waiter


def test_a_daemon_that_lost_the_race_for_the_lock_is_started_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.begin("true")
    monkeypatch.setattr(locks, "is_held", lambda paths: False)
    lock = locks.take(Paths(str(home.root)))
    assert lock is not None
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start_daemon_and_wait, str(home.root))
        until(home.daemons, "one was started")
        first = home.daemons()[0]
        until(lambda: not alive(first), "it exits, as the session is locked")
        lock.release()
        started.result()
    assert home.owner() != first


def test_a_daemon_asked_to_exit_does_so_only_when_nothing_is_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_DAEMON_QUIET", "600")  # or it goes before it is asked
    home.begin("sleep 600")
    home.resume()
    daemon = home.owner()
    with pytest.raises(Exception, match="there are unfinished jobs"):
        home.ask("leave")
    assert home.owner() == daemon
    home.command({"type": "pause", "kind": "stopped"}, {"type": "kill", "job": 0})
    until(lambda: not home.ask("status")["active"], "the job has ended")
    assert home.ask("leave") is None
    home.gone()


def test_a_detached_run_whose_daemon_just_died_starts_another(home: Home) -> None:
    run = home.start(home.write(home.told("a", "sleep 2"), home.told("b"), home.told("c")), gpus="0")
    until(home.runs, "the first job runs")
    stop(run.pid)
    waiter = home.waiter()
    kill(waiter)
    until(lambda: not alive(waiter), "the daemon is dead, and the run has not noticed yet")
    os.kill(run.pid, signal.SIGHUP)
    os.kill(run.pid, signal.SIGCONT)
    run.communicate()
    assert run.returncode == 129
    home.gone()
    assert home.runs() == {"a": 1, "b": 1, "c": 1}
