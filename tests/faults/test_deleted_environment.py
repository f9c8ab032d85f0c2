"""The environment that gputui runs from is deleted while it runs: who owns works on, all others say what happened."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.homes import Home, reap
from support.sessions import Process
from support.waiting import until

import gputui
from gputui.session.lock import OwnerKind

CRASH = "python3 -c 'import no_such_module'"


class Environment:
    """A virtual environment with a copy of gputui in it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.folder = folder
        self.python = folder / "bin" / "python"
        packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        without = shutil.ignore_patterns("__pycache__", "tui")
        shutil.copytree(Path(gputui.__file__).parent, packages / "gputui", ignore=without)
        shutil.copytree(Path(sysconfig.get_paths()["platlib"]) / "msgspec", packages / "msgspec")

    def start(self, home: Home, *commands: str) -> Process:
        words = [self.python, "-m", "gputui", "run", "--gpus", "0,1", "--output-dir", home.root, home.write(*commands)]
        return subprocess.Popen(
            list(map(str, words)), cwd=home.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def delete(self) -> None:
        """Python may still write its cache there."""
        while self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()
    reap()


def gated(home: Home, label: str, then: str) -> str:
    return home.told(label, f"until test -e {home.folder}/go; do sleep 0.01; done; {then}")


def test_a_run_whose_environment_is_deleted_as_soon_as_it_owns_works_on(home: Home, environment: Environment) -> None:
    run = environment.start(home, gated(home, "a", CRASH), gated(home, "b", "true"), home.told("c"))
    home.owner(OwnerKind.RUN)
    environment.delete()
    (home.folder / "go").touch()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 1, err
    assert "No module named 'no_such_module'" in out
    assert "Traceback" not in err
    assert "gputui." not in err
    assert home.runs() == {"a": 1, "b": 1, "c": 1}
    assert [job.state.name for job in home.jobs()] == ["failed", "succeeded", "succeeded"]


def test_a_keeper_whose_environment_is_deleted_takes_over_all_the_same(home: Home, environment: Environment) -> None:
    run = environment.start(home, gated(home, "a", CRASH), gated(home, "b", "true"), home.told("c"))
    until(lambda: home.runs() == {"a": 1, "b": 1}, "both run")
    waiter = home.waiter()
    until(lambda: f" {waiter} " in Path("/proc/locks").read_text(), "a keeper waits")
    environment.delete()
    run.kill()
    run.communicate()
    assert home.owner() == waiter
    (home.folder / "go").touch()
    home.gone("the queue is done and the keeper has left")
    assert home.runs() == {"a": 1, "b": 1, "c": 1}
    assert [job.state.name for job in home.jobs()] == ["failed", "succeeded", "succeeded"]
    assert "no_such_module" in (home.jobs()[0].attempts[-1].signature or "")


@pytest.mark.parametrize("verb", ["ls", "run", "doctor"])
def test_a_command_whose_environment_is_deleted_says_so(home: Home, environment: Environment, verb: str) -> None:
    deleted = f"shutil.rmtree({str(environment.folder)!r})"
    code = f"import shutil, sys, gputui.__main__ as gputui; {deleted}; sys.exit(gputui.main([{verb!r}]))"
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, cwd=home.folder)
    assert done.returncode == 1
    assert "was deleted or replaced while gputui ran" in done.stderr
    assert len(done.stderr.splitlines()) == 1
