"""How many jobs of a `run` failed, and how many were not run; for whoever started it from Python, also as numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gputui.core.job import Ended, Job, Killed, Refused, Skipped, Succeeded
from gputui.core.views.amounts import counted


def tallied(jobs: Iterable[Job]) -> dict[str, int]:
    """A job that was never started has not failed: it was not run."""
    tally = {"total": 0, "succeeded": 0, "failed": 0, "not_run": 0}
    for job in jobs:
        tally["total"] += 1
        if isinstance(job.state, Succeeded):
            tally["succeeded"] += 1
        elif isinstance(job.state, Refused | Skipped) or not isinstance(job.state, Ended) or not job.attempts:
            tally["not_run"] += 1
        elif not isinstance(job.state, Killed):
            tally["failed"] += 1
    return tally


def told(tally: dict[str, int]) -> str | None:
    """None where all is well."""
    if not tally["failed"] and not tally["not_run"]:
        return None
    failed = f"{tally['failed']:,} of {counted(tally['total'], 'job', 'jobs')} failed"
    noun = ("was", "were") if tally["failed"] else ("job was", "jobs were")
    not_run = f"{counted(tally['not_run'], *noun)} not run"
    return ", ".join([failed] * bool(tally["failed"]) + [not_run] * bool(tally["not_run"]))


def write(path: str | None, tally: dict[str, int]) -> None:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tally, file)
