"""What is left of a session in the process table; looked up in /proc, whatever anybody believes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def left_of(root: str) -> Iterator[tuple[int, str]]:
    """Processes of this user that bear a run's token of this session, and keepers of it."""
    token = b"\0GPUTUI_RUN="
    home = b"\0GPUTUI_SESSION=" + os.fsencode(root) + b"\0"
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid == os.getpid() or not is_mine_and_alive(pid):
            continue
        environment = b"\0" + _content(pid, "environ")
        words = _content(pid, "cmdline").split(b"\0")
        if token in environment and home in environment:
            yield pid, f"of job {_variable(environment, b'GPUTUI_JOB_ID')}: {_shown(words)}"
        elif b"keep" in words and os.fsencode(root) in words:
            yield pid, "a keeper of this session"


def is_mine_and_alive(pid: int) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
    except OSError:
        return False
    return _content(pid, "stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def _content(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _variable(environment: bytes, name: bytes) -> str:
    after = environment.partition(b"\0" + name + b"=")[2]
    return after.partition(b"\0")[0].decode("utf-8", "replace") or "?"


def _shown(words: list[bytes]) -> str:
    return b" ".join(words).decode("utf-8", "replace").strip()[:100]
