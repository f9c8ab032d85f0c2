"""Which jobs the queue shows, and in which order. Pure.

A change costs a search in the order, not a new order; a filter costs a pass over what is known of the jobs, in lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from gputui.core import states
from gputui.core.job import Active, Ended, Job, JobId, StateName, Waiting
from gputui.core.snapshot import Snapshot
from gputui.core.views.naming import Names

from .filtering import Filter, text_of
from .words import seconds_of

Key = tuple[Any, ...]
"""What a row is sorted by; its last element is the job."""

BAD_ENDS = frozenset(states.BAD_ENDS)
ENDS = frozenset(states.ENDS)


class Tab(StrEnum):
    ALL = "All"
    ACTIVE = "Active"
    FAILED = "Failed"
    DONE = "Done"


SHOWN_STATES = {
    Tab.ALL: frozenset(StateName),
    Tab.ACTIVE: frozenset(StateName) - ENDS,
    Tab.FAILED: BAD_ENDS,
    Tab.DONE: ENDS,
}
QUEUE_ORDER = "queue"
TIME = "time"
NOTHING = 2
"""Begins the keys of jobs that have nothing to be sorted by: after numbers and texts."""
PARAMETER = "="
"""Before the name of a parameter, where an order is named: a parameter may be called like a column."""


class Rows:
    """The view on a session's jobs: a tab, a filter, a sort order."""

    def __init__(self, names: Names) -> None:
        self.tab = Tab.ALL
        self.filter = Filter()
        self.sort = QUEUE_ORDER
        self.reverse = False
        self.now = 0.0
        """Until when what runs has run, where that is the order."""
        self.pinned: JobId | None = None
        """The job under the cursor: when it ends it stays where it is until the cursor leaves it."""
        self._params: dict[JobId, dict[str, str]] = {}
        self._widths: dict[str, Counter[int]] = {}
        """The parameters that jobs have, and how many values of each are so long."""
        self._names = names
        self._out_of_place = False
        self._keys: dict[JobId, Key] = {}
        self._order: list[Key] = []
        """All jobs that were not removed."""
        self._rows: list[Key] = self._order
        """Those of them that are shown; the same list when all are."""
        self._states: dict[JobId, StateName] = {}
        self._texts: dict[JobId, str] = {}
        """What a filter looks in; made when first filtered."""

    # Reading

    def __len__(self) -> int:
        return len(self._rows)

    def job_at(self, row: int) -> JobId:
        found: JobId = self._rows[self._turned(row)][-1]
        return found

    def row_of(self, job: JobId) -> int | None:
        key = self._keys.get(job)
        if key is None:
            return None
        place = bisect_left(self._rows, key)
        if place == len(self._rows) or self._rows[place] != key:
            return None
        return self._turned(place)

    def _turned(self, place: int) -> int:
        """From a place in the order to its row, and back: what has nothing to be sorted by is last both ways."""
        if not self.reverse:
            return place
        told = len(self._rows) if self.sort == QUEUE_ORDER else bisect_left(self._rows, (NOTHING,))
        return told - 1 - place if place < told else place

    def jobs(self) -> Iterable[JobId]:
        return (self._rows[self._turned(row)][-1] for row in range(len(self._rows)))

    def __contains__(self, job: JobId) -> bool:
        return self.row_of(job) is not None

    # Changing the view

    def rebuild(self, snapshot: Snapshot) -> None:
        """All rows anew, in the order wanted."""
        self._out_of_place = False
        key_of = self._key_of()
        jobs = [job for job in snapshot.jobs if not job.archived]
        self._keys = {job.id: key_of(job) for job in jobs}
        self._states = {job.id: job.state.name for job in jobs}
        self._order = sorted(self._keys.values())
        self.restrict(snapshot)

    def restrict(self, snapshot: Snapshot) -> None:
        """Those of the tab that the filter lets through; the order stays."""
        self._settle_pinned(snapshot)
        states = SHOWN_STATES[self.tab]
        if self.filter.states is not None:
            states = states & self.filter.states
        rows = self._order
        if len(states) < len(StateName):
            known = self._states
            rows = [key for key in rows if known[key[-1]] in states]
        if self.filter.needles or self.filter.pairs:
            self.read_texts(snapshot)
            texts = self._texts
            for needle, wanted in self.filter.needles:
                rows = [key for key in rows if (needle in texts[key[-1]]) is wanted]
            for pair, wanted in self.filter.pairs:
                rows = [key for key in rows if pair.is_in(texts[key[-1]]) is wanted]
        for check in self.filter.checks:
            rows = [key for key in rows if check(snapshot[key[-1]])]
        self._rows = rows

    def read_texts(self, snapshot: Snapshot) -> None:
        """Before the first letter is typed, so that it is answered as fast as the others."""
        for job_id in self._keys.keys() - self._texts.keys():
            self._texts[job_id] = text_of(snapshot[job_id])

    @property
    def params(self) -> dict[str, int]:
        """The parameters that jobs on the list have, and the width of the longest value of each."""
        return {name: max(widths) for name, widths in self._widths.items()}

    def learn(self, jobs: Iterable[Job]) -> bool:
        """What these jobs are called and which parameters they have; True if names of others may have changed."""
        changed = False
        for job in jobs:
            changed |= self._names.learn(job)
            changed |= self._learn_params(job)
        return changed

    def _learn_params(self, job: Job) -> bool:
        known, params = self._params.get(job.id, {}), {} if job.archived else job.spec.params
        if known == params:
            return False
        for name, value in known.items():
            self._widths[name][len(value)] -= 1
        for name, value in params.items():
            self._widths.setdefault(name, Counter())[len(value)] += 1
        for name in known:
            self._widths[name] = +self._widths[name]  # without what nobody has any more
            if not self._widths[name]:
                del self._widths[name]
        self._params[job.id] = params
        return True

    # Changes of jobs

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> bool:
        """Only these jobs differ; True if rows came, went or moved."""
        key_of = self._key_of()
        moved = False
        for job_id in changed:
            job = snapshot[job_id]
            self._texts.pop(job_id, None)
            if job_id == self.pinned and job_id in self and isinstance(job.state, Ended) and not job.archived:
                self._out_of_place = True
            else:
                moved |= self._place(job, key_of)
        return moved

    def pass_time(self, snapshot: Snapshot, now: float) -> bool:
        """Where the order is how long jobs take, those that run move on in it."""
        self.now = now
        return self.sort == TIME and self.update(snapshot, list(snapshot.active))

    def pin(self, job: JobId | None, snapshot: Snapshot) -> bool:
        """The cursor moved; True if the row it left goes where it belongs now."""
        if job == self.pinned:
            return False
        moved = self._settle_pinned(snapshot)
        self.pinned = job
        return moved

    def _settle_pinned(self, snapshot: Snapshot) -> bool:
        """A job that ended under the cursor goes where ended jobs are."""
        late, self._out_of_place = self._out_of_place, False
        if not late or self.pinned is None or self.pinned not in snapshot:
            return False
        return self._place(snapshot[self.pinned], self._key_of())

    def _place(self, job: Job, key_of: Callable[[Job], Key]) -> bool:
        """Where the job belongs now; True if a row came, went or moved."""
        before, key = self._keys.get(job.id), None if job.archived else key_of(job)
        was_shown, is_shown = job.id in self, key is not None and self._shown(job)
        self._states[job.id] = job.state.name
        if key == before and was_shown == is_shown:
            return False
        for rows in self._lists():
            if before is not None:
                _take_out(rows, before)
            if key is not None and (rows is self._order or is_shown):
                insort(rows, key)
        if key is not None:
            self._keys[job.id] = key
        else:
            self._keys.pop(job.id, None)
        return was_shown or is_shown

    def _lists(self) -> list[list[Key]]:
        return [self._order] if self._rows is self._order else [self._order, self._rows]

    def _shown(self, job: Job) -> bool:
        if job.state.name not in SHOWN_STATES[self.tab]:
            return False
        return self._rows is self._order or not self.filter or self.filter.matches(job, text_of(job))

    def _key_of(self) -> Callable[[Job], Key]:
        if self.sort == QUEUE_ORDER:
            return _queue_key
        value_of = self._value_of()
        return lambda job: (*_comparable(value_of(job)), job.id)

    def _value_of(self) -> Callable[[Job], Any]:
        if self.sort == TIME:
            return lambda job: seconds_of(job, self.now)
        if self.sort.startswith(PARAMETER):
            return _parameter(self.sort.removeprefix(PARAMETER))
        return SORTS[self.sort]


def _take_out(rows: list[Key], key: Key) -> None:
    place = bisect_left(rows, key)
    if place < len(rows) and rows[place] == key:
        del rows[place]


def _queue_key(job: Job) -> Key:
    """What runs first, then what waits in its order, then what ended, the newest first."""
    state = job.state
    if isinstance(state, Waiting):
        return (1, -job.priority, job.position, job.id)
    if isinstance(state, Active):
        return (0, state.placed.since, 0.0, job.id)
    ended = job.attempts[-1].ended if job.attempts else job.added
    return (2, -ended, 0.0, job.id)


SORTS: dict[str, Callable[[Job], Any]] = {
    "id": lambda job: job.id,
    "state": lambda job: job.state.name,
    "pri": lambda job: -job.priority,
    "name": lambda job: job.spec.name or job.spec.command,
    "group": lambda job: job.spec.group,
}


def _parameter(name: str) -> Callable[[Job], Any]:
    return lambda job: job.spec.params.get(name)


def _comparable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts before nothing, each among its own kind."""
    if value is None:
        return (NOTHING, 0.0, "")
    try:
        number = float(value)
    except ValueError:
        return (1, 0.0, str(value))
    return (0, number, "") if number == number else (1, 0.0, str(value))  # NaN has no place among numbers
