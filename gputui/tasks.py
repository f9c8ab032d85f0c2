"""GPUTaskScheduler's Python interface on gputui: change the import and everything else stays as it was.

    from gputui.tasks import GPUTask, GPUTaskScheduler, ConfigManager

`GPUTaskScheduler(config, MyTask).start()` is `gputui run`: a durable session in the output folder, seen and steered
from any shell, with the tasks' classes loaded in their own processes alone.
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
from gputui.python.user_code.bundle import ConfigManager, QuietConfigManager
from gputui.python.user_code.modules import Loading, whereabouts
from gputui.python.user_code.old_names import GPUTask

__all__ = ["ConfigManager", "GPUTask", "GPUTaskScheduler", "NothingRan"]

INTERRUPTED = 130
NOT_WELL = (1, 2)
"""Some did not succeed; or it was refused. Any other status than 0 is somebody's wish to end it."""


class NothingRan(RuntimeError):
    """No task of a configuration could be run."""


class GPUTaskScheduler:
    """Runs a task of the given class for each test instance of a configuration."""

    def __init__(self, config: dict[str, Any], gpu_task_class: type) -> None:
        # The user's own dictionary stays as it is.
        settings = {key: dict(part) for key, part in config.items() if key == "scheduler_config"}
        self._config_manager = QuietConfigManager({**config, **settings})
        self._gpu_task_class = gpu_task_class
        self.exit_status: int | None = None
        """After `start`: 0 when all tasks succeeded, else what `gputui run` would exit with."""
        self.failed = self.not_run = 0
        """After `start`: how many tasks failed, and how many were not run; `gputui run` has said so, too."""

    def start(self) -> None:
        """Returns when no task is left that starts by itself. What succeeded before is kept, what failed is rerun.

        Raises NothingRan when not one of the tasks could be run.
        """
        if Loading.now:
            # A job loads the script that defines its class; it must not begin all over again.
            Loading.reach(self, self._gpu_task_class.__qualname__)
            return
        tasks = bundle.made(self._config_manager, whereabouts(self._gpu_task_class))
        origin = os.path.basename(sys.argv[0]) or "the script"
        self.exit_status, tally = _run(json.dumps({**tasks, "origin": origin}).encode())
        if self.exit_status == INTERRUPTED:
            raise KeyboardInterrupt
        self.failed, self.not_run = tally.get("failed", 0), tally.get("not_run", len(tasks["instances"]))
        if self.exit_status in NOT_WELL and self.not_run and not self.failed and not tally.get("succeeded", 0):
            raise NothingRan(f"none of the tasks ({self.not_run}) could be run: gputui run has said why")


def _run(tasks: bytes) -> tuple[int, dict[str, int]]:
    """In a process of its own: what the script has imported stays out of the scheduler. Its status, and its numbers."""
    fd, tally_fd = os.memfd_create("gputui-tasks"), os.memfd_create("gputui-tally")
    with open(fd, "wb") as file, open(tally_fd, "rb") as tally:
        file.write(tasks)
        file.flush()
        command = [sys.executable, "-P", "-m", "gputui", "run", "--task-bundle", f"/proc/self/fd/{fd}"]
        command += ["--tally", f"/proc/self/fd/{tally_fd}"]
        with _signals_left_to_it() as child:
            process = subprocess.Popen(command, pass_fds=[fd, tally_fd])
            child.append(process)
            status = process.wait()
        written = tally.read()
        return status, json.loads(written) if written else {}


@contextmanager
def _signals_left_to_it() -> Iterator[list[subprocess.Popen[bytes]]]:
    """An interrupt reaches it from the terminal by itself; a request to end is passed on."""
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
