"""Carrying orders out until they have had their effect: round after round over an attempt's tree.

An order may come before the wrapper has started the command, and processes may fork while they are signalled;
so terminate and suspend are repeated until they met the command, kill until nothing is left.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from msgspec.structs import replace

from gputui.process.event_loop import EventLoop

from .live import LiveAttempt, TreeOrder
from .stop_round import Round, carry_out

BETWEEN_KILLS = 0.05
WRAPPER_GRACE = 0.3
"""Seconds a wrapper without a command has to write the code, before it is killed too."""
UNKILLABLE_AFTER = 5.0
"""Seconds after which processes stuck in the kernel, or that we may not signal, no longer hold up the end."""
_LONGEST_WAIT = 1.0


class Stopper:
    """Calls `report_end` for an attempt that has ended and of which nothing lives any more."""

    def __init__(self, loop: EventLoop, report_end: Callable[[LiveAttempt], None]) -> None:
        self._loop = loop
        self._report_end = report_end
        self._closed = False

    def order(self, live: LiveAttempt, order: TreeOrder) -> None:
        # A kill is final, and what an ended attempt left behind can only be killed.
        if order is TreeOrder.KILL or (live.order is not TreeOrder.KILL and live.watch is not None):
            self._begin(live, order)

    def ended(self, live: LiveAttempt, may_live: bool) -> bool:
        """The wrapper is gone. Whether what it left behind is pursued, so that the end must wait."""
        live.ended_at = time.monotonic()
        if live.order is TreeOrder.KILL or may_live:
            self._begin(live, TreeOrder.KILL)
        elif live.order is TreeOrder.TERMINATE:
            self._begin(live, TreeOrder.TERMINATE)
        else:
            live.serial += 1
            return False
        return True

    def close(self) -> None:
        self._closed = True

    def _begin(self, live: LiveAttempt, order: TreeOrder) -> None:
        if order is TreeOrder.KILL and live.order is not TreeOrder.KILL:
            live.killed_at = time.monotonic()
        live.order, live.rounds, live.lone_since = order, 0, None
        live.serial += 1
        self._round(live, live.serial)

    def _round(self, live: LiveAttempt, serial: int) -> None:
        if self._closed or live.serial != serial:
            return
        order, marks, ended = live.order, live.marks, live.watch is None
        self._loop.run_in_thread(lambda: carry_out(order, marks, ended), lambda met: self._done(live, serial, met))

    def _done(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        if self._closed or live.serial != serial:
            return
        if live.end is not None:
            self._after_the_end(live, serial, met)
        elif live.watch is None:
            self._again(live, serial, _growing_wait(live.rounds))
        elif live.order is TreeOrder.KILL:
            self._look_after_wrapper(live, met)
            in_vain = met is not None and met.forbidden
            self._again(live, serial, _growing_wait(live.rounds) if in_vain else BETWEEN_KILLS)
        elif live.order is not TreeOrder.RESUME and (met is None or not met.others):
            self._again(live, serial, _growing_wait(live.rounds))

    def _after_the_end(self, live: LiveAttempt, serial: int, met: Round | None) -> None:
        assert live.end is not None
        stuck = live.order is TreeOrder.KILL and time.monotonic() - live.ended_at > UNKILLABLE_AFTER
        if stuck or (met is not None and (met.others == 0 or _given_up(live, met))):
            live.serial += 1
            live.end = replace(live.end, left=met.left if met is not None else ())
            self._report_end(live)
        else:
            self._again(live, serial, _growing_wait(live.rounds))

    def _look_after_wrapper(self, live: LiveAttempt, met: Round | None) -> None:
        """It is killed too when it has no command any more, or one that nobody here can end."""
        assert live.watch is not None
        # Somebody may have stopped it, and then it could not write.
        live.watch.signal(signal.SIGCONT)
        now = time.monotonic()
        alone = met is not None and met.others == 0
        if not alone or live.lone_since is None:
            live.lone_since = now if alone else None
        elif now - live.lone_since >= WRAPPER_GRACE:
            live.watch.signal(signal.SIGKILL)
        if met is not None and _given_up(live, met):
            live.watch.signal(signal.SIGKILL)

    def _again(self, live: LiveAttempt, serial: int, seconds: float) -> None:
        live.rounds += 1
        self._loop.call_later(seconds, lambda: self._round(live, serial))


def _growing_wait(rounds: int) -> float:
    return min(BETWEEN_KILLS * 1.5**rounds, _LONGEST_WAIT)


def _given_up(live: LiveAttempt, met: Round) -> bool:
    return met.forbidden and time.monotonic() - live.killed_at > UNKILLABLE_AFTER
