"""What the machine allows this user: open files, processes, memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from gputui.core.views.amounts import GIB, memory_words
from gputui.gpus.doctor import Finding

FEWEST_FILES, ENOUGH_FILES = 256, 1024
FEWEST_PROCESSES, ENOUGH_PROCESSES = 50, 300
LITTLE_MEMORY, ENOUGH_MEMORY = GIB // 4, GIB


def limit_findings() -> list[Finding]:
    return [_open_files(), _processes(), *_addresses(), *_memory()]


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_count(soft)} files may be open at once"
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_FILES:
        return Finding(True, text)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    return Finding(False, text, f"ulimit -n {most}", serious=soft < FEWEST_FILES)


def _processes() -> Finding:
    """Threads count too; root has no limit but that of its control group."""
    margins = [each for each in (_left_to_user(), _left_in_group()) if each is not None]
    if not margins:
        return Finding(True, "processes and threads are not limited")
    text = f"{max(0, min(margins)):,} more processes and threads may be started"
    if min(margins) >= ENOUGH_PROCESSES:
        return Finding(True, text)
    advice = "raise `ulimit -u`, or the container's pids limit; or end some"
    return Finding(False, text, advice, serious=min(margins) < FEWEST_PROCESSES)


def _left_to_user() -> int | None:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft == resource.RLIM_INFINITY or os.geteuid() == 0:
        return None
    return soft - _own_threads()


def _own_threads() -> int:
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


def _left_in_group() -> int | None:
    most, now = _of_group("pids.max", "pids"), _of_group("pids.current", "pids")
    return None if most is None or now is None else most - now


def _addresses() -> list[Finding]:
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY:
        return []
    text = f"programs may use {memory_words(soft)} of addresses each, which CUDA alone exceeds"
    return [Finding(False, text, "ulimit -v unlimited")]


def _memory() -> list[Finding]:
    """What is left in the machine, or in the container if that is less."""
    most, now = (
        _of_group("memory.max", "memory", "memory.limit_in_bytes"),
        _of_group("memory.current", "memory", "memory.usage_in_bytes"),
    )
    margins = [each for each in (_available(), most - now if most is not None and now is not None else None) if each]
    if not margins:
        return []
    text = f"{memory_words(min(margins))} of memory are free"
    if min(margins) >= ENOUGH_MEMORY:
        return [Finding(True, text)]
    return [Finding(False, text, "ps axo rss,user,args --sort -rss | head", serious=min(margins) < LITTLE_MEMORY)]


def _available() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_group(name: str, controller: str, old_name: str = "") -> int | None:
    """Of the control group that this process is in, by either kind of hierarchy; None: no limit, or none is told."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            place, file = f"/sys/fs/cgroup{path}", name
        elif controller in controllers.split(","):
            place, file = f"/sys/fs/cgroup/{controller}{path}", old_name or name
        else:
            continue
        written = _read(os.path.join(place, file)).strip()
        if written.isdecimal():
            return int(written) if int(written) < 2**60 else None
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _count(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else f"{limit:,}"
