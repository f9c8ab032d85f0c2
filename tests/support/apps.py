"""The real app on a real terminal, with a session of its own that others can look at while it runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gputui.core.job import JobId
from gputui.session.lock import OwnerKind

from .homes import Home
from .sessions import GPUTUI, Done, alive
from .terminal import CTRL_L, RecordedTerminal, recorded
from .waiting import until

__all__ = ["SIZE", "AppHome", "at_home", "gone", "repainted_alike", "restored"]

SIZE = (120, 40)
_LOCAL = {"GPUTUI_SESSION": None, "XDG_CONFIG_HOME": "/nonexistent"}
"""Nothing of whoever runs the tests has a say."""


class AppHome(Home):
    """A session that the app is opened on, again and again if need be."""

    @contextmanager
    def opened(self, *words: str | Path, gpus: str | None = "cpu:2", **settings: Any) -> Iterator[RecordedTerminal]:
        arguments = self.words(*words, gpus=gpus)
        settings["env"] = {**_LOCAL, **settings.get("env", {})}
        with recorded(arguments, **{"size": SIZE, "cwd": self.folder, **settings}) as terminal:
            yield terminal

    @contextmanager
    def opened_quietly(self, *commands: str, gpus: str = "cpu:2") -> Iterator[RecordedTerminal]:
        """Of jobs that come through a pipe nothing is said that would have to go away again."""
        reading, writing = os.pipe()
        with open(reading) as given, open(writing, "w") as taken:
            taken.write("".join(command + "\n" for command in commands))
            taken.close()
            with self.opened("-", gpus=gpus, stdin=given) as terminal:
                yield terminal

    def words(self, *words: str | Path, gpus: str | None = "cpu:2") -> list[str | Path]:
        lanes = ("--gpus", gpus) if gpus is not None else ()
        return [*GPUTUI, *lanes, "--output-dir", self.root, *words]

    def app(self, but: int = 0) -> int:
        """The pid of the app that owns, as soon as one does."""
        return self.owner(OwnerKind.APP, but)

    def ls(self, *words: str) -> Done:
        """What the verb says to a user at another terminal."""
        said = subprocess.run([*GPUTUI, "ls", "--session", self.root, *words], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        return said

    def state(self, job: JobId) -> str:
        """As whoever owns says it."""
        found: str = self.ask("show", job=job)["state"]
        return found

    def becomes(self, job: JobId, state: str) -> None:
        until(lambda: self.state(job) == state, f"#{job} is {state}; it is {self.state(job)}")

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.ask("status")["counts"]
        return counts


@contextmanager
def at_home(folder: Path, name: str = "out") -> Iterator[AppHome]:
    """Whatever became of it, nothing of the session runs afterwards."""
    home = AppHome(folder, name)
    try:
        yield home
    finally:
        home.end()


def gone(pid: int, seconds: float = 60.0) -> None:
    until(lambda: not alive(pid), f"process {pid} is gone", seconds)


def restored(terminal: RecordedTerminal) -> None:
    """As the shell left it to the app: its own screen, its cursor, its modes, no reports of mouse or paste."""
    assert not terminal.emulator.alternate
    assert not terminal.emulator.cursor_hidden
    assert terminal.modes == terminal.modes_before
    raw = terminal.since(0)
    for mode in (b"1000", b"1002", b"1006", b"2004"):
        assert raw.rfind(b"\x1b[?" + mode + b"l") > raw.rfind(b"\x1b[?" + mode + b"h")
    assert raw.count(b"\x1b[<u") == raw.count(b"\x1b[>25u")


def repainted_alike(terminal: RecordedTerminal) -> None:
    """What stands on the screen is what a whole repaint draws: nothing was lost on the way."""

    def alike() -> bool:
        terminal.settles(0.1)
        before = terminal.picture
        terminal.press(CTRL_L)
        terminal.settles(0.1)
        return terminal.picture == before

    until(alike, "a repaint changes nothing")
