"""Sweeps up after the demo, whatever ended it: waits until the demo's end of a pipe is closed, as the kernel does for
every process that dies, then ends what still runs of its session and removes its folder.

Started as a process of its own in a session of its own, so that neither a hang-up nor Ctrl-C reaches it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

from gputui.session.lock import left_of

PATIENCE = 10.0
NAP = 0.02


class Broom:
    """The demo's hold on it."""

    def __init__(self, folder: str, session: str) -> None:
        self._folder = folder
        words = [sys.executable, "-m", __name__, folder, session]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, cwd="/")

    def sweep(self) -> str | None:
        """None when nothing is left, else the sentence that says what is."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            done = self._process.wait(2 * PATIENCE) == 0
        except subprocess.TimeoutExpired:
            done = False
        return None if done else f"the demo could not be cleared away; see {self._folder}"


def main(folder: str, session: str) -> int:
    while os.read(0, 1):
        pass
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pids = [pid for pid, _ in left_of(session)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                return 0
        time.sleep(NAP)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
