"""The event loop: timers in order, calls from other threads, descriptors, slow work in a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from gputui.session.event_loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def test_timers_run_in_the_order_of_their_time_and_creation(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_later(0.02, lambda: seen.append("later"))
    loop.call_later(0.0, lambda: seen.append("first"))
    loop.call_later(0.0, lambda: seen.append("second"))
    loop.call_later(0.03, loop.stop)
    loop.call_soon(lambda: seen.append("soon"))
    loop.run()
    assert seen.index("first") < seen.index("second") < seen.index("later")
    assert "soon" in seen


def test_a_canceled_timer_does_not_run(loop: Loop) -> None:
    seen: list[str] = []
    loop.call_later(0.0, lambda: seen.append("no")).cancel()
    timer = loop.call_later(0.01, lambda: seen.append("no"))
    loop.call_soon(timer.cancel)
    loop.call_later(0.02, loop.stop)
    loop.run()
    assert seen == []


def test_calls_from_many_threads_run_in_the_loops_thread(loop: Loop) -> None:
    seen: list[int] = []

    def arrived() -> None:
        seen.append(threading.get_ident())
        if len(seen) == 800:
            loop.stop()

    def call() -> None:
        for _ in range(100):
            loop.call_soon_threadsafe(arrived)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    loop.run()
    for thread in threads:
        thread.join()
    assert set(seen) == {threading.get_ident()}


def test_a_readable_descriptor_calls_until_it_is_removed(loop: Loop) -> None:
    inlet, outlet = os.pipe()
    seen: list[bytes] = []

    def read() -> None:
        seen.append(os.read(inlet, 10))
        loop.remove_reader(inlet)
        loop.call_later(0.01, loop.stop)

    loop.add_reader(inlet, read)
    os.write(outlet, b"x")
    loop.run()
    assert seen == [b"x"]
    os.close(inlet)
    os.close(outlet)


def test_slow_work_is_done_in_another_thread(loop: Loop) -> None:
    seen: list[tuple[int, int]] = []

    def done(worker: int) -> None:
        seen.append((worker, threading.get_ident()))
        loop.stop()

    loop.run_in_thread(threading.get_ident, done)
    loop.run()
    [(worker, here)] = seen
    assert here == threading.get_ident() != worker


def test_a_call_after_the_end_touches_no_descriptor() -> None:
    """The number may belong to a file by then, which would get eight bytes."""
    loop = Loop()
    number = loop._wake_fd
    loop.close()
    inlet, outlet = os.pipe()
    os.set_blocking(inlet, False)
    taken = os.dup2(outlet, number) if outlet != number else number
    loop.call_soon_threadsafe(lambda: None)
    with pytest.raises(BlockingIOError):
        os.read(inlet, 8)
    for fd in {inlet, outlet, taken}:
        os.close(fd)


@pytest.mark.parametrize("seconds", [30 * 86_400.0, 1e12, float("inf")])
def test_a_timer_that_is_months_away_does_no_harm(loop: Loop, seconds: float) -> None:
    seen: list[str] = []
    loop.call_later(seconds, lambda: seen.append("far"))
    threading.Timer(0.05, lambda: loop.call_soon_threadsafe(loop.stop)).start()
    loop.run()
    assert seen == []
