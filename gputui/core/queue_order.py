"""Where a job is in the queue: moving it, and the jobs it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .book import Book, Place, place_of
from .events import Instruction, Move, MoveTarget, Refusal
from .job import Blocked, Delayed, Ended, Job, JobId, JobSpec, Queued, Skipped, Succeeded, Waiting

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- Where the user puts a job in the line ----


SMALLEST_STEP = 2.0**-16
"""Between two positions that were made anew; far above what a float can still tell apart."""


def move(scheduler: Scheduler, job: Job, event: Move, now: float) -> list[Instruction]:
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
    return []


def _swap(scheduler: Scheduler, job: Job, other: Place | None, end: str, now: float) -> None:
    if other is None or other.urgency != -job.priority:
        raise Refusal(f"#{job.id} is already the {end} of its priority ({job.priority})")
    if other.position == job.position:
        _make_room(scheduler, job.position, max(other, place_of(job)))
    job, neighbour = scheduler.book[job.id], scheduler.book[other.job]
    scheduler.book.put(replace(neighbour, position=job.position))
    scheduler.change(job, now, f"swapped with #{neighbour.id} by the user", keep=True, position=neighbour.position)


def _put_at(scheduler: Scheduler, job: Job, position: float, now: float, text: str, **changes: int) -> None:
    scheduler.next_position = max(scheduler.next_position, position + 1)
    scheduler.change(job, now, f"moved {text} by the user", keep=True, position=position, **changes)


def _move_before(scheduler: Scheduler, job: Job, before: JobId | None, now: float) -> None:
    if before is None or before == job.id:
        raise Refusal("say before which other job")
    target = scheduler.job(before)
    if not isinstance(target.state, Waiting):
        raise Refusal(f"#{before} does not wait in the queue, so nothing can be put before it")
    earlier = scheduler.book.line.before(place_of(target))
    if earlier is None or earlier.urgency != -target.priority:
        position = target.position - 1
    else:
        position = _between(scheduler, earlier, target)
    _put_at(scheduler, job, position, now, f"before #{before}", priority=target.priority)


def _between(scheduler: Scheduler, earlier: Place, target: Job) -> float:
    """After some fifty moves between the same two, no number is left between them."""
    middle = (earlier.position + target.position) / 2
    if not earlier.position < middle < target.position:
        _make_room(scheduler, earlier.position, place_of(target))
        middle = (earlier.position + scheduler.book[target.id].position) / 2
    return middle


def _make_room(scheduler: Scheduler, floor: float, first: Place) -> None:
    """Spreads `first`, and only as many behind it as it takes, over the room above the floor."""
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


# ---- Which jobs wait for which ----


SHOWN = 6


def waiting_state(book: Book, job: Job, now: float) -> Queued | Blocked | Delayed | Skipped:
    """The state of a job that wants to run: what its dependencies and its start time make of it."""
    blocked = False
    for earlier_id in reversed(job.after):  # those rerun one by one come back from the front
        if not isinstance(book[earlier_id].state, Ended):
            blocked = True
        elif not satisfied(book, job, earlier_id):
            return Skipped(earlier_id)
    if blocked:
        return Blocked()
    return unblocked_state(job.spec, now)


def unblocked_state(spec: JobSpec, now: float) -> Queued | Delayed:
    if spec.not_before is not None and spec.not_before > now:
        return Delayed(spec.not_before, "its start time has not come")
    return Queued(now)


def satisfied(book: Book, job: Job, earlier: JobId) -> bool:
    """Whether a dependency that has ended lets the job go on."""
    return job.spec.after_any or isinstance(book[earlier].state, Succeeded)


def resolve(book: Book, specs: Sequence[JobSpec], first: JobId) -> list[tuple[JobId, ...]]:
    """The ids that each spec's `after` means; names may be of jobs in the same batch, before or behind."""
    names: dict[str, list[JobId]] = {}
    for offset, spec in enumerate(specs):
        if spec.name is not None:
            names.setdefault(spec.name, []).append(first + offset)
    batch = range(first, first + len(specs))
    waits = [_ids(book, names, spec, batch) for spec in specs]
    if any(waits):
        _refuse_cycles(dict(zip(batch, waits, strict=True)))
    return waits


def _ids(book: Book, names: Mapping[str, list[JobId]], spec: JobSpec, batch: range) -> tuple[JobId, ...]:
    ids: list[JobId] = []
    for wanted in spec.after:
        if isinstance(wanted, str):
            matching = names.get(wanted) or _listed(book, wanted)
            if not matching:
                raise Refusal(f"after: no job is called {wanted!r}; give the name of a job before it, or an id")
            ids += matching
        elif wanted in book or wanted in batch:
            ids.append(wanted)
        else:
            raise Refusal(f"after: there is no job #{wanted}")
    return tuple(dict.fromkeys(ids))


def _listed(book: Book, name: str) -> list[JobId]:
    """Jobs that were removed no longer answer to their name."""
    return [id for id in book.named.get(name, ()) if not book[id].archived]


def _refuse_cycles(waits: Mapping[JobId, tuple[JobId, ...]]) -> None:
    """Only jobs of the batch can form one: nothing that is already there waits for them."""
    done: set[JobId] = set()
    for start in waits:
        path: dict[JobId, None] = {}
        stack: list[tuple[JobId, bool]] = [(start, True)]
        while stack:
            job, entering = stack.pop()
            if not entering:
                done.add(path.popitem()[0])
            elif job in path:
                raise Refusal(_circle(list(path), job))
            elif job not in done and job in waits:
                path[job] = None
                stack.append((job, False))
                stack += [(earlier, True) for earlier in waits[job]]


def _circle(path: list[JobId], job: JobId) -> str:
    circle = [f"#{id}" for id in path[path.index(job) :]]
    if len(circle) == 1:
        return f"#{job} cannot wait for itself"
    if len(circle) > SHOWN:
        circle[SHOWN - 1 : -1] = ["…"]
    return f"these jobs wait for each other: {' → '.join([*circle, circle[0]])}"
