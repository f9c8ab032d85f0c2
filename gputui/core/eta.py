"""When jobs will have ended, by their progress and by jobs like them, and which of them nobody can tell it of."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from math import exp, inf
from typing import TYPE_CHECKING

from msgspec import Struct

from .book import kind_of
from .job import Held, Job, JobId, LaneId, Request, Running, Stopping, Succeeded, Suspended
from .results import JobResults

if TYPE_CHECKING:
    from .scheduler import Scheduler


REMEMBERED = 101
PLAYED_OUT = 500
FIRST = 0.005
"""Progress from which on it tells anything of the end."""
PATIENCE = 20.0
"""Seconds in which a told end goes most of the way to what is estimated now."""
LATE, SHORTLY = 1.5, 10.0
"""A job that takes longer than expected is given this many times as long, and these seconds at least; after that its
end is unknown."""
SILENT_TIMES, SHORTEST_SILENCE = 3.0, 60.0
"""A job is silent when it has printed nothing for this many times the usual pause, and for these seconds."""
ENOUGH_OUTPUTS = 10
"""From so many outputs on, a job's own pauses tell its pace."""
MOST_NEVER = 100
NO_RESULTS: Mapping[JobId, JobResults] = {}
NO_PACES: Mapping[str, float] = {}


# ---- How long jobs of a group take, and how long they are silent ----


class Durations:
    """How long the last succeeded attempts of each group took."""

    def __init__(self) -> None:
        self._of_group: dict[str, deque[float]] = {}

    def note(self, job: Job) -> None:
        if isinstance(job.state, Succeeded):
            attempt = job.attempts[-1]
            durations = self._of_group.setdefault(job.spec.group, deque(maxlen=REMEMBERED))
            durations.append(attempt.ended - attempt.started)

    def of_groups(self) -> dict[str, list[float]]:
        return {group: list(durations) for group, durations in self._of_group.items()}


class Paces:
    """The longest pause between two outputs that is usual in each group, by its last succeeded jobs."""

    def __init__(self) -> None:
        self._pauses: dict[str, dict[JobId, float]] = {}
        self._outdated: set[str] = set()
        self._usual: Mapping[str, float] = NO_PACES

    def note(self, job: Job, results: JobResults | None) -> None:
        """A job that printed nothing was silent all the time."""
        if not isinstance(job.state, Succeeded):
            return
        attempt = job.attempts[-1]
        pause = attempt.ended - attempt.started
        if results is not None and results.attempt == attempt.number and results.written_at is not None:
            pause = max(results.longest_pause, attempt.ended - results.written_at)
        pauses = self._pauses.setdefault(job.spec.group, {})
        if pauses.get(job.id) != pause:
            pauses[job.id] = pause
            self._outdated.add(job.spec.group)
            if len(pauses) > REMEMBERED:
                del pauses[next(iter(pauses))]

    def usual(self) -> Mapping[str, float]:
        """Never changed afterwards, so that snapshots can share it."""
        if self._outdated:
            changed = {group: median(self._pauses[group].values()) for group in self._outdated}
            self._usual = {**self._usual, **changed}
            self._outdated.clear()
        return self._usual


def median(values: Iterable[float]) -> float:
    """Importing `statistics` costs every owner and every waiting keeper more than all of this module."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# ---- One job ----


def silent_since(job: Job, results: JobResults | None, pace: float | None, now: float) -> float | None:
    """Since when a running job has printed nothing, if that is long for it or for its group; None otherwise.

    `pace`: the group's usual pause, of `Paces`.
    """
    state = job.state
    if not isinstance(state, Running):
        return None
    if state.silent_since is not None:
        return state.silent_since
    heard, usual = state.placed.since, pace or 0.0
    if results is not None and results.attempt == state.placed.attempt and results.written_at is not None:
        heard = max(heard, results.written_at)
        usual = max(usual, results.longest_pause if results.outputs >= ENOUGH_OUTPUTS else 0.0)
    is_long = usual and now - heard - state.suspended_for > max(SHORTEST_SILENCE, SILENT_TIMES * usual)
    return heard if is_long else None


def progress_of(job: Job, results: JobResults | None) -> float | None:
    """How far the attempt under way is, 0 to 1; None: there is none, or it does not tell."""
    if job.active is None or results is None or results.progress is None or results.attempt != job.active.attempt:
        return None
    return min(1.0, max(0.0, results.progress))


def job_eta(job: Job, results: JobResults | None, now: float, pace: float | None = None) -> float | None:
    """When a running job will have ended, by its own progress; None: it does not tell, is silent or far too late."""
    state = job.state
    if not isinstance(state, Running) or results is None or silent_since(job, results, pace, now) is not None:
        return None
    progress, at = results.progress, results.progress_at
    if results.attempt != state.placed.attempt or progress is None or at is None or not FIRST <= progress < 1:
        return None
    worked = at - state.placed.since - state.suspended_for
    return _not_past(state.placed.since, at + worked * (1 - progress) / progress, now) if worked > 0 else None


def _not_past(since: float, end: float, now: float) -> float | None:
    """An estimate that has passed is put off once; None: it was far too early, so that nobody knows."""
    if end > now:
        return end
    later = max(since + LATE * (end - since), end + SHORTLY)
    return later if later > now else None


# ---- All jobs ----


class NeverStarts(Struct, frozen=True):
    """A waiting job that no lane of the session can ever run."""

    job: JobId
    request: Request


class Outlook(Struct, frozen=True):
    """When the jobs that run and wait will have ended, as far as it can be told."""

    at: float | None = None
    """The end of those of which it can be told; None: of none, or there are none."""
    jobs: int = 0
    """How many these are."""
    unknown: tuple[JobId, ...] = ()
    """Running jobs that are silent, suspended or far later than expected: their lanes are not counted on."""
    never: tuple[NeverStarts, ...] = ()
    """In the order of the queue; of very many the first ones."""


NO_OUTLOOK = Outlook()


def outlook(
    scheduler: Scheduler,
    now: float,
    results: Mapping[JobId, JobResults] = NO_RESULTS,
    paces: Mapping[str, float] = NO_PACES,
) -> Outlook:
    """Those that run tell how long one takes as well as those that have ended: the first to end are the short ones."""
    never = tuple(_never_start(scheduler))
    running = _Running(scheduler, now, results, paces)
    if not running.lengths or scheduler.cannot_start:
        return Outlook(unknown=running.unknown, never=never)
    waiting = _can_start(scheduler, {*running.unknown, *(each.job for each in never)})
    lanes, cpu_places = _usable_lanes(scheduler, now, running), _cpu_places(scheduler, now, running)
    last, jobs = max(running.ends.values(), default=now), len(running.ends)
    for (request, group), count in waiting.items():
        asked = scheduler.asked_by(request, group)
        if scheduler.board.takes_lane(asked):
            serving = [lane for lane in scheduler.board.serving(asked) if lane.id in lanes]
            has_group = scheduler.board.on_cluster or any(len(lane.slots) >= (asked.gpus or 1) for lane in serving)
            free, each, all_free = {lane.id: lanes[lane.id] for lane in serving}, asked.gpus or 1, lanes
            each = 1 if has_group else each
        else:
            free, each, all_free = dict(cpu_places), 1, cpu_places
        if each <= len(free):
            last, jobs = max(last, _play_out(free, count, running.length(group), each)), jobs + count
            all_free |= free
    return Outlook(last if jobs else None, jobs, running.unknown, never)


def _never_start(scheduler: Scheduler) -> Iterable[NeverStarts]:
    """Jobs whose turn has come; one that waits for others is named when its turn has come too."""
    board = scheduler.board
    lines = []
    for (request, group), line in scheduler.book.ready.items() if board.lanes else ():
        asked = scheduler.asked_by(request, group)
        if board.takes_lane(asked) and not board.could_ever_fit(asked):
            lines.append([(place, asked) for place in islice(line, MOST_NEVER)])
    for place, asked in islice(heapq.merge(*lines, key=lambda entry: entry[0]), MOST_NEVER):
        yield NeverStarts(place.job, asked)


def _can_start(scheduler: Scheduler, stuck: set[JobId]) -> dict[tuple[Request, str], int]:
    """How many jobs of each kind will start: not those that wait for one that is stuck or held, nor paused groups."""
    book, board = scheduler.book, scheduler.board
    waiting = Counter(book.waiting_of)
    for job_id, unmet in islice(book.unmet.items(), PLAYED_OUT):
        if any(earlier in stuck or isinstance(book[earlier].state, Held) for earlier in unmet):
            stuck.add(job_id)
            waiting[kind_of(book[job_id])] -= 1
    return {
        (request, group): count
        for (request, group), count in sorted(waiting.items(), key=lambda kind: kind[0][1])
        if count > 0
        and scheduler.breaker.over(group) is None
        and (not board.takes_lane(request) or board.could_ever_fit(scheduler.asked_by(request, group)))
    }


class _Running:
    """What is under way: when each of it will have ended, and how long jobs take in all."""

    def __init__(
        self, scheduler: Scheduler, now: float, results: Mapping[JobId, JobResults], paces: Mapping[str, float]
    ) -> None:
        jobs = [scheduler.book[job_id] for job_id in sorted(scheduler.book.active)]
        by_progress: dict[JobId, float] = {}
        silent: set[JobId] = set()
        for job in jobs:
            printed, pace = results.get(job.id), paces.get(job.spec.group)
            if (end := job_eta(job, printed, now, pace)) is not None:
                by_progress[job.id] = end
            elif silent_since(job, printed, pace, now) is not None or isinstance(job.state, Suspended):
                silent.add(job.id)
        self.lengths = self._lengths(jobs, by_progress, scheduler, now)
        self._typical = {group: median(lengths) for group, lengths in self.lengths.items()}
        self._usual = median(self._typical.values()) if self._typical else 0.0
        self.ends: dict[JobId, float] = {}
        for job in jobs:
            end = by_progress.get(job.id) if job.id not in silent else None
            if end is None and job.id not in silent:
                end = self._by_others(job, now)
            if end is not None:
                self.ends[job.id] = end
        self.unknown = tuple(job.id for job in jobs if job.id in silent or (self.lengths and job.id not in self.ends))

    @staticmethod
    def _lengths(
        jobs: list[Job], by_progress: dict[JobId, float], scheduler: Scheduler, now: float
    ) -> dict[str, list[float]]:
        """A job that already runs longer than any that ended says so much, unless it hangs."""
        lengths = scheduler.durations.of_groups()
        longest = {group: max(group_lengths) for group, group_lengths in lengths.items()}
        for job in jobs:
            assert job.active is not None
            end, group = by_progress.get(job.id, now), job.spec.group
            gone, most = now - job.active.since, longest.get(group, inf)
            if job.id in by_progress or most < gone <= LATE * most:
                lengths.setdefault(group, []).append(end - job.active.since)
        return lengths

    def length(self, group: str) -> float:
        return self._typical.get(group, self._usual)

    def _by_others(self, job: Job, now: float) -> float | None:
        """By jobs of its group that took longer than it has taken until now; None: it is far later than all."""
        if isinstance(job.state, Stopping):
            return max(now, job.state.deadline)
        assert job.active is not None
        if job.submitted:
            return now + self.length(job.spec.group)
        since = job.active.since
        longer = [length for length in self.lengths.get(job.spec.group, ()) if since + length > now]
        return _not_past(since, since + (median(longer) if longer else self.length(job.spec.group)), now)


def _usable_lanes(scheduler: Scheduler, now: float, running: _Running) -> dict[LaneId, float]:
    """When each lane is free that jobs can count on: not those of jobs of unknown end, nor those others are on."""
    board, lanes = scheduler.board, {}
    for lane in board.lanes:
        holder = board.holders.get(lane.id)
        if holder is not None:
            if holder in running.ends:
                lanes[lane.id] = running.ends[holder]
        elif not any(map(board.cards.blocked, lane.devices)):
            lanes[lane.id] = now
    most = scheduler.most_devices()
    if most is None or len(lanes) <= most:
        return lanes
    busy_first = sorted(lanes, key=lambda lane: (lane not in board.holders, lane))
    return {lane: lanes[lane] for lane in busy_first[: max(0, most)]}


def _cpu_places(scheduler: Scheduler, now: float, running: _Running) -> dict[LaneId, float]:
    """When another job may run that takes no lane."""
    placed = ((job, scheduler.book[job].active) for job in scheduler.book.active)
    ends = [running.ends.get(job) for job, active in placed if active is not None and not active.lanes]
    free = [now] * max(0, scheduler.settings.cpu_jobs - len(ends))
    return dict(enumerate([*free, *(end for end in ends if end is not None)]))


def _play_out(lanes: dict[LaneId, float], waiting: int, duration: float, each: int) -> float:
    """Greedy, one job at a time, on so many lanes each; beyond a bound the rest is spread evenly. The last end."""
    heap = [(at, lane) for lane, at in lanes.items()]
    heapq.heapify(heap)
    last = 0.0
    for _ in range(min(waiting, PLAYED_OUT)):
        taken = [heapq.heappop(heap) for _ in range(each)]
        end = taken[-1][0] + duration
        last = max(last, end)
        for _, lane in taken:
            heapq.heappush(heap, (end, lane))
    spread = max(0, waiting - PLAYED_OUT) * duration * each / len(lanes)
    lanes.update({lane: at + spread for at, lane in heap})
    return last + spread


TOO_EARLY = 1.5
"""How many times longer the newest estimate may be than the time told."""


class SteadyEnd:
    """The end as it is told: it goes slowly where estimates go to and fro, and at once when there is other work."""

    def __init__(self) -> None:
        self._told: float | None = None
        self._at = 0.0
        self._jobs = 0
        self._other: object = None

    def take(self, seen: Outlook, now: float, lanes: int) -> Outlook:
        """More jobs than before, far fewer, other lanes, or others that cannot be counted on, is other work."""
        other = (lanes, seen.unknown, len(seen.never))
        same = other == self._other and self._jobs - lanes <= seen.jobs <= self._jobs
        if seen.at is None or self._told is None or not same or self._told <= now:
            self._told = seen.at
        else:
            patience = min(PATIENCE, max(1.0, (max(seen.at, self._told) - now) / 10))
            self._told += (seen.at - self._told) * (1 - exp(-max(0.0, now - self._at) / patience))
            # A first estimate from jobs that have only begun may be far too early: steadiness must not keep it.
            self._told = max(self._told, now + (seen.at - now) / TOO_EARLY)
        self._at, self._jobs, self._other = now, seen.jobs, other
        return Outlook(self._told, seen.jobs, seen.unknown, seen.never)
