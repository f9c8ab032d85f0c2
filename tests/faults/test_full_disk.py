"""The disk fills up during a session: jobs can be ended, and refused jobs never run."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from support.machines import ext4, full, tmpfs
from support.sessions import Home, Process, kill
from support.waiting import until

from gputui.session.control.connection import ClientError, NotDurable

LONG = "exec sleep 600"


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    made = tmpfs(tmp_path / "disk", "2m") if request.param == "tmpfs" else ext4(tmp_path / "disk", "8M")
    with made as directory:
        yield directory


@contextmanager
def home_on(disk: Path, directory: Path) -> Iterator[Home]:
    """The session is on the small disk; the jobs run and write elsewhere."""
    home = Home(directory, "disk/out")
    try:
        yield home
    finally:
        home.end()


@contextmanager
def run_of(home: Home, *commands: str) -> Iterator[Process]:
    with home.running(home.write(*commands), gpus="0") as owner:
        until(lambda: home.database.exists() and home.runs(), "the first job runs")
        home.claim_pid(0)
        yield owner


def state(home: Home, job: int) -> str:
    found: str = home.ask("show", job=job)["state"]
    return found


@pytest.mark.parametrize("subcommand", ["kill", "requeue"])
def test_a_kill_or_requeue_on_a_full_disk_survives_kill_9_of_the_owner(
    disk: Path, tmp_path: Path, subcommand: str
) -> None:
    with home_on(disk, tmp_path) as home:
        waits = f"test -e {tmp_path}/gate || {LONG}"
        with run_of(home, home.told(0, waits)) as owner:
            waiter = home.waiter()
            with full(disk):
                assert home.call(subcommand, "0").returncode == 0
                until(lambda: not home.processes(), "nothing of the job is left")
                (tmp_path / "gate").touch()
                kill(waiter)
                owner.kill()
        done = home.run("--pause-after", "1", gpus="0")
        [job] = home.jobs()
        assert job.attempts[0].end.name == "killed"
        assert job.state.name == ("killed" if subcommand == "kill" else "succeeded")
        assert home.runs() == {"0": 1 if subcommand == "kill" else 2}
        assert "paused" not in done.stderr


def test_sigterm_ends_a_run_and_its_jobs_on_a_full_disk_and_leaves_no_daemon(disk: Path, tmp_path: Path) -> None:
    with home_on(disk, tmp_path) as home:
        waits = f"test -e {tmp_path}/gate || {LONG}"
        with run_of(home, home.told(0, waits), home.told(1)) as owner, full(disk):
            owner.send_signal(signal.SIGTERM)
            assert owner.wait(60) == 143
            home.gone()
        (tmp_path / "gate").touch()
        assert home.run(gpus="0").returncode == 0
        assert home.states() == ["succeeded", "succeeded"]
        assert home.runs() == {"0": 2, "1": 1}


def test_a_stop_on_a_full_disk_ends_everything_until_resumed(disk: Path, tmp_path: Path) -> None:
    with home_on(disk, tmp_path) as home:
        waits = f"test -e {tmp_path}/gate || {LONG}"
        home.begin(home.told(0, waits), home.told(1, waits), home.told(2))
        home.resume()
        until(lambda: home.runs() == {"0": 1, "1": 1}, "two of them run")
        home.claim_pid(0)
        home.claim_pid(1)
        with full(disk):
            done = home.call("stop")
            assert done.returncode == 0, done.stderr
            assert "stopped, nothing left running; 3 jobs waiting. To continue: gputui resume" in done.stdout
            home.gone()
        (tmp_path / "gate").touch()
        home.add(home.told(3))
        home.gone("the daemon that was started for it has left again")
        assert home.runs() == {"0": 1, "1": 1}, "nothing starts on its own"
        assert home.ask("status")["scheduler"]["cause"]["kind"] == "stopped"
        assert home.call("resume").returncode == 0
        until(lambda: home.runs() == {"0": 2, "1": 2, "2": 1, "3": 1}, "all of them ran")
        home.gone()
        assert home.ask("status")["scheduler"]["state"] == "running", "the next one is not stopped again"


def test_a_stop_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "2m") as disk, home_on(disk, tmp_path) as home:
        home.begin(home.told(0, LONG))
        home.resume()
        until(lambda: home.runs() == {"0": 1}, "it runs")
        home.claim_pid(0)
        (home.private / "pause").unlink()
        with full(disk):
            done = home.call("stop")
            home.gone()
        assert done.returncode == 1
        assert (
            "could not save the stopped state: the next gputui will resume. Free disk space, then: gputui stop"
            in done.stderr
        )
        assert "gputui resume" not in done.stdout
        assert home.ask("status")["scheduler"]["state"] == "running"


def test_a_job_added_on_a_full_disk_is_refused_and_never_runs(disk: Path, tmp_path: Path) -> None:
    with home_on(disk, tmp_path) as home, run_of(home, home.told(0, LONG)) as owner:
        with full(disk):
            for _ in range(3):
                done = home.call("add", "--", home.told("again"))
                assert done.returncode == 1
                assert "nothing was changed: cannot write the queue: database or disk is full" in done.stderr
            assert home.call("ls").returncode == 0
        until(lambda: home.ask("status")["trouble"] is None, "there is space again")
        assert home.call("add", "--", home.told("again")).returncode == 0
        assert home.call("kill", "--now", "0").returncode == 0
        assert owner.wait(60) == 1
        until(lambda: home.runs()["again"], "what was added runs")
        home.gone("the daemon has left")
        assert home.runs() == {"0": 1, "again": 1}


class Campaign:
    """Adds and ends random jobs, mostly while the disk is full; sometimes kills the owner."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home, self.chance = home, random.Random(seed)
        self.over = home.directory / "over"
        """Once it exists, all jobs are short."""
        self.added: dict[int, str] = {}
        self.refused: set[str] = set()
        self.unanswered: set[str] = set()
        self.killed: set[int] = set()
        self.requeued: Counter[int] = Counter()
        self._numbers = count()

    def add(self) -> None:
        label = str(next(self._numbers))
        nap = self.chance.choice(["true", "sleep 0.05", "sleep 600"])
        try:
            [job] = self.home.add(self.home.told(label, f"test -e {self.over} || {nap}"))
            self.added[job] = label
        except NotDurable:
            self.refused.add(label)
        except ClientError:
            self.unanswered.add(label)

    def end(self) -> None:
        with suppress(ClientError):
            active = self.home.ask("status")["active"]
            if active:
                self._order(self.chance.choice(["kill", "requeue"]), self.chance.choice(active))

    def _order(self, kind: str, job: int) -> None:
        [outcome] = self.home.command({"type": kind, "job": job}, work=True)
        if outcome["refused"] is None and kind == "kill":
            self.killed.add(job)
        self.requeued[job] += kind == "requeue"

    def round(self, disk: Path) -> None:
        self.add()
        with full(disk):
            for _ in range(self.chance.randint(1, 5)):
                self.chance.choice([self.add, self.end])()
            if self.chance.random() < 0.5 and (holder := self.home.holder()) is not None:
                kill(holder.pid)
        self.add()

    def judge(self) -> None:
        """Refused jobs never ran; all others ran once, and once more each time they were requeued."""
        self.over.touch()
        for job in self.home.ask("status")["active"]:
            self._order("requeue", job)
        self.home.run(gpus="0,1")
        runs, jobs = self.home.runs(), {job.id: job for job in self.home.jobs() if not job.archived}
        assert not self.refused & set(runs)
        assert set(runs) <= {*self.added.values(), *self.unanswered}
        assert self.added.keys() <= jobs.keys()
        for job, label in self.added.items():
            may_end_itself = "sleep 600" not in jobs[job].spec.command  # before the signal reaches it
            ends = (
                {"succeeded"} if job not in self.killed else {"killed", "succeeded"} if may_end_itself else {"killed"}
            )
            assert jobs[job].state.name in ends
            assert (0 if job in self.killed else 1) <= runs[label] <= 1 + self.requeued[job]


@pytest.mark.parametrize("seed", range(2))
def test_every_request_on_a_full_disk_either_has_effect_or_has_none(disk: Path, tmp_path: Path, seed: int) -> None:
    with home_on(disk, tmp_path) as home:
        home.begin()
        home.resume()
        campaign = Campaign(home, seed)
        for _ in range(6):
            campaign.round(disk)
        campaign.judge()
        assert campaign.added
        assert campaign.refused
