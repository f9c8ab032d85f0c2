"""The choice and order of the jobs that the queue shows: filtering, sorting and folding."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from gputui.core import job as states
from gputui.core.job import HIGHEST_PRIORITY, Active, Ended, Job, JobId, StateName, Waiting
from gputui.core.snapshot import Snapshot, changed_places
from gputui.views.parameters import Parameters

from .row_facts import gpus_of, seconds_of

Key = tuple[Any, ...]
"""The sort key of a row. Its last element is the id of the job."""
Keys = list[Key | None]
"""The keys of all jobs from the first id on, with None for removed jobs."""
QUEUE_ORDER = "queue"
TIME = "time"
METRIC, SECOND = "metric", "second"
NO_VALUE_RANK = 2
"""The first element of the key of a job without a value. Such keys come after numbers and texts."""
PARAMETER = "="
"""Prefix of sort orders by a parameter, because a parameter may have the same name as a column."""


def queue_key(job: Job) -> Key:
    """Return a key that sorts running jobs first, then waiting jobs in order, then ended jobs, newest first."""
    state = job.state
    if isinstance(state, Waiting):
        return (1, HIGHEST_PRIORITY - job.priority, job.position, job.id)  # small, shared integers
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
    "gpu": lambda job: gpus_of(job) or None,
    "end": lambda job: -job.attempts[-1].ended if isinstance(job.state, Ended) and job.attempts else None,
    "peak": lambda job: _peak(job),
}


def _peak(job: Job) -> float | None:
    usage = job.attempts[-1].usage if job.attempts else None
    return -usage.gpu_peak_memory if usage is not None and usage.gpu_peak_memory is not None else None


def comparable(value: Any) -> tuple[int, float, str]:
    """Return a sort key that puts numbers before texts and texts before None."""
    if value is None:
        return (NO_VALUE_RANK, 0.0, "")
    try:
        number = float(value)
    except ValueError:
        return (1, 0.0, str(value))
    return (0, number, "") if number == number else (1, 0.0, str(value))  # NaN cannot be sorted


# Folding


LEAST_SHOWN, MOST_SHOWN = 3, 8
"""Limits of the number of waiting jobs that are always shown. Between these limits, the number is a quarter of the
rows.
"""
LEAST_FOLDED = 2
"""Minimum number of rows that are folded. Folding fewer would be useless because the fold takes a line as well."""


@dataclass(frozen=True)
class Fold:
    """A group of waiting jobs folded into one line, so that ended jobs stay visible.

    A place is a position among the sorted jobs. A row is a position on the screen. The line of the fold is a row
    without a place.
    """

    at: int = -1
    """The row of the fold's line, or -1 if nothing is folded."""
    hidden: int = 0

    def rows(self, places: int) -> int:
        return places - self.hidden + 1 if self.hidden else places

    def place(self, row: int) -> int | None:
        """Return the place of a row, or None for the line of the fold."""
        if not self.hidden or row < self.at:
            return row
        return None if row == self.at else row - 1 + self.hidden

    def row(self, place: int) -> int | None:
        """Return the row of a place, or None if the place is folded."""
        if not self.hidden or place < self.at:
            return place
        return None if place < self.at + self.hidden else place + 1 - self.hidden


NO_FOLD = Fold()


def make_fold(active: int, waiting: int, ended: int, room: int, cursor: int | None = None) -> Fold:
    """Fold waiting jobs if not all jobs fit in `room` rows. `cursor` is a place that must not be folded."""
    spare = room - active - ended - 1
    shown = max(LEAST_SHOWN, min(MOST_SHOWN, room // 4), spare)
    if not ended or active + waiting + ended <= room or waiting - shown < LEAST_FOLDED:
        return NO_FOLD
    if cursor is not None and active + shown <= cursor < active + waiting:
        return NO_FOLD
    return Fold(active + shown, waiting - shown)


# Filters


Check = Callable[[Job], bool]
NOT = "!"
STATE = "state"
BEHIND = "behind"
"""The word of a filter for running jobs that are clearly behind their siblings."""


class Filter:
    """A filter such as `state:failed lr=0.1 resnet !seed=0`: conditions on jobs, and texts to search for."""

    def __init__(self, written: str = "", is_behind: Check = lambda job: False) -> None:
        self.written = written
        self._is_behind = is_behind
        self.states: frozenset[StateName] | None = None
        """The states to show, or None for all states."""
        self.needles: list[tuple[str, bool]] = []
        """The texts to search for. The boolean is False if the text of a job must not contain the text."""
        self.pairs: list[tuple[SettingCondition, bool]] = []
        self.checks: list[Check] = []
        for word in written.lower().split():
            self._add(word.removeprefix(NOT), wanted=not word.startswith(NOT))

    def _add(self, word: str, *, wanted: bool) -> None:
        key, colon, value = word.partition(":")
        check = self._is_behind if word == BEHIND else _check(word)
        if colon and not value and key in (*_COLON, STATE):
            return  # the value has not been typed yet
        if colon and key == STATE:
            states = _states(value)
            states = states if wanted else frozenset(StateName) - states
            self.states = states if self.states is None else self.states & states
        elif check is not None:
            self.checks.append(check if wanted else lambda job: not check(job))
        elif (parts := word.partition("="))[0] and parts[2]:
            self.pairs.append((SettingCondition(parts[0], parts[2]), wanted))
        elif word:
            self.needles.append((word, wanted))

    def __bool__(self) -> bool:
        return bool(self.needles or self.pairs or self.checks) or self.states is not None

    def matches(self, job: Job, text: str) -> bool:
        """Return whether a job matches. `text` is the result of `text_of` for the job."""
        if self.states is not None and job.state.name not in self.states:
            return False
        has_all = all((needle in text) is wanted for needle, wanted in self.needles)
        has_all = has_all and all(pair.is_in(text) is wanted for pair, wanted in self.pairs)
        return has_all and all(check(job) for check in self.checks)


def text_of(job: Job) -> str:
    """Return the text of a job that filters search, in lower case."""
    spec = job.spec
    params = " ".join(f"{key}={value}" for key, value in spec.params.items()) if spec.params else ""
    return f"#{job.id} {spec.name or ''} {spec.command} {params} {spec.group}".lower()


def _check(word: str) -> Check | None:
    key, colon, value = word.partition(":")
    return _COLON[key](value) if colon and value and key in _COLON else None


class SettingCondition:
    """A condition such as `lr=0.1`. It matches a parameter, or `--lr 0.1` or `--lr=0.1` in the command."""

    def __init__(self, key: str, value: str) -> None:
        self._written = (f"{key}={value}", f"{key} {value}")
        self._whole = re.compile(rf"(?<![\w.]){re.escape(key)}[= ]{re.escape(value)}(?!\S)")

    def is_in(self, text: str) -> bool:
        joined, apart = self._written  # much faster than the regular expression, and sufficient for most jobs
        return (joined in text or apart in text) and self._whole.search(text) is not None


def _states(value: str) -> frozenset[StateName]:
    """Return the states whose names start with one of the prefixes in a value such as `fail,crash`."""
    beginnings = tuple(part for part in value.replace("-", "_").split(",") if part)
    return frozenset(name for name in StateName if name.startswith(beginnings))


def _gpu(value: str) -> Check:
    wanted = set(value.split(","))

    def check(job: Job) -> bool:
        gpus = job.active.gpus if job.active is not None else job.attempts[-1].gpus if job.attempts else ()
        return not wanted.isdisjoint(gpus)

    return check


_COLON: dict[str, Callable[[str], Check]] = {
    "gpu": _gpu,
    "pri": lambda value: lambda job: str(job.priority) == value,
    "group": lambda value: lambda job: value in job.spec.group.lower(),
}
_COLON |= {"priority": _COLON["pri"], "project": _COLON["group"]}


# Rows


BAD_ENDS = frozenset(states.BAD_ENDS)
ENDS = frozenset(states.ENDS)
KEYS_AT_ONCE = 100
"""Number of sort keys to compute before the generator yields."""


class Tab(StrEnum):
    ALL = "All"
    ACTIVE = "Active"
    FAILED = "Failed"
    DONE = "Done"


SHOWN_STATES = {
    Tab.ALL: frozenset(StateName),
    Tab.ACTIVE: frozenset(StateName) - ENDS,
    Tab.FAILED: BAD_ENDS,
    Tab.DONE: ENDS - BAD_ENDS,  # succeeded or killed
}


class Rows:
    """The sorted and filtered jobs of the queue, depending on a tab, a filter and a sort order."""

    def __init__(self, parameters: Parameters) -> None:
        self.tab = Tab.ALL
        self.filter = Filter()
        self.sort = QUEUE_ORDER
        self.reverse = False
        self.now = 0.0
        """The current time, used for sorting by run time."""
        self.pinned: JobId | None = None
        """The job under the cursor. It stays in place after it ends, until the cursor leaves it."""
        self.room = 0
        """Number of visible rows. If it is 0, nothing is folded."""
        self.fold = NO_FOLD
        self.values: Callable[[str, Job], float | None] = lambda metric, job: None
        """A function that returns the sort key for a metric. Better results have smaller keys."""
        self._parameters = parameters
        self._out_of_place = False
        self._keys: Keys = []
        self._first_id = 0
        self._order: list[Key] = []
        """The keys of all jobs that have not been removed."""
        self._rows: list[Key] = self._order
        """The keys of the jobs that are shown. This is the same list as `_order` if all jobs are shown."""
        self._texts: dict[JobId, str] = {}
        """The texts that filters search. They are created for the first filter."""

    # Reading

    def __len__(self) -> int:
        return self.fold.rows(len(self._rows))

    def job_at(self, row: int) -> JobId | None:
        """Return the job in a row, or None for the line of the fold."""
        place = self.fold.place(row)
        return None if place is None else self._job(place)

    def _job(self, place: int) -> JobId:
        job_id: JobId = self._rows[self._display_place(place)][-1]
        return job_id

    def row_of(self, job: JobId) -> int | None:
        """Return the row of a job, or None if the job is folded or not in this view."""
        place = self._place_of(job)
        return None if place is None else self.fold.row(self._display_place(place))

    def _place_of(self, job: JobId) -> int | None:
        key = self._key(job)
        if key is None:
            return None
        place = bisect_left(self._rows, key)
        return None if place == len(self._rows) or self._rows[place] != key else place

    def _key(self, job: JobId) -> Key | None:
        number = job - self._first_id
        return self._keys[number] if 0 <= number < len(self._keys) else None

    def refold(self) -> bool:
        """Fold again after the rows or the cursor have changed. Return whether the fold has changed."""
        before, self.fold = self.fold, self._folded()
        return self.fold != before

    def _folded(self) -> Fold:
        plain = self.tab is Tab.ALL and self.sort == QUEUE_ORDER and not self.reverse and not self.filter
        if not plain or not self.room:
            return NO_FOLD
        active, waiting = (bisect_left(self._rows, (group,)) for group in (1, 2))
        cursor = self._place_of(self.pinned) if self.pinned is not None else None
        return make_fold(active, waiting - active, len(self._rows) - waiting, self.room, cursor)

    def _display_place(self, place: int) -> int:
        """Return a place in the displayed direction. If the order is reversed, jobs without a value still come last."""
        if not self.reverse:
            return place
        sortable = len(self._rows) if self.sort == QUEUE_ORDER else bisect_left(self._rows, (NO_VALUE_RANK,))
        return sortable - 1 - place if place < sortable else place

    def jobs(self) -> Iterable[JobId]:
        """Return all jobs in this view, including folded ones."""
        return map(self._job, range(len(self._rows)))

    def between(self, first: int, last: int) -> Iterable[JobId]:
        """Return the jobs between two rows, including folded ones."""
        edges = [self.fold.place(row) for row in (first, last)]
        start = edges[0] if edges[0] is not None else self.fold.at
        stop = edges[1] if edges[1] is not None else self.fold.at + self.fold.hidden - 1
        return map(self._job, range(start, stop + 1))

    def beside(self, job: JobId, by: int) -> JobId | None:
        """Return the job `by` rows after the given job, ignoring the fold, or None if there is none."""
        place = self._place_of(job)
        other = self._display_place(place) + by if place is not None else -1
        return self._job(other) if 0 <= other < len(self._rows) else None

    def number_of(self, job: JobId) -> tuple[int, int] | None:
        """Return the position of a job in this view, from 1, and the number of jobs, or None if it is not in
        the view.
        """
        place = self._place_of(job)
        return (self._display_place(place) + 1, len(self._rows)) if place is not None else None

    def __contains__(self, job: JobId) -> bool:
        return self._place_of(job) is not None

    # Changing the view

    def rebuild(self, snapshot: Snapshot) -> None:
        self._take_keys(snapshot, self.keys_for(snapshot, self.sort))

    def keys_for(self, snapshot: Snapshot, sort: str) -> Keys:
        key_of = self._key_of(sort)
        return [None if job.archived else key_of(job) for job in snapshot.jobs]

    def _take_keys(self, snapshot: Snapshot, keys: Keys) -> None:
        self._out_of_place = False
        self._keys, self._first_id = keys, snapshot.first_id
        self._order = sorted(key for key in keys if key is not None)
        self.restrict(snapshot)

    def compute_keys(self, snapshot: Snapshot, sort: str) -> Generator[None, None, Keys]:
        """Do the same as `keys_for`, but yield in between."""
        key_of, keys = self._key_of(sort), Keys()
        for number, job in enumerate(snapshot.jobs):
            keys.append(None if job.archived else key_of(job))
            if not number % KEYS_AT_ONCE:
                yield
        return keys

    def take_order(self, snapshot: Snapshot, sort: str, keys: Keys, jobs: tuple[Job, ...]) -> None:
        """Switch to the order computed for `jobs`. Some of these jobs may have changed since then."""
        key_of = self._key_of(sort)
        for place in changed_places(snapshot.jobs, jobs):
            job = snapshot.jobs[place]
            keys[place : place + 1] = [None if job.archived else key_of(job)]
        self.sort = sort
        self._take_keys(snapshot, keys)

    def restrict(self, snapshot: Snapshot) -> None:
        """Apply the tab and the filter."""
        self._settle_pinned(snapshot)
        states = SHOWN_STATES[self.tab]
        if self.filter.states is not None:
            states = states & self.filter.states
        rows = self._order
        if len(states) < len(StateName):
            rows = [key for key in rows if snapshot[key[-1]].state.name in states]
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
        """Prepare the texts that filters search, so that the first key is handled as fast as the next ones."""
        for job_id in {key[-1] for key in self._order} - self._texts.keys():
            self._texts[job_id] = text_of(snapshot[job_id])

    def learn(self, jobs: Iterable[Job]) -> bool:
        """Collect the parameters of jobs. Return whether the parameters that distinguish jobs may have changed."""
        changed = False
        for job in jobs:
            changed |= self._parameters.learn(job)
        return changed

    # Changes of jobs

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> bool:
        """Update the rows of changed jobs. Return whether rows were added, removed or moved."""
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
        """Set the current time and update running jobs if the order is by run time. Return whether rows changed."""
        self.now = now
        return self.sort == TIME and self.update(snapshot, list(snapshot.active))

    def pin(self, job: JobId | None, snapshot: Snapshot) -> bool:
        """Set the job under the cursor. Return whether rows have moved."""
        if job == self.pinned:
            return False
        moved = self._settle_pinned(snapshot)
        self.pinned = job
        return self.refold() or moved

    def _settle_pinned(self, snapshot: Snapshot) -> bool:
        """Move a job that ended under the cursor to the ended jobs. Return whether rows have moved."""
        late, self._out_of_place = self._out_of_place, False
        if not late or self.pinned is None or self.pinned not in snapshot:
            return False
        return self._place(snapshot[self.pinned], self._key_of(self.sort))

    def _place(self, job: Job, key_of: Callable[[Job], Key]) -> bool:
        """Move a job to its place. Return whether the displayed rows have changed."""
        before, key = self._key(job.id), None if job.archived else key_of(job)
        was_shown, is_shown = job.id in self, key is not None and self._shown(job)
        if key == before and was_shown == is_shown:
            return False
        for rows in [self._order] if self._rows is self._order else [self._order, self._rows]:
            if before is not None:
                _remove(rows, before)
            if key is not None and (rows is self._order or is_shown):
                insort(rows, key)
        number = job.id - self._first_id
        self._keys += [None] * (number + 1 - len(self._keys))
        self._keys[number] = key
        return was_shown or is_shown

    def _shown(self, job: Job) -> bool:
        if job.state.name not in SHOWN_STATES[self.tab]:
            return False
        return self._rows is self._order or not self.filter or self.filter.matches(job, text_of(job))

    def _key_of(self, sort: str) -> Callable[[Job], Key]:
        if sort == QUEUE_ORDER:
            return queue_key
        value_of: Callable[[Job], Any]
        if sort == TIME:
            value_of = partial(seconds_of, now=self.now)
        elif sort in (METRIC, SECOND):
            value_of = partial(self.values, sort)
        elif sort.startswith(PARAMETER):
            value_of = partial(self._parameters.value, name=sort.removeprefix(PARAMETER))
        else:
            value_of = SORTS[sort]
        return lambda job: (*comparable(value_of(job)), job.id)


def _remove(rows: list[Key], key: Key) -> None:
    place = bisect_left(rows, key)
    if place < len(rows) and rows[place] == key:
        del rows[place]
