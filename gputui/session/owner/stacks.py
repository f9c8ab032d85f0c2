"""Where a hung Python program stands: its stacks by py-spy, kept in the job's folder before it is ended.

In a thread of its own and for a bounded time: the owner's turns and its orders to other jobs do not wait for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from gputui.core.job import Job, JobId
from gputui.process.processes import command_line, descendants
from gputui.process.threads import NoThread, begin
from gputui.session.errors import SessionError
from gputui.session.files.folders import Folders

from .loop import Loop

PATIENCE = 10.0
"""Seconds for one program."""
MOST = 8
"""Programs of an attempt that are looked into."""


class StackKeeper:
    """Once for each attempt; whoever asks again while it is under way is not told twice."""

    def __init__(self, loop: Loop, folders: Folders) -> None:
        self._loop = loop
        self._folders = folders
        self._asked: set[tuple[JobId, int]] = set()
        self._closed = False

    def keep(self, job: Job, attempt: int, wrapper: int | None, then: Callable[[], None]) -> None:
        """`then` is called in the owner's thread, also where nothing could be kept."""
        key = (job.id, attempt)
        tool = spy()
        if tool is None or wrapper is None:
            then()
        elif key not in self._asked:
            self._asked.add(key)
            with suppress(NoThread):
                begin(lambda: self._keep(tool, job, attempt, wrapper, then), "gputui-stack")
                return
            then()

    def close(self) -> None:
        self._closed = True

    def _keep(self, tool: str, job: Job, attempt: int, wrapper: int, then: Callable[[], None]) -> None:
        try:
            text = "\n".join(_dumped(tool, pid) for pid in _programs(wrapper))
            with suppress(OSError, SessionError), self._folders.enter(job) as folder:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(f"stack.{attempt}.txt", flags, 0o666, dir_fd=folder.fd), "w") as file:
                    file.write(text or "none of its programs is Python\n")
        finally:
            if not self._closed:
                self._loop.call_soon_threadsafe(then)


def spy() -> str | None:
    """py-spy, as whoever started the owner would find it, or beside our own Python."""
    import shutil

    beside = os.path.dirname(sys.executable)
    return shutil.which("py-spy", path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))


def _programs(wrapper: int) -> list[int]:
    return [pid for pid in descendants(wrapper) if "python" in command_line(pid)][:MOST]


def _dumped(tool: str, pid: int) -> str:
    import subprocess  # of every owner hardly one needs it

    head = f"# {command_line(pid)}\n"
    try:
        done = subprocess.run(
            [tool, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{head}{error}\n"
    return head + done.stdout.decode("utf-8", "replace")
