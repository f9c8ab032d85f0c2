"""Whatever ends the owner, a keeper goes on: every job runs once and keeps its exit code."""

from __future__ import annotations

import fcntl
import os
import subprocess
import termios
from pathlib import Path

import pytest
from support.homes import Batch, Home, kill, stop
from support.sessions import GPUTUI, Process, alive
from support.waiting import until

from gputui.session.lock import OwnerKind


def shot(home: Home, batch: Batch, longest: float) -> Process:
    """A run that is killed after a moment."""
    run = home.start(*batch.words(), gpus="0,1,2,3")
    batch.nap(longest)
    run.kill()
    run.communicate()
    return run


def test_the_keeper_finishes_the_queue_of_a_killed_run(home: Home) -> None:
    batch = Batch(home, longest=9, lasting=1)
    run = home.start("--pause-after", "0", batch.file)
    until(home.runs, "jobs run")
    run.kill()
    run.communicate()
    batch.judge()


def test_runs_that_are_killed_again_and_again_neither_lose_nor_repeat_a_job(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40)
    for _ in range(kills):
        shot(home, batch, 1.0)
    if not batch.loaded():
        home.run(*batch.words())
    batch.judge()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_a_keeper_finishes_what_a_run_began_whenever_it_was_killed(home: Home, seed: int) -> None:
    batch = Batch(home, seed=seed, longest=9)
    shot(home, batch, 1.5)
    if not batch.loaded():
        home.run(*batch.words())
    batch.judge()


def test_a_closed_terminal_leaves_the_queue_to_the_keeper(home: Home) -> None:
    batch = Batch(home, longest=9, lasting=1)
    master, slave = os.openpty()
    run = subprocess.Popen(
        [*GPUTUI, "run", "--gpus", "0,1", "--output-dir", home.root, "--pause-after", "0", batch.file],
        cwd=home.folder, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    until(home.runs, "jobs run")
    os.close(master)
    assert run.wait(60) == 129
    batch.judge()
    assert "Traceback" not in (home.private / "scheduler.log").read_text()


def test_keepers_that_are_killed_are_followed_by_keepers(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40, lasting=1)
    run = home.start("--pause-after", "0", batch.file)
    until(home.runs, "jobs run")
    run.kill()
    run.communicate()
    victim = run.pid
    for _ in range(kills):
        victim = home.owner(OwnerKind.KEEPER, but=victim)
        home.waiter()
        batch.nap(0.1)
        kill(victim)
    batch.judge()


def test_a_killed_owner_and_its_killed_keeper_lose_nothing(home: Home) -> None:
    batch = Batch(home, longest=20, lasting=2)
    run = home.start("--pause-after", "0", batch.file)
    until(lambda: len(home.runs()) == 2, "no lane is free")
    waiter = home.waiter()
    stop(run.pid)  # so that it starts no other keeper
    kill(waiter)
    run.kill()
    run.communicate()
    batch.let_end()
    home.gone("what ran has ended and nobody owns")
    assert home.runs() != {str(job): 1 for job in batch.codes}, "all jobs were done already"
    home.run("--pause-after", "0")
    batch.judge()


def test_a_death_while_the_session_is_handed_over_loses_nothing(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40, lasting=1)
    run = home.start("--pause-after", "0", batch.file)
    until(home.runs, "jobs run")
    run.kill()
    run.communicate()
    victims = {"taker": 0, "giver": 0}
    for _ in range(kills):
        giver = home.owner(OwnerKind.KEEPER)
        home.has_waiter(giver)
        taker = home.start("--pause-after", "0")
        batch.nap(0.5)
        victim = batch.chance.choice(sorted(victims))
        victims[victim] += 1
        kill(taker.pid if victim == "taker" else giver)
        until(lambda: home.holder() is not None, "somebody owns")
        holder = home.holder()
        if holder is not None and holder.pid == taker.pid:
            home.has_waiter(taker.pid)
        taker.kill()
        taker.communicate()
    batch.judge()


def test_after_a_handover_the_run_owns_and_the_old_keepers_are_gone(home: Home) -> None:
    batch = Batch(home, longest=20, lasting=1)
    run = home.start("--pause-after", "0", batch.file)
    until(home.runs, "jobs run")
    run.kill()
    run.communicate()
    giver, waiter = home.owner(), home.waiter()
    taker = home.start("--pause-after", "0")
    assert home.owner(OwnerKind.RUN) == taker.pid
    until(lambda: not alive(giver) and not alive(waiter), "the old keepers are gone")
    home.waiter()
    batch.let_end()
    taker.communicate()
    assert taker.returncode == 1
    assert home.keepers() == []
    batch.judge()


def test_a_taker_that_dies_before_it_owns_leaves_no_second_waiter(home: Home) -> None:
    home.begin("sleep 600")
    home.resume()
    keeper, waiter = home.owner(), home.waiter()
    starter = subprocess.Popen(["sleep", "600"])
    extra = _waiter_of(home, starter.pid)
    until(lambda: len(home.waiters()) == 2, "two wait")
    assert {waiter, extra.pid} == set(home.waiters())
    starter.kill()
    starter.wait()
    assert extra.wait(60) == 0
    assert (home.owner(), home.waiter()) == (keeper, waiter)


def _waiter_of(home: Home, starter: int) -> subprocess.Popen[bytes]:
    """A keeper whose starter is another process than its parent is one whose starter has died."""
    return subprocess.Popen([*GPUTUI, "keep", "--wait", "--for", str(starter), str(home.root)])


def test_two_runs_that_start_at_once_both_get_their_jobs_done(home: Home) -> None:
    good = home.write(*(home.told(f"good{number}") for number in range(10)), name="good.txt")
    bad = home.write(*(home.told(f"bad{number}", f"exit {number % 2}") for number in range(10)), name="bad.txt")
    first, second = (home.start("--pause-after", "0", file) for file in (good, bad))
    first.communicate()
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 1)
    home.gone()
    assert set(home.runs().values()) == {1}
    assert len(home.runs()) == 20


def test_the_session_of_two_runs_has_one_owner(home: Home, tmp_path: Path) -> None:
    gate = f"until test -e {tmp_path}/go; do sleep 0.01; done"
    runs = [home.start(home.write(f"{gate}; exit {code}", name=f"{code}.txt")) for code in (0, 3)]
    until(lambda: home.database.exists() and home.holder() is not None, "somebody owns")
    until(lambda: len(home.ask("status")["active"]) == 2, "both jobs run")
    assert home.owner(OwnerKind.RUN) in [run.pid for run in runs]
    home.waiter()
    (tmp_path / "go").touch()
    assert [run.wait(60) for run in runs] == [0, 1]
    for run in runs:
        run.communicate()
