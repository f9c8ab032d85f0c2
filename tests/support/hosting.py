"""The small app of `terminal_host` on a terminal of its own, with the story that it writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .terminal import RecordedTerminal, recorded
from .waiting import until

__all__ = ["HOST", "Hosted", "hosted"]

HOST = (sys.executable, str(Path(__file__).parent / "terminal_host.py"))


class Hosted:
    def __init__(self, terminal: RecordedTerminal, log: Path) -> None:
        self.terminal, self.log = terminal, log

    @property
    def story(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def pid(self) -> int:
        self.tells("mounted")
        return int(next(line for line in self.story if line.startswith("mounted")).split()[1])

    def times(self, what: str) -> int:
        return sum(line.startswith(what) for line in self.story)

    def tells(self, what: str, times: int = 1) -> None:
        until(lambda: self.times(what) >= times, f"the app has told {what!r} {times} times; it told {self.story[-5:]}")

    def ready(self) -> Hosted:
        self.terminal.shows("hello there")
        self.tells("mounted")
        return self


@contextmanager
def hosted(folder: Path, *parts: str, words: tuple[str, ...] = HOST, **settings: Any) -> Iterator[Hosted]:
    log = folder / f"story-{os.urandom(4).hex()}"
    env = {"GPUTUI_HOST_LOG": str(log), **settings.pop("env", {})}
    with recorded([*words, *parts], env=env, **settings) as terminal:
        yield Hosted(terminal, log)
