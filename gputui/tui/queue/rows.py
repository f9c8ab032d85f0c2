"""Which jobs the queue shows and in which order: filter, sort, fold."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gputui.core import job as states
from gputui.core.job import Active, Ended, Job, JobId, StateName, Waiting
from gputui.core.parameter_columns import Parameters
from gputui.core.snapshot import Snapshot
from gputui.core.structures import Vector

from .row_facts import gpus_of, seconds_of

# ---- What rows of the queue are sorted by ----


Key = tuple[Any, ...]
"""What a row is sorted by; its last element is the job."""
QUEUE_ORDER = "queue"
TIME = "time"
METRIC, SECOND = "metric", "second"
NOTHING = 2
"""Begins the keys of jobs that have nothing to be sorted by: after numbers and texts."""
PARAMETER = "="
"""Before the name of a parameter, where an order is named: a parameter may be called like a column."""


def queue_key(job: Job) -> Key:
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
    "gpu": lambda job: gpus_of(job) or None,
    "end": lambda job: -job.attempts[-1].ended if isinstance(job.state, Ended) and job.attempts else None,
    "peak": lambda job: _peak(job),
}


def _peak(job: Job) -> float | None:
    usage = job.attempts[-1].usage if job.attempts else None
    return -usage.gpu_peak_memory if usage is not None and usage.gpu_peak_memory is not None else None


def comparable(value: Any) -> tuple[int, float, str]:
    """Numbers before texts before nothing, each among its own kind."""
    if value is None:
        return (NOTHING, 0.0, "")
    try:
        number = float(value)
    except ValueError:
        return (1, 0.0, str(value))
    return (0, number, "") if number == number else (1, 0.0, str(value))  # NaN has no place among numbers


# ---- Rows of the queue that are folded into one line, so that results are in sight ----


LEAST_SHOWN, MOST_SHOWN = 3, 8
"""Waiting jobs that are shown in any case, by the height of the pane; more of them where rows are left over."""
OF_ROOM = 4
WORTH = 2
"""Fewer rows than this are not folded: the line that tells of them is one itself."""


@dataclass(frozen=True)
class Fold:
    """Places are those of the order, rows those of the screen; the fold's own line is a row without a place."""

    at: int = -1
    """The row of its line; -1: nothing is folded."""
    hidden: int = 0

    def rows(self, places: int) -> int:
        return places - self.hidden + 1 if self.hidden else places

    def place(self, row: int) -> int | None:
        """None: the fold's own line."""
        if not self.hidden or row < self.at:
            return row
        return None if row == self.at else row - 1 + self.hidden

    def row(self, place: int) -> int | None:
        """None: it is folded."""
        if not self.hidden or place < self.at:
            return place
        return None if place < self.at + self.hidden else place + 1 - self.hidden


NO_FOLD = Fold()


def folded(active: int, waiting: int, ended: int, room: int, cursor: int | None = None) -> Fold:
    """`cursor`: the place of the row under the cursor, which stays in sight whatever is folded around it."""
    spare = room - active - ended - 1
    shown = max(LEAST_SHOWN, min(MOST_SHOWN, room // OF_ROOM), spare)
    if not ended or active + waiting + ended <= room or waiting - shown < WORTH:
        return NO_FOLD
    if cursor is not None and active + shown <= cursor < active + waiting:
        return NO_FOLD
    return Fold(active + shown, waiting - shown)


# ---- What the user types after `/` ----


Check = Callable[[Job], bool]
NOT = "!"
STATE = "state"


class Filter:
    """`state:failed lr=0.1 resnet`: settings are compared, other words looked for in the job's texts."""

    def __init__(self, written: str = "") -> None:
        self.written = written
        self.states: frozenset[StateName] | None = None
        """Only jobs in these; None: in any."""
        self.needles: list[tuple[str, bool]] = []
        """Words that must be, or must not be, in the job's text."""
        self.pairs: list[tuple[Pair, bool]] = []
        self.checks: list[Check] = []
        for word in written.lower().split():
            wanted = not word.startswith(NOT)
            self._take(word if wanted else word[len(NOT) :], wanted)

    def _take(self, word: str, wanted: bool) -> None:
        key, colon, value = word.partition(":")
        check = _check(word)
        if colon and not value and key in (*_COLON, STATE):
            return  # the value is still to be typed
        if colon and key == STATE:
            states = _states(value)
            states = states if wanted else frozenset(StateName) - states
            self.states = states if self.states is None else self.states & states
        elif check is not None:
            self.checks.append(check if wanted else lambda job: not check(job))
        elif (parts := word.partition("="))[0] and parts[2]:
            self.pairs.append((Pair(parts[0], parts[2]), wanted))
        elif word:
            self.needles.append((word, wanted))

    def __bool__(self) -> bool:
        return bool(self.needles or self.pairs or self.checks) or self.states is not None

    def matches(self, job: Job, text: str) -> bool:
        """`text`: all of the job's texts in lower case."""
        if self.states is not None and job.state.name not in self.states:
            return False
        has_all = all((needle in text) is wanted for needle, wanted in self.needles)
        has_all = has_all and all(pair.is_in(text) is wanted for pair, wanted in self.pairs)
        return has_all and all(check(job) for check in self.checks)


def text_of(job: Job) -> str:
    """What a filter's words are looked for in."""
    spec = job.spec
    params = " ".join(f"{key}={value}" for key, value in spec.params.items()) if spec.params else ""
    return f"#{job.id} {spec.name or ''} {spec.command} {params} {spec.group}".lower()


def _check(word: str) -> Check | None:
    key, colon, value = word.partition(":")
    return _COLON[key](value) if colon and value and key in _COLON else None


class Pair:
    """`lr=0.1`: a parameter of that value, or `--lr 0.1` and `--lr=0.1` in the command."""

    def __init__(self, key: str, value: str) -> None:
        self._written = (f"{key}={value}", f"{key} {value}")
        self._whole = re.compile(rf"(?<![\w.]){re.escape(key)}[= ]{re.escape(value)}(?!\S)")

    def is_in(self, text: str) -> bool:
        """Looks for the letters first, which is quick, and only then at what stands around them."""
        joined, apart = self._written
        return (joined in text or apart in text) and self._whole.search(text) is not None


def _states(value: str) -> frozenset[StateName]:
    """`state:fail,crash`: the beginnings of words are enough."""
    beginnings = tuple(part for part in value.replace("-", "_").split(",") if part)
    return frozenset(name for name in StateName if name.startswith(beginnings))


def _gpu(value: str) -> Check:
    wanted = set(value.split(","))

    def check(job: Job) -> bool:
        gpus = job.active.gpus if job.active is not None else job.attempts[-1].gpus if job.attempts else ()
        return not wanted.isdisjoint(gpus)

    return check


def _priority(value: str) -> Check:
    return lambda job: str(job.priority) == value


def _group(value: str) -> Check:
    return lambda job: value in job.spec.group.lower()


_COLON: dict[str, Callable[[str], Check]] = {
    "gpu": _gpu,
    "pri": _priority,
    "priority": _priority,
    "group": _group,
    "project": _group,
}


# ---- Which jobs the queue shows, and in which order ----


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
    Tab.DONE: frozenset({StateName.SUCCEEDED}),  # what was killed is among all: it is neither done nor failed
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
