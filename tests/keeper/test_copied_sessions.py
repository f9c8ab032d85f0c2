"""A copy of a live session is a session of its own: what runs in the original is neither adopted nor ended by it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support.homes import Home
from support.sessions import GPUTUI, alive
from support.waiting import until


@pytest.fixture
def copied(home: Home) -> Iterator[tuple[Home, Home]]:
    """A session with a keeper and two running jobs, and its copy."""
    gate = f"until test -e {home.folder}/go; do sleep 0.01; done"
    run = home.start(home.write(home.told("a", f"{gate}; exit 3"), home.told("b", gate)))
    until(lambda: len(home.runs()) == 2, "the jobs run")
    home.waiter()
    run.kill()
    run.communicate()
    home.owner()
    copy = Home(home.folder, "copy")
    subprocess.run(["cp", "-a", home.root, copy.root], check=True, capture_output=True)
    yield home, copy
    copy.end()


def gputui(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPUTUI, *words, "--session", str(home.root)], capture_output=True, text=True)


def test_stopping_a_copy_ends_nothing_of_the_original(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    wrappers = [original.claim_pid(job) for job in range(2)]
    stopped = gputui(copy, "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert all(map(alive, wrappers))
    assert copy.states() == ["lost", "lost"]
    assert "this is a copy" in (copy.last(0).signature or "")
    (original.folder / "go").touch()
    until(lambda: not original.ask_quietly(), "the original's keeper has gone")
    assert original.states() == ["failed", "succeeded"]
    assert original.last(0).exit_code == 3
    assert original.runs() == {"a": 1, "b": 1}


def test_a_copy_has_jobs_of_its_own_beside_the_originals(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    run = copy.start(copy.write(copy.told("new"), name="new.txt"))
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert "is a copy" in err
    assert copy.states() == ["lost", "lost", "succeeded"]
    with copy.store() as store:
        here = store.identity()
    (original.folder / "go").touch()
    until(lambda: not original.ask_quietly(), "the original's keeper has gone")
    with original.store() as store:
        there = store.identity()
    assert here is not None
    assert there is not None
    assert here.uuid != there.uuid


def test_a_copy_without_its_store_does_not_take_the_originals_jobs_for_its_own(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    for path in copy.private.glob("session.db*"):
        path.unlink()
    shutil.rmtree(copy.root / "job_0")
    wrappers = [original.claim_pid(job) for job in range(2)]
    assert gputui(copy, "stop").returncode == 0
    assert all(map(alive, wrappers))
    (original.folder / "go").touch()
    until(lambda: not original.ask_quietly(), "the original's keeper has gone")
    assert original.states() == ["failed", "succeeded"]
