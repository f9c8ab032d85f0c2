"""A sorted line of jobs whose changes stay cheap when it is long."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gputui.core.job import Job, JobId

BLOCK = 256
FEW = 16
"""Adding one place costs as much as sorting so many anew."""


class Place(NamedTuple):
    """Where a job stands: higher priority first, then the user's position."""

    urgency: int
    position: float
    job: JobId


def place_of(job: Job) -> Place:
    return Place(-job.priority, job.position, job.id)


class Order:
    """Places in ascending order, kept in short blocks so that no operation moves the whole line."""

    __slots__ = ("_blocks", "_ends", "_length")

    def __init__(self) -> None:
        self._blocks: list[list[Place]] = []
        self._ends: list[Place] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Place]:
        for block in self._blocks:
            yield from block

    def __contains__(self, place: Place) -> bool:
        number = bisect_left(self._ends, place)
        if number == len(self._blocks):
            return False
        block = self._blocks[number]
        return block[bisect_left(block, place)] == place

    def first(self) -> Place | None:
        return self._blocks[0][0] if self._blocks else None

    def last(self) -> Place | None:
        return self._ends[-1] if self._ends else None

    def add(self, place: Place) -> None:
        self._length += 1
        if not self._blocks:
            self._blocks.append([place])
            self._ends.append(place)
            return
        number = min(bisect_left(self._ends, place), len(self._blocks) - 1)
        block = self._blocks[number]
        insort(block, place)
        if len(block) > 2 * BLOCK:
            self._split(number)
        else:
            self._ends[number] = block[-1]

    def extend(self, places: Sequence[Place]) -> None:
        """Many at once: where they are not few beside those in line, sorting all anew is cheaper than adding each."""
        if len(places) * FEW < self._length:
            for place in places:
                self.add(place)
            return
        ordered = sorted([*self, *places])
        self._blocks = [ordered[start : start + BLOCK] for start in range(0, len(ordered), BLOCK)]
        self._ends = [block[-1] for block in self._blocks]
        self._length = len(ordered)

    def remove(self, place: Place) -> None:
        number = bisect_left(self._ends, place)
        block = self._blocks[number]
        at = bisect_left(block, place)
        if block[at] != place:
            raise KeyError(place)
        del block[at]
        self._length -= 1
        if block:
            self._ends[number] = block[-1]
        else:
            del self._blocks[number], self._ends[number]

    def before(self, place: Place) -> Place | None:
        """The greatest place below this one."""
        number = bisect_left(self._ends, place)
        if number < len(self._blocks):
            block = self._blocks[number]
            at = bisect_left(block, place)
            if at:
                return block[at - 1]
        return self._ends[number - 1] if number else None

    def after(self, place: Place) -> Place | None:
        """The smallest place above this one."""
        number = bisect_right(self._ends, place)
        if number == len(self._blocks):
            return None
        block = self._blocks[number]
        return block[bisect_right(block, place)]

    def rank(self, place: Place) -> int:
        """How many places are below this one."""
        number = bisect_left(self._ends, place)
        below = sum(map(len, self._blocks[:number]))
        return below + (bisect_left(self._blocks[number], place) if number < len(self._blocks) else 0)

    def _split(self, number: int) -> None:
        block = self._blocks[number]
        self._blocks[number : number + 1] = [block[:BLOCK], block[BLOCK:]]
        self._ends[number : number + 1] = [block[BLOCK - 1], block[-1]]
