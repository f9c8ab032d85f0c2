"""Who is measured: how each of them is told to run a file of commands on a number of lanes, and whether it is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BARE_LOOP = "C loop, bash -c"
GPUTUI = "gputui run"
TSP_SCRIPT = """
tsp -S "$1"
while IFS= read -r command; do tsp bash -c "$command"; done >/dev/null
tsp -w
while tsp -l | grep -q running; do sleep 0.005; done
tsp -K
"""

Command = Callable[[Path, int], list[str]]
"""From a run's fresh folder and the number of lanes to words; the commands come on standard input and in `jobs.txt`."""


@dataclass(frozen=True)
class Rival:
    name: str
    command: Command | None
    """None: not installed."""
    keeps: str
    """What is left of a job when all is over."""


def rivals(workshop: Path) -> list[Rival]:
    return [
        Rival(BARE_LOOP, _bare_loop(workshop), "nothing"),
        Rival(GPUTUI, _gputui, "queue, codes, logs"),
        Rival("simple_gpu_scheduler", _simple_gpu_scheduler(), "nothing"),
        Rival("xargs -P, bash -c", _if_found("xargs", _xargs), "nothing"),
        Rival("task-spooler, bash -c", _if_found("tsp", _task_spooler), "codes and logs, till reboot"),
        Rival("GNU parallel", _if_found("parallel", lambda folder, lanes: ["parallel", "-j", str(lanes)]), "nothing"),
    ]


def surroundings(folder: Path, workshop: Path) -> dict[str, str]:
    """The environment of a run: nothing outside the workshop is written, and Python finds compiled modules there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUTUI_", "PYTHON"))}
    environment |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    own = {"TS_SOCKET": folder / "socket", "TMPDIR": folder, "PARALLEL_HOME": workshop / "parallel"}
    own |= {"PYTHONPYCACHEPREFIX": workshop / "compiled", "SHELL": Path("/bin/bash")}
    return environment | {name: str(place) for name, place in own.items()}


def gputui() -> list[str]:
    script = Path(sys.executable).parent / "gputui"
    return [str(script)] if script.exists() else [sys.executable, "-m", "gputui"]


def _gputui(folder: Path, lanes: int) -> list[str]:
    return [*gputui(), "run", "--gpus", f"cpu:{lanes}", "jobs.txt"]


def _xargs(folder: Path, lanes: int) -> list[str]:
    return ["xargs", "-P", str(lanes), "-d", "\\n", "-n", "1", "bash", "-c"]


def _task_spooler(folder: Path, lanes: int) -> list[str]:
    return ["bash", "-c", TSP_SCRIPT, "bash", str(lanes)]


def _simple_gpu_scheduler() -> Command | None:
    program = _found("simple_gpu_scheduler")
    if program is None:
        return None
    return lambda folder, lanes: [program, "--gpus", *map(str, range(lanes))]


def _bare_loop(workshop: Path) -> Command | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = str(workshop / "bare_loop")
    subprocess.run([compiler, "-O2", "-o", program, str(Path(__file__).with_name("bare_loop.c"))], check=True)
    return lambda folder, lanes: [program, str(lanes)]


def _if_found(program: str, command: Command) -> Command | None:
    return command if _found(program) is not None else None


def _found(program: str) -> str | None:
    beside_python = os.path.dirname(sys.executable)
    return shutil.which(program, path=os.pathsep.join((beside_python, os.environ.get("PATH", os.defpath))))
