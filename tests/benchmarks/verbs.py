"""What a verb costs beside a Python that does nothing: processor time, on a session that a keeper owns.

`python tests/benchmarks/verbs.py [--rounds 15] [--compiling]`

Verbs take turns, so that a busy minute meets all of them. Bytecode is there, as after an installation; with
`--compiling` each process compiles what it loads, as in a folder where none may be kept. The bar: 8 times `python -c
pass`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.homes import Home, reap
from support.sessions import GPUTUI
from support.waiting import until

import gputui

PACKAGE = Path(gputui.__file__).parent
BAR = 8.0
JOBS = 30
NOTHING = "python -c pass"
VERBS = [
    ("ls",), ("show", "0"), ("logs", "0"), ("hold", "1"), ("release", "1"), ("add", "--hold", "true"), ("gpus",),
    ("results",), ("summary",), ("report", "-o", "page.html"), ("pause",), ("resume",), ("wait", "0"),
    ("move", "3", "--top"), ("notify", "3"),
]  # fmt: skip
WITHOUT_SESSION = [("sessions",), ("config",), ("completion", "bash"), ("--version",)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compiling", action="store_true", help="without bytecode")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui_verbs_") as folder:
        use_bytecode(folder, options.compiling)
        home = Home(Path(folder))
        try:
            begin(home)
            tell(measured(home, options.rounds))
        finally:
            home.end()
            reap()


def use_bytecode(folder: str, compiling: bool) -> None:
    """Of the package alone: that of Python and of libraries is always there."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if compiling:
        copied = shutil.copytree(PACKAGE, Path(folder) / "copy/gputui", ignore=shutil.ignore_patterns("__pycache__"))
        os.environ.update(PYTHONPATH=str(copied.parent), PYTHONDONTWRITEBYTECODE="1")


def begin(home: Home) -> None:
    """One job has ended and said a result, one runs, the others wait."""
    home.begin(*("echo epoch 1 loss 0.5" for _ in range(2)), *["sleep 600"] * JOBS)
    home.resume()
    until(lambda: home.ask("status")["counts"].get("running"), "a job runs")


def measured(home: Home, rounds: int) -> dict[str, list[float]]:
    """Seconds of processor time by verb; the first round, which may compile, is left out."""
    commands = {" ".join(words): [*GPUTUI, words[0], "--session", str(home.root), *words[1:]] for words in VERBS}
    commands |= {" ".join(words): [*GPUTUI, *words] for words in WITHOUT_SESSION}
    costs: dict[str, list[float]] = {NOTHING: [], **{name: [] for name in commands}}
    for turn in range(rounds + 1):
        for name, words in {NOTHING: [sys.executable, "-c", "pass"], **commands}.items():
            seconds = cost(words, home.folder)
            if turn:
                costs[name].append(seconds)
    return costs


def cost(words: list[str], cwd: Path) -> float:
    """Of the process that was waited for alone: an owner it may start is none of it."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd
    )
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{words}: {said}")
    return used.ru_utime + used.ru_stime


def tell(costs: dict[str, list[float]]) -> None:
    nothing = statistics.median(costs[NOTHING])
    for name, seconds in costs.items():
        middle = statistics.median(seconds)
        print(f"{name:16} {middle * 1000:6.1f} ms   {middle / nothing:5.1f} × {NOTHING} (bar {BAR:g})")


if __name__ == "__main__":
    main()
