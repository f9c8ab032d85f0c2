"""Another order of a long queue, worked out between keys: until it is there the old one is shown, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from math import inf
from typing import TYPE_CHECKING

from gputui.core.job import Job, JobId
from gputui.core.structures.vector import Vector
from gputui.tui.model.sorting import Key

if TYPE_CHECKING:
    from .table import QueueTable

KeysToCome = Generator[None, None, dict[JobId, Key]]
LONG = 4000
"""Jobs; fewer are sorted before anybody could press a key."""
SLICE = 0.012
"""Seconds at a time."""


class Resorting:
    """One order at a time: a newer wish takes the place of one that is under way."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._keys: KeysToCome | None = None
        self._then: list[Callable[[], None]] = []

    def sort(self, sort: str, *, reverse: bool, then: Callable[[], None]) -> None:
        """`then` is called when the rows are in the new order: at once where there are few."""
        snapshot, rows = self._table.snapshot, self._table.rows
        self._then = [then]
        self._keys = keys = rows.keys_in_turns(snapshot, sort)
        if len(snapshot.jobs) > LONG:
            rows.restrict(snapshot)  # by the tab and the filter that came with it
            self._go_on(sort, reverse, snapshot.jobs, keys, SLICE)
        else:
            self._go_on(sort, reverse, snapshot.jobs, keys, inf)

    def afterwards(self, act: Callable[[], None]) -> None:
        """When the order under way is there; at once if none is."""
        if self._keys is None:
            act()
        else:
            self._then.append(act)

    def stop(self) -> None:
        self._keys = None

    def _go_on(self, sort: str, reverse: bool, jobs: Vector[Job], keys: KeysToCome, seconds: float) -> None:
        if self._keys is not keys:
            return
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                next(keys)
        except StopIteration as ended:
            self._end(sort, reverse, jobs, ended.value)
        else:
            self._table.set_timer(0.001, lambda: self._go_on(sort, reverse, jobs, keys, seconds))

    def _end(self, sort: str, reverse: bool, jobs: Vector[Job], keys: dict[JobId, Key]) -> None:
        self._keys = None
        rows = self._table.rows
        rows.reverse = reverse
        rows.take_order(self._table.snapshot, sort, keys, jobs)
        for act in self._then:
            act()
