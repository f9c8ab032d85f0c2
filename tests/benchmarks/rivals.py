"""Who is measured: how each of them is told to run a file of commands on a number of lanes, and whether it is here."""

from __future__ import annotations

import os
import shutil
import socket
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

GFLOW_SCRIPT = """
gflowd >/dev/null 2>&1 &
until gqueue >/dev/null 2>&1; do sleep 0.05; done
echo 'eval "$(sed -n "${GFLOW_ARRAY_TASK_ID}p" jobs.txt)"' >job.sh
gbatch --array "1-$(wc -l <jobs.txt)" --max-concurrent "$1" job.sh >/dev/null
while gqueue | grep -q gjob; do sleep 0.05; done
kill %1
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
    most_jobs: int = 1_000_000
    """Who needs ten seconds for each is not asked for a thousand."""


def rivals(workshop: Path) -> list[Rival]:
    return [
        Rival(BARE_LOOP, _bare_loop(workshop), "nothing"),
        Rival(GPUTUI, _gputui, "queue, codes, logs"),
        Rival("simple_gpu_scheduler", _simple_gpu_scheduler(), "nothing"),
        Rival("xargs -P, bash -c", _if_found("xargs", _xargs), "nothing"),
        Rival("task-spooler, bash -c", _if_found("tsp", _task_spooler), "codes and logs, till reboot"),
        Rival("GNU parallel", _if_found("parallel", lambda folder, lanes: ["parallel", "-j", str(lanes)]), "nothing"),
        Rival("gflow", _if_found("gflowd", _gflow), "queue, codes, logs", most_jobs=40),
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


def _gflow(folder: Path, lanes: int) -> list[str]:
    set_up_gflow(folder)
    return ["env", f"HOME={folder}", "bash", "-c", GFLOW_SCRIPT, "bash", str(lanes)]


def set_up_gflow(home: Path) -> None:
    with socket.create_server(("localhost", 0)) as listening:
        port = listening.getsockname()[1]
    settings = home / ".config" / "gflow" / "gflow.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[daemon]\nport = {port}\n[executor]\ntype = "process"\n')


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
