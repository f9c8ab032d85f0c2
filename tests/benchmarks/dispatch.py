"""How fast jobs are handed out, and how long a lane stands idle between two of them, beside the peers at hand.

`python tests/benchmarks/dispatch.py [--jobs 1000] [--lanes 8] [--rounds 5] [--only gputui] [--where FOLDER]`

Rounds of all rivals in turn, medians, ratios to a bare loop in C: these hold on a busy machine, seconds do not.
Every run has a fresh folder on one file system and nothing is deleted before the last one is over: ext4 makes new
files very slowly for five seconds after many were deleted. A run's wall time has all of its start-up, and its
processor time that of every process it left to us. Before the first round everyone runs one job unmeasured.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.rivals import BARE_LOOP, GPUTUI, Rival, rivals, surroundings

GAP_JOBS = 200
GAP_SECONDS = 0.05
GAP_JOB = f"date +%s.%N >>{{0}}/starts; sleep {GAP_SECONDS}; date +%s.%N >>{{0}}/ends"
LONGEST_WAIT = 60.0
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Cost:
    """One run."""

    wall: float
    cpu: float


@dataclass
class Results:
    throughput: dict[tuple[str, str], list[Cost]]
    """By command and rival."""
    gaps: dict[str, list[list[float]]]
    """By rival: for each round the gaps of all jobs."""


def main() -> None:
    options = _options()
    adopt_orphans()
    workshop = Path(tempfile.mkdtemp(prefix="gputui_benchmark_", dir=options.where))
    here = [rival for rival in rivals(workshop) if options.only is None or options.only in rival.name]
    results = Results(defaultdict(list), defaultdict(list))
    print(f"{os.cpu_count()} processors, {workshop}; load before: {calm():.2f}", flush=True)
    try:
        warm_up(workshop, here)
        for number in range(options.rounds):
            one_round(workshop, f"round_{number}", here, options, results)
            print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.2f}", flush=True)
    finally:
        shutil.rmtree(workshop)
    show(here, results, options)


def warm_up(workshop: Path, here: list[Rival]) -> None:
    (workshop / "parallel").mkdir()
    (workshop / "parallel" / "will-cite").touch()
    for rival in here:
        if rival.command is not None:
            measured(rival, workshop, "warm-up", ["true"], 1)


def one_round(workshop: Path, name: str, here: list[Rival], options: argparse.Namespace, results: Results) -> None:
    for rival in here:
        if rival.command is None:
            continue
        jobs = min(options.jobs, rival.most_jobs)
        for command in options.commands:
            cost = measured(rival, workshop, f"{name}{command}", [command] * jobs, options.lanes)
            results.throughput[command, rival.name].append(cost)
        if options.gap:
            folder, jobs = place(workshop, rival, f"{name}-gap"), min(GAP_JOBS, rival.most_jobs)
            measured(rival, workshop, f"{name}-gap", [GAP_JOB.format(folder)] * jobs, options.lanes)
            results.gaps[rival.name].append(gaps(folder, jobs, options.lanes))


def place(workshop: Path, rival: Rival, name: str) -> Path:
    """A run's folder; its path has nothing that a shell would read otherwise."""
    return workshop / "".join(letter if letter.isalnum() else "_" for letter in f"{name} {rival.name}")


def measured(rival: Rival, workshop: Path, name: str, commands: list[str], lanes: int) -> Cost:
    folder = place(workshop, rival, name)
    folder.mkdir()
    jobs = folder / "jobs.txt"
    jobs.write_text("".join(command + "\n" for command in commands))
    assert rival.command is not None
    words = rival.command(folder, lanes)
    before, begun = used(), time.monotonic()
    with jobs.open() as stdin, (folder / "stdout").open("w") as stdout, (folder / "stderr").open("w") as stderr:
        environment = surroundings(folder, workshop)
        done = subprocess.run(words, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr, env=environment)
    wall = time.monotonic() - begun
    if done.returncode != 0:
        sys.exit(f"{rival.name} ended with {done.returncode}: {(folder / 'stderr').read_text()}")
    reap_all()
    return Cost(wall, used() - before)


def gaps(folder: Path, jobs: int, lanes: int) -> list[float]:
    """From an end to the start that could follow it: the k-th start waits for the (k - lanes)-th end."""
    starts, ends = (sorted(map(float, (folder / name).read_text().split())) for name in ("starts", "ends"))
    if not len(starts) == len(ends) == jobs:
        sys.exit(f"{folder}: {len(starts)} starts and {len(ends)} ends of {jobs} jobs")
    return [start - end for start, end in zip(starts[lanes:], ends, strict=False)]


def adopt_orphans() -> None:
    """So that the processor time of a server that left its parent is counted too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_all() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def calm() -> float:
    """Waits a while for others to be done; returns the load there is then."""
    deadline = time.monotonic() + LONGEST_WAIT
    while os.getloadavg()[0] > 0.25 * (os.cpu_count() or 1) and time.monotonic() < deadline:
        time.sleep(1)
    return os.getloadavg()[0]


# The table


def show(here: list[Rival], results: Results, options: argparse.Namespace) -> None:
    for command in options.commands:
        title = f"{options.jobs:,} × {command}, {options.lanes} lanes"
        print(f"\n{title:34}{'jobs/s':>9}{'ratio':>8}{'CPU ms/job':>13}")
        bound = rate(results, command, BARE_LOOP, options.jobs)
        for rival in here:
            jobs = min(options.jobs, rival.most_jobs)
            mine = rate(results, command, rival.name, jobs)
            if mine is None:
                print(f"{rival.name:34}{'not installed':>17}")
                continue
            cpu = statistics.median(cost.cpu for cost in results.throughput[command, rival.name]) / jobs
            print(f"{rival.name:34}{mine:>9.0f}{over(mine, bound):>8}{cpu * 1000:>13.2f}  keeps {rival.keeps}")
    if not options.gap:
        return
    print(f"\n{f'gap in a lane, {GAP_JOBS} × {GAP_SECONDS} s':34}{'p50 ms':>9}{'ratio':>8}{'p95 ms':>13}")
    bound = gap(results, BARE_LOOP, 50)
    for rival in here:
        mine, late = gap(results, rival.name, 50), gap(results, rival.name, 95)
        if mine is not None and late is not None:
            print(f"{rival.name:34}{mine * 1000:>9.2f}{over(mine, bound):>8}{late * 1000:>13.2f}")


def rate(results: Results, command: str, rival: str, jobs: int) -> float | None:
    costs = results.throughput.get((command, rival))
    return jobs / statistics.median(cost.wall for cost in costs) if costs else None


def gap(results: Results, rival: str, percent: int) -> float | None:
    """The median over the rounds of each round's percentile."""
    rounds = results.gaps.get(rival)
    if not rounds:
        return None
    return statistics.median(statistics.quantiles(found, n=100)[percent - 1] for found in rounds)


def over(value: float, bound: float | None) -> str:
    return f"{value / bound:.2f}" if bound else "-"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Dispatch rate and idle gaps, gputui beside its peers.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commands", nargs="+", default=["true", "/bin/true"], help="what the jobs run")
    parser.add_argument("--no-gap", dest="gap", action="store_false", help="leave out the idle gaps")
    parser.add_argument("--only", metavar="NAME", help=f"one rival, such as {GPUTUI!r}")
    parser.add_argument("--where", default="/var/tmp", help="a folder on the file system to measure on")
    return parser.parse_args()


if __name__ == "__main__":
    main()
