"""A long queue: what it costs to load 100,000 jobs from a file, and to open the session and load the file again.

`python tests/benchmarks/scale.py [--jobs 100000] [--where FOLDER]`

Through the real command line: from the start of the process to the line that says how many are loaded, by then
durable. The first job holds the only lane, so that nothing else runs meanwhile.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.rivals import gputui, surroundings


@dataclass(frozen=True)
class Load:
    """Until the answer came, and what the process held then."""

    wall: float
    cpu: float
    resident: int
    most_resident: int
    """In megabytes."""


def main() -> None:
    parser = argparse.ArgumentParser(description="What a queue of 100,000 jobs costs.")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--where", default="/var/tmp", help="a folder on the file system to measure on")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gputui_benchmark_", dir=options.where))
    try:
        write_jobs(folder / "few.txt", 2)
        write_jobs(folder / "jobs.txt", options.jobs)
        load(folder, "few", 2)  # unmeasured: Python compiles its modules
        print(f"load before: {os.getloadavg()[0]:.2f}")
        print(f"{f'{options.jobs:,} jobs':34}{'seconds':>9}{'CPU s':>9}{'RSS MB':>9}{'most MB':>9}")
        show("loaded from a file", load(folder, "jobs", options.jobs))
        show("opened and loaded again", load(folder, "jobs", options.jobs))
    finally:
        shutil.rmtree(folder)


def write_jobs(path: Path, count: int) -> None:
    lines = (f"python train.py --model resnet50 --lr 0.00{job % 7} --seed {job}\n" for job in range(1, count))
    path.write_text("sleep 600\n" + "".join(lines))


def load(folder: Path, name: str, jobs: int) -> Load:
    words = [*gputui(), "run", "--gpus", "cpu:1", "--output-dir", name, f"{name}.txt"]
    begun = time.monotonic()
    process = subprocess.Popen(
        words, cwd=folder, env=surroundings(folder, folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"gputui: {jobs} in "):
            break
    else:
        sys.exit(f"gputui ended with {process.wait()}")
    found = Load(time.monotonic() - begun, used(process.pid), *resident(process.pid))
    process.terminate()
    process.communicate()
    return found


def used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> tuple[int, int]:
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (re.search(rf"{key}:\s+(\d+) kB", status) for key in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) // 1024, int(most[1]) // 1024


def show(title: str, load: Load) -> None:
    print(f"{title:34}{load.wall:>9.2f}{load.cpu:>9.2f}{load.resident:>9}{load.most_resident:>9}", flush=True)


if __name__ == "__main__":
    main()
