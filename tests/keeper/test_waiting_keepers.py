"""Every owner has exactly one waiting keeper, which costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.sessions import Process, alive, all_pids
from support.waiting import until

from gputui.process import processes
from gputui.process.directories import FolderId
from gputui.session import lock as locks
from gputui.session.event_loop import Callback, Loop, Timer
from gputui.session.lock import OwnerKind
from gputui.session.ownership import keeper as keeping
from gputui.session.ownership.acquisition import _asked_for_lock
from gputui.session.session_dir import Journal, Paths

MOST_ABOVE_BARE = 20_000
"""kB of a waiting keeper beyond what Python itself takes."""
FORBIDDEN = ("textual", "pynvml", "asyncio", "psutil")


@pytest.fixture
def kept(home: Home) -> Home:
    """A session that a keeper owns, with one job that goes on."""
    home.begin("sleep 600")
    home.resume()
    home.waiter()
    return home


def memory(pid: int) -> int:
    """Its share of what it maps, in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def asleep_in_lock(pid: int) -> bool:
    blocked = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(str(pid) in words for words in blocked)


def test_a_dead_waiter_is_replaced_by_one_other(kept: Home) -> None:
    for _ in range(3):
        waiter = kept.waiter()
        kill(waiter)
        until(lambda gone=waiter: not alive(gone) and len(kept.waiters()) == 1, "there is another")  # type: ignore[misc]
        until(lambda: asleep_in_lock(kept.waiter()), "it waits")
        assert len(kept.waiters()) == 1
    log = (kept.private / "scheduler.log").read_text()
    assert log.count("the waiting keeper died; another is started") == 3


def test_a_run_has_one_waiting_keeper(home: Home) -> None:
    with home.running(home.write("sleep 600")) as run:
        assert home.owner(OwnerKind.RUN) == run.pid
        until(lambda: asleep_in_lock(home.waiter()), "it waits")
        assert len(home.keepers()) == 1


def test_without_a_keeper_nobody_waits(home: Home) -> None:
    with home.running("--no-keeper", home.write("sleep 600")):
        until(lambda: home.database.exists() and home.ask("status")["active"], "the job runs")
        assert home.keepers() == []


def test_a_waiting_keeper_is_small_and_sleeps(kept: Home) -> None:
    bare = subprocess.Popen([sys.executable, "-c", "import time; print('', flush=True); time.sleep(600)"], stdout=-1)
    assert bare.stdout is not None
    bare.stdout.readline()
    waiter = kept.waiter()
    until(lambda: asleep_in_lock(waiter), "it waits")
    above = memory(waiter) - memory(bare.pid)
    before = ticks(waiter)
    kept.ask("status")
    assert ticks(waiter) == before
    bare.kill()
    bare.communicate()
    print(f"a waiting keeper takes {above} kB more than a bare Python")
    assert above <= MOST_ABOVE_BARE


def test_a_keeper_loads_nothing_that_it_does_not_need() -> None:
    code = f"import sys, gputui.cli.verbs.keep; print([name for name in {FORBIDDEN} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Clock(Loop):
    """Remembers how long each pause was, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        self.pauses.append(seconds)
        if len(self.pauses) < 12:
            self.call_soon(callback)
        else:
            self.call_soon(self.stop)
        return Timer(callback)


def test_a_keeper_that_cannot_be_started_is_tried_less_and_less_eagerly(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(root: str, *, wait: bool, folder: FolderId) -> int:
        raise OSError("no processes")

    monkeypatch.setattr(keeping, "spawn_keeper", fails)
    home.begin()
    clock = Clock()
    folder = FolderId.of(str(home.private))
    waiter = keeping.Waiter(clock, Paths(str(home.root)), folder, Journal(str(home.private / "scheduler.log")))
    clock.call_soon(waiter.start)
    clock.run()
    clock.close()
    assert clock.pauses == [min(keeping.LONGEST_PAUSE, keeping.FIRST_PAUSE * 2**times) for times in range(12)]


def test_an_owner_that_passes_the_session_on_is_not_taken_for_one_with_a_keeper(kept: Home) -> None:
    """The keeper of a taker that dies at once would leave, and nobody would own."""
    giver = kept.owner()
    fd = _asked_for_lock(Paths(str(kept.root)), force=False)
    assert fd is not None
    signed = locks.holder(Paths(str(kept.root)))
    os.close(fd)
    assert signed is not None
    assert (signed.pid, signed.kind) == (giver, OwnerKind.CLIENT)


# ---- However many see an owner die, and however soon its successor dies too, one keeper goes on ----


CLIENTS = 6
LOGGED_START = """
import os, sys
if "keep" in sys.orig_argv:
    with open(os.environ["KEEPERS_STARTED"], "a") as log:
        log.write(f"{os.getpid()}\\n")
"""
"""As `sitecustomize`: every keeper leaves a line as it begins."""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the pid of every keeper that was started."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(LOGGED_START)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("KEEPERS_STARTED", str(tmp_path / "started"))
    return tmp_path / "started"


def zombies_of(parents: set[int]) -> list[int]:
    stats = ((pid, processes.stat_of(pid)) for pid in all_pids())
    return [pid for pid, stat in stats if stat is not None and stat.state == b"Z" and stat.parent in parents]


def joined_runs(home: Home) -> list[Process]:
    """An owner, and runs beside it that follow a job of their own."""
    runs = []
    for number in range(CLIENTS + 1):
        job = home.told(number, f"until test -e {home.folder}/go; do sleep 0.1; done")
        runs.append(home.start(home.write(job, name=f"{number}.txt")))
        if number == 0:
            until(lambda: home.database.exists() and home.holder() is not None, "the first run owns")
    until(lambda: sum(home.ask("status")["counts"].values()) == CLIENTS + 1, "all have joined")
    return runs


def test_one_keeper_is_started_for_each_death_however_many_clients_see_it(home: Home, started: Path) -> None:
    owner, *clients = joined_runs(home)
    until(lambda: asleep_in_lock(home.waiter()), "it waits")
    owner.kill()
    owner.communicate()
    victim, kills = owner.pid, 3
    for _ in range(kills):
        victim = home.owner(OwnerKind.KEEPER, but=victim)
        until(lambda: asleep_in_lock(home.waiter()), "it waits")
        until(lambda: home.ask("status")["active"], "it answers")
        kill(victim)
    home.owner(OwnerKind.KEEPER, but=victim)
    home.waiter()
    assert zombies_of({client.pid for client in clients}) == []
    wanted = 2 + kills  # the run's, and one for each keeper that took over
    until(lambda: len(started.read_text().split()) >= wanted, "the last waiter has begun")
    assert len(started.read_text().split()) == wanted
    (home.folder / "go").touch()
    assert [client.wait(60) for client in clients] == [0] * CLIENTS
    for client in clients:
        client.communicate()


def test_where_nobody_waits_one_client_starts_a_keeper_and_reaps_it(home: Home, started: Path) -> None:
    owner, *clients = joined_runs(home)
    for _ in range(2):
        waiter = home.waiter()
        victim = home.holder()
        assert victim is not None
        before = set(started.read_text().split())
        kill(waiter)
        kill(victim.pid)
        kill(waiter)
        home.owner(OwnerKind.KEEPER, but=victim.pid)
        home.waiter()
        until(lambda: zombies_of({client.pid for client in clients}) == [], "whoever ended is reaped")
        new = set(started.read_text().split()) - before
        assert len(new) <= 3  # the owner's replacement for its waiter may have begun; the keeper; its waiter
    owner.communicate()
    (home.folder / "go").touch()
    for client in clients:
        client.communicate()


STANDS_STILL_AS_IT_OPENS = """
import os, sys, time
if "keep" in sys.orig_argv:
    import gputui.session.owner.owner as owner
    opened = owner.open_session
    def open_session(*arguments, **settings):
        while os.path.exists(os.environ["STAND_STILL"]):
            time.sleep(0.01)
        return opened(*arguments, **settings)
    owner.open_session = open_session
"""


def test_an_owner_and_its_successor_killed_one_after_the_other_are_followed_by_a_third(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STANDS_STILL_AS_IT_OPENS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("STAND_STILL", str(tmp_path / "stand still"))
    home.begin("sleep 600")
    home.resume()
    for _ in range(3):
        owner, successor = home.owner(), home.waiter()
        until(lambda: asleep_in_lock(home.waiter()), "it waits")
        (tmp_path / "stand still").touch()
        kill(owner)
        assert home.owner(but=owner) == successor
        home.has_waiter(successor)
        kill(successor)
        (tmp_path / "stand still").unlink()
        home.owner(but=successor)


def test_a_session_whose_opening_kills_keepers_is_not_opened_without_end(
    home: Home, started: Path, tmp_path: Path
) -> None:
    code = (tmp_path / "site" / "sitecustomize.py").read_text()
    dies = """
    import gputui.session.owner.owner as owner
    owner.open_session = lambda *arguments, **settings: os.kill(os.getpid(), 9)
"""
    home.begin("sleep 600")
    home.resume()
    until(lambda: asleep_in_lock(home.waiter()), "it waits")
    owner = home.owner()
    (tmp_path / "site" / "sitecustomize.py").write_text(code + dies)
    before = len(started.read_text().split())
    kill(home.waiter())
    until(lambda: len(started.read_text().split()) > before, "one that will die waits")
    until(lambda: asleep_in_lock(home.waiter()), "it waits")
    kill(owner)
    until(lambda: len(started.read_text().split()) >= before + 2, "its successor has begun")
    until(lambda: home.keepers() == [], "all are dead")
    assert len(started.read_text().split()) == before + 2
