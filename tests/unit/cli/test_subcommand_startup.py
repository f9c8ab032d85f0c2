"""A command starts without the screen and without an event loop, whatever it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.wires import FakeOwner, job

HEAVY = {"asyncio", "textual", "gputui.core.scheduler", "sqlite3"}
SCRIPT = """
import os, sys
from gputui.__main__ import main
sys.stdout = sys.stderr = open(os.devnull, "w")
status = main(sys.argv[1:])
sys.stdout = sys.__stdout__
print(status, *sorted(set(sys.modules) - set(before)))
"""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["ls"], 0),
        (["ls", "--json"], 0),
        (["show", "0"], 0),
        (["logs", "0"], 0),
        (["hold", "0"], 0),
        (["kill", "0"], 0),
        (["rerun", "0"], 0),
        (["priority", "+5", "0"], 0),
        (["move", "0", "--top"], 0),
        (["pause"], 0),
        (["resume"], 0),
        (["wait", "0"], 0),
        (["add", "--hold", "true"], 0),
        (["sessions"], 0),
        (["config"], 0),
        (["--version"], 0),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else "",
)
def test_a_subcommand_loads_nothing_heavy(owner: FakeOwner, words: list[str], status: int) -> None:
    out = Path("OUT")
    out.write_text("text\n")
    owner.jobs = {0: job(0, "succeeded", out=str(out.absolute()))}
    script = "import sys; before = list(sys.modules)\n" + SCRIPT
    # -S: what the installation's own start-up files load is not ours.
    paths = "import sys; sys.path[:0] = " + repr([entry for entry in sys.path if entry]) + "\n"
    command = [sys.executable, "-S", "-c", paths + script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, *loaded = done.stdout.split()
    assert int(told) == status
    assert HEAVY.intersection(loaded) == set()


@pytest.mark.parametrize("subcommand", ["run", "daemon"])
def test_an_owner_loads_nothing_that_it_does_not_need(subcommand: str) -> None:
    script = """
import os, sys
from gputui.__main__ import main
sys.stdout = open(os.devnull, "w")
try:
    main([sys.argv[1], "--help"])
except SystemExit:
    pass
import gputui.session.owner.owner
loaded = set(sys.modules) - set(before)
import typing_extensions
sys.stdout = sys.__stdout__
print(*sorted(loaded))
"""
    command = [sys.executable, "-c", "import sys; before = list(sys.modules)\n" + script, subcommand]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "msgspec" in loaded
    unneeded = {"asyncio", "hashlib", "psutil", "random", "statistics", "subprocess", "textual"}
    assert (unneeded | {"typing_extensions"}).intersection(loaded) == set()
