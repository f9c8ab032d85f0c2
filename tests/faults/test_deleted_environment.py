"""The environment that gputui runs from is deleted: a scheduler continues, other commands say what happened."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest
from support.sessions import Home, Process
from support.waiting import until

import gputui
from gputui.session.lock import OwnerKind


class Environment:
    """A virtual environment with a copy of gputui in it."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, symlinks=True, with_pip=False)
        self.directory = directory
        self.python = directory / "bin" / "python"
        packages = directory / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        without = shutil.ignore_patterns("__pycache__", "tui")
        shutil.copytree(Path(gputui.__file__).parent, packages / "gputui", ignore=without)
        shutil.copytree(Path(msgspec.__file__).parent, packages / "msgspec")

    def start(self, home: Home, *commands: str) -> Process:
        words = [self.python, "-m", "gputui", "run", "--gpus", "0,1", "--output-dir", home.root, home.write(*commands)]
        return subprocess.Popen(
            list(map(str, words)), cwd=home.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def delete(self) -> None:
        """Python may still write its cache there."""
        while self.directory.exists():
            shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


def start(home: Home, environment: Environment) -> Process:
    """Start three jobs; the first two wait for the file `go`."""
    waits = f"until test -e {home.directory}/go; do sleep 0.01; done"
    crash = "python3 -c 'import no_such_module'"
    return environment.start(home, home.told("a", f"{waits}; {crash}"), home.told("b", waits), home.told("c"))


def assert_each_ran_once(home: Home) -> None:
    assert home.runs() == {"a": 1, "b": 1, "c": 1}
    assert [job.state.name for job in home.jobs()] == ["failed", "succeeded", "succeeded"]


def test_a_run_continues_without_its_environment(home: Home, environment: Environment) -> None:
    run = start(home, environment)
    home.owner(OwnerKind.RUN)
    environment.delete()
    (home.directory / "go").touch()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 1, err
    assert "No module named 'no_such_module'" in out
    assert "Traceback" not in err
    assert "gputui." not in err
    assert_each_ran_once(home)


def test_a_daemon_takes_over_without_its_environment(home: Home, environment: Environment) -> None:
    run = start(home, environment)
    until(lambda: home.runs() == {"a": 1, "b": 1}, "both run")
    waiter = home.waiter()
    until(lambda: f" {waiter} " in Path("/proc/locks").read_text(), "a daemon waits")
    environment.delete()
    run.kill()
    run.communicate()
    assert home.owner() == waiter
    (home.directory / "go").touch()
    home.gone("the queue is done and the daemon has left")
    assert_each_ran_once(home)
    assert "no_such_module" in (home.jobs()[0].attempts[-1].signature or "")


@pytest.mark.parametrize("subcommand", ["ls", "run", "doctor"])
def test_a_command_whose_environment_is_deleted_says_so(home: Home, environment: Environment, subcommand: str) -> None:
    deleted = f"shutil.rmtree({str(environment.directory)!r})"
    code = f"import shutil, sys, gputui.__main__ as gputui; {deleted}; sys.exit(gputui.main([{subcommand!r}]))"
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, cwd=home.directory)
    assert done.returncode == 1
    assert "was deleted or replaced while gputui ran" in done.stderr
    assert len(done.stderr.splitlines()) == 1
