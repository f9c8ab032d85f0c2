"""Under a locale that is not UTF-8 commands keep their bytes, and whatever cannot be shown is replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Home, reap

Done = subprocess.CompletedProcess[bytes]

ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
LATIN_1 = "en_US.ISO-8859-1"
FILE = "é✓.txt"
NAME = "λ=0.1"
COMMANDS = f"""\
#: name={NAME}
touch "{FILE}"; printenv ODD >odd; pwd >here; echo "Verlust λ=0.5 é ✓ loss=0.5"
echo "ValueError: ✗ é" >&2; exit 3
"""
ODD = b"\xe9 \xc3\xa9 \xff"
"""A variable in two encodings at once."""

LOOKING = [
    ["ls"], ["show", "0"], ["show", NAME], ["show", "é"], ["logs", "1", "--err"], ["results"], ["summary"], ["gpus"],
    ["sessions"], ["config"], ["doctor"], ["wait"], ["report", "-o", "é.html"], ["é"], ["ls", "--session", "é"],
    ["sweep", "echo {x}", "-p", "x", "é", "✓"],
]  # fmt: skip


@pytest.fixture(params=["ascii", "latin-1"])
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Those of a locale."""
    if request.param == "ascii":
        return ASCII
    if shutil.which("localedef") is None:
        pytest.skip("no locale can be made here")
    made = subprocess.run(
        ["localedef", "-i", "en_US", "-f", "ISO-8859-1", tmp_path / LATIN_1], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("the definitions of locales are not installed")
    return {"LOCPATH": str(tmp_path), "LC_ALL": LATIN_1}


class Shell:
    def __init__(self, directory: Path, variables: dict[str, str]) -> None:
        self.directory = directory
        self.home = Home(directory, "gputui_run")
        inherited = {os.fsencode(name): os.fsencode(value) for name, value in (os.environ | variables).items()}
        self._environment = inherited | {b"ODD": ODD, b"GPUTUI_GPUS": b"cpu:1", b"PYTHONWARNINGS": b"default"}

    def __call__(self, *words: str) -> Done:
        return subprocess.run(
            [*GPUTUI, *words], cwd=self.directory, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=120,
        )  # fmt: skip


@pytest.fixture
def sh(tmp_path: Path, variables: dict[str, str]) -> Iterator[Shell]:
    directory = tmp_path / "Größe ✓"
    directory.mkdir()
    (directory / "jobs é.txt").write_text(COMMANDS, encoding="utf-8")
    made = Shell(directory, variables)
    yield made
    made.home.end()
    reap()


def assert_bytes_are_unchanged(sh: Shell) -> None:
    assert os.fsencode(FILE) in os.listdir(os.fsencode(sh.directory))
    assert (sh.directory / "odd").read_bytes() == ODD + b"\n"
    assert (sh.directory / "here").read_bytes() == os.fsencode(sh.directory) + b"\n"


def test_a_run_keeps_the_bytes_of_commands_and_every_command_can_show_them(sh: Shell) -> None:
    done = sh("run", "jobs é.txt")
    assert done.returncode == 1, done
    assert b"Traceback" not in done.stderr
    assert_bytes_are_unchanged(sh)
    for words in LOOKING:
        looked = sh(*words)
        assert b"Traceback" not in looked.stderr, (words, looked)
        assert b"Unicode" not in looked.stderr + looked.stdout, (words, looked)
        assert looked.stdout or looked.stderr, words
    assert sh("ls").returncode == 0
    assert sh("logs", "0").stdout == "Verlust λ=0.5 é ✓ loss=0.5\n".encode()
    assert (sh.directory / "é.html").exists()


def test_a_daemon_keeps_the_bytes_of_commands(sh: Shell) -> None:
    command = COMMANDS.splitlines()[1]
    assert sh("add", "--name", NAME, command).returncode == 0
    assert sh("wait").returncode == 0
    assert_bytes_are_unchanged(sh)
    assert [job.spec.command for job in sh.home.jobs()] == [command]


def test_a_python_program_keeps_the_bytes_of_commands(sh: Shell) -> None:
    program = f"import gputui; gputui.Session().add({COMMANDS.splitlines()[1]!r}).wait()"
    (sh.directory / "program.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [GPUTUI[0], "program.py"], cwd=sh.directory, env=sh._environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done
    assert_bytes_are_unchanged(sh)
