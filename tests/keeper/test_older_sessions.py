"""A session that 0.1.0 left, as it lay on disk: opened, told, and its stored commands run, under today's names."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.homes import Home
from support.sessions import GPUTUI
from support.waiting import until

import gputui
from gputui.process.world import this_world
from gputui.session.files.paths import Paths

STORED = Path(__file__).parents[1] / "session" / "data"
TASK = """\
from gputui.tasks import GPUTask


class MyTask(GPUTask):
    def main(self):
        print("lr is", self._config["lr"])
"""
BY_NAME = f"{sys.executable} -P -m gputui.inside"
BY_PATH = f"{sys.executable} {Path(gputui.__file__).parent / 'inside'}"


def lay_out(home: Home, door: str) -> None:
    """The folder as 0.1.0 left it, on this machine."""
    paths = Paths(str(home.root))
    paths.create()
    world = this_world()
    known_then = {name: getattr(world, name) for name in ("machine", "hostname", "boot", "pid_namespace")}
    places = {
        "@PYTHON@ -P -m gputui.inside": door,
        "@PYTHON@": sys.executable,
        "@WORK@": str(home.folder),
        "@WORLD@": json.dumps(known_then),
        '"@PATH@"': ", ".join(map(json.dumps, sys.path)),
    }

    def text_of(name: str) -> str:
        text = (STORED / name).read_text()
        for place, value in places.items():
            text = text.replace(place, value)
        return text

    with closing(sqlite3.connect(paths.database)) as database:
        database.executescript(text_of("session_0_1_0.sql"))
    keepsakes = home.private / "keepsakes"
    keepsakes.mkdir(mode=0o700, exist_ok=True)
    kept = keepsakes / "tasks-7dd8ba4a75feb26d7408bf1b.json"
    kept.write_text(text_of("tasks_0_1_0.json"))
    kept.chmod(0o600)
    (home.folder / "my_task.py").write_text(TASK)


def told(home: Home, *words: str) -> str:
    done = subprocess.run([*GPUTUI, *words, "--session", str(home.root)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("door", [BY_NAME, BY_PATH], ids=["by name", "by the folder's path"])
def test_a_session_of_0_1_0_is_opened_and_its_stored_commands_run(home: Home, door: str) -> None:
    lay_out(home, door)
    assert home.states() == ["queued", "succeeded", "succeeded", "queued", "held", "queued"]
    told(home, "resume")
    until(lambda: home.states() == ["succeeded"] * 4 + ["held", "failed"], "its jobs have run")
    assert "lr is 0.1" in told(home, "logs", "0")
    assert "attempt 2 started" in told(home, "show", "0")
    assert home.last(5).exit_code == 3
