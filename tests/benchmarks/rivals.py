"""Contestants: gputui, other checkouts of it, and other tools, each with how it runs a file of commands."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

BARE_LOOP = "C loop, bash -c"
OWN = [str(script)] if (script := Path(sys.executable).parent / "gputui").exists() else [sys.executable, "-m", "gputui"]
Figures = dict[str, float]
"""One round's results by title."""
Measure = Callable[[Path], Figures]
"""What a contestant does in a round, in a new directory."""


@dataclass(frozen=True)
class Bench:
    """What the functions of rows get."""

    programs: dict[str, list[str]]
    """gputui and other checkouts of it, by name."""
    directory: Path
    stack: ExitStack
    """Ends what the row has set up."""

    def ours(self, measure: Callable[[list[str], Path], Figures]) -> dict[str, Measure]:
        """Let each gputui do the same."""
        return {name: partial(measure, words) for name, words in self.programs.items()}


@dataclass(frozen=True)
class Contest:
    """A row of the table."""

    title: str
    measures: dict[str, Measure]
    bound: str | None = None
    """The contestant to whose first figure ratios are shown."""
    missing: dict[str, str] = field(default_factory=dict)
    """Contestants that are not here, and why."""
    most_rounds: int = 1_000
    warm_up: bool = False
    """Whether to run an unmeasured round first, in which Python compiles its modules."""


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
"""From a new directory and the number of slots to words; the commands are on standard input and in `jobs.txt`."""


@dataclass(frozen=True)
class Rival:
    name: str
    command: Command | None
    """None: not installed."""
    most_jobs: int = 1_000_000
    """Fewer for tools that need ten seconds for each."""


def rivals(bench: Bench) -> list[Rival]:
    return [
        Rival(BARE_LOOP, _bare_loop(bench.directory)),
        *(Rival(f"{name} run", _gputui(words)) for name, words in bench.programs.items()),
        Rival("simple_gpu_scheduler", _simple_gpu_scheduler()),
        Rival("xargs -P, bash -c", _if_found("xargs", _xargs)),
        Rival("task-spooler, bash -c", _if_found("tsp", _task_spooler)),
        Rival("GNU parallel", _if_found("parallel", _parallel)),
        Rival("gflow", _if_found("gflowd", _gflow), most_jobs=40),
    ]


def surroundings(directory: Path) -> dict[str, str]:
    """The environment of a run: nothing outside its directory is written, and no setting of the user counts."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUTUI_", "PYTHON"))}
    (directory / "leases").mkdir(exist_ok=True)
    (directory / "leases").chmod(0o1777)
    (directory / "will-cite").touch()
    own = {"TS_SOCKET": directory / "socket", "TMPDIR": directory, "PARALLEL_HOME": directory, "SHELL": "/bin/bash"}
    own |= {"GPUTUI_LEASES": directory / "leases", "XDG_CONFIG_HOME": directory, "XDG_STATE_HOME": directory}
    return environment | {name: str(place) for name, place in own.items()}


def _gputui(program: list[str]) -> Command:
    return lambda directory, slots: [*program, "run", "--gpus", f"cpu:{slots}", "jobs.txt"]


def _parallel(directory: Path, slots: int) -> list[str]:
    return ["parallel", "-j", str(slots)]


def _xargs(directory: Path, slots: int) -> list[str]:
    return ["xargs", "-P", str(slots), "-d", "\\n", "-n", "1", "bash", "-c"]


def _task_spooler(directory: Path, slots: int) -> list[str]:
    return ["bash", "-c", TSP_SCRIPT, "bash", str(slots)]


def _gflow(directory: Path, slots: int) -> list[str]:
    set_up_gflow(directory)
    return ["env", f"HOME={directory}", "bash", "-c", GFLOW_SCRIPT, "bash", str(slots)]


def set_up_gflow(home: Path) -> None:
    with socket.create_server(("localhost", 0)) as listening:
        port = listening.getsockname()[1]
    settings = home / ".config" / "gflow" / "gflow.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[daemon]\nport = {port}\n[executor]\ntype = "process"\n')


def _simple_gpu_scheduler() -> Command | None:
    program = found("simple_gpu_scheduler")
    if program is None:
        return None
    return lambda directory, slots: [program, "--gpus", *map(str, range(slots))]


def _bare_loop(workshop: Path) -> Command | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = str(workshop / "bare_loop")
    subprocess.run([compiler, "-O2", "-o", program, str(Path(__file__).with_name("bare_loop.c"))], check=True)
    return lambda directory, slots: [program, str(slots)]


def _if_found(program: str, command: Command) -> Command | None:
    return command if found(program) is not None else None


def found(program: str) -> str | None:
    beside_python = os.path.dirname(sys.executable)
    return shutil.which(program, path=os.pathsep.join((beside_python, os.environ.get("PATH", os.defpath))))
