"""The order of the queue: moving jobs, and dependencies between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from .book import Book, Place, place_of
from .events import Move, MoveTarget, Refusal
from .job import Blocked, Delayed, Ended, Job, JobId, JobSpec, Queued, Skipped, Succeeded, Waiting
from .state import SchedulerState

# Moving


SMALLEST_STEP = 2.0**-16
"""Smallest distance between new positions. A float is far more precise than this."""


def move(scheduler: SchedulerState, job: Job, event: Move, now: float) -> None:
    place = place_of(job)
    line = scheduler.book.line
    match event.where:
        case MoveTarget.UP:
            _swap(scheduler, job, line.before(place), "first", now)
        case MoveTarget.DOWN:
            _swap(scheduler, job, line.after(place), "last", now)
        case MoveTarget.TOP:
            first = line.after(Place(place.urgency, float("-inf"), -1))
            _put_at(scheduler, job, (first.position if first else 0.0) - 1, now, "to the top")
        case MoveTarget.BOTTOM:
            last = line.before(Place(place.urgency + 1, float("-inf"), -1))
            _put_at(scheduler, job, (last.position if last else 0.0) + 1, now, "to the bottom")
        case MoveTarget.BEFORE:
            _move_before(scheduler, job, event.before, now)


def _swap(scheduler: SchedulerState, job: Job, other: Place | None, end: str, now: float) -> None:
    if other is None or other.urgency != place_of(job).urgency:
        raise Refusal(f"#{job.id} is already {end} at its priority ({job.priority})")
    if other.position == job.position:
        _make_room(scheduler, job.position, max(other, place_of(job)))
    job, neighbour = scheduler.book[job.id], scheduler.book[other.job]
    scheduler.book.put(replace(neighbour, position=job.position))
    scheduler.change(job, now, f"swapped with #{neighbour.id} by the user", keep=True, position=neighbour.position)


def _put_at(scheduler: SchedulerState, job: Job, position: float, now: float, text: str, **changes: int) -> None:
    scheduler.next_position = max(scheduler.next_position, position + 1)
    scheduler.change(job, now, f"moved {text} by the user", keep=True, position=position, **changes)


def _move_before(scheduler: SchedulerState, job: Job, before: JobId | None, now: float) -> None:
    if before is None or before == job.id:
        raise Refusal("name another job to move before")
    target = scheduler.job(before)
    if not isinstance(target.state, Waiting):
        raise Refusal(f"#{before} is not waiting, so nothing can be moved before it")
    earlier = scheduler.book.line.before(place_of(target))
    if earlier is None or earlier.urgency != place_of(target).urgency:
        position = target.position - 1
    else:
        position = (earlier.position + target.position) / 2
        if not earlier.position < position < target.position:
            # After about fifty moves between the same two jobs, no float fits between their positions.
            _make_room(scheduler, earlier.position, place_of(target))
            position = (earlier.position + scheduler.book[target.id].position) / 2
    _put_at(scheduler, job, position, now, f"before #{before}", priority=target.priority)


def _make_room(scheduler: SchedulerState, floor: float, first: Place) -> None:
    """Make room between `floor` and `first`: move `first`, and as many jobs after it as needed, to higher positions."""
    crowd = [first]
    step = 0.0
    while step < SMALLEST_STEP:
        following = scheduler.book.line.after(crowd[-1])
        if following is None or following.urgency != first.urgency:
            step = 1.0
        else:
            step = (following.position - floor) / (len(crowd) + 1)
            if step < SMALLEST_STEP:
                crowd.append(following)
    for number, place in enumerate(crowd, start=1):
        scheduler.book.put(replace(scheduler.book[place.job], position=floor + number * step))
    scheduler.next_position = max(scheduler.next_position, floor + len(crowd) * step + 1)


# Dependencies


SHOWN = 6
"""Maximum number of jobs that are named in the message about a circular dependency."""


def waiting_state(book: Book, job: Job, now: float) -> Queued | Blocked | Delayed | Skipped:
    """Return the state of a job that is to be run, according to its dependencies and start time."""
    blocked = False
    for earlier_id in reversed(job.after):  # the first jobs are the ones most likely to have been rerun
        if not isinstance(book[earlier_id].state, Ended):
            blocked = True
        elif not satisfied(book, job, earlier_id):
            return Skipped(earlier_id)
    if blocked:
        return Blocked()
    return unblocked_state(job.spec, Queued(now))


def unblocked_state(spec: JobSpec, queued: Queued) -> Queued | Delayed:
    """Return Delayed if the job's start time is in the future, else `queued`, an object that new jobs share."""
    if spec.not_before is not None and spec.not_before > queued.since:
        return Delayed(spec.not_before, "start time not reached")
    return queued


def satisfied(book: Book, job: Job, earlier: JobId) -> bool:
    """Return whether a dependency that has ended allows the job to start."""
    return job.spec.after_any or isinstance(book[earlier].state, Succeeded)


def resolve(book: Book, specs: Sequence[JobSpec], first: JobId) -> list[tuple[JobId, ...]]:
    """Return for each spec the ids of the jobs in `after`. Names may refer to any job of the same batch."""
    names: dict[str, list[JobId]] = {}
    for offset, spec in enumerate(specs):
        if spec.name is not None:
            names.setdefault(spec.name, []).append(first + offset)
    batch = range(first, first + len(specs))
    waits = {number: _ids(book, names, spec, batch) for number, spec in zip(batch, specs, strict=True)}
    if any(waits.values()):
        _refuse_cycles(book, waits)
    return list(waits.values())


def _ids(book: Book, names: Mapping[str, list[JobId]], spec: JobSpec, batch: range) -> tuple[JobId, ...]:
    ids: list[JobId] = []
    for wanted in spec.after:
        if isinstance(wanted, str):
            listed = (id for id in book.named.get(wanted, ()) if not book[id].archived)
            matching = names.get(wanted) or list(listed)
            if not matching:
                raise Refusal(f"after: no job named {wanted!r}; use the name of an earlier job, or an id")
            ids += matching
        elif wanted in book or wanted in batch:
            ids.append(wanted)
        else:
            raise Refusal(f"after: no job #{wanted}")
    return tuple(dict.fromkeys(ids))


def _refuse_cycles(book: Book, waits: Mapping[JobId, tuple[JobId, ...]]) -> None:
    """Raise Refusal if these jobs would depend on each other or on themselves in a circle."""
    is_edit = any(job in book for job in waits)  # other existing jobs cannot depend on new ones
    done: set[JobId] = set()
    for start in waits:
        path: dict[JobId, None] = {}
        stack: list[tuple[JobId, bool]] = [(start, True)]
        while stack:
            job, entering = stack.pop()
            if not entering:
                done.add(path.popitem()[0])
            elif job in path:
                raise Refusal(_describe_cycle(list(path), job))
            elif job not in done and (job in waits or is_edit):
                path[job] = None
                stack.append((job, False))
                stack += [(earlier, True) for earlier in (waits[job] if job in waits else book[job].after)]


def _describe_cycle(path: list[JobId], job: JobId) -> str:
    circle = [f"#{id}" for id in path[path.index(job) :]]
    if len(circle) == 1:
        return f"#{job} cannot depend on itself"
    if len(circle) > SHOWN:
        circle[SHOWN - 1 : -1] = ["…"]
    return f"circular dependency: {' → '.join([*circle, circle[0]])}"
