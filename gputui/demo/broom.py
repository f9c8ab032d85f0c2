"""A process that cleans up after the demo, no matter how the demo ends.

It waits until the demo's end of a pipe is closed, kills what is left of the session, and removes its directory. It runs
in its own process session, so that it receives neither a hang-up nor Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

from gputui.session.lock import find_leftover_processes

PATIENCE = 10.0
NAP = 0.02


class Broom:
    """Starts and controls the cleaning process from the demo."""

    def __init__(self, directory: str, session: str) -> None:
        self._directory = directory
        words = [sys.executable, "-m", __name__, directory, session]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, cwd="/")

    def sweep(self) -> str | None:
        """Clean up. Return an error message if something is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            done = self._process.wait(2 * PATIENCE) == 0
        except subprocess.TimeoutExpired:
            done = False
        return None if done else f"failed to clean up the demo; see {self._directory}"


def main(directory: str, session: str) -> int:
    while os.read(0, 1):
        pass
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pids = [pid for pid, _ in find_leftover_processes(session)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            shutil.rmtree(directory, ignore_errors=True)
            if not os.path.exists(directory):
                return 0
        time.sleep(NAP)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
