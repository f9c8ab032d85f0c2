"""A row of the table: what becomes of twenty jobs when the process that has their queue is killed half-way.

Everyone gets the same jobs, which record when they start and end. When a third of them have started, the process with
the queue gets SIGKILL and its running jobs are left alone. Then it is started again, in the tool's own way if there is
one, else with the same file. When nothing happens any more every job is counted.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
from support.slurm import Cluster, cluster
from support.slurm import missing as slurm_missing
from support.waiting import until

from .rivals import Bench, Contest, Figures, set_up_gflow, surroundings

JOBS, SLOTS = 20, 4
SECONDS = 4.0
"""Each job's length."""
FATES = ("once", "twice", "cut off", "never")


class Work:
    """A new directory with the jobs, and what they recorded."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory, self.record, self.file = directory, directory / "record", directory / "jobs.txt"
        self.record.touch()
        self.commands = [
            f"echo begin {number} >>{self.record}; sleep {SECONDS}; echo end {number} >>{self.record}"
            for number in range(JOBS)
        ]
        self.file.write_text("".join(f"{command}\n" for command in self.commands))
        self.environment = surroundings(directory) | {"HOME": str(directory)}

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self.file.open() as jobs, (self.directory / "said").open("ab") as said:
            return subprocess.Popen(
                words, cwd=self.directory, stdin=jobs, stdout=said, stderr=said, env=self.environment,
                start_new_session=True,
            )  # fmt: skip

    def do(self, *words: str) -> None:
        subprocess.run(words, cwd=self.directory, env=self.environment, stdout=subprocess.DEVNULL, check=True)

    def begun(self) -> int:
        return self.record.read_text().count("begin")

    def await_quiet(self, seconds: float) -> None:
        size, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            if self.record.stat().st_size != size:
                size, since = self.record.stat().st_size, time.monotonic()
            time.sleep(0.1)

    def fates(self) -> Figures:
        lines = Counter(self.record.read_text().splitlines())
        counts = Counter(fate(lines[f"begin {number}"], lines[f"end {number}"]) for number in range(JOBS))
        return {word: counts[word] for word in FATES}


def fate(begun: int, ended: int) -> str:
    if begun != 1:
        return "twice" if begun else "never"
    return "once" if ended else "cut off"


class Rival(ABC):
    """A scheduler with the work it was given."""

    name: str
    resumed_by: str
    """What its user does after the kill."""
    quiet = 25.0
    """Seconds without any change after which it is over."""

    def __init__(self, work: Work, stack: ExitStack) -> None:
        self.work, self.stack = work, stack

    @classmethod
    @abstractmethod
    def missing(cls) -> bool: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def resume(self) -> None: ...


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
        self.stack.callback(self.kill)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def resume(self) -> None:
        self.process = self.work.start(self.words())


class Gputui(Foreground):
    name, resumed_by = "gputui", "gputui run jobs.txt"

    def __init__(self, work: Work, stack: ExitStack, program: list[str]) -> None:
        super().__init__(work, stack)
        self._program = program

    def words(self) -> list[str]:
        return [*self._program, "run", "--gpus", f"cpu:{SLOTS}", "jobs.txt"]


class SimpleGpuScheduler(Foreground):
    name, resumed_by = "simple_gpu_scheduler", "the same file again"

    def words(self) -> list[str]:
        return [self.name, "--gpus", *map(str, range(SLOTS))]


class Parallel(Foreground):
    name, resumed_by = "parallel", "parallel --resume"

    def words(self) -> list[str]:
        return ["parallel", "--will-cite", "-j", str(SLOTS), "--joblog", "log", "--resume"]


class TaskSpooler(Rival):
    """Its server has the queue in its memory; each waiting job is a client that waits for its turn."""

    name, resumed_by = "tsp", "the same file again"

    @classmethod
    def missing(cls) -> bool:
        return shutil.which("tsp") is None

    def begin(self) -> None:
        self.work.do("tsp", "-S", str(SLOTS))
        self.stack.callback(self.kill)
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

    def resume(self) -> None:
        Path(self.work.environment["TS_SOCKET"]).unlink(missing_ok=True)
        self.begin()


class Gflow(Rival):
    name, resumed_by = "gflow", "gflowd again"
    daemon: subprocess.Popen[bytes]

    @classmethod
    def missing(cls) -> bool:
        return shutil.which("gflowd") is None

    def begin(self) -> None:
        set_up_gflow(self.work.directory)
        self.resume()
        self.stack.callback(self.kill)
        script = self.work.directory / "job.sh"
        script.write_text(f'eval "$(sed -n "${{GFLOW_ARRAY_TASK_ID}}p" {self.work.file})"\n')
        array = ("--array", f"1-{JOBS}", "--max-concurrent", str(SLOTS))
        until(lambda: self._answers(), "gflowd answers")
        self.work.do("gbatch", *array, str(script))

    def _answers(self) -> bool:
        return subprocess.run(["gqueue"], env=self.work.environment, capture_output=True).returncode == 0

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.wait()

    def resume(self) -> None:
        self.daemon = self.work.start(["gflowd"])


class SlurmAlone(Rival):
    name, resumed_by = "Slurm alone", "slurmctld again"
    quiet = 100.0
    slurm: Cluster

    @classmethod
    def missing(cls) -> bool:
        return slurm_missing() is not None

    def begin(self) -> None:
        self.slurm = self.stack.enter_context(cluster(nodes=1, gpus=SLOTS))
        for command in self.work.commands:
            self.slurm.submit(command)

    def kill(self) -> None:
        self.slurm.kill_controller(signal.SIGKILL)

    def resume(self) -> None:
        self.slurm.start_controller()


RIVALS: tuple[type[Rival], ...] = (SimpleGpuScheduler, TaskSpooler, Parallel, Gflow, SlurmAlone)


def survival(bench: Bench) -> Contest:
    def ours(program: list[str], directory: Path) -> Figures:
        return _survived(lambda work, stack: Gputui(work, stack, program), directory)

    measures = bench.ours(ours)
    measures |= {
        f"{rival.name}, then {rival.resumed_by}": partial(_survived, rival) for rival in RIVALS if not rival.missing()
    }
    missing = {rival.name: "not installed" for rival in RIVALS if rival.missing()}
    title = (
        f"{JOBS} jobs on {SLOTS} slots; the scheduler is killed by kill -9 and started again: how often each job ran"
    )
    return Contest(title, measures, missing=missing, most_rounds=3)


def _survived(rival: Callable[[Work, ExitStack], Rival], directory: Path) -> Figures:
    work = Work(directory / "work")
    with ExitStack() as stack:
        scheduler = rival(work, stack)
        scheduler.begin()
        until(lambda: work.begun() >= JOBS // 3, "a third of the jobs have started")
        scheduler.kill()
        scheduler.resume()
        work.await_quiet(scheduler.quiet)
        return work.fates()
