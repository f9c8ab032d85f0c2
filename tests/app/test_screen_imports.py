"""Only the TUI itself imports Textual; commands and refusals do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gputui.cli.commands import SUBCOMMANDS

SCRIPT = """
import contextlib, os, sys
from gputui.__main__ import main

def status_of(words):
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            return main(words)
        except SystemExit as left:
            return left.code

for line in sys.argv[1:]:
    status = status_of(line.split())
    print(line, status, *(name for name in sys.modules if name in ("textual", "rich", "asyncio")), sep=",")
"""
LINES = ("--help", "--version", "sweep x -p y 1", *(f"{subcommand} --help" for subcommand in SUBCOMMANDS))


def loaded(code: str, *words: str, cwd: str = "/") -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=cwd,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    return done.stdout.splitlines()


def test_no_subcommand_loads_textual() -> None:
    assert loaded(SCRIPT, *LINES) == [f"{line},0" for line in LINES]


def test_whether_there_is_a_terminal_is_checked_without_textual() -> None:
    code = "import sys; import gputui.tui.terminal.tty; print({'textual', 'asyncio'} & set(sys.modules))"
    assert loaded(code) == ["set()"]


def test_an_app_that_has_no_terminal_refuses_without_textual(tmp_path: Path) -> None:
    code = "import os; os.setsid() if os.getpid() != os.getsid(0) else None\n" + SCRIPT
    assert loaded(code, "", cwd=str(tmp_path)) == [",2"]
