"""Rows of the table about queues: dispatching, loading, taking over, commands, results, Slurm."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from support.sessions import Home, command_line
from support.slurm import Cluster, cluster
from support.waiting import until

from .rivals import BARE_LOOP, Bench, Contest, Figures, Measure, Rival, rivals, surroundings

JOBS, SLOTS = 1000, 8
GAP_JOBS, GAP_SECONDS = 200, 0.05
GAP_JOB = f"date +%s.%N >>starts; sleep {GAP_SECONDS}; date +%s.%N >>ends"
MANY = 100_000
NOTHING = [sys.executable, "-c", "pass"]
LONGEST = 30.0


# ---- Running files of commands ----


def dispatch(bench: Bench) -> Contest:
    return _contest(bench, f"{JOBS:,} jobs on {SLOTS} slots", _throughput, bound=BARE_LOOP)


def gap(bench: Bench) -> Contest:
    title = f"milliseconds from the end of a job to the next start in its slot, {GAP_JOBS} x sleep {GAP_SECONDS}"
    return _contest(bench, title, _gaps, bound=BARE_LOOP)


def one_job(bench: Bench) -> Contest:
    contest = _contest(bench, "a file with one job: true", _single)
    contest.measures["python -c pass"] = lambda directory: _in_milliseconds(*_timed(NOTHING, directory))
    return contest


def _contest(
    bench: Bench, title: str, measure: Callable[[Rival, Path], Figures], *, bound: str | None = None
) -> Contest:
    everyone = rivals(bench)
    measures: dict[str, Measure] = {rival.name: partial(measure, rival) for rival in everyone if rival.command}
    missing = {rival.name: "not installed" for rival in everyone if rival.command is None}
    return Contest(title, measures, bound, missing, warm_up=True)


def _throughput(rival: Rival, directory: Path) -> Figures:
    jobs = min(JOBS, rival.most_jobs)
    figures: Figures = {}
    for command in ("true", "/bin/true"):
        place = directory / command.replace("/", "_")
        place.mkdir()
        wall, cpu = _run(rival, place, [command] * jobs, SLOTS)
        figures |= {f"{command}, jobs/s": jobs / wall, f"{command}, CPU ms/job": cpu / jobs * 1000}
    return figures


def _gaps(rival: Rival, directory: Path) -> Figures:
    jobs = min(GAP_JOBS, rival.most_jobs)
    _run(rival, directory, [f"cd {directory}; {GAP_JOB}"] * jobs, SLOTS)
    starts, ends = (sorted(map(float, (directory / name).read_text().split())) for name in ("starts", "ends"))
    assert len(starts) == len(ends) == jobs, f"{len(starts)} starts and {len(ends)} ends of {jobs} jobs"
    # The k-th start waits for the (k - slots)-th end.
    gaps = [1000 * (start - end) for start, end in zip(starts[SLOTS:], ends, strict=False)]
    return {"p50": statistics.median(gaps), "p95": statistics.quantiles(gaps, n=20)[-1]}


def _single(rival: Rival, directory: Path) -> Figures:
    return _in_milliseconds(*_run(rival, directory, ["true"], 1))


def _in_milliseconds(wall: float, cpu: float) -> Figures:
    return {"CPU ms": cpu * 1000, "wall ms": wall * 1000}


def _run(rival: Rival, directory: Path, commands: list[str], slots: int) -> tuple[float, float]:
    """Return the wall time with all start-up, and the CPU time with every process that was left to us."""
    (directory / "jobs.txt").write_text("".join(command + "\n" for command in commands))
    assert rival.command is not None
    return _timed(rival.command(directory, slots), directory)


def _timed(words: list[str], directory: Path) -> tuple[float, float]:
    jobs = directory / "jobs.txt"
    jobs.touch()
    _reap_all()
    before, begun = _used(), time.monotonic()
    with jobs.open() as stdin, (directory / "out").open("w") as out, (directory / "err").open("w") as err:
        done = subprocess.run(words, cwd=directory, stdin=stdin, stdout=out, stderr=err, env=surroundings(directory))
    wall = time.monotonic() - begun
    assert done.returncode == 0, f"exit code {done.returncode}: {(directory / 'err').read_text()}"
    _reap_all()
    return wall, _used() - before


def _reap_all(seconds: float = 10.0) -> None:
    """Wait for what is left to us, as the process that adopts orphans; a daemon ends soon after its queue."""
    deadline = time.monotonic() + seconds
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# ---- Sessions that stay ----


@contextmanager
def _session(
    program: list[str], directory: Path, commands: list[str], *options: str
) -> Iterator[tuple[Home, subprocess.Popen[str]]]:
    """A session run by `gputui run`; nothing of it is left afterwards."""
    home = Home(directory)
    jobs = home.write(*commands)
    words = [*program, "run", "--output-dir", str(home.root), *options, str(jobs)]
    process = subprocess.Popen(
        words, cwd=directory, env=surroundings(directory), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield home, process
    finally:
        process.kill()
        home.end()
        process.communicate()


def load(bench: Bench) -> Contest:
    return Contest(f"loading {MANY:,} jobs from a file, and the same file again", bench.ours(_load), most_rounds=3)


def _load(program: list[str], directory: Path) -> Figures:
    commands = (f"python train.py --model resnet50 --lr 0.00{job % 7} --seed {job}" for job in range(1, MANY))
    lines = ["sleep 600", *commands]
    figures: Figures = {}
    for title in ("load", "again"):
        begun = time.monotonic()
        with _session(program, directory, lines, "--gpus", "cpu:1") as (_, process):
            assert process.stderr is not None
            said = next((line for line in process.stderr if re.search(r"\b100,?000 in ", line)), None)
            assert said is not None, "ended before all jobs were loaded"
            wall = time.monotonic() - begun
            figures |= {f"{title} s": wall, f"{title} CPU s": cpu_seconds(process.pid)}
            figures[f"{title} peak MB"] = memory(process.pid, "VmHWM")
    return figures


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """Return the CPU time of a process, with that of the children that it has waited for if asked."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, key: str = "VmRSS") -> float:
    """Return megabytes."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def share(seconds: float, used: Callable[[], float]) -> float:
    """Return the percentage of a processor that is used during some seconds."""
    before, begun = used(), time.monotonic()
    time.sleep(seconds)
    return 100 * (used() - before) / (time.monotonic() - begun)


PRINTER = """\
import time
began, number = time.time(), 0
while True:
    for _ in range(100):
        number += 1
        print(f"epoch 3/90 step {number}/900000 | loss: {1 / number:.5f} | acc: {number % 1000 / 1000:.3f}")
    if number % 2000 == 0:
        print(f"validation: epoch {number // 2000} val_loss: {1 / number:.5f} val_acc: 0.5", flush=True)
    time.sleep(max(0, began + number / 1000 - time.time()))
"""


def results(bench: Bench) -> Contest:
    def measure(program: list[str], directory: Path) -> Figures:
        (directory / "train.py").write_text(PRINTER)
        commands = [f"exec {sys.executable} -u train.py --seed {seed}" for seed in range(8)]
        with _session(program, directory, commands, "--gpus", "cpu:8") as (home, process):
            until(lambda: len(list(home.root.glob("job_*/job_*.OUT"))) == 8, "all jobs run", LONGEST)
            time.sleep(3)
            return {"CPU %": share(10, lambda: cpu_seconds(process.pid)), "MB": memory(process.pid)}

    return Contest("reading results from 8 jobs that print 1,000 lines/s each", bench.ours(measure), most_rounds=3)


# ---- Takeover ----


BARE = """
import fcntl, os, socket, sys
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
if os.path.exists("control.sock"):
    os.unlink("control.sock")
listening = socket.socket(socket.AF_UNIX)
listening.bind("control.sock")
listening.listen()
sys.stdin.read()
"""


def takeover(bench: Bench) -> Contest:
    measures = {"a bare process in flock()": _bare_takeover, **bench.ours(_takeover)}
    title = "milliseconds from kill -9 of the scheduler to a daemon that answers, 100 jobs"
    return Contest(title, measures, warm_up=True)


def _takeover(program: list[str], directory: Path) -> Figures:
    with _session(program, directory, ["exec sleep 600"] * 100, "--gpus", "cpu:4") as (home, _):
        until(lambda: _listener(home.private), "a scheduler listens", LONGEST)
        seconds = []
        for _ in range(3):
            until(lambda: _somebody_waits(home), "a daemon waits for the lock", LONGEST)
            seconds.append(_seconds_to_next(home.private))
        return {"ms": 1000 * statistics.median(seconds)}


def _bare_takeover(directory: Path) -> Figures:
    words = [sys.executable, "-c", BARE]
    processes = [subprocess.Popen(words, cwd=directory, stdin=subprocess.PIPE)]
    try:
        until(lambda: _listener(directory), "it listens", LONGEST)
        processes.append(subprocess.Popen(words, cwd=directory, stdin=subprocess.PIPE))
        until(lambda: f" {processes[1].pid} " in Path("/proc/locks").read_text(), "the other waits", LONGEST)
        return {"ms": 1000 * _seconds_to_next(directory)}
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _seconds_to_next(private: Path) -> float:
    owner = _listener(private)
    assert owner is not None
    begun = time.perf_counter()
    os.kill(owner, signal.SIGKILL)
    while _listener(private) in (None, owner):
        assert time.perf_counter() - begun < LONGEST, "nobody took over"
        time.sleep(0.0005)
    return time.perf_counter() - begun


def _listener(private: Path) -> int | None:
    """Return the pid of the process that answers at the control socket; this works with every version."""
    try:
        directory = os.open(private, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, suppress(OSError):
            asking.connect(f"/proc/self/fd/{directory}/control.sock")
            pid: int = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            return pid
    finally:
        os.close(directory)
    return None


def _somebody_waits(home: Home) -> bool:
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(os.fsencode(home.root) in command_line(int(words[5])) for words in waiting)


# ---- Commands ----


COMMANDS = [
    ("ls",), ("show", "0"), ("logs", "0"), ("hold", "5"), ("release", "5"), ("add", "--hold", "true"), ("gpus",),
    ("results",), ("summary",), ("report", "-o", "page.html"), ("pause",), ("resume",), ("wait", "0"),
    ("move", "6", "--top"), ("notify", "6"),
]  # fmt: skip
WITHOUT_SESSION = [("sessions",), ("config",), ("completion", "bash"), ("--version",)]


def commands(bench: Bench) -> Contest:
    def measure(program: list[str], directory: Path) -> Figures:
        lines = [*["echo epoch 1 loss 0.5"] * 2, *["sleep 600"] * 30]
        with _session(program, directory, lines, "--gpus", "cpu:2") as (home, _):
            until(lambda: _listener(home.private), "a scheduler listens", LONGEST)
            until(lambda: (home.root / "job_1/SUCCESS").exists(), "two jobs have ended", LONGEST)
            figures = {"python -c pass": _command_cost(NOTHING, directory)}
            for words in COMMANDS:
                line = [*program, words[0], "--session", str(home.root), *words[1:]]
                figures[" ".join(words)] = _command_cost(line, directory)
            for words in WITHOUT_SESSION:
                figures[" ".join(words)] = _command_cost([*program, *words], directory)
            return figures

    return Contest("CPU ms of a command on a session that another process runs", bench.ours(measure), warm_up=True)


def _command_cost(words: list[str], directory: Path) -> float:
    """Return the milliseconds of the process alone, without a daemon that it may start."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        words, stdin=quiet, stdout=quiet, stderr=quiet, cwd=directory, env=surroundings(directory)
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), f"{' '.join(words[1:])}: exit code {process.returncode}"
    return 1000 * (used.ru_utime + used.ru_stime)


# ---- Slurm ----


SLURM_JOBS, SLURM_SLOTS, IN_FLIGHT = 150, 24, 1000


def slurm(bench: Bench) -> Contest:
    made = bench.stack.enter_context(cluster())

    def loop(directory: Path) -> Figures:
        begun = time.monotonic()
        ids = {made.submit("true", "-J", "plain") for _ in range(SLURM_JOBS)}
        while _queue(made) & ids:
            time.sleep(0.1)
        return {"jobs/s": SLURM_JOBS / (time.monotonic() - begun)}

    def measure(program: list[str], directory: Path) -> Figures:
        begun = time.monotonic()
        with _in_slurm(program, directory, made, f"slurm:{SLURM_SLOTS}", ["true"] * SLURM_JOBS) as process:
            assert process.wait() == 0, f"exit code {process.returncode}"
        return {"jobs/s": SLURM_JOBS / (time.monotonic() - begun)}

    measures = {"loop of sbatch": loop, **bench.ours(measure)}
    title = f"{SLURM_JOBS} x true in a Slurm cluster, {SLURM_SLOTS} in its queue"
    return Contest(title, measures, "loop of sbatch", most_rounds=3)


def slurm_in_flight(bench: Bench) -> Contest:
    made = bench.stack.enter_context(cluster())

    def measure(program: list[str], directory: Path) -> Figures:
        with _in_slurm(program, directory, made, "slurm:all", ["sleep 3600"] * (IN_FLIGHT + 50)) as process:
            until(lambda: len(_queue(made)) >= IN_FLIGHT, "all jobs are submitted")
            time.sleep(10)
            figures = {"CPU %": share(30, lambda: cpu_seconds(process.pid, with_children=True))}
        made.clear()
        return figures

    return Contest(
        f"gputui and the commands it calls, {IN_FLIGHT:,} jobs in Slurm's queue", bench.ours(measure), most_rounds=1
    )


@contextmanager
def _in_slurm(
    program: list[str], directory: Path, made: Cluster, gpus: str, lines: list[str]
) -> Iterator[subprocess.Popen[bytes]]:
    jobs = Home(directory).write(*lines)
    environment = {**surroundings(directory), "SLURM_CONF": str(made.conf)}
    words = [*program, "run", str(jobs), "--gpus", gpus]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=directory, env=environment, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        Home(directory, "gputui_run").end()


def _queue(made: Cluster) -> set[str]:
    return set(made.ask("squeue", "-h", "-o", "%i").split())
