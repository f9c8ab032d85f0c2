"""What a new owner must find out before it starts anything: which attempts live, and which ends are not noted."""

from __future__ import annotations

import os

from gputui.core.book import Book
from gputui.core.job import Job, JobId
from gputui.engines.protocol import Since, Survivor
from gputui.session.files.folders import Folders


def survivors(book: Book, folders: Folders, *, since: Since) -> list[Survivor]:
    """Every attempt that the store says is under way."""
    found = []
    for job_id in sorted(book.active):
        job = book[job_id]
        assert job.active is not None
        out = folders.reached(folders.files(job, job.active.attempt).out)
        found.append(Survivor(job=job_id, attempt=job.active.attempt, since=since, out=out))
    return found


def unnoted_ends(book: Book, claims: str) -> list[tuple[Job, int]]:
    """A claim whose attempt has ended is an end that an earlier owner did not live to note."""
    found = []
    for job_id, attempt in _claims(claims):
        if job_id in book and any(past.number == attempt for past in book[job_id].attempts):
            found.append((book[job_id], attempt))
    return found


def _claims(folder: str) -> list[tuple[JobId, int]]:
    names = (name.split(".") for name in os.listdir(folder))
    return [(int(parts[0]), int(parts[1])) for parts in names if len(parts) == 2 and all(map(str.isdecimal, parts))]
