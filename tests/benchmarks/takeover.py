"""How long a session is without an owner after its owner was killed with SIGKILL.

`python tests/benchmarks/takeover.py [--rounds 30] [--jobs 100]`

A keeper owns, four jobs run, others wait; its waiting keeper is the next owner. Two figures for each kill: until the
next owner has signed the session's lock, and until it answers a status request, with its jobs adopted. The bar is a
median of 50 ms to ownership, the goal 20 ms. A bare process that waits in flock() and signs shows what the machine
itself takes.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.homes import Home, kill

from gputui.session.control.connection import Connection, NoOwner
from gputui.session.messages import StatusQuestion

BAR, GOAL = 0.050, 0.020
LONGEST = 30.0
BARE = """
import fcntl, os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    print("", flush=True)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.pwrite(fd, b"%d" % os.getpid(), 0)
    print("", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=100, help="how many wait in the queue")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui_takeover_") as folder:
        bare = [bare_takeover(Path(folder) / f"bare{number}") for number in range(options.rounds)]
        signed, answered = takeovers(Home(Path(folder)), options.rounds, options.jobs)
    tell("a bare process in flock()", bare)
    tell("to the entry in the lock", signed)
    tell("to the first status reply", answered)
    median = statistics.median(signed)
    print(f"bar {BAR * 1000:.0f} ms: {verdict(median, BAR)}; goal {GOAL * 1000:.0f} ms: {verdict(median, GOAL)}")
    sys.exit(median > BAR)


def takeovers(home: Home, rounds: int, jobs: int) -> tuple[list[float], list[float]]:
    """The two figures of each kill."""
    signed, answered = [], []
    try:
        home.begin(*["exec sleep 600"] * jobs)
        home.command({"type": "lanes", "lanes": [{"id": number, "devices": [str(number)]} for number in range(4)]})
        home.resume()
        for _ in range(rounds):
            owner, _ = home.owner(), settled(home)
            begun = time.perf_counter()
            os.kill(owner, signal.SIGKILL)
            signed.append(since(begun, lambda gone=owner: signer(home, gone)))  # type: ignore[misc]
            answered.append(since(begun, lambda: answers(home)))
    finally:
        home.end()
    return signed, answered


def settled(home: Home) -> int:
    """The waiter, once it is asleep in the lock."""
    waiter = home.waiter()
    deadline = time.monotonic() + LONGEST
    while f" {waiter} " not in Path("/proc/locks").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    return waiter


def signer(home: Home, gone: int) -> bool:
    holder = home.holder()
    return holder is not None and holder.pid != gone


def answers(home: Home) -> bool:
    with suppress(NoOwner, OSError):
        connection = Connection(str(home.private))
        try:
            return len(connection.ask(StatusQuestion()).active) == 4
        finally:
            connection.close()
    return False


def bare_takeover(path: Path) -> float:
    """The same with nothing but a lock: a holder is killed, a waiter signs."""
    words = [sys.executable, "-c", BARE, str(path)]
    holder = subprocess.Popen(words, stdin=-1, stdout=-1)
    assert holder.stdout is not None
    holder.stdout.read(2)
    waiter = subprocess.Popen(words, stdin=-1, stdout=-1)
    assert waiter.stdout is not None
    waiter.stdout.read(1)
    time.sleep(0.02)
    begun = time.perf_counter()
    kill(holder.pid)
    elapsed = since(begun, lambda: path.read_bytes() == b"%d" % waiter.pid)
    kill(waiter.pid)
    for process in (holder, waiter):
        process.communicate()
    return elapsed


def since(begun: float, condition: Callable[[], bool]) -> float:
    while not condition():
        if time.perf_counter() - begun > LONGEST:
            raise TimeoutError("nobody took over")
        time.sleep(0.0005)
    return time.perf_counter() - begun


def tell(what: str, seconds: list[float]) -> None:
    in_order = sorted(second * 1000 for second in seconds)
    p90 = in_order[int(len(in_order) * 0.9)]
    print(f"{what:28} median {statistics.median(in_order):6.1f} ms   p90 {p90:6.1f}   max {in_order[-1]:6.1f}")


def verdict(median: float, limit: float) -> str:
    return "met" if median <= limit else "missed"


if __name__ == "__main__":
    main()
