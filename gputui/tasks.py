"""The Python interface of GPUTaskScheduler, implemented with gputui. Only the import has to be changed.

    from gputui.tasks import GPUTask, GPUTaskScheduler, ConfigManager

`GPUTaskScheduler(config, MyTask).start()` runs `gputui run`, which creates a durable session in the output directory.
The session can be controlled from any shell. The task classes are loaded only in the tasks' own processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gputui.python.user_code import bundle
from gputui.python.user_code.bundle import ConfigManager, GPUTask, QuietConfigManager
from gputui.python.user_code.modules import Loading, locate

__all__ = ["ConfigManager", "GPUTask", "GPUTaskScheduler", "NothingRan"]

INTERRUPTED = 130


class NothingRan(RuntimeError):
    """Raised when none of the tasks could be run."""


class GPUTaskScheduler:
    """Runs a task of the given class for each test instance of a configuration."""

    def __init__(self, config: dict[str, Any], gpu_task_class: type) -> None:
        # Copied, so that the user's dictionary is not changed.
        settings = {key: dict(part) for key, part in config.items() if key == "scheduler_config"}
        self._config_manager = QuietConfigManager({**config, **settings})
        self._gpu_task_class = gpu_task_class
        self.exit_status: int | None = None
        """Exit status of `gputui run`, set by `start`. It is 0 if all tasks succeeded."""
        self.failed = self.not_run = 0
        """Number of tasks that failed, and number of tasks that were not run. Both are set by `start`."""

    def start(self) -> None:
        """Run the tasks and return when no more of them can start. Succeeded tasks are kept, and failed ones are rerun.

        Raises NothingRan if none of the tasks could be run.
        """
        if Loading.now:
            # A job loads this script to get the task class. Do not start the tasks again there.
            Loading.reach(self, self._gpu_task_class.__qualname__)
            return
        tasks = bundle.make_bundle(self._config_manager, locate(self._gpu_task_class))
        origin = os.path.basename(sys.argv[0]) or "the script"
        self.exit_status, tally = _run(json.dumps({**tasks, "origin": origin}).encode())
        if self.exit_status == INTERRUPTED:
            raise KeyboardInterrupt
        self.failed, self.not_run = tally.get("failed", 0), tally.get("not_run", len(tasks["instances"]))
        ran_to_its_end = self.exit_status in (1, 2)  # any other status except 0 means an interruption
        if ran_to_its_end and self.not_run and not self.failed and not tally.get("succeeded", 0):
            raise NothingRan(f"none of {self.not_run} tasks could be run; see the output of gputui run")


def _run(tasks: bytes) -> tuple[int, dict[str, int]]:
    """Run `gputui run` in a process without the script's imports. Return its exit status and its counts of tasks."""
    fd, tally_fd = os.memfd_create("gputui-tasks"), os.memfd_create("gputui-tally")
    with open(fd, "wb") as file, open(tally_fd, "rb") as tally:
        file.write(tasks)
        file.flush()
        command = [sys.executable, "-P", "-m", "gputui", "run", "--task-bundle", f"/proc/self/fd/{fd}"]
        command += ["--tally", f"/proc/self/fd/{tally_fd}"]
        with _forward_signals() as child:
            process = subprocess.Popen(command, pass_fds=[fd, tally_fd])
            child.append(process)
            status = process.wait()
        written = tally.read()
        return status, json.loads(written) if written else {}


@contextmanager
def _forward_signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass SIGTERM on to the child. The child receives SIGINT directly from the terminal."""
    child: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: object) -> None:
        for process in child:
            process.send_signal(number)

    try:
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
            signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        }
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
