"""Yielders: a user's Python function that gives jobs, and which Python runs it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gputui.core.amounts import counted
from gputui.process.descriptors import OpenedPath
from gputui.process.spawn import spawn
from gputui.python.user_code.modules import USER_CODE

from .documents import BadTable
from .job_table import checked_command, read_table
from .source import BadInput, Draft, shown

# ---- Yielders ----


CALLER = os.path.join(USER_CODE, "call_yielder.py")
NO_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
"""A framework that a yielder or a config imports must not take memory on a card."""
LONGEST_ITEM = 1 << 20


class Yielder:
    """One call of `yielder()`, from its first item on."""

    def __init__(self, path: str, *, python: str, cwd: str, environment: Mapping[str, str], log: str) -> None:
        self._path = path
        self._items = 0
        questions, self._ask = os.pipe2(os.O_CLOEXEC)
        self._answers, answered = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = spawn(
                ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", cwd, python, "-u", CALLER, path],
                {**environment, **NO_GPUS},
                {0: questions, 1: answered, 2: OpenedPath(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)},
            )
        finally:
            os.close(questions)
            os.close(answered)

    def allow(self, items: int) -> None:
        """So many more may be made."""
        with suppress(BrokenPipeError):
            os.write(self._ask, b"%d\n" % items)

    def batches(self) -> Iterator[list[Draft]]:
        """As they come; BadInput when the yielder fails, after all that came before."""
        rest = b""
        while data := os.read(self._answers, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            batch: list[Draft] = []
            try:
                for line in lines:
                    draft = self._draft(line)
                    if draft is None:
                        return
                    batch.append(draft)
                if len(rest) > LONGEST_ITEM:
                    item = f"{shown(self._path)}, item {self._items + 1}"
                    raise BadInput(f"{item} is longer than the {LONGEST_ITEM} bytes it may have; call a script")
            finally:
                if batch:
                    yield batch
        raise BadInput(f"{shown(self._path)} ended before its yielder did, {self._end()}; see what it printed")

    def _draft(self, line: bytes) -> Draft | None:
        """None: it was the last."""
        message = json.loads(line)
        if "end" in message:
            return None
        if "error" in message:
            after = f", after {counted(self._items, 'item', 'items')}" if self._items else ""
            raise BadInput(f"{shown(self._path)}{after}: {message['error']}")
        self._items += 1
        return draft_of(message["job"], self._path, self._items)

    def close(self) -> None:
        """Ends it and whatever it started."""
        for fd in (self._ask, self._answers):
            with suppress(OSError):
                os.close(fd)
        self._end()

    def kill(self) -> None:
        """From any thread: whoever reads it sees its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _end(self) -> str:
        self.kill()
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return "nobody knows how"
        return f"killed by signal {-code}" if code < 0 else f"with exit code {code}"


def draft_of(job: object, origin: str, number: int) -> Draft:
    """An item's mapping as a draft; BadInput names the item and the key that is wrong."""
    try:
        table = read_table(job)
        return Draft(checked_command(table.command or table.settings.task), number, table.settings)
    except BadTable as bad:
        raise BadInput(f"{shown(origin)}, item {number}: {bad}") from None


# ---- Which Python runs what is the user's ----


def python_of(environment: Mapping[str, str]) -> str:
    """GPUTUI_PYTHON, that of the environment that is active there, or ours."""
    return environment.get("GPUTUI_PYTHON") or _active(environment) or sys.executable


def _active(environment: Mapping[str, str]) -> str | None:
    """Of an environment that was activated and is not ours: gputui may be installed apart, as a tool."""
    folder = environment.get("VIRTUAL_ENV")
    if not folder and environment.get("CONDA_DEFAULT_ENV", "base") != "base":
        folder = environment.get("CONDA_PREFIX")
    if not folder or os.path.realpath(folder) == os.path.realpath(sys.prefix):
        return None
    python = os.path.join(folder, "bin", "python")
    return python if os.access(python, os.X_OK) else None
