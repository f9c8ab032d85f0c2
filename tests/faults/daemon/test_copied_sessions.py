"""A copy of a live session is a separate session, which neither adopts nor ends the jobs of the original."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support.sessions import Home, alive
from support.waiting import until


@pytest.fixture
def copied(home: Home) -> Iterator[tuple[Home, Home]]:
    """A session with a daemon and two running jobs, and its copy."""
    home.killed_run(home.write(home.told("a", f"{home.waits}; exit 3"), home.told("b", home.waits)), running=2)
    home.owner()
    copy = Home(home.directory, "copy")
    subprocess.run(["cp", "-a", home.root, copy.root], check=True, capture_output=True)
    yield home, copy
    copy.end()


def test_stopping_a_copy_ends_nothing_of_the_original(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    wrappers = [original.claim_pid(job) for job in range(2)]
    stopped = copy.call("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert all(map(alive, wrappers))
    assert copy.states() == ["lost", "lost"]
    assert "this is a copy" in (copy.last(0).signature or "")
    original.gate.touch()
    until(lambda: not original.ask_quietly(), "the daemon of the original has exited")
    assert original.states() == ["failed", "succeeded"]
    assert original.last(0).exit_code == 3
    assert original.runs() == {"a": 1, "b": 1}


def test_a_copy_runs_new_jobs_under_a_uuid_of_its_own(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    run = copy.start(copy.write(copy.told("new"), name="new.txt"))
    _, err = run.communicate()
    assert run.returncode == 0, err
    assert "is a copy" in err
    assert copy.states() == ["lost", "lost", "succeeded"]
    original.gate.touch()
    until(lambda: not original.ask_quietly(), "the daemon of the original has exited")
    with copy.store() as here, original.store() as there:
        identities = here.identity(), there.identity()
    assert None not in identities
    assert len({identity.uuid for identity in identities if identity is not None}) == 2


def test_a_copy_without_its_store_does_not_adopt_the_jobs_of_the_original(copied: tuple[Home, Home]) -> None:
    original, copy = copied
    for path in copy.private.glob("session.db*"):
        path.unlink()
    shutil.rmtree(copy.root / "job_0")
    wrappers = [original.claim_pid(job) for job in range(2)]
    assert copy.call("stop").returncode == 0
    assert all(map(alive, wrappers))
    original.gate.touch()
    until(lambda: not original.ask_quietly(), "the daemon of the original has exited")
    assert original.states() == ["failed", "succeeded"]
