"""Rows of the table about the TUI: starting, bytes and CPU, long queues, long logs, NVML."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
from support.nvml import FakeNvml, build_fake_nvml
from support.sessions import Home
from support.terminal import RecordedTerminal, recorded
from support.waiting import until

from .queues import MANY, NOTHING, cpu_seconds, memory, share
from .rivals import Bench, Contest, Figures, found, surroundings

COUNT = 8
SIZE = (120, 40)
DRAWN_FIRST, WATCHED = 4.0, 10.0
"""Seconds until a program has drawn its first screen, and for how long it is watched then."""
SLEEPING = ["exec sleep 600"] * COUNT
FIRST = "2 Queue"
"""On the first screen of every version."""


@contextmanager
def _opened(
    program: list[str], directory: Path, commands: list[str], gpus: str, env: Mapping[str, str] | None = None
) -> Iterator[RecordedTerminal]:
    """The app on a session in this directory, which is loaded if it is new; nothing of it is left afterwards."""
    home = Home(directory)
    jobs = [] if home.database.exists() else [str(home.write(*commands))]
    words = [*program, "--gpus", gpus, "--output-dir", str(home.root), *jobs]
    try:
        with recorded(words, size=SIZE, cwd=directory, env={**surroundings(directory), **(env or {})}) as terminal:
            yield terminal
    finally:
        home.end()


def _peers(*commands: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the command lines of those that are installed, and the others."""
    here = {command: [program, *command.split()[1:]] for command in commands if (program := found(command.split()[0]))}
    return here, {command: "not installed" for command in commands if command not in here}


# ---- Starting and ending ----


def first_paint(bench: Bench) -> Contest:
    machine = FakeNvml(build_fake_nvml(bench.directory), bench.directory)
    machine.set([{"util": 50}] * COUNT)

    def start(program: list[str], directory: Path) -> Figures:
        begun = time.perf_counter()
        with _opened(program, directory, ["exec sleep 600"], "0-7", machine.environment) as terminal:
            first = _seconds_until(begun, lambda: FIRST in terminal.text)
            terminal.shows("1 run")
            until(lambda: "50%" in terminal.text, "the GPUs are shown", 30)
            return {"first screen s": first, "to q s": _quit(terminal)}

    def run(words: list[str], directory: Path) -> Figures:
        begun = time.perf_counter()
        subprocess.run(words, env=machine.environment, stdout=subprocess.DEVNULL, check=True)
        return {"first screen s": time.perf_counter() - begun}

    peers, missing = _peers("nvitop -1")
    measures = {name: partial(run, words) for name, words in {"python -c pass": NOTHING, **peers}.items()}
    title = "seconds to the first screen, and from the last q to the end"
    return Contest(title, bench.ours(start) | measures, missing=missing, warm_up=True)


def _quit(terminal: RecordedTerminal) -> float:
    terminal.press("q")
    terminal.shows("detach")
    begun = time.perf_counter()
    terminal.press("q")
    terminal.process.wait(30)
    return time.perf_counter() - begun


def _seconds_until(begun: float, condition: Callable[[], bool]) -> float:
    until(condition, "the screen shows it", 60)
    return time.perf_counter() - begun


def hangup(bench: Bench) -> Contest:
    def measure(program: list[str], directory: Path) -> Figures:
        with _opened(program, directory, SLEEPING, "cpu:8") as terminal:
            terminal.shows("8 run")
            process = psutil.Process(terminal.process.pid)
            begun = time.perf_counter()
            terminal.hang_up()
            while process.status() != psutil.STATUS_ZOMBIE and time.perf_counter() - begun < 30:
                time.sleep(0.002)
            return {"s": time.perf_counter() - begun}

    return Contest("seconds from a closed terminal to the end of the app", bench.ours(measure), warm_up=True)


# ---- Bytes and CPU ----


def idle(bench: Bench) -> Contest:
    gpus = bench.stack.enter_context(_MovingGpus(bench.directory))
    return _watched(bench, "8 busy GPUs by NVML whose figures change", SLEEPING, "8 run", gpus=gpus)


def still(bench: Bench) -> Contest:
    gpus = _MovingGpus(bench.directory)
    return _watched(bench, "8 GPUs by NVML, nothing changes", ["true"], "1 ok", settles=20.0, gpus=gpus)


def ends(bench: Bench) -> Contest:
    return _watched(bench, "20 jobs end each second, 8 simulated GPUs", ["exec sleep 0.37"] * 3000, "8 run")


WRITER = """
import time
began, written = time.monotonic(), 0
while True:
    while written < (time.monotonic() - began) * 1000:
        written += 1
        print(f"step {written} loss {1 / written:.5f} and some more words to fill the line")
    print(end="", flush=True)
    time.sleep(0.01)
"""


def busy_log(bench: Bench) -> Contest:
    writer = bench.directory / "writer.py"
    writer.write_text(WRITER)
    commands = [f"exec {sys.executable} {writer}"]
    return _watched(bench, "a log of 1,000 lines a second", commands, "fill the line")


def _watched(
    bench: Bench, title: str, commands: list[str], ready: str, *, settles: float = 0.0, gpus: _MovingGpus | None = None
) -> Contest:
    """`settles`: seconds until notices are gone and the GPUs' histories are full."""

    def measure(program: list[str], directory: Path) -> Figures:
        where, env = ("0-7", gpus.environment) if gpus is not None else (f"sim:{COUNT}", None)
        with _opened(program, directory, commands, where, env) as terminal:
            if settles == 0:
                terminal.shows(ready)
            else:
                terminal.shows(FIRST)
            time.sleep(settles)
            return _cost(terminal)

    def peer(words: list[str], directory: Path) -> Figures:
        assert gpus is not None
        with recorded(words, size=SIZE, env=gpus.environment) as terminal:
            return _cost(terminal)

    peers, missing = _peers("nvitop", "htop -d10") if gpus is not None else ({}, {})
    measures = bench.ours(measure) | {name: partial(peer, words) for name, words in peers.items()}
    return Contest(title, measures, missing=missing, most_rounds=3)


def _cost(terminal: RecordedTerminal) -> Figures:
    time.sleep(DRAWN_FIRST)
    first, begun = terminal.count, time.monotonic()
    cpu = share(WATCHED, lambda: _cpu_of_all(terminal.process.pid))
    assert terminal.process.poll() is None, f"it has ended: {terminal.text.strip()}"
    sent = (terminal.count - first) / (time.monotonic() - begun)
    return {"bytes/s": sent, "CPU %": cpu, "first bytes": first}


def _cpu_of_all(pid: int) -> float:
    """Return the CPU time of a program and of its helpers, without its jobs."""
    return cpu_seconds(pid) + sum(_schedstat(child.pid) for child in _helpers(pid))


def _helpers(pid: int) -> list[psutil.Process]:
    helpers = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if not child.name().startswith(("sh", "bash", "sleep")) and "-c" not in child.cmdline()[:3]:
                helpers.append(child)
    return helpers


class _MovingGpus:
    """Fake GPUs, each with a process; while it is entered, their figures change every second."""

    def __init__(self, directory: Path) -> None:
        self._machine = FakeNvml(build_fake_nvml(directory), directory)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.environment = {
            key: value for key, value in self._machine.environment.items() if os.environ.get(key) != value
        }
        self._set(0)

    def __enter__(self) -> _MovingGpus:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        second = 0
        while not self._ended.wait(1.0):
            second += 1
            self._set(second)

    def _set(self, second: int) -> None:
        self._machine.set(
            [
                {
                    "util": round(90 + 9 * math.sin(second * 1.7 + gpu)),
                    "mem_used": f"{12 + gpu}G",
                    "temp": round(65 + 2 * math.sin(second * 0.9 + gpu)),
                    "power": round(290_000 + 30_000 * math.sin(second * 1.3 + gpu)),
                }
                for gpu in range(COUNT)
            ]
        )


# ---- Long queues, long logs ----


def long_queue(bench: Bench) -> Contest:
    def measure(program: list[str], directory: Path) -> Figures:
        jobs = ["sleep 600", *(f"python train.py --lr 0.00{job % 7} --seed {job}" for job in range(1, MANY))]
        begun = time.perf_counter()
        with _opened(program, directory, jobs, "cpu:1") as terminal:
            first = _seconds_until(begun, lambda: "1 run" in terminal.text)
            time.sleep(DRAWN_FIRST)
            keys = [1000 * _key(terminal, "j") for _ in range(50)]
            return {
                "loaded s": first,
                "key p50 ms": statistics.median(keys),
                "key p95 ms": statistics.quantiles(keys, n=20)[-1],
                "MB": memory(terminal.process.pid),
            }

    return Contest(
        f"the app on {MANY:,} jobs; from a key to the first byte of its repaint", bench.ours(measure), most_rounds=2
    )


def _key(terminal: RecordedTerminal, key: str) -> float:
    """Return the seconds from a key to the next bytes, which may be those of a clock."""
    terminal.settles(0.05)
    before, begun = terminal.count, time.perf_counter()
    terminal.press(key)
    while terminal.count == before and time.perf_counter() - begun < 5:
        time.sleep(0.0005)
    return time.perf_counter() - begun


LINE = "\x1b[32m2031-05-04 12:00:00\x1b[0m INFO step {:>7}/9999999 loss 1.932 lr 1.0e-3 tokens/s 100758 mem 28.1G\n"


def log_tail(bench: Bench) -> Contest:
    big = bench.directory / "big"
    piece = "".join(LINE.format(step) for step in range(10_000)).encode()
    with big.open("wb") as file:
        for _ in range((1 << 30) // len(piece)):
            file.write(piece)

    def measure(program: list[str], directory: Path) -> Figures:
        home = Home(directory)
        jobs = home.write(f"cat {big}; echo the end")
        run = [*program, "run", "--gpus", "cpu:1", "--output-dir", str(home.root), str(jobs)]
        subprocess.run(run, cwd=directory, env=surroundings(directory), capture_output=True, check=True)
        begun = time.perf_counter()
        with _opened(program, directory, [], "cpu:1") as terminal:
            first = _seconds_until(begun, lambda: FIRST in terminal.text)
            shown = _seconds_until(begun, lambda: "the end" in terminal.text)
            cpu, process = cpu_seconds(terminal.process.pid), terminal.process.pid
            time.sleep(WATCHED)  # in which all lines are counted
            figures = {"first screen s": first, "tail s": shown, "CPU s afterwards": cpu_seconds(process) - cpu}
            figures["MB"] = memory(process)
        (home.job_directory(0) / "job_0.OUT").unlink()
        return figures

    return Contest("the app on a log of 1 GiB", bench.ours(measure), most_rounds=3)


# ---- NVML ----


PLAIN = """
import json, os, sys, time
{setup}
for _ in range(3): sample()
wall, cpu = time.perf_counter(), time.process_time()
for _ in range({times}): sample()
print(json.dumps([(time.perf_counter() - wall) / {times}, (time.process_time() - cpu) / {times}]))
"""
CALLS = """
import pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
def sample():
    since = int(time.time() * 1e6) - 1_000_000
    return [(n.nvmlDeviceGetUtilizationRates(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2),
             n.nvmlDeviceGetTemperatureV(h, 0), n.nvmlDeviceGetPowerUsage(h), n.nvmlDeviceGetEnforcedPowerLimit(h),
             n.nvmlDeviceGetFanSpeed(h), n.nvmlDeviceGetComputeRunningProcesses(h),
             n.nvmlDeviceGetGraphicsRunningProcesses(h), n.nvmlDeviceGetProcessUtilization(h, since)) for h in handles]
"""
WAYS = {
    "plain calls of pynvml": (CALLS, 100),
    "nvitop: take_snapshots": ("import nvitop\ndevices = nvitop.Device.all()\n"
                               "def sample(): nvitop.take_snapshots(devices)", 1),
    "gpustat: new_query": ("import gpustat\nsample = gpustat.new_query", 10),
}  # fmt: skip


def nvml(bench: Bench) -> Contest:
    machine = FakeNvml(build_fake_nvml(bench.directory, "-O2"), bench.directory)
    sleepers = [subprocess.Popen(["sleep", "6000"]) for _ in range(2 * COUNT)]
    for sleeper in sleepers:
        bench.stack.callback(sleeper.wait)
        bench.stack.callback(sleeper.kill)
    pids = [sleeper.pid for sleeper in sleepers]
    facts = {"util": 60, "mem_used": "12G", "fan": 40, "num_fans": 1}
    machine.set([{**facts, "procs": [f"{pid} 5G C 20 10" for pid in pids[2 * gpu :][:2]]} for gpu in range(COUNT)])
    environment = {**machine.environment, "FAKE_NVML_RECHECK_MS": "1000"}
    environment.pop("FAKE_NVML_LOG")

    def ours(program: list[str], directory: Path) -> Figures:
        """The sampler is the helper of the app that has the library loaded."""
        with _opened(program, directory, ["true"], "0-7", environment) as terminal:
            terminal.shows(FIRST)
            time.sleep(DRAWN_FIRST)
            maps = {child.pid: Path(f"/proc/{child.pid}/maps").read_text() for child in _helpers(terminal.process.pid)}
            samplers = [pid for pid, text in maps.items() if "libnvidia-ml" in text]
            assert len(samplers) == 1, f"{len(samplers)} samplers"
            return {"CPU ms": 10 * share(WATCHED, lambda: _schedstat(samplers[0]))}

    def theirs(setup: str, times: int, directory: Path) -> Figures:
        words = [sys.executable, "-c", PLAIN.format(setup=setup, times=times)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr.splitlines()[-1]
        wall, cpu = json.loads(done.stdout)
        return {"CPU ms": 1000 * cpu, "wall ms": 1000 * wall}

    measures = {name: partial(theirs, *way) for name, way in WAYS.items()} | bench.ours(ours)
    title = f"one sample of {COUNT} GPUs with 16 processes (gputui: its sampler in a second, with all it does)"
    return Contest(title, measures, "plain calls of pynvml", most_rounds=3)


def _schedstat(pid: int) -> float:
    """Return CPU seconds; the ticks of `stat` are too coarse here."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
