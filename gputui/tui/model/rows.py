"""Which jobs the queue shows, and in which order. Pure.

A change costs a search in the order, not a new order; a filter costs a pass over what is known of the jobs, in lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable
from enum import StrEnum
from typing import Any

from gputui.core import states
from gputui.core.job import Ended, Job, JobId, StateName
from gputui.core.snapshot import Snapshot
from gputui.core.structures.vector import Vector
from gputui.core.views.parameter_columns import Parameters

from .filtering import Filter, text_of
from .folding import NO_FOLD, Fold, folded
from .sorting import METRIC, NOTHING, PARAMETER, QUEUE_ORDER, SECOND, SORTS, TIME, Key, comparable, queue_key
from .words import seconds_of

BAD_ENDS = frozenset(states.BAD_ENDS)
ENDS = frozenset(states.ENDS)
KEYS_AT_ONCE = 100
"""Jobs whose place in another order is worked out without a look at anything else."""


class Tab(StrEnum):
    ALL = "All"
    ACTIVE = "Active"
    FAILED = "Failed"
    DONE = "Done"


SHOWN_STATES = {
    Tab.ALL: frozenset(StateName),
    Tab.ACTIVE: frozenset(StateName) - ENDS,
    Tab.FAILED: BAD_ENDS,
    Tab.DONE: ENDS - BAD_ENDS,
}


class Rows:
    """The view on a session's jobs: a tab, a filter, a sort order."""

    def __init__(self, parameters: Parameters) -> None:
        self.tab = Tab.ALL
        self.filter = Filter()
        self.sort = QUEUE_ORDER
        self.reverse = False
        self.now = 0.0
        """Until when what runs has run, where that is the order."""
        self.pinned: JobId | None = None
        """The job under the cursor: when it ends it stays where it is until the cursor leaves it."""
        self.room = 0
        """Rows that are in sight; 0: as many as there are, and nothing is folded."""
        self.fold = NO_FOLD
        self.values: Callable[[str, Job], float | None] = lambda metric, job: None
        """What a job is sorted by where the order is a metric's; the better the smaller."""
        self._parameters = parameters
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
        return self.fold.rows(len(self._rows))

    def job_at(self, row: int) -> JobId | None:
        """None: the line in the place of those that are folded."""
        place = self.fold.place(row)
        return None if place is None else self._job(self._turned(place))

    def _job(self, place: int) -> JobId:
        job_id: JobId = self._rows[place][-1]
        return job_id

    def row_of(self, job: JobId) -> int | None:
        """None: it is not in this view, or folded."""
        place = self._place_of(job)
        return None if place is None else self.fold.row(self._turned(place))

    def _place_of(self, job: JobId) -> int | None:
        key = self._keys.get(job)
        if key is None:
            return None
        place = bisect_left(self._rows, key)
        return None if place == len(self._rows) or self._rows[place] != key else place

    def refold(self) -> bool:
        """After rows or the cursor changed; True if another number is folded than before."""
        before, self.fold = self.fold, self._folded()
        return self.fold != before

    def _folded(self) -> Fold:
        plain = self.tab is Tab.ALL and self.sort == QUEUE_ORDER and not self.reverse and not self.filter
        if not plain or not self.room:
            return NO_FOLD
        active, waiting = (bisect_left(self._rows, (group,)) for group in (1, 2))
        cursor = self._place_of(self.pinned) if self.pinned is not None else None
        return folded(active, waiting - active, len(self._rows) - waiting, self.room, cursor)

    def _turned(self, place: int) -> int:
        """From a place in the order to its row, and back: what has nothing to be sorted by is last both ways."""
        if not self.reverse:
            return place
        sortable = len(self._rows) if self.sort == QUEUE_ORDER else bisect_left(self._rows, (NOTHING,))
        return sortable - 1 - place if place < sortable else place

    def jobs(self) -> Iterable[JobId]:
        """All of this view, also those that are folded."""
        return (self._job(self._turned(place)) for place in range(len(self._rows)))

    def between(self, first: int, last: int) -> Iterable[JobId]:
        """The jobs of these rows, and of those folded between them."""
        edges = [self.fold.place(row) for row in (first, last)]
        start = edges[0] if edges[0] is not None else self.fold.at
        stop = edges[1] if edges[1] is not None else self.fold.at + self.fold.hidden - 1
        return (self._job(self._turned(place)) for place in range(start, stop + 1))

    def beside(self, job: JobId, by: int) -> JobId | None:
        """So many after it, or before it, whether folded or not; None: there is none."""
        place = self._place_of(job)
        wanted = self._turned(place) + by if place is not None else -1
        return self._job(self._turned(wanted)) if 0 <= wanted < len(self._rows) else None

    def number_of(self, job: JobId) -> tuple[int, int] | None:
        """Which one it is of how many, whether folded or not; None: it is not in this view."""
        place = self._place_of(job)
        return (self._turned(place) + 1, len(self._rows)) if place is not None else None

    def __contains__(self, job: JobId) -> bool:
        return self._place_of(job) is not None

    # Changing the view

    def rebuild(self, snapshot: Snapshot) -> None:
        """All rows anew, in the order wanted."""
        key_of = self._key_of(self.sort)
        self._take_keys(snapshot, {job.id: key_of(job) for job in snapshot.jobs if not job.archived})

    def _take_keys(self, snapshot: Snapshot, keys: dict[JobId, Key]) -> None:
        self._out_of_place = False
        self._keys = keys
        self._states = {job.id: job.state.name for job in snapshot.jobs if not job.archived}
        self._order = sorted(keys.values())
        self.restrict(snapshot)

    def keys_in_turns(self, snapshot: Snapshot, sort: str) -> Generator[None, None, dict[JobId, Key]]:
        """The keys of another order, a few jobs at a time; nothing changes by it."""
        key_of, keys = self._key_of(sort), {}
        for number, job in enumerate(snapshot.jobs):
            if not job.archived:
                keys[job.id] = key_of(job)
            if not number % KEYS_AT_ONCE:
                yield
        return keys

    def take_order(self, snapshot: Snapshot, sort: str, keys: dict[JobId, Key], jobs: Vector[Job]) -> None:
        """The order that was worked out for these jobs, some of which have changed meanwhile."""
        key_of = self._key_of(sort)
        for place in snapshot.jobs.changed_since(jobs):
            job = snapshot.jobs[place]
            keys.pop(job.id, None)
            if not job.archived:
                keys[job.id] = key_of(job)
        self.sort = sort
        self._take_keys(snapshot, keys)

    def restrict(self, snapshot: Snapshot) -> None:
        """Those of the tab that the filter lets through; the order stays."""
        self._settle_pinned(snapshot)
        states = SHOWN_STATES[self.tab]
        if self.filter.states is not None:
            states = states & self.filter.states
        rows = self._order
        if len(states) < len(StateName):
            states_of = self._states
            rows = [key for key in rows if states_of[key[-1]] in states]
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
        self.refold()

    def read_texts(self, snapshot: Snapshot) -> None:
        """Before the first letter is typed, so that it is answered as fast as the others."""
        for job_id in self._keys.keys() - self._texts.keys():
            self._texts[job_id] = text_of(snapshot[job_id])

    def learn(self, jobs: Iterable[Job]) -> bool:
        """Which parameters these jobs have; True if what tells jobs apart may have changed."""
        changed = False
        for job in jobs:
            changed |= self._parameters.learn(job)
        return changed

    # Changes of jobs

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> bool:
        """Only these jobs differ; True if rows came, went or moved."""
        key_of = self._key_of(self.sort)
        moved = False
        for job_id in changed:
            job = snapshot[job_id]
            self._texts.pop(job_id, None)
            if job_id == self.pinned and job_id in self and isinstance(job.state, Ended) and not job.archived:
                self._out_of_place = True
            else:
                moved |= self._place(job, key_of)
        return self.refold() or moved

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
        return self.refold() or moved

    def _settle_pinned(self, snapshot: Snapshot) -> bool:
        """A job that ended under the cursor goes where ended jobs are."""
        late, self._out_of_place = self._out_of_place, False
        if not late or self.pinned is None or self.pinned not in snapshot:
            return False
        return self._place(snapshot[self.pinned], self._key_of(self.sort))

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

    def _key_of(self, sort: str) -> Callable[[Job], Key]:
        if sort == QUEUE_ORDER:
            return queue_key
        value_of = self._value_of(sort)
        return lambda job: (*comparable(value_of(job)), job.id)

    def _value_of(self, sort: str) -> Callable[[Job], Any]:
        if sort == TIME:
            return lambda job: seconds_of(job, self.now)
        if sort in (METRIC, SECOND):
            return lambda job: self.values(sort, job)
        if sort.startswith(PARAMETER):
            name = sort.removeprefix(PARAMETER)
            return lambda job: self._parameters.value(job, name)
        return SORTS[sort]


def _take_out(rows: list[Key], key: Key) -> None:
    place = bisect_left(rows, key)
    if place < len(rows) and rows[place] == key:
        del rows[place]
