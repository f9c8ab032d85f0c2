"""Carrying orders out until they have had their effect: round after round over an attempt's tree.

An order may come before the wrapper has started the command, and processes may fork while they are signalled;
so terminate and suspend are repeated until they met the command, kill until nothing is left.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from gputui.engines.protocol import EventLoop

from .live import LiveAttempt, Order
from .rounds import carry_out

BETWEEN_KILLS = 0.05
WRAPPER_GRACE = 0.3
"""Seconds a wrapper without a command has to write the code, before it is killed too."""
UNKILLABLE_AFTER = 5.0
"""Seconds after which processes stuck in the kernel no longer hold up the report of the end."""
_LONGEST_WAIT = 1.0


class Pursuer:
    """Calls `gone` for an attempt that has ended and of which nothing lives any more."""

    def __init__(self, loop: EventLoop, gone: Callable[[LiveAttempt], None]) -> None:
        self._loop = loop
        self._gone = gone
        self._closed = False

    def order(self, live: LiveAttempt, order: Order) -> None:
        # A kill is final, and what an ended attempt left behind can only be killed.
        if order is Order.KILL or (live.order is not Order.KILL and live.watch is not None):
            self._begin(live, order)

    def ended(self, live: LiveAttempt, may_live: bool) -> bool:
        """The wrapper is gone. Whether what it left behind is pursued, so that the end must wait."""
        live.ended_at = time.monotonic()
        if live.order is Order.KILL or may_live:
            self._begin(live, Order.KILL)
        elif live.order is Order.TERMINATE:
            self._begin(live, Order.TERMINATE)
        else:
            live.serial += 1
            return False
        return True

    def close(self) -> None:
        self._closed = True

    def _begin(self, live: LiveAttempt, order: Order) -> None:
        live.order, live.rounds, live.lone_since = order, 0, None
        live.serial += 1
        self._round(live, live.serial)

    def _round(self, live: LiveAttempt, serial: int) -> None:
        if self._closed or live.serial != serial:
            return
        order, marks, ended = live.order, live.marks, live.watch is None
        self._loop.run_in_thread(
            lambda: carry_out(order, marks, ended), lambda others: self._done(live, serial, others)
        )

    def _done(self, live: LiveAttempt, serial: int, others: int | None) -> None:
        if self._closed or live.serial != serial:
            return
        if live.end is not None:
            self._after_the_end(live, serial, others)
        elif live.watch is None:
            self._again(live, serial, _growing_wait(live.rounds))
        elif live.order is Order.KILL:
            self._look_after_wrapper(live, others)
            self._again(live, serial, BETWEEN_KILLS)
        elif live.order is not Order.RESUME and not others:
            self._again(live, serial, _growing_wait(live.rounds))

    def _after_the_end(self, live: LiveAttempt, serial: int, others: int | None) -> None:
        stuck = live.order is Order.KILL and time.monotonic() - live.ended_at > UNKILLABLE_AFTER
        if others == 0 or stuck:
            live.serial += 1
            self._gone(live)
        else:
            self._again(live, serial, _growing_wait(live.rounds))

    def _look_after_wrapper(self, live: LiveAttempt, others: int | None) -> None:
        assert live.watch is not None
        # Somebody may have stopped it, and then it could not write.
        live.watch.signal(signal.SIGCONT)
        now = time.monotonic()
        if others != 0 or live.lone_since is None:
            live.lone_since = now if others == 0 else None
        elif now - live.lone_since >= WRAPPER_GRACE:
            live.watch.signal(signal.SIGKILL)

    def _again(self, live: LiveAttempt, serial: int, seconds: float) -> None:
        live.rounds += 1
        self._loop.call_later(seconds, lambda: self._round(live, serial))


def _growing_wait(rounds: int) -> float:
    return min(BETWEEN_KILLS * 1.5**rounds, _LONGEST_WAIT)
