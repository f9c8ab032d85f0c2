"""The jobs of one `run`: those it loaded, which its exit status covers, and guests, for which it only waits."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.core.job import Ended, JobId, Succeeded
from gputui.core.snapshot import Snapshot


class Charges:
    """Costs what changed, not what there is."""

    def __init__(self) -> None:
        self.jobs: set[JobId] = set()
        self.unfinished: set[JobId] = set()
        self._guests: set[JobId] = set()
        self._guests_from: JobId | None = None
        self._fresh: set[JobId] = set()

    def own(self, jobs: Iterable[JobId]) -> None:
        fresh = set(jobs)
        self.jobs |= fresh
        self.unfinished |= fresh
        self._fresh |= fresh

    def welcome(self, first: JobId) -> None:
        """From this number on jobs of others count too: nobody else would run them."""
        self._guests_from = first

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        fresh, self._fresh = self._fresh, set()
        if self._guests_from is not None:
            self._guests.update(job for job in changed if job >= self._guests_from and job not in self.jobs)
        for job in changed | fresh:
            if job in self.jobs or job in self._guests:
                (self.unfinished.discard if isinstance(snapshot[job].state, Ended) else self.unfinished.add)(job)

    def succeeded(self, snapshot: Snapshot) -> bool:
        return all(isinstance(snapshot[job].state, Succeeded) for job in self.jobs)

    def others(self, snapshot: Snapshot) -> int:
        """How many jobs of the session are none of these and have not ended."""
        return sum(job.id not in self.jobs and not isinstance(job.state, Ended) for job in snapshot)

    def left(self, snapshot: Snapshot) -> list[str]:
        """What lives on of their newest attempts, in words."""
        return [
            leftover.words
            for job in sorted(self.jobs)
            for past in snapshot[job].attempts[-1:]
            for leftover in past.left
        ]
