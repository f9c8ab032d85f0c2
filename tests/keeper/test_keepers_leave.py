"""A keeper owns only while there is something to do; whoever comes at that very moment loses nothing."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.homes import Home, kill, stop
from support.sessions import alive
from support.waiting import until

from gputui.session import lock as locks
from gputui.session.lock import OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.ownership.acquisition import QUIET_FOR, Serving
from gputui.session.ownership.keeper import start_keeper_and_wait
from gputui.session.session_dir import Paths


def test_a_keeper_leaves_with_its_waiter_when_all_is_done(home: Home) -> None:
    home.begin()
    home.command({"type": "resume"})
    home.add(home.told("a"))
    home.gone()
    assert home.states() == ["succeeded"]
    assert not (home.private / "control.sock").exists()


def test_a_keeper_leaves_a_paused_queue(home: Home) -> None:
    home.begin("true")
    home.ask("status", work=True)
    home.gone()
    assert home.states() == ["queued"]


def test_a_keeper_leaves_jobs_that_are_held_or_fit_no_lane(home: Home) -> None:
    home.begin("true")
    load = home.load_of("true")
    load["specs"][0]["request"] = {"gpus": 9}
    home.ask("load", **load)
    home.command({"type": "hold", "job": 0}, {"type": "resume"})
    home.ask("status", work=True)
    home.gone()
    assert home.states() == ["held", "queued"]


def test_what_is_added_while_the_keeper_leaves_runs_once(home: Home, kills: int) -> None:
    """Each job is added about when the keeper goes because the one before was done."""
    home.begin()
    home.command({"type": "resume"})
    times = kills // 2 + 1
    for number in range(times):
        home.add(home.told(number))
        until(lambda: not home.ask_quietly(), "the keeper is about to leave", seconds=QUIET_FOR * 20)
    home.gone()
    assert home.runs() == {str(number): 1 for number in range(times)}
    assert set(home.states()) == {"succeeded"}


def test_adds_from_many_sides_while_owners_die_run_once(home: Home, kills: int) -> None:
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


def test_what_is_added_when_a_run_ends_is_done_by_its_keeper(home: Home, kills: int) -> None:
    for number in range(kills):
        run = home.start(home.write(home.told(f"run{number}"), name=f"{number}.txt"))
        until(lambda wanted=f"run{number}": home.runs()[wanted], "its job has run")  # type: ignore[misc]
        home.add(home.told(f"added{number}"))
        run.communicate()
        assert run.returncode == 0
    home.gone()
    expected = {f"{origin}{number}": 1 for origin in ("run", "added") for number in range(kills)}
    assert home.runs() == expected


def test_what_was_added_after_the_owner_decided_to_leave_is_not_left_alone(home: Home) -> None:
    home.begin()
    home.command({"type": "resume"})
    left_alone, followed = (leave_after(home, *commands) for commands in ((), ("exec sleep 600",)))
    assert not alive(left_alone)
    assert home.owner() == followed


def leave_after(home: Home, *commands: str) -> int:
    """An owner in this process that decided to leave and got these jobs before it did; returns its waiter."""
    paths = Paths(str(home.root))
    lock = locks.take(paths)
    assert lock is not None
    lock.sign(OwnerKind.RUN)
    owner = Owner(paths, lock, OwnerKind.RUN)
    serving = Serving(owner)
    owner.start()
    until(lambda: serving.keeper_pid is not None, "it has a waiter")
    serving.without_successor = True
    if commands:
        home.add(*commands)
    waiter = serving.keeper_pid
    owner.close()
    lock.release()
    assert waiter is not None
    return waiter


def test_no_keeper_is_started_while_somebody_has_the_lock(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.begin("true")
    looks: list[bool] = []
    is_held = locks.is_held

    def look(paths: Paths) -> bool:
        looks.append(is_held(paths))
        return looks[-1]

    monkeypatch.setattr(locks, "is_held", look)
    lock = locks.take(Paths(str(home.root)))
    assert lock is not None
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start_keeper_and_wait, str(home.root))
        until(lambda: len(looks) > 3, "it has looked again and again")
        assert home.keepers() == []
        lock.release()
        started.result()
    assert looks.count(False) == 1


def test_a_keeper_that_lost_the_race_to_one_who_leaves_is_started_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.begin("true")
    monkeypatch.setattr(locks, "is_held", lambda paths: False)
    lock = locks.take(Paths(str(home.root)))
    assert lock is not None
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start_keeper_and_wait, str(home.root))
        until(home.keepers, "one was started")
        first = home.keepers()[0]
        until(lambda: not alive(first), "it has gone, for somebody else owns")
        lock.release()
        started.result()
    assert home.owner() != first


def test_a_keeper_that_is_asked_to_leave_goes_only_when_nothing_is_left(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTUI_KEEPER_QUIET", "600")  # or it goes before it is asked
    home.begin("sleep 600")
    home.resume()
    keeper = home.owner()
    with pytest.raises(Exception, match="there is work to do still"):
        home.ask("leave")
    assert home.owner() == keeper
    home.command({"type": "pause", "kind": "stopped"}, {"type": "kill", "job": 0})
    until(lambda: not home.ask("status")["active"], "the job has ended")
    assert home.ask("leave") == {"leaving": True}
    home.gone()


def test_a_detached_run_whose_waiter_just_died_is_followed_all_the_same(home: Home) -> None:
    run = home.start(home.write(home.told("a", "sleep 2"), home.told("b"), home.told("c")), gpus="0")
    until(home.runs, "the first job runs")
    stop(run.pid)
    waiter = home.waiter()
    kill(waiter)
    until(lambda: not alive(waiter), "the waiter is dead, and the run has not seen it yet")
    os.kill(run.pid, signal.SIGHUP)
    os.kill(run.pid, signal.SIGCONT)
    run.communicate()
    assert run.returncode == 129
    home.gone()
    assert home.runs() == {"a": 1, "b": 1, "c": 1}
