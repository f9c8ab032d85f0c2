"""A session as whoever may only look sees it: a copy of its store in memory, and what claims and logs tell beyond it.

For read-only disks, file systems without locks, and sessions that live on another machine. Nothing on the disk changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from gputui.core.amounts import moment
from gputui.core.events import AttemptEnded, Exited, NotStarted, Refusal, Spawned, Submitted
from gputui.core.job import Job, JobId
from gputui.core.results import Curve, JobResults
from gputui.core.scheduler import Moment
from gputui.core.spans import RecordedSpan
from gputui.engines.claims import Claims, FolderGone, WrittenExit
from gputui.gpus.sample import Sample

from .errors import SessionError
from .event_loop import Ticket
from .job_folders import Folders
from .lock import OwnerKind
from .owner.turn import Publication, told_in_full
from .results import SessionResults
from .session_dir import Journal, Paths
from .store.backup import newest_copy

T = TypeVar("T")
IN_SLURM = "it waited in Slurm's queue when last recorded"


class UnseenDevices:
    """Stands for `Devices` where nobody looks at them."""

    sample: Sample | None = None
    cluster_name = ""

    def __init__(self) -> None:
        self.pids: dict[int, JobId] = {}
        self.leftovers: dict[int, JobId] = {}

    def remark(self, job: Job) -> str | None:
        return None


class AtOnce:
    """Stands for the owner's loop: what takes long is done here and now."""

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        then(work())


class SessionCopy:
    """Answers `Desk` as an owner does. Raises SessionError, StoreDamaged, StoreTrouble or OSError."""

    places = False
    kind = OwnerKind.CLIENT
    presence: Callable[[], dict[str, Any]] = dict

    def __init__(self, paths: Paths, why: str) -> None:
        """`why` the session itself cannot be opened, a sentence for the user."""
        self.paths, self.since, self._why = paths, time.time(), why
        self.notices: list[str] = []
        self.devices, self.loop = UnseenDevices(), AtOnce()
        self._store = store = newest_copy(paths)
        self.scheduler = store.load()
        identity = store.identity()
        if identity is None:
            raise SessionError(f"there is no session in {paths.root} yet")
        self.identity = identity
        self.sources = {source.key: source for source in store.sources()}
        self.folders = Folders(
            paths.root, identity.prefix, identity.job_dir, made=identity.made_folder, former=identity.former
        )
        self._results = SessionResults(store, self.scheduler, self.folders, Journal(os.devnull), lambda: None)
        self._take_in_claims()
        self._results.reader.catch_up()
        self._results.take_in({})
        publication = Publication(self.scheduler, self._results, lambda: None)
        self.snapshot = publication.renew(self.scheduler, self.since, self._trouble(), lambda: "")

    def _trouble(self) -> str:
        files = (self.paths.database, self.paths.database + "-wal", self.paths.backup)
        written = max(os.stat(path).st_mtime for path in files if os.path.exists(path))
        return f"shown as last recorded, {moment(written, self.since)}: {self._why}"

    def _take_in_claims(self) -> None:
        """Take in what began in a cluster, or ended, when no owner was there to record it."""
        claims = Claims(self.paths.claims)
        for job_id in sorted(self.scheduler.book.active):
            job = self.scheduler.book[job_id]
            assert job.active is not None
            attempt = job.active.attempt
            claim, begun = claims.read(job_id, attempt), claims.begun(job_id, attempt)
            if begun is None and job.submitted:
                waits = Submitted(job=job_id, attempt=attempt, why=IN_SLURM, slurm_job=job.active.slurm_job)
                self.scheduler.handle(waits, self.since)
            if begun is not None and job.submitted:
                self.scheduler.handle(
                    Spawned(
                        job=job_id, attempt=attempt, pid=None, adopted=True, started=begun.started, gpus=begun.gpus,
                        slurm_job=begun.slurm_job,
                    ),
                    self.since,
                )  # fmt: skip
            if isinstance(claim, WrittenExit | FolderGone):
                gone = NotStarted("its folder is gone")
                outcome = Exited(claim.code) if isinstance(claim, WrittenExit) else gone
                asked = claims.asked(job_id, attempt)
                end = AttemptEnded(job=job_id, attempt=attempt, outcome=outcome, at=claim.at, asked=asked)
                self.scheduler.handle(told_in_full(end, self.scheduler.book[job_id], None, self.folders), self.since)

    def close(self) -> None:
        self._results.reader.close()
        self._store.close()

    # What is asked of an owner

    def take(self, ticket: Ticket[Any]) -> None:
        ticket.fail(Refusal(f"nothing was changed: {self._why}"))
        ticket.settle()

    def reply_to(self, request: str) -> bytes | None:
        return self._store.reply_to(request)

    def environment(self, name: str) -> dict[str, str]:
        return self._store.environment(name) or {}

    def story(self, job: JobId) -> list[Moment]:
        return self._store.story(job)

    def spans(self) -> list[RecordedSpan]:
        return self._store.spans()

    def curves(self, job: JobId, attempt: int | None = None) -> tuple[Curve, ...]:
        return self._results.curves(job, attempt)

    def results_of(self, job: JobId) -> dict[int, JobResults]:
        return self._results.attempts(job)
