"""What a new owner must find out before it starts anything: which attempts live, and which ends are not noted."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.core.book import Book
from gputui.core.job import Job, JobId
from gputui.core.steps import Step, reached
from gputui.engines.protocol import Since, Survivor
from gputui.session.files.folders import Folders
from gputui.session.files.last_look import forget_look

from .parts import Parts


def recover(parts: Parts) -> None:
    """In the owner's thread, before its first turn."""
    reached(Step.RECOVERY_BEGUN)
    forget_look(parts.ground.paths.private)
    book, since = parts.scheduler.book, parts.opened.since
    parts.engine.recover(survivors(book, parts.folders, since=since))
    parts.engine.gc(all_dead=since is not Since.NOTHING)
    for job, attempt in unnoted_ends(book, parts.engine.claimed()):
        parts.info_writer.note(job, over=attempt)
    reached(Step.RECOVERED)


def survivors(book: Book, folders: Folders, *, since: Since) -> list[Survivor]:
    """Every attempt that the store says is under way."""
    under_way = []
    for job_id in sorted(book.active):
        job = book[job_id]
        assert job.active is not None
        out = folders.reached(folders.files(job, job.active.attempt).out)
        placed = job.active
        under_way.append(Survivor(job=job_id, attempt=placed.attempt, since=since, out=out, engine=placed.engine))
    return under_way


def unnoted_ends(book: Book, claimed: Iterable[tuple[JobId, int]]) -> list[tuple[Job, int]]:
    """A claim whose attempt has ended is an end that an earlier owner did not live to note."""
    ends = []
    for job_id, attempt in claimed:
        if job_id in book and any(past.number == attempt for past in book[job_id].attempts):
            ends.append((book[job_id], attempt))
    return ends
