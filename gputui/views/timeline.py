"""The timeline of a session: the attempts on each device, the visible range of time, and the cells of a row."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from gputui.core.book import Place, place_of
from gputui.core.job import (
    FAILURES,
    Attempt,
    EngineName,
    Job,
    JobId,
    Killed,
    Placed,
    SlotId,
    StateName,
    Succeeded,
    Waiting,
)
from gputui.core.slots import NO_GPU, Slot
from gputui.core.snapshot import Snapshot

from .format import natural_order

_GOES_ON = (StateName.QUEUED, StateName.DELAYED, StateName.BLOCKED)
SHORTEST_IDLE = 5.0
"""Minimum length, in seconds, of a gap between two attempts that counts as idle."""
MOST_ARRIVALS = 1000
_SEARCHED_ATTEMPTS = 2000
"""Maximum number of attempts in a row, starting with the newest, that are searched for a job."""
_KEPT_DURATIONS = 51
"""Maximum number of durations kept per group to estimate the next ones."""
IN_CLUSTER: SlotId = -2
UNKNOWN_SLOT: SlotId = -1


class SlotPlace(Struct, frozen=True, order=True):
    """A place where attempts run, shown as one row of the timeline: one device of one slot."""

    device_key: str
    """The name of the device (`n1:2` on a cluster), or for example `slot 3` for a slot without a device."""
    slot: SlotId = UNKNOWN_SLOT
    """The slot's id, UNKNOWN_SLOT if an attempt was recovered without its slot, or IN_CLUSTER on a cluster."""

    @property
    def has_device(self) -> bool:
        return self.device_key not in (NO_GPU, f"slot {self.slot}")

    @property
    def number(self) -> str:
        """The name of the device, or the number of the slot if it has no device."""
        return self.device_key if self.has_device else str(self.slot)

    @property
    def name(self) -> str:
        """The displayed name, such as `GPU 3` or `slot 1`."""
        return f"GPU {self.device_key}" if self.has_device else f"slot {self.slot}"

    @property
    def label(self) -> str:
        """The name of the device, or for example `slot 3` for a slot without a device."""
        return self.device_key if self.has_device else f"slot {self.slot}"

    @property
    def in_cluster(self) -> bool:
        return self.slot == IN_CLUSTER


class Bar(Struct, frozen=True):
    """One attempt in one place."""

    job: JobId
    attempt: int
    start: float
    end: float | None
    """When the attempt ended, or None while it is running."""
    bad: bool = False
    killed: bool = False


class _Entry(NamedTuple):
    start: float
    end: float
    job: JobId
    attempt: int
    bad: bool
    killed: bool


class PlaceRow:
    """The ended attempts of one place, sorted by start. They do not overlap."""

    def __init__(self, entries: Iterable[_Entry] = ()) -> None:
        self.starts, self.ends, self.busy = array("d"), array("d"), array("d", [0.0])
        self.jobs, self.attempts = array("q"), array("q")
        self.bad: list[float] = []
        """Start times of the failed attempts."""
        self._killed: set[float] = set()
        """Start times of the killed attempts."""
        self._idle: list[tuple[float, float]] | None = None
        for entry in sorted(entries):
            self.add(entry)

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, entry: _Entry) -> None:
        """Add an attempt. This is fast if it is the newest one, which is nearly always the case."""
        at = bisect_right(self.starts, entry.start)
        self.starts.insert(at, entry.start)
        self.ends.insert(at, max(entry.start, entry.end))
        self.jobs.insert(at, entry.job)
        self.attempts.insert(at, entry.attempt)
        if entry.bad:
            insort(self.bad, entry.start)
        if entry.killed:
            self._killed.add(entry.start)
        if at < len(self) - 1:
            self._idle = None
        elif self._idle is not None and at and self.starts[at] - self.ends[at - 1] >= SHORTEST_IDLE:
            self._idle.append((self.ends[at - 1], self.starts[at]))
        del self.busy[at + 1 :]
        for index in range(at, len(self)):
            self.busy.append(self.busy[-1] + self.ends[index] - self.starts[index])

    def idle(self) -> list[tuple[float, float]]:
        """Return the idle gaps between attempts, in order of time."""
        if self._idle is None:
            pairs = zip(self.ends, self.starts[1:], strict=False)
            self._idle = [(end, start) for end, start in pairs if start - end >= SHORTEST_IDLE]
        return self._idle

    def bar(self, index: int) -> Bar:
        start = self.starts[index]
        bad = bisect_left(self.bad, start) < bisect_right(self.bad, start)
        return Bar(self.jobs[index], self.attempts[index], start, self.ends[index], bad, start in self._killed)

    def within(self, since: float, until: float) -> range:
        """Return the indices of the attempts that overlap the time from `since` to `until`."""
        return range(bisect_right(self.ends, since), bisect_left(self.starts, until))

    def busy_seconds(self, since: float, until: float) -> float:
        inside = self.within(since, until)
        if not inside:
            return 0.0
        total = self.busy[inside.stop] - self.busy[inside.start]
        cut = max(0.0, since - self.starts[inside.start]) + max(0.0, self.ends[inside.stop - 1] - until)
        return max(0.0, total - cut)

    def first_bad(self, since: float, until: float) -> int | None:
        """Return the index of the first failed attempt that overlaps the given time, or None if there is none."""
        inside = self.within(since, until)
        if not inside or not self.bad:
            return None
        at = bisect_left(self.bad, self.starts[inside.start])
        if at == len(self.bad) or self.bad[at] >= until:
            return None
        return bisect_left(self.starts, self.bad[at])


class Timeline:
    """All attempts of a session. Call `read` with all jobs, in batches if needed, then `settle` once, then `update`."""

    def __init__(self) -> None:
        self.rows: dict[SlotPlace, PlaceRow] = {}
        self._read: dict[SlotPlace, list[_Entry]] = {}
        self.added, self.begun = array("d"), array("d")
        """When each job was added, and when it stopped waiting. `settle` sorts them."""
        self.waiting: list[Place] = []
        """Places of waiting jobs, in queue order. Some of the jobs may no longer be waiting."""
        self.arrivals: dict[float, tuple[JobId, int]] = {}
        """The first job added at each time and how many were added then, for the first MOST_ARRIVALS times."""
        self._known: dict[JobId, int] = {}
        self._begun_so_far: dict[JobId, float] = {}
        """For each job without an ended attempt that is not waiting any more, its entry in `begun`."""
        self._durations: dict[str, deque[float]] = {}

    def read(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._take(job)

    def settle(self, snapshot: Snapshot) -> None:
        """Finish reading. Attempts with an unknown slot are assigned to the first slot of their device."""
        self.added, self.begun = array("d", sorted(self.added)), array("d", sorted(self.begun))
        self.waiting.sort()
        first: dict[str, SlotPlace] = {}
        for place in (place for slot in snapshot.slots for place in places_of(slot)):
            first.setdefault(place.device_key, place)
        merged: dict[SlotPlace, list[_Entry]] = {}
        for place, entries in self._read.items():
            merged.setdefault(first.get(place.device_key, place) if place.slot < 0 else place, []).extend(entries)
        self._read = {}
        self.rows = {place: PlaceRow(entries) for place, entries in merged.items()}

    def update(self, snapshot: Snapshot, changed: Iterable[JobId]) -> None:
        for job_id in changed:
            if job_id in snapshot:
                self._take(snapshot[job_id], later=True)

    def _take(self, job: Job, *, later: bool = False) -> None:
        known_attempts = self._known.get(job.id)
        if known_attempts is None:
            insort(self.added, job.added) if later else self.added.append(job.added)
            if job.added in self.arrivals or len(self.arrivals) < MOST_ARRIVALS:
                first_id, count = self.arrivals.get(job.added, (job.id, 0))
                self.arrivals[job.added] = min(first_id, job.id), count + 1
        known_attempts = known_attempts or 0
        for attempt in job.attempts[known_attempts:]:
            bad, killed = attempt.end.name in FAILURES, isinstance(attempt.end, Killed)
            entry = _Entry(attempt.started, attempt.ended, job.id, attempt.number, bad, killed)
            for place in places_of_attempt(attempt):
                if later:
                    self.rows.setdefault(place, PlaceRow()).add(entry)
                else:
                    self._read.setdefault(place, []).append(entry)
            if isinstance(attempt.end, Succeeded):
                durations = self._durations.setdefault(job.spec.group, deque(maxlen=_KEPT_DURATIONS))
                durations.append(attempt.seconds)
        if not known_attempts:
            self._note_begun(job, later=later)
        self._known[job.id] = len(job.attempts)
        if isinstance(job.state, Waiting):
            key = place_of(job)
            at = bisect_left(self.waiting, key) if later else len(self.waiting)
            # A job that was held and released may still be in the list.
            if at == len(self.waiting) or self.waiting[at] != key:
                self.waiting.insert(at, key)

    def _note_begun(self, job: Job, *, later: bool) -> None:
        """Note since when a job has not been waiting for its first start. A job that is held or that ended without
        having started counts as if it had never waited.
        """
        before = self._begun_so_far.pop(job.id, None)
        begun: float | None = None
        if job.attempts:
            begun = job.attempts[0].started
        elif job.active is not None and not job.submitted:
            begun = job.active.since
        elif job.archived or job.state.name not in (*_GOES_ON, StateName.STARTING):
            begun = job.added
        if begun is not None and not job.attempts:
            self._begun_so_far[job.id] = begun
        if begun != before:
            if before is not None:
                self.begun.remove(before)
            if begun is not None:
                insort(self.begun, begun) if later else self.begun.append(begun)

    def places(self, snapshot: Snapshot) -> list[SlotPlace]:
        """Return the places of all rows: slots, then former slots. On a cluster: all GPUs ever used, sorted by name."""
        slots = () if snapshot.on_cluster else (*snapshot.slots, *snapshot.leaving)
        now = [place for slot in slots for place in places_of(slot)]
        active = (place for place, _ in running(snapshot))
        return list(dict.fromkeys((*now, *sorted({*self.rows, *active}, key=_order))))

    def row(self, place: SlotPlace) -> PlaceRow:
        return self.rows.get(place) or PlaceRow()

    def typical(self, group: str) -> float | None:
        """Return the median duration of a job in this group, or in all groups if this one has no durations yet."""
        every = self._durations.values()
        durations = self._durations.get(group) or [duration for durations in every for duration in durations]
        return sorted(durations)[len(durations) // 2] if durations else None

    def began(self) -> float | None:
        """Return when the first attempt started, or None if there was none."""
        return min((row.starts[0] for row in self.rows.values() if len(row)), default=None)

    def worked(self, snapshot: Snapshot, now: float) -> tuple[float, float]:
        """Return when the first attempt started and when the last one ended, or `now` while an attempt is running."""
        began = self.began()
        if snapshot.active:
            return min((began or now, *(bar.start for _, bar in running(snapshot)))), now
        ended = max((row.ends[-1] for row in self.rows.values() if len(row)), default=now)
        return began if began is not None else ended, ended

    def waited_at(self, at: float) -> int:
        """Return the approximate number of jobs that were waiting at a given time."""
        return bisect_right(self.added, at) - bisect_right(self.begun, at)


def places_of_attempt(attempt: Attempt | Placed) -> list[SlotPlace]:
    """Return the places where an attempt ran. The slot is UNKNOWN_SLOT if it is unclear which slot had which device."""
    slots, device_keys = attempt.slots, attempt.gpus
    if device_keys and attempt.engine is not EngineName.LOCAL:
        return [SlotPlace(device_key, IN_CLUSTER) for device_key in device_keys]
    if not device_keys:
        return [SlotPlace(f"slot {slot}", slot) for slot in slots]
    if len(slots) == len(device_keys):
        return [SlotPlace(device_key, slot) for device_key, slot in zip(device_keys, slots, strict=True)]
    return [SlotPlace(device_key, slots[0] if len(slots) == 1 else UNKNOWN_SLOT) for device_key in device_keys]


def places_of(slot: Slot) -> list[SlotPlace]:
    return [SlotPlace(device_key, slot.id) for device_key in slot.device_keys]


def running(snapshot: Snapshot) -> Iterator[tuple[SlotPlace, Bar]]:
    """Yield the running attempts with their places."""
    slots = {slot.id: slot for slot in (*snapshot.slots, *snapshot.leaving)}
    for slot_id, job_id in snapshot.holders.items():
        placed = snapshot[job_id].active if job_id in snapshot else None
        if placed is None or slot_id not in slots or snapshot[job_id].submitted:
            continue
        in_cluster = placed.engine is not EngineName.LOCAL
        for place in places_of_attempt(placed) if in_cluster else places_of(slots[slot_id]):
            yield place, Bar(job_id, placed.attempt, placed.since, None)


def find_run(timeline: Timeline, snapshot: Snapshot, wanted: JobId | None) -> tuple[SlotPlace, Bar] | None:
    """Return the place and bar of a job that is running, or of its last attempt.

    If there is no such attempt, return the place and bar of another running attempt, or else of the newest attempt.
    Return None if there are no attempts.
    """
    active = dict(running(snapshot))
    for place, bar in active.items():
        if bar.job == wanted:
            return place, bar
    for place, row in timeline.rows.items():
        for index in range(len(row) - 1, max(-1, len(row) - _SEARCHED_ATTEMPTS), -1):
            if row.jobs[index] == wanted:
                return place, row.bar(index)
    if active:
        return next(iter(active.items()))
    newest = max(((row.starts[-1], place) for place, row in timeline.rows.items() if len(row)), default=None)
    return (newest[1], timeline.row(newest[1]).bar(-1)) if newest is not None else None


def still_waits(snapshot: Snapshot, entry: Place) -> bool:
    """Return whether a job is still waiting at this place in the queue and is not held."""
    if entry.job not in snapshot:
        return False
    job = snapshot[entry.job]
    return not job.archived and job.state.name in _GOES_ON and place_of(job) == entry


def _order(place: SlotPlace) -> tuple[object, SlotId]:
    return natural_order(place.number), place.slot


# Windows of time


TICK_COLUMNS = 12
"""Number of columns between two ticks. It is constant, so that labels do not drift."""
TICKS = (12, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 2 * 86400, 7 * 86400, 28 * 86400)
"""Seconds between two ticks for each zoom level."""
_LONGEST_FUTURE = 1.0
"""Maximum length of the future in the default window, as a multiple of the length of the past."""


class Window(Struct, frozen=True):
    """A visible range of time, divided into columns of equal length."""

    start: float
    tick: int
    """The zoom level, as an index into TICKS."""
    columns: int

    @property
    def step(self) -> float:
        """Seconds per column."""
        return TICKS[self.tick] / TICK_COLUMNS

    @property
    def end(self) -> float:
        return self.start + self.columns * self.step

    def column(self, at: float) -> int:
        """Return the column of a time. It may be outside the window."""
        return int((at - self.start) // self.step)

    def cell(self, column: int) -> tuple[float, float]:
        return self.start + column * self.step, self.start + (column + 1) * self.step


def whole(began: float, now: float, ends: float | None, columns: int) -> Window:
    """Return the finest window that shows the whole past, and the future up to `ends` as far as possible."""
    ahead = min(max(0.0, (ends or now) - now), (now - began) * _LONGEST_FUTURE)
    for tick, seconds in enumerate(TICKS):
        step = seconds / TICK_COLUMNS
        window = Window(floored(began, step) - step, tick, columns)
        if now + ahead <= window.end - step:
            return window
    return Window(max(window.start, floored(now, step) - (columns - 2) * step), tick, columns)


def floored(at: float, seconds: float) -> float:
    """Round a time down to a multiple of `seconds` in local time."""
    offset = datetime.fromtimestamp(at).astimezone().utcoffset()
    shift = offset.total_seconds() if offset is not None else 0.0
    return (at + shift) // seconds * seconds - shift


def zoomed(window: Window, by: int, about: float) -> Window:
    """Return the window zoomed in (-1) or out (+1). The time `about` stays in its column."""
    tick = min(len(TICKS) - 1, max(0, window.tick + by))
    step = TICKS[tick] / TICK_COLUMNS
    place = min(1.0, max(0.0, (about - window.start) / (window.end - window.start)))
    return Window(floored(about - place * window.columns * step, step), tick, window.columns)


def panned(window: Window, columns: int) -> Window:
    return Window(window.start + columns * window.step, window.tick, window.columns)


def moved_to_show(window: Window, since: float, until: float) -> Window:
    """Return the window moved to show the time from `since` to `until`, or only its beginning if it does not fit."""
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
    """Return the labels of the time axis. The first label of each new day contains the name of the day."""
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
    """One cell of a row. It has no bar if nothing ran at that time."""

    bar: Bar | None = None
    first: bool = False
    """Whether this is the first visible cell of the bar."""
    share: float = 0.0
    """Share of the cell's time in which jobs were running."""
    many: bool = False
    """Whether the cell contains more than two attempts."""
    shade: int = 0
    """Shade of the bar, 0 or 1. Neighboring attempts have different shades."""


NOTHING = Cell()


def cells(row: PlaceRow, window: Window, now: float, active: Bar | None = None) -> list[Cell]:
    """Return the cells of a row. A cell shows a failed attempt, if any, or else the attempt that fills most of it."""
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
    first, last = inside.start, inside.stop - 1
    # If two attempts share a cell, show the one that occupies more of it.
    index = first if first == last or row.ends[first] - since > until - row.starts[last] else last
    return Cell(row.bar(index), share=share, many=len(inside) > 2, shade=index % 2)
