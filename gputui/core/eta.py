"""Estimates of when jobs will end, from their progress and from the durations of other jobs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from math import exp, inf

from msgspec import Struct

from .book import kind_of, median
from .job import Held, Job, JobId, Request, Running, SlotId, Stopping, Suspended
from .results import NO_PACES, NO_RESULTS, JobResults
from .state import SchedulerState

PLAYED_OUT = 500
MIN_PROGRESS = 0.005
"""Minimum progress (0 to 1) for estimating a job's end."""
SMOOTHING_SECONDS = 20.0
"""Longest time constant, in seconds, with which the displayed end follows the estimate."""
EXTENSION_FACTOR, MIN_EXTENSION = 1.5, 10.0
"""By how much an estimated end is extended when it has passed.

The job is then expected to take `EXTENSION_FACTOR` times as long as estimated, but at least `MIN_EXTENSION` seconds
longer. An end is extended only once. When the extended end has passed as well, the job's end is unknown.
"""
SILENT_TIMES, SHORTEST_SILENCE = 3.0, 60.0
"""Limits after which a running job counts as silent.

A job is silent if it has printed nothing for more than `SILENT_TIMES` times the usual pause, and for more than
`SHORTEST_SILENCE` seconds.
"""
ENOUGH_OUTPUTS = 10
"""Minimum number of outputs before a job's own pauses are used to judge its silence."""
MOST_NEVER = 100


# One job


def silent_since(job: Job, results: JobResults | None, pace: float | None, now: float) -> float | None:
    """Return when a running job last printed something, or None if the job is not silent.

    `pace` is the usual pause between two outputs in the job's group.
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
    """Return the progress of the running attempt (0 to 1), or None if it is unknown."""
    if job.active is None or results is None or results.progress is None or results.attempt != job.active.attempt:
        return None
    return min(1.0, max(0.0, results.progress))


def job_eta(job: Job, results: JobResults | None, now: float, pace: float | None = None) -> float | None:
    """Estimate a running job's end from its progress.

    Return None if the job has printed no progress, is silent or is far too late.
    """
    state = job.state
    if not isinstance(state, Running) or results is None or silent_since(job, results, pace, now) is not None:
        return None
    progress, at = results.progress, results.progress_at
    if results.attempt != state.placed.attempt or progress is None or at is None or not MIN_PROGRESS <= progress < 1:
        return None
    worked = at - state.placed.since - state.suspended_for
    return _not_past(state.placed.since, at + worked * (1 - progress) / progress, now) if worked > 0 else None


def _not_past(since: float, end: float, now: float) -> float | None:
    """Return the estimated end, extended once if it has passed, or None if the extended end has passed, too."""
    if end > now:
        return end
    later = max(since + EXTENSION_FACTOR * (end - since), end + MIN_EXTENSION)
    return later if later > now else None


# All jobs


class NeverStarts(Struct, frozen=True):
    """A waiting job that no slot of the session can ever run."""

    job: JobId
    request: Request


class Outlook(Struct, frozen=True):
    """An estimate of when the running and waiting jobs will have ended."""

    at: float | None = None
    """When the last job with an estimate ends, or None if no job has one."""
    jobs: int = 0
    """Number of jobs with an estimate."""
    unknown: tuple[JobId, ...] = ()
    """Running jobs that are silent, suspended or far too late. The estimate does not use their slots."""
    never: tuple[NeverStarts, ...] = ()
    """Waiting jobs that can never start, in queue order. Only the first `MOST_NEVER` are listed."""


NO_OUTLOOK = Outlook()


def estimate_outlook(
    scheduler: SchedulerState,
    now: float,
    results: Mapping[JobId, JobResults] = NO_RESULTS,
    paces: Mapping[str, float] = NO_PACES,
) -> Outlook:
    """Estimate the end of all jobs by simulating the queue.

    Typical durations also take running jobs into account. Ended jobs alone would give too low a value, because short
    jobs end first.
    """
    never = tuple(_never_start(scheduler))
    running = RunningJobs(scheduler, now, results, paces)
    if not running.lengths or scheduler.cannot_start:
        return Outlook(unknown=running.unknown, never=never)
    waiting = _can_start(scheduler, {*running.unknown, *(entry.job for entry in never)})
    slots, cpu_places = _usable_slots(scheduler, now, running), _cpu_places(scheduler, now, running)
    last, jobs = max(running.ends.values(), default=now), len(running.ends)
    for (request, group), count in waiting.items():
        wanted = scheduler.with_learned_memory(request, group)
        if scheduler.board.takes_slot(wanted):
            serving = [slot for slot in scheduler.board.serving(wanted) if slot.id in slots]
            has_group = scheduler.board.on_cluster or any(
                len(slot.device_keys) >= (wanted.gpus or 1) for slot in serving
            )
            free, needed = {slot.id: slots[slot.id] for slot in serving}, 1 if has_group else wanted.gpus or 1
        else:
            free, needed = dict(cpu_places), 1
        if needed <= len(free):
            last, jobs = max(last, _play_out(free, count, running.length(group), needed)), jobs + count
            (slots if scheduler.board.takes_slot(wanted) else cpu_places).update(free)
    return Outlook(last if jobs else None, jobs, running.unknown, never)


def _never_start(scheduler: SchedulerState) -> Iterable[NeverStarts]:
    """Yield the queued jobs that can never start. Blocked jobs are not considered yet."""
    board = scheduler.board
    lines = []
    for (request, group), line in scheduler.book.ready.items() if board.slots else ():
        wanted = scheduler.with_learned_memory(request, group)
        if board.takes_slot(wanted) and not board.could_ever_fit(wanted):
            lines.append([(place, wanted) for place in islice(line, MOST_NEVER)])
    for place, wanted in islice(heapq.merge(*lines, key=lambda entry: entry[0]), MOST_NEVER):
        yield NeverStarts(place.job, wanted)


def _can_start(scheduler: SchedulerState, stuck: set[JobId]) -> dict[tuple[Request, str], int]:
    """Count the jobs of each kind that will start.

    Paused groups do not count, nor do jobs that depend on stuck or held jobs.
    """
    book, board = scheduler.book, scheduler.board
    waiting = Counter(book.waiting_of)
    for job_id, unmet in islice(book.unmet.items(), PLAYED_OUT):
        if any(earlier in stuck or isinstance(book[earlier].state, Held) for earlier in unmet):
            stuck.add(job_id)
            waiting[kind_of(book[job_id])] -= 1
    over_budget = scheduler.over_budget()
    return {
        (request, group): count
        for (request, group), count in sorted(waiting.items(), key=lambda kind: kind[0][1])
        if count > 0
        and (request, group) not in over_budget
        and scheduler.breaker.scope_pausing(group) is None
        and (not board.takes_slot(request) or board.could_ever_fit(scheduler.with_learned_memory(request, group)))
    }


def _durations(
    jobs: list[Job], by_progress: dict[JobId, float], scheduler: SchedulerState, now: float
) -> dict[str, list[float]]:
    """Collect the durations of the jobs of each group.

    A running job counts only if its end is estimated from its progress, or if it has taken longer than all ended jobs
    of its group, but not far longer.
    """
    lengths = {
        group: [job.attempts[-1].seconds for job in succeeded] for group, succeeded in scheduler.successes.items()
    }
    longest = {group: max(group_lengths) for group, group_lengths in lengths.items()}
    for job in jobs:
        assert job.active is not None
        end, group = by_progress.get(job.id, now), job.spec.group
        gone, most = now - job.active.since, longest.get(group, inf)
        if job.id in by_progress or most < gone <= EXTENSION_FACTOR * most:
            lengths.setdefault(group, []).append(end - job.active.since)
    return lengths


class RunningJobs:
    """The running jobs: when each of them will end, and how long jobs of each group take."""

    def __init__(
        self, scheduler: SchedulerState, now: float, results: Mapping[JobId, JobResults], paces: Mapping[str, float]
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
        self.lengths = _durations(jobs, by_progress, scheduler, now)
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

    def length(self, group: str) -> float:
        return self._typical.get(group, self._usual)

    def _by_others(self, job: Job, now: float) -> float | None:
        """Estimate a job's end from jobs of its group that ran longer, or return None if the job is far too late."""
        if isinstance(job.state, Stopping):
            return max(now, job.state.deadline)
        assert job.active is not None
        if job.submitted:
            return now + self.length(job.spec.group)
        since = job.active.since
        longer = [length for length in self.lengths.get(job.spec.group, ()) if since + length > now]
        return _not_past(since, since + (median(longer) if longer else self.length(job.spec.group)), now)


def _usable_slots(scheduler: SchedulerState, now: float, running: RunningJobs) -> dict[SlotId, float]:
    """Return when each slot becomes free, without blocked slots and without slots of jobs whose end is unknown."""
    board, slots = scheduler.board, {}
    for slot in board.slots:
        holder = board.holders.get(slot.id)
        if holder is not None:
            if holder in running.ends:
                slots[slot.id] = running.ends[holder]
        elif not any(map(board.devices.blocked, slot.devices)):
            slots[slot.id] = now
    most = scheduler.most_devices()
    if most is None or len(slots) <= most:
        return slots
    busy_first = sorted(slots, key=lambda slot: (slot not in board.holders, slot))
    return {slot: slots[slot] for slot in busy_first[: max(0, most)]}


def _cpu_places(scheduler: SchedulerState, now: float, running: RunningJobs) -> dict[SlotId, float]:
    """Return when each place for a CPU job without a slot becomes free."""
    placed = ((job, scheduler.book[job].active) for job in scheduler.book.active)
    ends = [running.ends.get(job) for job, active in placed if active is not None and not active.slots]
    free = [now] * max(0, scheduler.settings.cpu_jobs - len(ends))
    return dict(enumerate([*free, *(end for end in ends if end is not None)]))


def _play_out(slots: dict[SlotId, float], waiting: int, duration: float, each: int) -> float:
    """Assign jobs to the slots that become free first, `each` slots per job. Return when the last job ends."""
    heap = [(at, slot) for slot, at in slots.items()]
    heapq.heapify(heap)
    last = 0.0
    for _ in range(min(waiting, PLAYED_OUT)):
        used = [heapq.heappop(heap) for _ in range(each)]
        end = used[-1][0] + duration
        last = max(last, end)
        for _, slot in used:
            heapq.heappush(heap, (end, slot))
    spread = max(0, waiting - PLAYED_OUT) * duration * each / len(slots)
    slots.update({slot: at + spread for at, slot in heap})
    return last + spread


class SteadyEnd:
    """Smooths the estimated end for display.

    The displayed end follows an earlier estimate slowly, but is never earlier than the estimate. When the work has
    changed, it jumps to the estimate.
    """

    def __init__(self) -> None:
        self._shown: float | None = None
        self._at = 0.0
        self._jobs = 0
        self._other: object = None

    def update(self, estimate: Outlook, now: float, slots: int) -> Outlook:
        """Return the outlook to display. The work has changed if there are more jobs, far fewer jobs or other slots."""
        other = (slots, estimate.unknown, len(estimate.never))
        same = other == self._other and self._jobs - slots <= estimate.jobs <= self._jobs
        if estimate.at is None or self._shown is None or not same or self._shown <= now:
            self._shown = estimate.at
        else:
            patience = min(SMOOTHING_SECONDS, max(1.0, (max(estimate.at, self._shown) - now) / 10))
            self._shown += (estimate.at - self._shown) * (1 - exp(-max(0.0, now - self._at) / patience))
            self._shown = max(self._shown, estimate.at)
        self._at, self._jobs, self._other = now, estimate.jobs, other
        return Outlook(self._shown, estimate.jobs, estimate.unknown, estimate.never)
