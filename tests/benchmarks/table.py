"""What gputui costs, beside its rivals on the machine at hand.

`python tests/benchmarks/table.py [--against CHECKOUT] [--rows NAMES] [--rounds N]`

Each row of the table is measured in rounds in which all contestants take turns, so that a busy minute hits all of them;
shown are medians. `--against` adds another checkout of gputui, run through its own `.venv/bin/gputui`. A row that
cannot be measured here says why and the others go on. Ratios hold on a busy machine; seconds only where the row says
"quiet".
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import queues, screens, survival
from benchmarks.rivals import OWN, Bench, Contest, Figures

ROWS: dict[str, Callable[[Bench], Contest]] = {
    "dispatch": queues.dispatch,
    "gap": queues.gap,
    "one_job": queues.one_job,
    "load": queues.load,
    "takeover": queues.takeover,
    "commands": queues.commands,
    "results": queues.results,
    "slurm": queues.slurm,
    "slurm_in_flight": queues.slurm_in_flight,
    "survival": survival.survival,
    "first_paint": screens.first_paint,
    "idle": screens.idle,
    "still": screens.still,
    "ends": screens.ends,
    "busy_log": screens.busy_log,
    "long_queue": screens.long_queue,
    "log_tail": screens.log_tail,
    "hangup": screens.hangup,
    "nvml": screens.nvml,
}
BUSY = 0.15
"""Processors that others may keep busy in a quiet run."""
MOST_COLUMNS = 7
PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    options = _options()
    # So that the processor time of a daemon that left its parent is counted too.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    programs = {"gputui": OWN}
    if options.against is not None:
        programs[f"gputui in {options.against.name}"] = [str(options.against.resolve() / ".venv/bin/gputui")]
    workshop = Path(tempfile.mkdtemp(prefix="gputui_benchmark_", dir=options.where))
    load = os.getloadavg()[0]
    busy = wait_for_calm(options.calm)
    print(f"{os.cpu_count()} processors, {workshop.parent}; load before: {load:.2f}; {verdict(busy)}", flush=True)
    loud = []
    try:
        for name in options.rows:
            with ExitStack() as stack:
                place = workshop / name
                place.mkdir()
                if not measure_row(name, Bench(programs, place, stack), options.rounds):
                    loud.append(name)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    print(f"\nnot quiet: {', '.join(loud)}; there only ratios hold" if loud else "\nquiet throughout")


def measure_row(name: str, bench: Bench, rounds: int) -> bool:
    """Measure and print a row; return whether the machine was quiet."""
    try:
        contest = ROWS[name](bench)
    except Exception as error:  # this row alone cannot be measured here
        print(f"\n{name}: not measured: {_reason(error)}", flush=True)
        return True
    results: dict[str, list[Figures]] = {contestant: [] for contestant in contest.measures}
    failures: dict[str, str] = {}
    most_busy = 0.0
    count = min(rounds, contest.most_rounds)
    for number in range(-contest.warm_up, count):
        for contestant, measure in contest.measures.items():
            if contestant in failures:
                continue
            # A machine that did not become quiet before is not waited for again.
            most_busy = max(most_busy, wait_for_calm(5.0 if most_busy <= BUSY else 0.0))
            place = bench.directory / f"{number}_{list(results).index(contestant)}"
            place.mkdir()
            try:
                figures = measure(place)
            except (Exception, SystemExit) as error:
                failures[contestant] = _reason(error)
                continue
            if number >= 0:
                results[contestant].append(figures)
    print(f"\n{name}: {contest.title}; {count} round{'s' * (count != 1)}, {verdict(most_busy)}")
    show({contestant: medians(rounds) for contestant, rounds in results.items() if rounds}, contest.bound)
    for contestant, reason in (contest.missing | failures).items():
        print(f"  {contestant}: {reason}")
    sys.stdout.flush()
    return most_busy <= BUSY


def medians(rounds: list[Figures]) -> Figures:
    titles = dict.fromkeys(title for figures in rounds for title in figures)
    return {title: statistics.median(figures[title] for figures in rounds if title in figures) for title in titles}


def show(results: dict[str, Figures], bound: str | None) -> None:
    """Print contestants as lines and figures as columns, or the other way round where there are many figures."""
    titles = list(dict.fromkeys(title for figures in results.values() for title in figures))
    cells = {(name, title): _number(figures.get(title)) for name, figures in results.items() for title in titles}
    names = list(results)
    if bound in results:
        titles.insert(1, "ratio")
        base = results[bound][titles[0]]
        cells |= {(name, "ratio"): _number(results[name].get(titles[0], 0.0) / base) for name in names}
    if len(titles) <= MOST_COLUMNS:
        lines = [["", *titles], *([name, *(cells[name, title] for title in titles)] for name in names)]
    else:
        lines = [["", *names], *([title, *(cells[name, title] for name in names)] for title in titles)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        figures = "".join(f"{cell:>{width + 3}}" for cell, width in zip(rest, widths[1:], strict=True))
        print(f"  {first:{widths[0]}}{figures}")


def _number(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _reason(error: BaseException) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error or place.line}".splitlines()[0][:200]


def busy_processors(seconds: float = 0.3) -> float:
    """Return how many processors others keep busy while this process sleeps."""
    before = _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


def _busy_ticks() -> int:
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return user + nice + system + irq + soft


def wait_for_calm(longest: float) -> float:
    """Wait until the machine is quiet, but not too long; return how many processors are busy."""
    deadline = time.monotonic() + longest
    while (busy := busy_processors()) > BUSY and time.monotonic() < deadline:
        time.sleep(0.2)
    return busy


def verdict(busy: float) -> str:
    return "quiet" if busy <= BUSY else f"NOT quiet: other programs keep {busy:.1f} processors busy"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of gputui with a .venv")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calm", type=float, default=60.0, help="seconds to wait at the start for a quiet machine")
    parser.add_argument("--where", default="/var/tmp", help="a directory on the file system to measure on")
    return parser.parse_args()


if __name__ == "__main__":
    main()
