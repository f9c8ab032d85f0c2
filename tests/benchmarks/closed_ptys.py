"""Terminals closed on the app one after the other, at moments chosen by chance and mostly after a stall.

`python tests/benchmarks/closed_ptys.py [--rounds 50] [--seed 1]`

How long each app outlives its terminal and what CPU it uses up meanwhile; the bar is 1 s. Jobs come and go all the
time, one runs from the first round to the last; each time a keeper must own, and in the end every job has run once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.apps import at_home
from support.closing import Closed, Closings

BAR = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui_closed_") as folder, at_home(Path(folder)) as home:
        closings = Closings(home, options.seed, jobs=options.rounds * 8)
        closings.begin()
        closed = []
        for _ in range(options.rounds):
            closed.append(closings.one())
            closings.keeper_owns()
        closings.judge()
    tell("all", closed)
    tell("after a stall", [each for each in closed if each.stalled])
    tell("before its first screen", [each for each in closed if not each.shown])
    late = sum(each.seconds > BAR for each in closed)
    print(f"{late} of {len(closed)} took more than {BAR:g} s; every job ran once and ended well")
    sys.exit(late > 0)


def tell(what: str, closed: list[Closed]) -> None:
    seconds = sorted(each.seconds for each in closed)
    if seconds:
        median, p90 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.9)]
        most_cpu = max(each.cpu for each in closed)
        figures = f"median {median:5.2f} s   p90 {p90:5.2f}   max {seconds[-1]:5.2f}   most CPU {most_cpu:4.2f} s"
        print(f"{what:26}{len(seconds):4}   {figures}")


if __name__ == "__main__":
    main()
