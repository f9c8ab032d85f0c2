"""gputui in Slurm beside a plain loop of sbatch, on one throw-away cluster: python tests/benchmarks/slurm_throughput.py

Jobs per second of `true`, lanes = 2 × GPUs; then what an owner costs with 1,000 jobs in flight.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent.parent)]

from support.slurm_cluster import Cluster, cluster  # noqa: E402

JOBS, LANES, IN_FLIGHT, WATCHED = 150, 24, 1000, 30.0


def loop(made: Cluster) -> float:
    """All submitted one after the other; until the last has ended."""
    begun = time.monotonic()
    ids = {made.submit("true", "-J", "plain") for _ in range(JOBS)}
    while set(made.ask("squeue", "-h", "-o", "%i").split()) & ids:
        time.sleep(0.1)
    return JOBS / (time.monotonic() - begun)


def ours(made: Cluster, folder: Path) -> float:
    (folder / "jobs.txt").write_text("true\n" * JOBS)
    words = [sys.executable, "-m", "gputui", "run", "jobs.txt", "--gpus", f"slurm:{LANES}", "--no-keeper"]
    begun = time.monotonic()
    subprocess.run(words, cwd=folder, env=made.environment, stdout=subprocess.DEVNULL, check=True)
    return JOBS / (time.monotonic() - begun)


def cpu_in_flight(made: Cluster, folder: Path) -> float:
    """Percent of a core, of an owner and of the commands it runs, when all is submitted."""
    (folder / "many.txt").write_text("sleep 3600\n" * (IN_FLIGHT + 50))
    words = [sys.executable, "-m", "gputui", "run", "many.txt", "--gpus", "slurm:all", "--no-keeper"]
    owner = subprocess.Popen(
        [*words, "--output-dir", "many"], cwd=folder, env=made.environment, stdout=subprocess.DEVNULL
    )
    try:
        while len(made.ask("squeue", "-h", "-o", "%i").split()) < IN_FLIGHT:
            time.sleep(1)
        time.sleep(10)
        before, begun = _cpu(owner.pid), time.monotonic()
        time.sleep(WATCHED)
        return 100 * (_cpu(owner.pid) - before) / (time.monotonic() - begun)
    finally:
        owner.kill()
        owner.wait()


def _cpu(pid: int) -> float:
    """Its own seconds and those of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with cluster() as made, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, with_gputui = loop(made), ours(made, folder)
        print(f"load {os.getloadavg()[0]:.1f}")
        print(f"sbatch loop {plain:.1f} jobs/s, gputui {with_gputui:.1f} jobs/s, ratio {with_gputui / plain:.2f}")
        print(f"{IN_FLIGHT} in flight: {cpu_in_flight(made, folder):.1f} % of a core", flush=True)


if __name__ == "__main__":
    main()
