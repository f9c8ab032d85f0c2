"""A thread that does one errand after the other, in the order they came."""

from __future__ import annotations

import queue
from collections.abc import Callable

from gputui.process.threads import begin


class Errands:
    """What is left when it is closed is not done."""

    PATIENCE = 2.0
    """Seconds that closing waits for the errand under way."""

    def __init__(self, name: str) -> None:
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = begin(self._work, name)

    def add(self, errand: Callable[[], None]) -> None:
        self._errands.put(errand)

    def close(self) -> None:
        self._closed = True
        self._errands.put(None)
        self._thread.join(self.PATIENCE)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None and not self._closed:
            errand()
