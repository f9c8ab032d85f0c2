"""Which jobs the queue shows, and in which order. Pure; a change costs a search in the order, not a new order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from gputui.core.job import Active, Ended, Job, JobId, JobSpec, StateName, Waiting
from gputui.core.naming import Names
from gputui.core.snapshot import Snapshot

from .filtering import Filter, text_of

Key = tuple[Any, ...]
"""What a row is sorted by; its last element is the job."""

BAD_ENDS = frozenset(
    (
        StateName.FAILED,
        StateName.CRASHED,
        StateName.TIMED_OUT,
        StateName.LOST,
        StateName.REFUSED,
        StateName.SKIPPED,
    )
)


class Tab(StrEnum):
    ALL = "All"
    ACTIVE = "Active"
    FAILED = "Failed"
    DONE = "Done"


QUEUE_ORDER = "queue"
PARAMETER = "="
"""Before the name of a parameter, where an order is named: a parameter may be called like a column."""


class Rows:
    """The view on a session's jobs: a tab, a filter, a sort order."""

    def __init__(self, names: Names) -> None:
        self.tab = Tab.ALL
        self.filter = Filter()
        self.sort = QUEUE_ORDER
        self.reverse = False
        self.pinned: JobId | None = None
        """The job under the cursor: when it ends it stays where it is until the cursor leaves it."""
        self._out_of_place = False
        self._names = names
        self.params: dict[str, int] = {}
        """The parameters that jobs have, and the width of the longest value of each."""
        self._keys: dict[JobId, Key] = {}
        self._rows: list[Key] = []
        self._texts: dict[JobId, tuple[JobSpec, str]] = {}
        """By job: its spec, and what a filter looks in; made when first filtered."""

    def __len__(self) -> int:
        return len(self._rows)

    def job_at(self, row: int) -> JobId:
        found: JobId = self._rows[-1 - row if self.reverse else row][-1]
        return found

    def row_of(self, job: JobId) -> int | None:
        key = self._keys.get(job)
        if key is None:
            return None
        place = bisect_left(self._rows, key)
        return len(self._rows) - 1 - place if self.reverse else place

    def jobs(self) -> Iterable[JobId]:
        rows = reversed(self._rows) if self.reverse else self._rows
        return (row[-1] for row in rows)

    def __contains__(self, job: JobId) -> bool:
        return job in self._keys

    def rebuild(self, snapshot: Snapshot) -> None:
        """All rows anew: after a change of tab, filter or order."""
        self._out_of_place = False
        for job in snapshot.jobs:
            self._learn(job)
        key_of = self._key_of()
        self._keys = {job.id: key_of(job) for job in snapshot.jobs if self._shown(job)}
        self._rows = sorted(self._keys.values())

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> bool:
        """Only these jobs differ; True if rows came, went or moved."""
        key_of = self._key_of()
        moved = False
        for job_id in changed:
            job = snapshot[job_id]
            self._learn(job)
            key = key_of(job) if self._shown(job) else None
            before = self._keys.get(job_id)
            if key == before:
                continue
            if job_id == self.pinned and before is not None and isinstance(job.state, Ended) and not job.archived:
                self._out_of_place = True
                continue
            moved = True
            self._place(job_id, before, key)
        return moved

    def pin(self, job: JobId | None, snapshot: Snapshot) -> bool:
        """The cursor moved; True if the row it left goes where it belongs now."""
        before, self.pinned = self.pinned, job
        if before is None or before == job or not self._out_of_place:
            return False
        self._out_of_place = False
        return self.update(snapshot, [before])

    def _place(self, job: JobId, before: Key | None, key: Key | None) -> None:
        if before is not None:
            del self._rows[bisect_left(self._rows, before)]
            del self._keys[job]
        if key is not None:
            insort(self._rows, key)
            self._keys[job] = key

    def _learn(self, job: Job) -> None:
        self._names.learn(job)
        for name, value in job.spec.params.items():
            if len(value) > self.params.get(name, 0):
                self.params[name] = len(value)

    def _shown(self, job: Job) -> bool:
        if job.archived or not _in_tab(job, self.tab):
            return False
        return not self.filter or self.filter.matches(job, self._text(job))

    def _text(self, job: Job) -> str:
        known = self._texts.get(job.id)
        if known is None or known[0] is not job.spec:
            known = self._texts[job.id] = (job.spec, text_of(job, job.spec.name or ""))
        return known[1]

    def _key_of(self) -> Callable[[Job], Key]:
        if self.sort == QUEUE_ORDER:
            return _queue_key
        by_parameter = self.sort.startswith(PARAMETER)
        value_of = _parameter(self.sort.removeprefix(PARAMETER)) if by_parameter else SORTS[self.sort]
        return lambda job: (*_comparable(value_of(job)), job.id)


def _in_tab(job: Job, tab: Tab) -> bool:
    match tab:
        case Tab.ACTIVE:
            return not isinstance(job.state, Ended)
        case Tab.FAILED:
            return job.state.name in BAD_ENDS
        case Tab.DONE:
            return isinstance(job.state, Ended)
    return True


def _queue_key(job: Job) -> Key:
    """What runs first, then what waits in its order, then what ended, the newest first."""
    state = job.state
    if isinstance(state, Active):
        return (0, state.placed.since, 0.0, job.id)
    if isinstance(state, Waiting):
        return (1, float(-job.priority), job.position, job.id)
    ended = job.attempts[-1].ended if job.attempts else job.added
    return (2, -ended, 0.0, job.id)


def started(job: Job) -> float | None:
    if job.active is not None:
        return job.active.since
    return job.attempts[-1].started if job.attempts else None


SORTS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "state": lambda job: job.state.name,
    "pri": lambda job: -job.priority,
    "started": started,
    "name": lambda job: job.spec.name or job.spec.command,
    "group": lambda job: job.spec.group,
}


def _parameter(name: str) -> Callable[[Job], Any]:
    return lambda job: job.spec.params.get(name)


def _comparable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts before nothing, each among its own kind."""
    if value is None:
        return (2, 0.0, "")
    try:
        number = float(value)
    except ValueError:
        return (1, 0.0, str(value))
    return (0, number, "") if number == number else (1, 0.0, str(value))  # no order has a place for NaN
