"""Search and replace over the commands of several jobs: what would run, and why it may not. Only bash is asked."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gputui.core.crash_kind import CrashKind
from gputui.core.job import Job, JobId, JobSpec
from gputui.core.views.parameters import given

__all__ = ["BadReplacement", "Replacement", "begin_with", "likely_changed", "replaced", "would_run"]

_BATCH = re.compile(r"batch|(?:^|[._-])m?bsz?$", re.IGNORECASE)
MOST_CHECKED = 40
"""Commands that bash is asked about; they are alike."""


class BadReplacement(ValueError):
    """Why nothing is run, in one sentence."""


class Replacement(NamedTuple):
    changed: dict[JobId, JobSpec]
    unchanged: int
    """Jobs whose commands do not hold what was sought."""


def likely_changed(names: Sequence[str], kind: CrashKind | None) -> list[str]:
    """The likeliest first: after a full card it is the size of a batch."""
    full = kind is CrashKind.OOM_GPU
    return sorted(names, key=lambda name: not (full and _BATCH.search(name)))


def begin_with(jobs: Sequence[Job], names: Sequence[str]) -> str:
    """What is likely to be changed: the first parameter that all share, as the first command writes it."""
    for name in names:
        for match in given(jobs[0].spec.command, name):
            if all(match[0] in job.spec.command for job in jobs):
                return match[0]
    return ""


def replaced(jobs: Sequence[Job], sought: str, instead: str) -> Replacement:
    """Raises BadReplacement."""
    if not sought:
        raise BadReplacement("what is to be replaced? A part of the commands, as they are written")
    if "\0" in instead:
        raise BadReplacement("a NUL byte can be in no command; remove it")
    holding = [job for job in jobs if sought in job.spec.command]
    if not holding:
        nowhere = "the command does not hold" if len(jobs) == 1 else f"none of the {len(jobs):,} commands holds"
        raise BadReplacement(f"{nowhere} {sought!r}")
    if sought == instead:
        raise BadReplacement("nothing changes yet: write what stands there instead")
    changed = {job.id: replace(job.spec, command=job.spec.command.replace(sought, instead)) for job in holding}
    for job in holding:
        _check(job, changed[job.id])
    return Replacement(changed, len(jobs) - len(holding))


def _check(job: Job, spec: JobSpec) -> None:
    if not spec.command.strip():
        raise BadReplacement(f"nothing would be left of the command of #{job.id}: leave a part of it")
    if not spec.task and _unclosed(spec.command) and not _unclosed(job.spec.command):
        raise BadReplacement(f"a quotation mark would be left open in #{job.id}: replace both, or none")


def _unclosed(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def would_run(jobs: Sequence[Job], replacement: Replacement) -> None:
    """Raises BadReplacement where a shell would refuse a command that it did not refuse before."""
    for job in [job for job in jobs if job.id in replacement.changed and _is_for_shell(job.spec)][:MOST_CHECKED]:
        trouble = _refused(replacement.changed[job.id].command, job.spec.shell)
        if trouble and not _refused(job.spec.command, job.spec.shell):
            raise BadReplacement(f"#{job.id} would be broken: {trouble}")


def _is_for_shell(spec: JobSpec) -> bool:
    return not spec.task and spec.shell in ("", "bash", "sh")


def _refused(command: str, shell: str) -> str:
    """What the shell has against it; empty: nothing, or there is no such shell to ask."""
    try:
        done = subprocess.run([shell or "bash", "-n", "-c", command], capture_output=True, timeout=5,
                              stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return lines[0].rpartition("-c: ")[2] if lines else f"exit {done.returncode}"
