"""Where the user puts a job in the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core.structures.order import Place, place_of

from .events import Move, MoveTarget, Refusal
from .instructions import Instruction
from .job import Job, JobId, Waiting

if TYPE_CHECKING:
    from .scheduler import Scheduler

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
