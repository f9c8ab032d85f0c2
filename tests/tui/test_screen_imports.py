"""Only the screen itself pays for Textual: verbs, and what refuses to open a screen, load none of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import contextlib, os, sys
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
    from gputui.__main__ import main
    with contextlib.suppress(SystemExit):
        main(sys.argv[1:])
print(*(name for name in sys.modules if name.split(".")[0] in ("textual", "rich", "asyncio")))
"""
VERBS = ("run --help", "add --help", "sweep x -p y 1", "gpus --help", "ls", "report --help", "doctor --help",
         "demo --help", "keep --help", "--help", "help")  # fmt: skip


def loaded(code: str, *words: str, cwd: str = "/") -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, cwd=cwd,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("words", VERBS)
def test_a_verb_does_not_load_textual(words: str) -> None:
    assert loaded(SCRIPT, *words.split()) == []


def test_whether_there_is_a_terminal_is_checked_without_textual() -> None:
    code = "import sys; import gputui.tui.terminal.checks; print('textual' in sys.modules)"
    assert loaded(code) == ["False"]


def test_an_app_that_has_no_terminal_refuses_without_textual() -> None:
    code = "import os; os.setsid() if os.getpid() != os.getsid(0) else None\n" + SCRIPT
    assert [name for name in loaded(code) if name == "textual"] == []
