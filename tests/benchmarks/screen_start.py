"""From the command to the first picture, and from the last key to the end: also while a call of NVML hangs.

`python tests/benchmarks/screen_start.py [--rounds 7]`

Eight fake GPUs stand for the machine's. Beside it the wall time of `nvitop -1` and of a Python that does nothing.
The bars: twice `nvitop -1` to the first picture, 0.5 s to quit.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.apps import AppHome, at_home
from support.nvml import FakeNvml, build_fake_nvml
from support.waiting import until

NVITOP = Path(sys.executable).parent / "nvitop"
HANGS = {"nvmlDeviceGetUtilizationRates": 3600.0}
HANGING_SINCE = 4.0
"""Seconds: some samples are missed by then."""
QUIT = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="gputui_start_") as folder:
        machine = FakeNvml(build_fake_nvml(Path(folder)), Path(folder))
        machine.set([{"util": 50}] * 8)
        nothing = tell("python -c pass", [run([sys.executable, "-c", "pass"], machine) for _ in range(rounds)])
        if NVITOP.exists():
            peer = tell("nvitop -1", [run([str(NVITOP), "-1"], machine) for _ in range(rounds)])
        else:
            print("nvitop is not installed beside this Python")
            peer = nothing
        starts, quits = opened(Path(folder), machine, rounds, hanging=False)
        start = tell("gputui to its first picture", starts)
        tell("gputui, q to its end", quits)
        _, hung = opened(Path(folder), machine, rounds, hanging=True)
        worst = tell("the same while NVML hangs", hung)
    print(
        f"start {start / peer:.1f} × nvitop -1 (bar 2), {start / nothing:.0f} × python; quit {worst:.2f} s (bar {QUIT})"
    )


def opened(folder: Path, machine: FakeNvml, rounds: int, *, hanging: bool) -> tuple[list[float], list[float]]:
    """Seconds to the first picture and to the end, of each round."""
    starts, quits = [], []
    for number in range(rounds):
        machine.set([{"util": 50}] * 8)
        place = folder / f"{hanging}{number}"
        place.mkdir()
        with at_home(place) as home:
            start, left = one(home, machine, hanging=hanging)
        starts.append(start)
        quits.append(left)
    return starts, quits


def one(home: AppHome, machine: FakeNvml, *, hanging: bool) -> tuple[float, float]:
    jobs = home.write("exec sleep 600")
    begun = time.perf_counter()
    with home.opened(jobs, gpus="0-7", env=machine.environment) as terminal:
        start = since(begun, lambda: "2 Queue" in terminal.text)
        terminal.shows("1 run")
        terminal.shows("50%")
        if hanging:
            machine.set([{"util": 50}] * 8, delays=HANGS)
            time.sleep(HANGING_SINCE)
        terminal.press("q")
        terminal.shows("detach")
        begun = time.perf_counter()
        terminal.press("q")
        terminal.process.wait(30)
        return start, time.perf_counter() - begun


def since(begun: float, condition: Callable[[], bool]) -> float:
    until(condition, "the first picture is there")
    return time.perf_counter() - begun


def run(words: list[str], machine: FakeNvml) -> float:
    begun = time.perf_counter()
    subprocess.run(words, env=machine.environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def tell(what: str, seconds: list[float]) -> float:
    """Prints the figures; the median."""
    middle = statistics.median(seconds)
    print(f"{what:30} median {middle:5.2f} s   best {min(seconds):5.2f}   worst {max(seconds):5.2f}", flush=True)
    return middle


if __name__ == "__main__":
    main()
