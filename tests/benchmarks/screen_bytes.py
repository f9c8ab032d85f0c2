"""What the screen costs the connection and the machine: bytes per second and CPU, beside nvitop and htop.

`python tests/benchmarks/screen_bytes.py [--seconds 10] [--size 120x40] [COMMAND …]`

All programs are recorded in turn on terminals of their own, after a moment to draw their first screen. nvitop and one
of ours look at eight GPUs with the same figures, which change every second. CPU is that of the program and of what
works for it, not of its jobs. Further COMMANDs, quoted, are measured beside them.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.screen_scenarios import LivingGpus, Scenario, scenarios
from support.apps import at_home
from support.terminal import RecordedTerminal, recorded

DRAWN_FIRST = 4.0
"""Seconds after which a program has drawn its first screen and said what it has to say."""


@dataclass(frozen=True)
class Cost:
    bytes_per_second: float
    cpu: float
    first: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="a command line, quoted")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--size", default="120x40", metavar="COLUMNSxROWS")
    options = parser.parse_args()
    size = tuple(map(int, options.size.split("x")))
    print(f"{'':44}{'bytes/s':>10}{'bar':>8}{'CPU %':>8}{'bar':>8}{'first screen':>14}")
    with tempfile.TemporaryDirectory(prefix="gputui_bytes_") as folder, LivingGpus(Path(folder)) as gpus:
        for number, scenario in enumerate(scenarios(gpus)):
            place = Path(folder) / str(number)
            place.mkdir()
            print(told(scenario.name, ours(scenario, place, options.seconds, size), scenario), flush=True)
        for command in ("nvitop", "htop -d10", *options.commands):
            print(told(command, theirs(shlex.split(command), gpus, options.seconds, size)), flush=True)


def ours(scenario: Scenario, folder: Path, seconds: float, size: tuple[int, ...]) -> Cost | None:
    with at_home(folder) as home:
        jobs = home.write(*scenario.commands(folder))
        with home.opened(jobs, gpus=scenario.gpus, size=size, env=scenario.env) as terminal:
            terminal.shows(scenario.ready)
            time.sleep(DRAWN_FIRST + scenario.settles)
            return measured(terminal, seconds)


def theirs(words: list[str], gpus: LivingGpus, seconds: float, size: tuple[int, ...]) -> Cost | None:
    beside = Path(sys.executable).parent / words[0]
    program = str(beside) if beside.exists() else shutil.which(words[0])
    if program is None:
        return None
    with recorded([program, *words[1:]], size=size, env=gpus.with_processes) as terminal:
        time.sleep(DRAWN_FIRST)
        return measured(terminal, seconds)


def measured(terminal: RecordedTerminal, seconds: float) -> Cost | None:
    """None: it has ended."""
    pid = terminal.process.pid
    first, used, since = terminal.count, cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - since
    if terminal.process.poll() is not None:
        return None
    return Cost((terminal.count - first) / took, (cpu_seconds(pid) - used) / took * 100, first)


def told(name: str, cost: Cost | None, scenario: Scenario | None = None) -> str:
    if cost is None:
        return f"{name[:42]:44}{'not there':>10}"
    bars = (scenario.most_bytes, scenario.most_cpu) if scenario is not None else (None, None)
    shown = [f"{bar:>8g}" if bar is not None else " " * 8 for bar in bars]
    figures = f"{cost.bytes_per_second:>10.0f}{shown[0]}{cost.cpu:>8.1f}{shown[1]}"
    return f"{name[:42]:44}{figures}{cost.first:>14,}"


def cpu_seconds(pid: int) -> float:
    """User and system time of the program and of what works for it; what its jobs use is theirs."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *filter(_works_for_it, root.children())):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
    return total


def _works_for_it(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not process.name().startswith(("sh", "bash", "sleep"))
    return False


if __name__ == "__main__":
    main()
