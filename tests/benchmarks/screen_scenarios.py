"""What the screen is shown while it is measured: idle, still, busy with ends, busy with a log."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from support.nvml import FakeNvml, build_fake_nvml

__all__ = ["LivingGpus", "Scenario", "scenarios"]

COUNT = 8
WRITER = """
import sys, time
written, began = 0, time.monotonic()
while True:
    while written < (time.monotonic() - began) * 1000:
        written += 1
        sys.stdout.write(f"step {written} loss {1 / written:.5f} and some more words to fill the line\\n")
    sys.stdout.flush()
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Scenario:
    name: str
    gpus: str
    commands: Callable[[Path], list[str]]
    ready: str
    """What the screen shows when it has come to this."""
    most_bytes: float | None = None
    most_cpu: float | None = None
    settles: float = 0.0
    """Seconds until nothing of the beginning is to be seen: notices that go away, histories that fill up."""
    env: Mapping[str, str] = field(default_factory=dict)


def scenarios(gpus: LivingGpus) -> list[Scenario]:
    sleeping, still = ["exec sleep 600"] * COUNT, gpus.still
    return [
        Scenario("idle, 8 simulated GPUs at work", f"sim:{COUNT}", lambda _: sleeping, "8 run", 2600, 2.5),
        Scenario("idle, 8 GPUs by NVML", "0-7", lambda _: sleeping, "8 run", 2600, 2.5, env=gpus.environment),
        Scenario("nothing changes, 8 GPUs by NVML", "0-7", lambda _: ["true"], "DONE", 20, None, 20.0, still),
        Scenario("20 jobs end each second", f"sim:{COUNT}", lambda _: ["exec sleep 0.37"] * 3000, "8 run", 3500),
        Scenario("a log of 1,000 lines a second", f"sim:{COUNT}", log_writer, "loss", 9000, 10),
    ]


def log_writer(folder: Path) -> list[str]:
    program = folder / "writer.py"
    program.write_text(WRITER)
    return [f"exec {sys.executable} {program}"]


class LivingGpus:
    """Eight fake GPUs whose figures change every second, the same with a process on each, and eight that stand still.

    Ours starts its own processes; programs that only look are shown some.
    """

    def __init__(self, folder: Path) -> None:
        library = build_fake_nvml(folder)
        self._moving, self._peopled, self._still = (_machine(library, folder / name) for name in ("a", "b", "c"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live)

    @property
    def environment(self) -> dict[str, str]:
        return _changes(self._moving)

    @property
    def with_processes(self) -> dict[str, str]:
        return _changes(self._peopled)

    @property
    def still(self) -> dict[str, str]:
        return _changes(self._still)

    def __enter__(self) -> LivingGpus:
        self._processes = [subprocess.Popen(["sleep", "600"]) for _ in range(COUNT)]
        self._still.set(_figures(0))
        self._set(0)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _live(self) -> None:
        second = 0
        while not self._ended.wait(1.0):
            second += 1
            self._set(second)

    def _set(self, second: int) -> None:
        figures = _figures(second)
        self._moving.set(figures)
        pids = (process.pid for process in self._processes)
        self._peopled.set([{**gpu, "procs": [f"{pid} 10G C 90"]} for gpu, pid in zip(figures, pids, strict=True)])


def _machine(library: Path, folder: Path) -> FakeNvml:
    folder.mkdir()
    return FakeNvml(library, folder)


def _figures(second: int) -> list[dict[str, object]]:
    return [
        {
            "util": round(90 + 9 * math.sin(second * 1.7 + gpu)),
            "mem_used": f"{12 + gpu}G",
            "temp": round(65 + 2 * math.sin(second * 0.9 + gpu)),
            "power": round(290_000 + 30_000 * math.sin(second * 1.3 + gpu)),
        }
        for gpu in range(COUNT)
    ]


def _changes(machine: FakeNvml) -> dict[str, str]:
    return {name: value for name, value in machine.environment.items() if os.environ.get(name) != value}
