"""Other threads and signals wake the main thread at any moment."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from gputui.process.watch import Wakeup


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    made = Wakeup()
    before = signal.signal(signal.SIGUSR1, lambda *_: made.set())
    yield made
    made.forget_signals()
    signal.signal(signal.SIGUSR1, before)


def test_a_wakeup_lasts_until_it_is_cleared(wakeup: Wakeup) -> None:
    assert not wakeup.wait(0)
    for _ in range(100_000):  # more than fits into a pipe
        wakeup.set()
    assert wakeup.wait()
    wakeup.clear()
    assert not wakeup.wait(0)


def test_a_signal_to_another_thread_wakes_the_main_thread(wakeup: Wakeup) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)
    wakeup.listen_to_signals()
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()
    threading.Thread(target=signal.pthread_kill, args=(other.ident, signal.SIGUSR1)).start()
    assert wakeup.wait(60)
    release.set()
    other.join()


def test_a_signal_handler_may_set_a_wakeup_at_any_moment(wakeup: Wakeup) -> None:
    """Handlers run between any two lines of the main thread."""

    def signal_at_every_line(frame: FrameType, event: str, _: Any) -> Any:
        if "gputui" in frame.f_code.co_filename or "threading" in frame.f_code.co_filename:
            signal.raise_signal(signal.SIGUSR1)
            return signal_at_every_line
        return None

    before = sys.gettrace()
    sys.settrace(signal_at_every_line)
    try:
        wakeup.set()
        assert wakeup.wait(0)
        wakeup.clear()
    finally:
        sys.settrace(before)
    assert wakeup.wait(0), "the last signal came after it was cleared"
