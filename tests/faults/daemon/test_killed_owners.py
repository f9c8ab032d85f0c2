"""Whatever ends the scheduler, a daemon takes over: every job runs once and keeps its exit code."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import termios
import time
from pathlib import Path

from support.sessions import GPUTUI, Home, alive, kill, stop
from support.waiting import until

from gputui.session.lock import OwnerKind


class Batch:
    """Jobs that each leave a line and their own exit code; `judge` counts when the queue is done.

    The first `lasting` ones run until `let_end`, so that the queue is not done before, however slow the machine is.
    """

    def __init__(self, home: Home, jobs: int = 40, *, seed: int = 0, longest: int = 6, lasting: int = 0) -> None:
        self.home = home
        self._go = home.directory / "go"
        self._lasting = lasting
        self.chance = random.Random(seed)
        self.codes = {job: job * 7 % 256 for job in range(jobs)}
        self.file = home.write(*(self._command(job, code, longest) for job, code in self.codes.items()))

    def _command(self, job: int, code: int, longest: int) -> str:
        lasts = f"until test -e {self._go}; do sleep 0.02; done"
        sleeps = f"sleep 0.{self.chance.randint(0, longest):02d}"
        return self.home.told(job, f"{lasts if job < self._lasting else sleeps}; exit {code}")

    def let_end(self) -> None:
        self._go.touch()

    def loaded(self) -> bool:
        return self.home.database.exists() and sum(self.home.ask("status")["counts"].values()) > 0

    def words(self) -> list[str]:
        """A second load would rerun what failed."""
        return ["--pause-after", "0"] + ([] if self.loaded() else [str(self.file)])

    def nap(self, longest: float) -> None:
        """A moment chosen by chance, not a condition."""
        time.sleep(self.chance.uniform(0.0, longest))

    def judge(self) -> None:
        """After the last owner has gone by itself: each job ran once and kept its code."""
        self.let_end()
        self.home.gone("the queue is done and the daemon has left")
        jobs = self.home.jobs()
        seen = {job.id: [past.exit_code for past in job.attempts] for job in jobs}
        assert seen == {job: [code] for job, code in self.codes.items()}
        assert self.home.runs() == {str(job): 1 for job in self.codes}
        assert self.home.claims() == []


def test_repeatedly_killed_runs_neither_lose_nor_repeat_a_job(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40)
    for _ in range(kills):
        run = home.start(*batch.words(), gpus="0,1,2,3")
        batch.nap(1.0)
        run.kill()
        run.communicate()
    if not batch.loaded():
        home.run(*batch.words())
    batch.judge()


def test_a_closed_terminal_leaves_the_queue_to_the_daemon(home: Home) -> None:
    batch = Batch(home, longest=9, lasting=1)
    master, slave = os.openpty()
    run = subprocess.Popen(
        [*GPUTUI, "run", "--gpus", "0,1", "--output-dir", home.root, "--pause-after", "0", batch.file],
        cwd=home.directory, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(slave)
    until(home.runs, "jobs run")
    os.close(master)
    assert run.wait(60) == 129
    batch.judge()
    assert "Traceback" not in (home.private / "scheduler.log").read_text()


def test_a_killed_daemon_is_followed_by_another(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40, lasting=1)
    victim = home.killed_run("--pause-after", "0", batch.file)
    for _ in range(kills):
        victim = home.owner(OwnerKind.DAEMON, but=victim)
        home.waiter()
        batch.nap(0.1)
        kill(victim)
    batch.judge()


def test_killing_the_run_and_its_daemon_loses_nothing(home: Home) -> None:
    batch = Batch(home, longest=20, lasting=2)
    run = home.start("--pause-after", "0", batch.file)
    until(lambda: len(home.runs()) == 2, "both GPUs are busy")
    waiter = home.waiter()
    stop(run.pid)  # so that it does not start another daemon
    kill(waiter)
    run.kill()
    run.communicate()
    batch.let_end()
    home.gone("the running jobs have ended and there is no scheduler")
    assert home.runs() != {str(job): 1 for job in batch.codes}, "all jobs were done already"
    home.run("--pause-after", "0")
    batch.judge()


def test_a_death_during_a_hand_over_loses_nothing(home: Home, kills: int) -> None:
    batch = Batch(home, longest=40, lasting=1)
    home.killed_run("--pause-after", "0", batch.file)
    for _ in range(kills):
        giver = home.owner(OwnerKind.DAEMON)
        home.has_waiter(giver)
        taker = home.start("--pause-after", "0")
        batch.nap(0.5)
        kill(batch.chance.choice((giver, taker.pid)))
        until(lambda: home.holder() is not None, "there is a scheduler")
        holder = home.holder()
        if holder is not None and holder.pid == taker.pid:
            home.has_waiter(taker.pid)
        taker.kill()
        taker.communicate()
    batch.judge()


def test_after_a_hand_over_the_old_daemons_exit(home: Home) -> None:
    batch = Batch(home, longest=20, lasting=1)
    home.killed_run("--pause-after", "0", batch.file)
    giver, waiter = home.owner(), home.waiter()
    taker = home.start("--pause-after", "0")
    assert home.owner(OwnerKind.RUN) == taker.pid
    until(lambda: not alive(giver) and not alive(waiter), "the old daemons have exited")
    home.waiter()
    batch.let_end()
    taker.communicate()
    assert taker.returncode == 1
    assert home.daemons() == []
    batch.judge()


def test_a_run_that_dies_before_it_takes_over_leaves_no_second_waiting_daemon(home: Home) -> None:
    home.begin("sleep 600")
    home.resume()
    daemon, waiter = home.owner(), home.waiter()
    starter = subprocess.Popen(["sleep", "600"])
    # A daemon whose parent is not its starter is one whose starter has died.
    extra = subprocess.Popen([*GPUTUI, "daemon", "--wait", "--for", str(starter.pid), str(home.root)])
    until(lambda: set(home.waiters()) == {waiter, extra.pid}, "two daemons wait")
    starter.kill()
    starter.wait()
    assert extra.wait(60) == 0
    assert (home.owner(), home.waiter()) == (daemon, waiter)


def test_two_simultaneous_runs_share_one_scheduler_and_each_reports_its_own_jobs(home: Home, tmp_path: Path) -> None:
    gate = f"until test -e {tmp_path}/go; do sleep 0.01; done"
    lines = [[home.told(f"{code}.{number}") for number in range(10)] for code in (0, 3)]
    runs = [
        home.start("--pause-after", "0", home.write(f"{gate}; exit {code}", *lines[code % 2], name=f"{code}.txt"))
        for code in (0, 3)
    ]
    until(lambda: home.database.exists() and home.holder() is not None, "there is a scheduler")
    until(lambda: len(home.ask("status")["active"]) == 2, "both jobs run")
    assert home.owner(OwnerKind.RUN) in [run.pid for run in runs]
    home.waiter()
    (tmp_path / "go").touch()
    assert [run.wait(60) for run in runs] == [0, 1]
    for run in runs:
        run.communicate()
    assert home.runs() == {f"{code}.{number}": 1 for code in (0, 3) for number in range(10)}
