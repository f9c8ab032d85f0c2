"""A program in a real tmux: keys as a user types them, the pane as a user reads it."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .waiting import until

__all__ = ["Tmux", "in_tmux"]

SIZE = ("120", "40")
NAP = 0.05
"""Seconds between two looks: each is a process of its own."""


class Tmux:
    """A server of its own with one pane, which keeps what its program said last."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._name = f"gputui-test-{os.getpid()}"
        self._folder = folder
        outside = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        self._environment = {**outside, **env}
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", SIZE[0], "-y", SIZE[1], "-c", str(folder), "sleep 600")
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def run(self, words: Sequence[str]) -> None:
        """Instead of whatever the pane runs or ran."""
        self._tmux("respawn-pane", "-k", "-c", str(self._folder), shlex.join(words))

    def press(self, *keys: str) -> None:
        """Keys by tmux's names, such as `Enter` and `C-c`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def shows(self, wanted: str) -> None:
        self._until(lambda: wanted in self.text, f"the pane shows {wanted!r}")

    def hides(self, unwanted: str) -> None:
        self._until(lambda: unwanted not in self.text, f"the pane shows {unwanted!r} no more")

    @property
    def copied(self) -> str:
        """What tmux's newest buffer has; empty: there is none."""
        command = ["tmux", "-L", self._name, "show-buffer"]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False).stdout

    def leaves(self) -> None:
        """The pane's program ends by itself."""
        self._until(lambda: self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1", "the program has left")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            time.sleep(NAP)
            return condition()

        try:
            until(looked, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{self.text}") from None

    def end(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def in_tmux(folder: Path, env: Mapping[str, str]) -> Iterator[Tmux]:
    tmux = Tmux(folder, env)
    try:
        yield tmux
    finally:
        tmux.end()
