"""Yielders: a user's Python function that generates jobs, and the Python that runs it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gputui.core.amounts import counted
from gputui.process.spawn import OpenedPath, spawn
from gputui.python.user_code.modules import USER_CODE

from .documents import BadTable, checked_command, read_table
from .source import BadInput, Draft, shown

NO_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
"""Environment variables that hide all GPUs.

A framework imported by a yielder or a config must not allocate GPU memory.
"""
LONGEST_ITEM = 1 << 20


class Yielder:
    """One call of `yielder()`, in a separate process."""

    def __init__(self, path: str, *, python: str, cwd: str, environment: Mapping[str, str], log: str) -> None:
        self._path = path
        self._items = 0
        questions, self._ask = os.pipe2(os.O_CLOEXEC)
        self._answers, answered = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = spawn(
                ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", cwd, *door_of(python), "yield", path],
                {**environment, **NO_GPUS, "PYTHONUNBUFFERED": "1"},
                {0: questions, 1: answered, 2: OpenedPath(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)},
            )
        finally:
            os.close(questions)
            os.close(answered)

    def allow(self, items: int) -> None:
        """Allow the yielder to generate this many more items."""
        with suppress(BrokenPipeError):
            os.write(self._ask, b"%d\n" % items)

    def batches(self) -> Iterator[list[Draft]]:
        """Yield batches of items as they arrive.

        If the yielder fails, raise BadInput after all items that precede the error.
        """
        rest = b""
        while data := os.read(self._answers, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            batch: list[Draft] = []
            try:
                for line in lines:
                    message = json.loads(line)
                    if "end" in message:
                        return
                    if "error" in message:
                        after = f", after {counted(self._items, 'item', 'items')}" if self._items else ""
                        raise BadInput(f"{shown(self._path)}{after}: {message['error']}")
                    self._items += 1
                    batch.append(draft_of(message["job"], self._path, self._items))
                if len(rest) > LONGEST_ITEM:
                    item = f"{shown(self._path)}, item {self._items + 1}"
                    raise BadInput(f"{item} is longer than {LONGEST_ITEM} bytes; put the command in a script")
            finally:
                if batch:
                    yield batch
        raise BadInput(f"{shown(self._path)} exited before its yielder finished, {self._end()}; see its output")

    def close(self) -> None:
        """Kill the process and its children."""
        for fd in (self._ask, self._answers):
            with suppress(OSError):
                os.close(fd)
        self._end()

    def kill(self) -> None:
        """Kill the process, which ends `batches`. May be called from any thread."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _end(self) -> str:
        self.kill()
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return "reason unknown"
        return f"killed by signal {-code}" if code < 0 else f"with exit code {code}"


def draft_of(job: object, origin: str, number: int) -> Draft:
    """Convert an item's mapping into a draft. BadInput names the item and the invalid key."""
    try:
        table = read_table(job)
        return Draft(checked_command(table.command or table.settings.task), table.settings)
    except BadTable as bad:
        raise BadInput(f"{shown(origin)}, item {number}: {bad}") from None


def python_of(environment: Mapping[str, str]) -> str:
    """Return the Python for a user's code: GPUTUI_PYTHON, else that of the active environment, else ours."""
    return environment.get("GPUTUI_PYTHON") or _active_python(environment) or sys.executable


def _active_python(environment: Mapping[str, str]) -> str | None:
    """Return the Python of the active environment if it is not ours.

    gputui may be installed separately, as a tool.
    """
    directory = environment.get("VIRTUAL_ENV")
    if not directory and environment.get("CONDA_DEFAULT_ENV", "base") != "base":
        directory = environment.get("CONDA_PREFIX")
    if not directory or os.path.realpath(directory) == os.path.realpath(sys.prefix):
        return None
    python = os.path.join(directory, "bin", "python")
    return python if os.access(python, os.X_OK) else None


def door_of(python: str) -> list[str]:
    """Return the command that runs gputui's `user_code` module in the given Python.

    A Python other than ours may not have gputui installed, so it gets the path of the module.
    """
    return [python, "-P", "-m", "gputui.python.user_code"] if python == sys.executable else [python, USER_CODE]
