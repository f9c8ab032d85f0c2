"""Threads that do one kind of work beside each other while whoever gave it waits for all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

from gputui.process.threads import NoThread, begin

T = TypeVar("T")
R = TypeVar("R")

HANDS = 3


class Crew(Generic[T, R]):
    """Its threads are made when there are two tasks at once for the first time; where none can be, it needs none."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work
        self._tasks: SimpleQueue[T | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[T, R] | BaseException] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def each(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Every task with what came of it. The last is done here, so that one alone wakes nobody."""
        under_way = 0
        last: T | None = None
        for task in tasks:
            if last is not None:
                self._hand_over(last)
                under_way += 1
            last = task
        if last is not None:
            yield last, self._work(last)
        for _ in range(under_way):
            done = self._done.get()
            if isinstance(done, BaseException):
                raise done
            yield done

    def close(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _hand_over(self, task: T) -> None:
        if not self._threads:
            self._gather()
        if self._threads:
            self._tasks.put(task)
        else:
            self._do(task)

    def _gather(self) -> None:
        """As many as the machine gives."""
        with suppress(NoThread):
            for number in range(HANDS):
                self._threads.append(begin(self._serve, f"gputui-crew-{number}"))

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._do(task)

    def _do(self, task: T) -> None:
        try:
            self._done.put((task, self._work(task)))
        except BaseException as defect:  # whoever waits must not wait for ever
            self._done.put(defect)
