"""Looks at the machine itself while somebody wants to see it, in a thread that nobody waits for: a disk may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from gputui.gpus.machine_facts import MachineFacts, MachineReader
from gputui.process.threads import NoThread, begin

LOOK_EVERY = 2.0
FORGOTTEN_AFTER = 10.0
"""Seconds after which nobody looks any more, and the thread ends."""


class MachineWatch:
    """`facts` may be asked as often as one likes; the first answers are None."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder = folder
        self._newest: MachineFacts | None = None
        self._asked = 0.0
        self._thread: threading.Thread | None = None

    def facts(self) -> MachineFacts | None:
        self._asked = time.monotonic()
        if self._thread is None or not self._thread.is_alive():
            with suppress(NoThread):
                self._thread = begin(self._watch, "gputui-machine")
        return self._newest

    def _watch(self) -> None:
        look = MachineReader(self._folder())
        while time.monotonic() - self._asked < FORGOTTEN_AFTER:
            self._newest = look.look()
            time.sleep(LOOK_EVERY if self._newest.busy is not None else LOOK_EVERY / 10)
