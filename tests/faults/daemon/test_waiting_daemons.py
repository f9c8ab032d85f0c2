"""Every scheduler has exactly one waiting daemon, which costs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.sessions import Home, Process, alive, all_pids, finished, kill
from support.waiting import until

from gputui.process import processes
from gputui.process.directories import DirectoryId
from gputui.session import lock as locks
from gputui.session.event_loop import Callback, Loop, Timer
from gputui.session.lock import OwnerKind
from gputui.session.ownership import acquisition
from gputui.session.ownership import daemon as daemons
from gputui.session.session_dir import Journal, Paths

MAX_EXTRA_MEMORY = 20_000
"""kB that a waiting daemon may take beyond Python itself."""


@pytest.fixture
def with_daemon(home: Home) -> Home:
    """A session whose scheduler is a daemon, with one running job."""
    home.begin("sleep 600")
    home.resume()
    home.waiter()
    return home


def memory(pid: int) -> int:
    """Return its proportional memory in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def asleep_in_lock(pid: int) -> bool:
    blocked = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(str(pid) in words for words in blocked)


def until_waiting(home: Home) -> None:
    until(lambda: asleep_in_lock(home.waiter()), "a daemon waits for the lock")


def test_a_dead_waiting_daemon_is_replaced_by_one_other(with_daemon: Home) -> None:
    for _ in range(3):
        waiter = with_daemon.waiter()
        kill(waiter)
        until(lambda gone=waiter: not alive(gone) and len(with_daemon.waiters()) == 1, "there is another")  # type: ignore[misc]
        until_waiting(with_daemon)
        assert len(with_daemon.waiters()) == 1
    log = (with_daemon.private / "scheduler.log").read_text()
    assert log.count("standby daemon died; starting another") == 3


def test_during_a_hand_over_no_daemon_sees_a_settled_owner(with_daemon: Home) -> None:
    """Otherwise the next owner's daemon would exit, and nobody would take over if that owner died now."""
    paths = Paths(str(with_daemon.root))
    lock = acquisition._ask_for_lock(paths, force=False)
    assert lock is not None
    holder = locks.holder(paths)
    assert holder is not None
    assert holder.kind is OwnerKind.CLIENT
    lock.release()


def test_with_no_daemon_none_is_started(home: Home) -> None:
    with home.running("--no-daemon", home.write("sleep 600")):
        until(lambda: home.database.exists() and home.ask("status")["active"], "the job runs")
        assert home.daemons() == []


def test_a_waiting_daemon_is_small_and_sleeps(with_daemon: Home) -> None:
    bare = subprocess.Popen([sys.executable, "-c", "import time; print('', flush=True); time.sleep(600)"], stdout=-1)
    assert bare.stdout is not None
    bare.stdout.readline()
    waiter = with_daemon.waiter()
    until(lambda: asleep_in_lock(waiter), "it waits")
    extra = memory(waiter) - memory(bare.pid)
    before = ticks(waiter)
    with_daemon.ask("status")
    assert ticks(waiter) == before
    bare.kill()
    bare.communicate()
    assert extra <= MAX_EXTRA_MEMORY


def test_starting_a_daemon_is_retried_with_exponential_back_off(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Clock(Loop):
        def call_later(self, seconds: float, callback: Callback) -> Timer:
            pauses.append(seconds)
            return Timer(callback)

    def fail(*_: object, **__: object) -> int:
        raise OSError("no processes")

    monkeypatch.setattr(daemons, "spawn_daemon", fail)
    home.begin()
    journal = Journal(str(home.private / "scheduler.log"))
    waiter = daemons.Waiter(Clock(), Paths(str(home.root)), DirectoryId.of(str(home.private)), journal)
    for _ in range(12):
        waiter.start()
    assert pauses == [min(daemons.LONGEST_PAUSE, daemons.FIRST_PAUSE * 2**times) for times in range(12)]


# Many clients see a scheduler die, and its successors die too: exactly one daemon takes over


CLIENTS = 6
LOGGED_START = """
import os, sys
if "daemon" in sys.orig_argv:
    with open(os.environ["DAEMONS_STARTED"], "a") as log:
        log.write(f"{os.getpid()}\\n")
"""
"""A `sitecustomize` with which every daemon logs its start."""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the pid of every daemon that was started."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(LOGGED_START)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("DAEMONS_STARTED", str(tmp_path / "started"))
    return tmp_path / "started"


def zombies_of(parents: set[int]) -> list[int]:
    stats = ((pid, processes.stat_of(pid)) for pid in all_pids())
    return [pid for pid, stat in stats if stat is not None and stat.state == b"Z" and stat.parent in parents]


def joined_runs(home: Home) -> list[Process]:
    """Start a scheduler and runs that join it, each with a job of its own."""
    runs = []
    for number in range(CLIENTS + 1):
        job = home.told(number, f"until test -e {home.directory}/go; do sleep 0.1; done")
        runs.append(home.start(home.write(job, name=f"{number}.txt")))
        if number == 0:
            until(lambda: home.database.exists() and home.holder() is not None, "the first run owns")
    until(lambda: sum(home.ask("status")["counts"].values()) == CLIENTS + 1, "all have joined")
    return runs


def test_each_death_starts_one_daemon_however_many_clients_see_it(home: Home, started: Path) -> None:
    owner, *clients = joined_runs(home)
    until_waiting(home)
    owner.kill()
    owner.communicate()
    victim, kills = owner.pid, 3
    for _ in range(kills):
        victim = home.owner(OwnerKind.DAEMON, but=victim)
        until_waiting(home)
        until(lambda: home.ask("status")["active"], "it answers")
        kill(victim)
    home.owner(OwnerKind.DAEMON, but=victim)
    home.waiter()
    assert zombies_of({client.pid for client in clients}) == []
    wanted = 2 + kills  # the run's, and one for each daemon that took over
    until(lambda: len(started.read_text().split()) >= wanted, "the last daemon has started")
    assert len(started.read_text().split()) == wanted
    (home.directory / "go").touch()
    assert [client.wait(60) for client in clients] == [0] * CLIENTS
    for client in clients:
        client.communicate()


def test_without_a_waiting_daemon_one_client_starts_one_and_reaps_it(home: Home, started: Path) -> None:
    owner, *clients = joined_runs(home)
    for _ in range(2):
        waiter = home.waiter()
        victim = home.holder()
        assert victim is not None
        before = set(started.read_text().split())
        kill(waiter)
        kill(victim.pid)
        kill(waiter)
        home.owner(OwnerKind.DAEMON, but=victim.pid)
        home.waiter()
        until(lambda: zombies_of({client.pid for client in clients}) == [], "all that ended are reaped")
        new = set(started.read_text().split()) - before
        assert len(new) <= 3  # the replacement of the waiting daemon may have started; the daemon; its waiting daemon
    owner.communicate()
    (home.directory / "go").touch()
    for client in clients:
        client.communicate()


PAUSES_WHILE_OPENING = """
import os, sys, time
if "daemon" in sys.orig_argv:
    import gputui.session.owner.owner as owner
    opened = owner.open_session
    def open_session(*arguments, **settings):
        while os.path.exists(os.environ["PAUSED_OPENING"]):
            time.sleep(0.01)
        return opened(*arguments, **settings)
    owner.open_session = open_session
"""


def test_a_scheduler_and_its_successor_killed_in_turn_are_followed_by_a_third(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PAUSES_WHILE_OPENING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PAUSED_OPENING", str(tmp_path / "pause"))
    home.begin("sleep 600")
    home.resume()
    for _ in range(3):
        owner, successor = home.owner(), home.waiter()
        until_waiting(home)
        (tmp_path / "pause").touch()
        kill(owner)
        assert home.owner(but=owner) == successor
        home.has_waiter(successor)
        kill(successor)
        (tmp_path / "pause").unlink()
        home.owner(but=successor)


def test_a_session_that_kills_every_daemon_that_opens_it_is_not_reopened_forever(
    home: Home, started: Path, tmp_path: Path
) -> None:
    code = (tmp_path / "site" / "sitecustomize.py").read_text()
    dies = """
    import gputui.session.owner.owner as owner
    owner.open_session = lambda *arguments, **settings: os.kill(os.getpid(), 9)
"""
    home.begin("sleep 600")
    home.resume()
    until_waiting(home)
    owner = home.owner()
    (tmp_path / "site" / "sitecustomize.py").write_text(code + dies)
    before = len(started.read_text().split())
    kill(home.waiter())
    until(lambda: len(started.read_text().split()) > before, "a daemon that will die waits")
    until_waiting(home)
    kill(owner)
    until(lambda: len(started.read_text().split()) >= before + 2, "its successor has started")
    until(lambda: home.daemons() == [], "all are dead")
    assert len(started.read_text().split()) == before + 2


def test_a_run_gets_a_session_although_every_daemon_fails(home: Home, started: Path, tmp_path: Path) -> None:
    code = (tmp_path / "site" / "sitecustomize.py").read_text()
    fails = """
    import gputui.session.owner.owner as owner
    owner.Owner._take_turn = lambda self: 1 / 0
"""
    (tmp_path / "site" / "sitecustomize.py").write_text(code + fails)
    run = home.start(home.write(home.told("a", home.waits), home.told("b")), gpus="0")
    until(home.runs, "a job runs")
    until_waiting(home)
    run.kill()
    run.communicate()
    log = home.private / "scheduler.log"
    until(lambda: log.exists() and "ZeroDivisionError" in log.read_text(), "the daemon has failed")
    run = home.start(gpus="0")
    assert home.owner(OwnerKind.RUN) == run.pid
    assert log.read_text().count("daemon took over") == 1, "no other daemon has failed meanwhile"
    home.gate.touch()
    assert finished(run).returncode == 0
    assert home.runs() == {"a": 1, "b": 1}
