"""What is left of twenty jobs when the process that keeps their queue is killed half-way, beside the peers at hand.

`python tests/benchmarks/survival.py [--jobs 20] [--lanes 4] [--rounds 3] [--only NAME]`

Everyone gets the same jobs, which write down when they begin and end. When a third of them has begun, the process that
keeps the queue is killed by SIGKILL and its running jobs are left alone. Then its user goes on: in the tool's own way
where there is one, else with the same file again. When nothing moves any more every job is counted.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.rivals import gputui, set_up_gflow, surroundings
from support.slurm_cluster import Cluster, cluster
from support.slurm_cluster import missing as slurm_missing
from support.waiting import until

SECONDS = 4.0
"""Each job's length."""
FATES = ("once", "twice", "cut off", "never")


class Work:
    """A fresh folder with the jobs, and what they wrote down."""

    def __init__(self, folder: Path, jobs: int, lanes: int) -> None:
        folder.mkdir()
        self.folder, self.jobs, self.lanes = folder, jobs, lanes
        self.record, self.file = folder / "record", folder / "jobs.txt"
        self.record.touch()
        self.commands = [
            f"echo begin {number} >>{self.record}; sleep {SECONDS}; echo end {number} >>{self.record}"
            for number in range(jobs)
        ]
        self.file.write_text("".join(f"{command}\n" for command in self.commands))
        self.environment = surroundings(folder, folder) | {"HOME": str(folder)}

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self.file.open() as jobs, (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                words,
                cwd=self.folder,
                stdin=jobs,
                stdout=said,
                stderr=said,
                env=self.environment,
                start_new_session=True,
            )

    def do(self, *words: str) -> None:
        subprocess.run(words, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, check=True)

    def begun(self) -> int:
        return self.record.read_text().count("begin")

    def await_quiet(self, seconds: float) -> None:
        size, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            if self.record.stat().st_size != size:
                size, since = self.record.stat().st_size, time.monotonic()
            time.sleep(0.1)

    def fates(self) -> Counter[str]:
        lines = Counter(self.record.read_text().splitlines())
        return Counter(fate(lines[f"begin {number}"], lines[f"end {number}"]) for number in range(self.jobs))


def fate(begun: int, ended: int) -> str:
    if begun != 1:
        return "twice" if begun else "never"
    return "once" if ended else "cut off"


class Rival(ABC):
    """A keeper of a queue, with the work it was given."""

    name: str
    goes_on: str
    """What its user does after the kill."""
    quiet = 25.0
    """Nothing has moved for so many seconds: it is over."""

    def __init__(self, work: Work, tidy: ExitStack) -> None:
        self.work, self.tidy = work, tidy

    @classmethod
    @abstractmethod
    def missing(cls) -> bool: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def go_on(self) -> None: ...


class Foreground(Rival):
    """A program that stays with its jobs, in a terminal."""

    process: subprocess.Popen[bytes]

    @classmethod
    def missing(cls) -> bool:
        return shutil.which(cls.name) is None

    @abstractmethod
    def words(self) -> list[str]: ...

    def begin(self) -> None:
        self.process = self.work.start(self.words())
        self.tidy.callback(self.kill)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def go_on(self) -> None:
        self.process = self.work.start(self.words())


class Gputui(Foreground):
    name, goes_on = "gputui", "gputui run jobs.txt"

    @classmethod
    def missing(cls) -> bool:
        return False

    def words(self) -> list[str]:
        return [*gputui(), "run", "--gpus", f"cpu:{self.work.lanes}", "jobs.txt"]


class SimpleGpuScheduler(Foreground):
    name, goes_on = "simple_gpu_scheduler", "the same file again"

    def words(self) -> list[str]:
        return [self.name, "--gpus", *map(str, range(self.work.lanes))]


class Parallel(Foreground):
    name, goes_on = "parallel", "parallel --resume"

    def words(self) -> list[str]:
        return ["parallel", "--will-cite", "-j", str(self.work.lanes), "--joblog", "log", "--resume"]


class TaskSpooler(Rival):
    """Its server has the queue in its memory; each waiting job is a client that waits for its turn."""

    name, goes_on = "tsp", "the same file again"

    @classmethod
    def missing(cls) -> bool:
        return shutil.which("tsp") is None

    def begin(self) -> None:
        self.work.do("tsp", "-S", str(self.work.lanes))
        self.tidy.callback(self.kill)
        for command in self.work.commands:
            self.work.do("tsp", "bash", "-c", command)

    def kill(self) -> None:
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == "tsp" and self._serves(process):
                process.kill()

    def _serves(self, process: psutil.Process) -> bool:
        place = self.work.environment["TS_SOCKET"]
        try:
            return any(str(line.laddr) == place for line in process.net_connections("unix"))
        except psutil.Error:
            return False

    def go_on(self) -> None:
        Path(self.work.environment["TS_SOCKET"]).unlink(missing_ok=True)
        self.begin()


class Gflow(Rival):
    name, goes_on = "gflow", "gflowd again"
    daemon: subprocess.Popen[bytes]

    @classmethod
    def missing(cls) -> bool:
        return shutil.which("gflowd") is None

    def begin(self) -> None:
        set_up_gflow(self.work.folder)
        self.go_on()
        self.tidy.callback(self.kill)
        script = self.work.folder / "job.sh"
        script.write_text(f'eval "$(sed -n "${{GFLOW_ARRAY_TASK_ID}}p" {self.work.file})"\n')
        array = ("--array", f"1-{self.work.jobs}", "--max-concurrent", str(self.work.lanes))
        until(lambda: self._answers(), "gflowd answers")
        self.work.do("gbatch", *array, str(script))

    def _answers(self) -> bool:
        return subprocess.run(["gqueue"], env=self.work.environment, capture_output=True).returncode == 0

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.wait()

    def go_on(self) -> None:
        self.daemon = self.work.start(["gflowd"])


class SlurmAlone(Rival):
    name, goes_on = "Slurm alone", "slurmctld again"
    quiet = 100.0
    slurm: Cluster

    @classmethod
    def missing(cls) -> bool:
        return slurm_missing() is not None

    def begin(self) -> None:
        self.slurm = self.tidy.enter_context(cluster(nodes=1, gpus=self.work.lanes))
        for command in self.work.commands:
            self.slurm.submit(command)

    def kill(self) -> None:
        self.slurm.kill_controller(signal.SIGKILL)

    def go_on(self) -> None:
        self.slurm.start_controller()


RIVALS: tuple[type[Rival], ...] = (Gputui, SimpleGpuScheduler, TaskSpooler, Parallel, Gflow, SlurmAlone)


def main() -> None:
    options = _options()
    here = [rival for rival in RIVALS if options.only is None or options.only in rival.name]
    fates: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory(prefix="gputui_survival_") as workshop:
        for number in range(options.rounds):
            for rival in here:
                if not rival.missing():
                    work = Work(Path(workshop) / f"{number}_{rival.__name__}", options.jobs, options.lanes)
                    fates[rival.name] += survived(rival, work)
    print(f"{f'{options.rounds} × {options.jobs} jobs':24}" + "".join(f"{word:>9}" for word in FATES) + "   goes on by")
    for rival in here:
        figures = "".join(f"{fates[rival.name][word]:>9}" for word in FATES)
        print(f"{rival.name:24}" + (f"{figures}   {rival.goes_on}" if rival.name in fates else "   not installed"))


def survived(rival: type[Rival], work: Work) -> Counter[str]:
    with ExitStack() as tidy:
        keeper = rival(work, tidy)
        keeper.begin()
        until(lambda: work.begun() >= work.jobs // 3, f"{rival.name} has begun a third of its jobs")
        keeper.kill()
        keeper.go_on()
        work.await_quiet(rival.quiet)
        return work.fates()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="NAME", help="one rival, such as gputui")
    return parser.parse_args()


if __name__ == "__main__":
    main()
