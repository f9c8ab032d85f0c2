"""What a program costs the connection and the machine while it shows its screen: bytes per second and CPU.

`python tests/benchmarks/screen_bytes.py [--seconds 10] [--size 120x40] 'gputui demo' nvitop 'htop -d10'`
All programs are recorded in turn on terminals of their own, after a moment to draw their first screen.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.terminal import recorded

DRAWN_FIRST = 3.0
"""Seconds after which a program has drawn its first screen."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="COMMAND", help="a command line, quoted")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--size", default="120x40", metavar="COLUMNSxROWS")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    print(f"{'program':40}{'bytes/s':>10}{'CPU %':>8}{'first screen, bytes':>22}")
    for command in options.commands:
        print(measured(shlex.split(command), options.seconds, (columns, rows)))


def measured(words: list[str], seconds: float, size: tuple[int, int]) -> str:
    name = shlex.join(words)[:38]
    if shutil.which(words[0]) is None:
        return f"{name:40}{'not installed':>18}"
    with recorded(words, size=size) as terminal:
        time.sleep(DRAWN_FIRST)
        first, used, since = terminal.count, cpu_seconds(terminal.process.pid), time.monotonic()
        time.sleep(seconds)
        if terminal.process.poll() is not None:
            return f"{name:40}{'it ended early':>18}"
        took = time.monotonic() - since
        bytes_per_second = (terminal.count - first) / took
        cpu = (cpu_seconds(terminal.process.pid) - used) / took * 100
        return f"{name:40}{bytes_per_second:>10.0f}{cpu:>8.1f}{first:>22}"


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and all that live below it, those that ended included."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    main()
