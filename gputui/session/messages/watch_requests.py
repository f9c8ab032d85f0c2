"""What a screen that only looks asks of the owner. The answers are packed: both ends must be of the same version.

Apart from the other requests: these keep no keeper from leaving, and nobody but such a screen sends them.
"""

from __future__ import annotations

from gputui.core.job import JobId

from .socket_requests import OwnerRequest

__all__ = ["CurvesToDraw", "JobInFull", "LookRequest", "SpansToShow", "WatchRequest", "WhyJobsWait"]


class LookRequest(OwnerRequest[bytes], frozen=True):
    """Base of all of them."""


class WatchRequest(LookRequest, frozen=True, tag="watch"):
    """What changed since it was asked last: a part of it, as `control/watch_parts.py` has them."""

    watcher: str
    """Made up by whoever looks; one that the owner does not know is sent everything."""
    number: int
    """How many parts it has got."""
    program: str
    """Its version."""


class WhyJobsWait(LookRequest, frozen=True, tag="why_jobs_wait"):
    jobs: tuple[JobId, ...]


class JobInFull(LookRequest, frozen=True, tag="job_in_full"):
    job: JobId


class CurvesToDraw(LookRequest, frozen=True, tag="curves_to_draw"):
    job: JobId
    attempt: int | None = None


class SpansToShow(LookRequest, frozen=True, tag="spans_to_show"):
    """What kept jobs from starting."""
