"""scheduler.log: when each task began and ended and on which GPU, in GPUTaskScheduler's words."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .sentences import words


class SchedulerLog:
    """Written by each task's own process, so that it does not matter who schedules. None: there is none."""

    def __init__(self, path: str | None, task: str, who: str | None = None) -> None:
        """`who`: instead of the GPU that this process has."""
        self._path = path
        self._task = task
        self._who = who or f"gpu{os.environ.get('CUDA_VISIBLE_DEVICES', '')}"

    def write(self, verb: str, why: str = "") -> None:
        if self._path is None:
            return
        moment = time.strftime("%a, %d %b %Y %H:%M:%S")
        line = f"{moment} gputui INFO {self._who} {verb} task {self._task}{why}\n"
        with suppress(OSError), open(self._path, "a", encoding="utf-8", errors="replace") as file:
            file.write(line)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """How the task ended. One that is killed leaves no line: it did not finish."""
        try:
            yield
        except SystemExit as leaving:
            self.write(*(("finishes",) if leaving.code in (None, 0) else ("fails", f": exit code {leaving.code}")))
            raise
        except BaseException as error:
            self.write("fails", f": {words(error)}")
            raise
        self.write("finishes")
