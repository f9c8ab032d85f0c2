"""Outfiles of new jobs: they must not exist, their folders must, and no two jobs may have the same."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gputui.core.events import Refusal
from gputui.core.job import Job, JobSpec


def check_outfiles(present: Iterable[Job], new: Iterable[JobSpec]) -> None:
    """Refuses before anything is added: nothing of the user's is overwritten."""
    wanted = [path for spec in new if (path := _path(spec)) is not None]
    if not wanted:
        return
    taken_by = {path: f"#{job.id}" for job in present if (path := _path(job.spec)) is not None}
    for path in wanted:
        if path in taken_by:
            raise Refusal(f"the outfile {path} is that of {taken_by[path]} already; nothing was added")
        if os.path.lexists(path):
            raise Refusal(f"the outfile {path} exists already; nothing was added")
        if not os.path.isdir(os.path.dirname(path)):
            raise Refusal(f"the outfile {path} has no folder to be in; make it first; nothing was added")
        taken_by[path] = "another job"


def _path(spec: JobSpec) -> str | None:
    return os.path.join(spec.cwd, spec.outfile) if spec.outfile is not None else None
