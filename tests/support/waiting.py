"""Wait for conditions, never for time to pass."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# ---- Waiting for conditions, never for time to pass ----


PATIENCE = 120.0
"""Seconds; far more than anything needs, since the machine may be busy with other things."""


SHORTEST, LONGEST = 0.002, 0.05
"""Seconds between two looks: more as the waiting lasts, since looking takes from what is waited for."""


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns when the condition holds; fails with `what` was waited for when it does not come to hold."""
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(min(max(waited / 10, SHORTEST), LONGEST))


LONGEST_SEARCH = 30.0
"""Seconds of processor time: a thousand times what any input here needs, and less than one that backtracks takes."""


@contextmanager
def never_hanging() -> Iterator[None]:
    """Fail if the block seems to run forever. A signal also interrupts a regular expression that backtracks."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"still running after {LONGEST_SEARCH:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SEARCH)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


async def until_then(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """The same in an app's own loop, which goes on meanwhile."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        await asyncio.sleep(0.01)


def remove_under_its_owner(directory: Path) -> None:
    """Who owns the session in it may write there meanwhile; as with `rm -r`, one does it again then."""

    def is_removed() -> bool:
        shutil.rmtree(directory, ignore_errors=True)
        return not directory.exists()

    until(is_removed, f"{directory} is removed")


# ---- Signals that the kernel gives to another thread than the main one, as it may ----


def signal_another_thread(pid: int, number: int) -> None:
    """When all of the process rests, so that nothing but the signal can wake its main thread."""
    until(lambda: len(_threads(pid)) > 1 and _rests(pid), f"process {pid} has threads and rests")
    assert ctypes.CDLL(None).tgkill(pid, max(_threads(pid)), number) == 0


def _threads(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def _rests(pid: int) -> bool:
    before = _main_switches(pid)
    time.sleep(0.3)
    return _main_switches(pid) == before


def _main_switches(pid: int) -> list[str]:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in status if line.startswith("voluntary_ctxt_switches")]
