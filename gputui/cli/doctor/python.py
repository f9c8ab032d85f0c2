"""Python and how it starts processes: some builds (conda's) can do less than others, and gputui does without."""

from __future__ import annotations

import os
import sys

from gputui.core.views.amounts import counted
from gputui.gpus.doctor import Finding

_TRUE = "/bin/true"


def python_findings() -> list[Finding]:
    conda = " (conda)" if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else ""
    version = f"Python {sys.version.split()[0]}{conda}, {counted(len(os.sched_getaffinity(0)), 'core', 'cores')}"
    return [Finding(True, version), _spawning()]


def _spawning() -> Finding:
    """Really starts one, both ways that there are."""
    program = _TRUE if os.access(_TRUE, os.X_OK) else "/usr/bin/true"
    try:
        from gputui.process.descriptors import STANDARD
        from gputui.process.libc_spawn import posix_spawn

        pid = posix_spawn([program], {}, STANDARD)
        way = "processes are started by the C library"
    except (NotImplementedError, ImportError):
        return _plainly(program)
    except OSError as error:
        return _fails(error)
    if _ends_well(pid):
        return Finding(True, way)
    return Finding(False, f"{program} fails", f"is it damaged? ls -l {program}", serious=True)


def _plainly(program: str) -> Finding:
    from gputui.process.spawn import spawn

    try:
        pid = spawn([program], {}, {})
    except OSError as error:
        return _fails(error)
    good = _ends_well(pid)
    text = "this C library cannot start processes as gputui likes best: it does so more slowly, and all works"
    return Finding(good, text, "" if good else "a Python of the system or of uv may do better", not good)


def _fails(error: OSError) -> Finding:
    text = f"no process can be started: {error.strerror}"
    return Finding(False, text, "end some processes, or raise `ulimit -u`", serious=True)


def _ends_well(pid: int) -> bool:
    return os.waitpid(pid, 0)[1] == 0
