"""A session against time: attempts per device, and what is in each cell of a row."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from gputui.core.job import FAILURES, Attempt, EngineName, Job, JobId, LaneId, Placed, StateName, Succeeded, Waiting
from gputui.core.lanes import Lane
from gputui.core.snapshot import Snapshot

# ---- Attempts against time, device by device ----


_GOES_ON = (StateName.QUEUED, StateName.DELAYED, StateName.BLOCKED)
SHORTEST_IDLE = 5.0
"""Seconds between two attempts that are called a gap."""
MOST_ARRIVALS = 1000
_LOOKED_BACK = 2000
"""Attempts of a row, for one of a certain job."""
_REMEMBERED = 51
"""Durations of a group by which the next ones are estimated."""


IN_CLUSTER: LaneId = -2


class LanePlace(Struct, frozen=True, order=True):
    """A row: one device as a lane has it. Two lanes over one device are two places, a lane over two as well."""

    slot: str
    """The device as lanes name it, or `lane 3` where there is none; a GPU of a cluster is `n1:2`."""
    lane: LaneId = -1
    """-1: an earlier version did not note it; IN_CLUSTER: the cluster chose the GPU."""

    @property
    def in_cluster(self) -> bool:
        return self.lane == IN_CLUSTER


class Bar(Struct, frozen=True):
    """One attempt in one place."""

    job: JobId
    attempt: int
    start: float
    end: float | None
    """None: it runs."""
    bad: bool = False


class _Entry(NamedTuple):
    start: float
    end: float
    job: JobId
    attempt: int
    bad: bool


class PlaceRow:
    """The attempts that are over in one place, by their start; a lane has one at a time."""

    def __init__(self, entries: Iterable[_Entry] = ()) -> None:
        self.starts, self.ends, self.busy = array("d"), array("d"), array("d", [0.0])
        self.jobs, self.attempts = array("q"), array("q")
        self.bad: list[float] = []
        """Starts of the attempts that came to no good."""
        self._idle: list[tuple[float, float]] | None = None
        for entry in sorted(entries):
            self.add(entry)

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, entry: _Entry) -> None:
        """Cheap for the newest, which it nearly always is."""
        at = bisect_right(self.starts, entry.start)
        self.starts.insert(at, entry.start)
        self.ends.insert(at, max(entry.start, entry.end))
        self.jobs.insert(at, entry.job)
        self.attempts.insert(at, entry.attempt)
        if entry.bad:
            insort(self.bad, entry.start)
        self._idle = None if at < len(self) - 1 else self._with_pause(at)
        del self.busy[at + 1 :]
        for index in range(at, len(self)):
            self.busy.append(self.busy[-1] + self.ends[index] - self.starts[index])

    def _with_pause(self, at: int) -> list[tuple[float, float]] | None:
        if self._idle is not None and at and self.starts[at] - self.ends[at - 1] >= SHORTEST_IDLE:
            self._idle.append((self.ends[at - 1], self.starts[at]))
        return self._idle

    def idle(self) -> list[tuple[float, float]]:
        """The stretches between attempts that are worth a word, in their order."""
        if self._idle is None:
            pairs = zip(self.ends, self.starts[1:], strict=False)
            self._idle = [(end, start) for end, start in pairs if start - end >= SHORTEST_IDLE]
        return self._idle

    def bar(self, index: int) -> Bar:
        start = self.starts[index]
        bad = bisect_left(self.bad, start) < bisect_right(self.bad, start)
        return Bar(self.jobs[index], self.attempts[index], start, self.ends[index], bad)

    def within(self, since: float, until: float) -> range:
        """The attempts that overlap this stretch."""
        return range(bisect_right(self.ends, since), bisect_left(self.starts, until))

    def busy_seconds(self, since: float, until: float) -> float:
        inside = self.within(since, until)
        if not inside:
            return 0.0
        total = self.busy[inside.stop] - self.busy[inside.start]
        cut = max(0.0, since - self.starts[inside.start]) + max(0.0, self.ends[inside.stop - 1] - until)
        return max(0.0, total - cut)

    def first_bad(self, since: float, until: float) -> int | None:
        """The first attempt within that came to no good."""
        inside = self.within(since, until)
        if not inside or not self.bad:
            return None
        at = bisect_left(self.bad, self.starts[inside.start])
        if at == len(self.bad) or self.bad[at] >= until:
            return None
        return bisect_left(self.starts, self.bad[at])


class Timeline:
    """`read` it from a snapshot, in pieces where there are many jobs, then `update` it by what changed."""

    def __init__(self) -> None:
        self.rows: dict[LanePlace, PlaceRow] = {}
        self._read: dict[LanePlace, list[_Entry]] = {}
        self.added, self.begun = array("d"), array("d")
        """When jobs came, and when each first began; sorted by `settle`."""
        self.waiting: list[tuple[float, float, JobId]] = []
        """By the queue's order; some of them may wait no more."""
        self.arrivals: dict[float, int] = {}
        """How many jobs came at one moment, as far as there is room for moments."""
        self._known: dict[JobId, int] = {}
        self._durations: dict[str, deque[float]] = {}

    def read(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._take(job)

    def settle(self, snapshot: Snapshot) -> None:
        """After all was read. What an earlier version noted without its lane goes to the first over its device."""
        self.added, self.begun = array("d", sorted(self.added)), array("d", sorted(self.begun))
        self.waiting.sort()
        first: dict[str, LanePlace] = {}
        for place in (each for lane in snapshot.lanes for each in places_of(lane)):
            first.setdefault(place.slot, place)
        merged: dict[LanePlace, list[_Entry]] = {}
        for place, entries in self._read.items():
            merged.setdefault(first.get(place.slot, place) if place.lane < 0 else place, []).extend(entries)
        self._read = {}
        self.rows = {place: PlaceRow(entries) for place, entries in merged.items()}

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> None:
        for job_id in changed:
            if job_id in snapshot:
                self._take(snapshot[job_id], later=True)

    def _take(self, job: Job, *, later: bool = False) -> None:
        attempts_taken = self._known.get(job.id)
        if attempts_taken is None:
            insort(self.added, job.added) if later else self.added.append(job.added)
            if job.added in self.arrivals or len(self.arrivals) < MOST_ARRIVALS:
                self.arrivals[job.added] = self.arrivals.get(job.added, 0) + 1
        attempts_taken = attempts_taken or 0
        for attempt in job.attempts[attempts_taken:]:
            entry = _Entry(attempt.started, attempt.ended, job.id, attempt.number, attempt.end.name in FAILURES)
            for place in places(attempt):
                if later:
                    self.rows.setdefault(place, PlaceRow()).add(entry)
                else:
                    self._read.setdefault(place, []).append(entry)
            if isinstance(attempt.end, Succeeded):
                durations = self._durations.setdefault(job.spec.group, deque(maxlen=_REMEMBERED))
                durations.append(attempt.ended - attempt.started)
        if not attempts_taken and job.attempts:
            first = job.attempts[0].started
            insort(self.begun, first) if later else self.begun.append(first)
        self._known[job.id] = len(job.attempts)
        if isinstance(job.state, Waiting):
            self._line_up(queue_key(job), later=later)

    def _line_up(self, key: tuple[float, float, JobId], *, later: bool) -> None:
        """A job that was held, released or moved there and back is still in its place."""
        if not later:
            self.waiting.append(key)
            return
        at = bisect_left(self.waiting, key)
        if at == len(self.waiting) or self.waiting[at] != key:
            self.waiting.insert(at, key)

    # What is asked of it

    def places(self, snapshot: Snapshot) -> list[LanePlace]:
        """Those of the session's lanes first, in their order, then those that only the past has.

        On a cluster: the GPUs that jobs of the session run on or have run on, by their names.
        """
        lanes = () if snapshot.on_cluster else (*snapshot.lanes, *snapshot.leaving)
        now = [place for lane in lanes for place in places_of(lane)]
        active = (place for place, _ in running(snapshot))
        return list(dict.fromkeys((*now, *sorted({*self.rows, *active}, key=_by_number))))

    def row(self, place: LanePlace) -> PlaceRow:
        return self.rows.get(place) or PlaceRow()

    def typical(self, group: str) -> float | None:
        """How long a job of this group runs; of any, where this one has no example."""
        durations = self._durations.get(group) or [each for some in self._durations.values() for each in some]
        return sorted(durations)[len(durations) // 2] if durations else None

    def began(self) -> float | None:
        """When the first attempt did."""
        return min((row.starts[0] for row in self.rows.values() if len(row)), default=None)

    def worked(self, snapshot: Snapshot, now: float) -> tuple[float, float]:
        """What busy is a share of: from the first start to the last end, or to now while something runs."""
        began = self.began()
        if snapshot.active:
            return min((began or now, *(bar.start for _, bar in running(snapshot)))), now
        ended = max((row.ends[-1] for row in self.rows.values() if len(row)), default=now)
        return began if began is not None else ended, ended

    def waited_at(self, at: float) -> int:
        """About how many jobs had come and not begun."""
        return bisect_right(self.added, at) - bisect_right(self.begun, at)


def places(attempt: Attempt | Placed) -> list[LanePlace]:
    """Where it ran; a lane is told apart only where it is clear which of them had which device."""
    lanes, slots = attempt.lanes, attempt.gpus
    if slots and attempt.engine is not EngineName.LOCAL:
        return [LanePlace(slot, IN_CLUSTER) for slot in slots]
    if not slots:
        return [LanePlace(f"lane {lane}", lane) for lane in lanes]
    if len(lanes) == len(slots):
        return [LanePlace(slot, lane) for slot, lane in zip(slots, lanes, strict=True)]
    return [LanePlace(slot, lanes[0] if len(lanes) == 1 else -1) for slot in slots]


def places_of(lane: Lane) -> list[LanePlace]:
    return [LanePlace(slot, lane.id) for slot in lane.slots]


def running(snapshot: Snapshot) -> Iterator[tuple[LanePlace, Bar]]:
    """What is under way, by place."""
    lanes = {lane.id: lane for lane in (*snapshot.lanes, *snapshot.leaving)}
    for lane_id, job_id in snapshot.holders.items():
        placed = snapshot[job_id].active if job_id in snapshot else None
        if placed is None or lane_id not in lanes or snapshot[job_id].submitted:
            continue
        in_cluster = placed.engine is not EngineName.LOCAL
        for place in places(placed) if in_cluster else places_of(lanes[lane_id]):
            yield place, Bar(job_id, placed.attempt, placed.since, None)


def found_run(timeline: Timeline, snapshot: Snapshot, wanted: JobId | None) -> tuple[LanePlace, Bar] | None:
    """Where this job runs or ran last, as far as one looks back; else what runs, or what ran last."""
    active = dict(running(snapshot))
    for place, bar in active.items():
        if bar.job == wanted:
            return place, bar
    for place, row in timeline.rows.items():
        for index in range(len(row) - 1, max(-1, len(row) - _LOOKED_BACK), -1):
            if row.jobs[index] == wanted:
                return place, row.bar(index)
    if active:
        return next(iter(active.items()))
    newest = max(((row.starts[-1], place) for place, row in timeline.rows.items() if len(row)), default=None)
    return (newest[1], timeline.row(newest[1]).bar(-1)) if newest is not None else None


def queue_key(job: Job) -> tuple[float, float, JobId]:
    return (-job.priority, job.position, job.id)


def still_waits(snapshot: Snapshot, entry: tuple[float, float, JobId]) -> bool:
    """What the user holds back is not expected to run."""
    if entry[2] not in snapshot:
        return False
    job = snapshot[entry[2]]
    return not job.archived and job.state.name in _GOES_ON and queue_key(job) == entry


def _by_number(place: LanePlace) -> tuple[bool, list[tuple[str, int]], LaneId]:
    """Numbers in names count as numbers: n2:0 comes before n10:0."""
    number = place.slot.removeprefix("lane ")
    parts = [("", int(part)) if part.isdecimal() else (part, 0) for part in re.split(r"(\d+)", number) if part]
    return (not number.isdecimal(), parts, place.lane)


# ---- A stretch of time in columns ----


TICK_COLUMNS = 12
"""Between two ticks, always: labels never drift."""
TICKS = (12, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 2 * 86400, 7 * 86400, 28 * 86400)
"""Seconds between two ticks, by how far one is zoomed out."""
_AHEAD_OF_PAST = 1.0
"""How long what is expected may be, beside what was, to be shown whole."""


class Window(Struct, frozen=True):
    """Columns of equal length from a start on."""

    start: float
    tick: int
    """Index into TICKS."""
    columns: int

    @property
    def step(self) -> float:
        """Seconds of a column."""
        return TICKS[self.tick] / TICK_COLUMNS

    @property
    def end(self) -> float:
        return self.start + self.columns * self.step

    def column(self, at: float) -> int:
        """Which one a moment falls into; outside it may be below 0 or beyond the last."""
        return int((at - self.start) // self.step)

    def cell(self, column: int) -> tuple[float, float]:
        return self.start + column * self.step, self.start + (column + 1) * self.step


def whole(began: float, now: float, ends: float | None, columns: int) -> Window:
    """All that was, and what is expected as far as there is room: the finest ticks that do."""
    fitting = (tick for tick in range(len(TICKS)) if _fits(began, now, tick, columns))
    tick = next(fitting, len(TICKS) - 1)
    step = TICKS[tick] / TICK_COLUMNS
    start = floored(began, step) - step
    if not _fits(began, now, tick, columns):
        start = floored(now, step) - (columns - 2) * step
    return _with_room_ahead(Window(start, tick, columns), began, now, ends)


def _with_room_ahead(window: Window, began: float, now: float, ends: float | None) -> Window:
    """Coarser, where what is expected would be cut off though it is not long beside what was."""
    ahead = min(max(0.0, (ends or now) - now), (now - began) * _AHEAD_OF_PAST)
    while now + ahead > window.end - window.step and window.tick < len(TICKS) - 1:
        tick = window.tick + 1
        step = TICKS[tick] / TICK_COLUMNS
        window = Window(floored(began, step) - step, tick, window.columns)
    return window


def _fits(began: float, now: float, tick: int, columns: int) -> bool:
    return now - began <= (columns - 2) * TICKS[tick] / TICK_COLUMNS


def floored(at: float, seconds: float) -> float:
    """To whole ticks of the clock on the wall."""
    offset = datetime.fromtimestamp(at).astimezone().utcoffset()
    shift = offset.total_seconds() if offset is not None else 0.0
    return (at + shift) // seconds * seconds - shift


def zoomed(window: Window, by: int, about: float) -> Window:
    """Finer (-1) or coarser (+1), with a moment kept where it is on the screen."""
    tick = min(len(TICKS) - 1, max(0, window.tick + by))
    step = TICKS[tick] / TICK_COLUMNS
    place = min(1.0, max(0.0, (about - window.start) / (window.end - window.start)))
    return Window(floored(about - place * window.columns * step, step), tick, window.columns)


def panned(window: Window, columns: int) -> Window:
    return Window(window.start + columns * window.step, window.tick, window.columns)


def moved_to_show(window: Window, since: float, until: float) -> Window:
    """With this stretch in sight; its beginning, if it is longer than the window."""
    if since < window.start:
        return Window(floored(since, window.step) - 2 * window.step, window.tick, window.columns)
    if until > window.end:
        start = min(since, until - window.columns * window.step) + 2 * window.step
        return Window(floored(min(start, since), window.step), window.tick, window.columns)
    return window


class TimeTick(Struct, frozen=True):
    column: int
    label: str
    new_day: bool = False


def ticks(window: Window) -> list[TimeTick]:
    """Labels of moments; the day is told where it begins, and with the first label of another day than today's."""
    seconds = TICKS[window.tick]
    at, day = floored(window.start, seconds), ""
    labels: list[TimeTick] = []
    while at < window.end:
        if at >= window.start - window.step / 2:
            then = datetime.fromtimestamp(at)
            fresh = then.strftime("%a") != day and (seconds >= 4 * 3600 or bool(labels))
            labels.append(TimeTick(window.column(at + window.step / 4), _label(then, seconds, fresh), fresh))
            day = then.strftime("%a")
        at += seconds
    return labels


def _label(then: datetime, seconds: int, fresh: bool) -> str:
    if seconds >= 7 * 86400:
        return then.strftime("%d %b")
    if seconds < 60:
        return then.strftime("%H:%M:%S")
    return then.strftime("%a %H:%M" if fresh else "%H:%M")


class Cell(Struct, frozen=True):
    """One cell of a row; without a bar nothing ran in it."""

    bar: Bar | None = None
    first: bool = False
    """The bar begins here, as far as it is seen."""
    share: float = 0.0
    """How much of the cell was busy."""
    many: bool = False
    """Attempts are shorter than the cell."""
    shade: int = 0
    """0 or 1: neighbours differ."""


NOTHING = Cell()


def cells(row: PlaceRow, window: Window, now: float, active: Bar | None = None) -> list[Cell]:
    """A crash in a cell always wins; else the attempt that begins there, or the one that goes on."""
    line: list[Cell] = []
    before: tuple[int, int] | None = None
    for column in range(window.columns):
        since, until = window.cell(column)
        cell = _cell(row, since, until, now, active)
        bar = cell.bar
        identity = (bar.job, bar.attempt) if bar is not None else None
        line.append(Cell(bar, identity != before, cell.share, cell.many, cell.shade))
        before = identity
    return line


def _cell(row: PlaceRow, since: float, until: float, now: float, active: Bar | None) -> Cell:
    inside = row.within(since, until)
    runs = active is not None and active.start < until and since <= now
    if not inside:
        return Cell(active, share=1.0, shade=len(row) % 2) if runs else NOTHING
    seconds = row.busy_seconds(since, until)
    if runs and active is not None:
        seconds += max(0.0, min(until, now) - max(since, active.start))
    share = min(1.0, seconds / (until - since))
    bad = row.first_bad(since, until)
    if bad is not None:
        return Cell(row.bar(bad), share=share, shade=bad % 2)
    if runs and active is not None and active.start < until - (until - since) / 2:
        return Cell(active, share=share, shade=len(row) % 2)
    index = _chosen(row, inside, since, until)
    return Cell(row.bar(index), share=share, many=len(inside) > 2, shade=index % 2)


def _chosen(row: PlaceRow, inside: range, since: float, until: float) -> int:
    """Of two that meet in a cell, the one that has more of it."""
    if len(inside) == 1:
        return inside.start
    first, last = inside.start, inside.stop - 1
    return first if row.ends[first] - since > until - row.starts[last] else last
