"""What is left of a session in the process table; looked up in /proc, whatever anybody believes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator


def left_of(root: str) -> Iterator[tuple[int, str]]:
    """Processes that bear a run's token of this session, and keepers of it."""
    token = b"\0GPUTUI_RUN="
    home = b"\0GPUTUI_SESSION=" + os.fsencode(root) + b"\0"
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        if pid == os.getpid() or not is_alive(pid):
            continue
        environment = b"\0" + _content(pid, "environ")
        words = _content(pid, "cmdline").split(b"\0")
        if token in environment and home in environment:
            yield pid, f"of job {_variable(environment, b'GPUTUI_JOB_ID')}: {_shown(words)}"
        elif b"keep" in words and os.fsencode(root) in words:
            yield pid, "a keeper of this session"


def is_alive(pid: int, started: int | None = None) -> bool:
    """`started`: in clock ticks since boot; a later process of the same number does not count."""
    fields = _content(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X") and started in (None, int(fields[19]))


def unknown_since(moment: float) -> Iterator[tuple[int, str]]:
    """Processes of this user that began since, lead a session, and whose environment does not tell whose they are."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        words = _content(pid, "cmdline").split(b"\0")
        try:
            leads = os.getsid(pid) == pid and os.stat(f"/proc/{pid}").st_uid == os.getuid()
            if leads and words[0] and is_alive(pid) and not _names_somebody(pid) and _began(pid) >= moment:
                yield pid, _shown(words)
        except OSError:
            continue


def _names_somebody(pid: int) -> bool:
    """Who empties the environment of a program gives up what every login gives."""
    with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
        environment = b"\0" + file.read()
    return any(name in environment for name in (b"\0HOME=", b"\0USER=", b"\0LOGNAME=", b"\0GPUTUI_"))


def _began(pid: int) -> float:
    ticks = int(_content(pid, "stat").rpartition(b")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


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
