"""A read-only view of a session: a copy of its store in memory, updated from claims and logs.

Used for read-only disks, file systems without locks, and sessions that belong to another machine. Nothing on the disk
changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from gputui.core.amounts import moment
from gputui.core.eta import estimate_outlook
from gputui.core.events import AttemptEnded, Exited, NotStarted, Refusal, Spawned, Submitted
from gputui.core.job import Job, JobId
from gputui.engines.claims import Claims, DirectoryGone, WrittenExit
from gputui.gpus.sample import Sample

from .errors import SessionError
from .event_loop import Ticket
from .lock import OwnerKind
from .owner.owner import complete_end
from .results import SessionResults
from .session_dir import Journal, Paths
from .store.backup import newest_copy
from .store.opening import directories_of
from .store.store import Store

T = TypeVar("T")
IN_SLURM = "was in Slurm's queue when last recorded"


class UnseenDevices:
    """A replacement for `Devices` that samples nothing."""

    sample: Sample | None = None
    cluster_name = ""

    def __init__(self) -> None:
        self.pids: dict[int, JobId] = {}
        self.leftovers: dict[int, JobId] = {}

    def remark(self, job: Job) -> str | None:
        return None


class AtOnce:
    """A replacement for the owner's loop that does slow work at once."""

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        then(work())


class SessionCopy:
    """A copy of a session that answers requests through `RequestHandler`, like an owner. Creating it raises
    SessionError, StoreDamaged, StoreTrouble or OSError if the store cannot be read.
    """

    places = False
    kind = OwnerKind.CLIENT
    presence: Callable[[], dict[str, Any]] = dict

    def __init__(self, paths: Paths, why: str, store: Store | None = None) -> None:
        """Copy the store, or use this one. `why` tells the user why the session itself cannot be opened."""
        self.paths, self.since, self._why = paths, time.time(), why
        self.notices: list[str] = []
        self.devices, self.loop = UnseenDevices(), AtOnce()
        self.store = store = store or newest_copy(paths)
        self.scheduler = store.load()
        identity = store.identity()
        if identity is None:
            raise SessionError(f"no session in {paths.root}")
        self.identity = identity
        self.sources = {source.key: source for source in store.sources()}
        self.directories = directories_of(paths, identity)
        self.results = results = SessionResults(
            store, self.scheduler, self.directories, Journal(os.devnull), lambda: None
        )
        self._take_in_claims()
        results.reader.catch_up()
        results.take_in({})
        snapshot = results.update(self.scheduler.snapshot())
        outlook = estimate_outlook(self.scheduler, self.since, results.book.results, results.book.paces.usual())
        self.snapshot = replace(snapshot, outlook=outlook, trouble=self._trouble())

    def _trouble(self) -> str:
        files = (self.paths.database, self.paths.database + "-wal", self.paths.backup)
        written = max((os.stat(path).st_mtime for path in files if os.path.exists(path)), default=self.since)
        return f"shown as last recorded, {moment(written, self.since)}: {self._why}"

    def _take_in_claims(self) -> None:
        """Apply starts in a cluster and ends that no owner has recorded."""
        claims = Claims(self.paths.claims)
        for job_id in sorted(self.scheduler.book.active):
            job = self.scheduler.book[job_id]
            assert job.active is not None
            attempt = job.active.attempt
            claim, begun, asked = claims.read_file(job_id, attempt)
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
            if isinstance(claim, WrittenExit | DirectoryGone):
                gone = NotStarted("its directory is gone")
                outcome = Exited(claim.code) if isinstance(claim, WrittenExit) else gone
                end = AttemptEnded(job=job_id, attempt=attempt, outcome=outcome, at=claim.at, requested=asked)
                self.scheduler.handle(
                    complete_end(end, self.scheduler.book[job_id], None, self.directories), self.since
                )

    def close(self) -> None:
        self.results.reader.close()
        self.store.close()

    def submit(self, ticket: Ticket[Any]) -> None:
        ticket.settle(Refusal(f"nothing was changed: {self._why}"))

    def environment(self, name: str) -> dict[str, str]:
        return self.store.environment(name) or {}
