"""All that an owner can say of one job, and why jobs wait: for screens, its own and those that only look."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from gputui.core.job import Job, JobId
from gputui.core.results import JobResults
from gputui.core.views.why import why

from .json_shapes import pid_of, story_lines

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


class Details(Struct, frozen=True):
    """All that can be said of one job."""

    job: Job
    folder: str
    why: str | None
    remark: str | None
    story: tuple[tuple[float, str], ...]
    environment: dict[str, str]
    pid: int | None = None
    """The command's own; None: it has not begun, or has ended."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    """Those of its attempts, by digest; where all had the same, none."""
    results: dict[int, JobResults] = field(default_factory=dict)
    """What each attempt came to, as far as any printed something."""


def whys(owner: Owner, jobs: Sequence[JobId]) -> dict[JobId, str]:
    """Why each of these waits, or what is odd about one that runs."""
    now = time.time()
    sentences: dict[JobId, str] = {}
    for job_id in jobs:
        job = owner.scheduler.book[job_id]
        sentence = why(owner.scheduler, job, now) or owner.devices.remark(job)
        if sentence:
            sentences[job_id] = sentence
    return sentences


def details(owner: Owner, job_id: JobId) -> Details:
    job = owner.scheduler.book[job_id]
    environment = owner.environment(job.spec.environment)
    used = {attempt.environment for attempt in job.attempts} | {job.active.environment if job.active else ""} - {""}
    return Details(
        job=job,
        folder=owner.folders.folder(job),
        why=why(owner.scheduler, job, time.time()),
        remark=owner.devices.remark(job),
        story=tuple((line.time, line.text) for line in story_lines(job, owner.story(job_id))),
        environment={**environment, **job.spec.variables},
        pid=pid_of(job),
        environments={name: owner.environment(name) for name in used} if len(used) > 1 else {},
        results=owner.parts.results.attempts(job_id),
    )
