"""Tab: gputui is asked as the shells ask it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.sessions import Gputui
from support.wires import FakeOwner, job

from gputui.cli.commands import completion
from gputui.session.control.connection import PATIENCE
from gputui.session.registry import remember

LESS_THAN_A_SUBCOMMAND_WAITS = PATIENCE - 5


def completed(line: str) -> list[str]:
    """What gputui answers on descriptor 8."""
    reading, writing = os.pipe()
    told = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    place = {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    command = ["bash", "-c", f'"$0" -m gputui 8>&{writing} 9>/dev/null', sys.executable]
    with os.fdopen(reading) as answer:
        subprocess.run(
            command,
            env={**os.environ, **told, **place},
            pass_fds=[writing],
            check=True,
            timeout=LESS_THAN_A_SUBCOMMAND_WAITS,
        )
        os.close(writing)
        return [word.strip() for word in answer.read().split("\n") if word]


@pytest.fixture
def jobs(owner: FakeOwner) -> FakeOwner:
    owner.jobs = {number: job(number, "queued", name=name) for number, name in ((3, "prepare"), (31, "train"))}
    return owner


def test_subcommands_are_completed() -> None:
    assert completed("gputui rer") == ["rerun"]


def test_the_first_word_may_be_a_file() -> None:
    Path("rerun.txt").touch()
    assert completed("gputui rer") == ["rerun", "rerun.txt"]


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("gputui kill --n", ["--now"]),
        ("gputui run --force", ["--force-rerun"]),
        ("gputui --read", ["--read-only"]),
        ("gputui add --after-", ["--after-any"]),
    ],
)
def test_flags_are_completed(line: str, flags: list[str]) -> None:
    assert completed(line) == flags


@pytest.mark.parametrize(
    ("line", "words"),
    [("gputui ls --state time", ["timed_out"]), ("gputui completion z", ["zsh"]), ("gputui --theme li", ["light"])],
)
def test_choices_are_completed(line: str, words: list[str]) -> None:
    assert completed(line) == words


@pytest.mark.parametrize("line", ["gputui kill ", "gputui show ", "gputui add --after ", "gputui move 3 --before "])
def test_ids_and_names_of_jobs_come_from_the_living_owner(jobs: FakeOwner, line: str) -> None:
    assert set(completed(line)) >= {"3", "31", "prepare", "train"}


def test_the_session_that_is_named_is_asked(jobs: FakeOwner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "home")
    assert completed("gputui kill pre") == []
    assert completed(f"gputui kill --session {jobs.root} pre") == ["prepare"]


def test_gpus_come_from_the_owner_s_slots(owner: FakeOwner) -> None:
    slots = [{"id": 0, "devices": ["6"], "kind": "gpu", "state": "free", "job": None}]
    owner.answers["slots"] = {"slots": slots}
    assert completed("gputui add --devices ") == ["6"]


def test_sessions_are_completed(tmp_path: Path) -> None:
    root = tmp_path / "elsewhere" / "gputui_run"
    (root / ".gputui").mkdir(parents=True)
    remember(str(root))
    assert completed("gputui ls --session ") == [str(root)]


def test_without_an_owner_nothing_is_started_and_nothing_is_made(tmp_path: Path) -> None:
    session = tmp_path / "work" / "gputui_run" / ".gputui"
    session.mkdir(parents=True, mode=0o700)
    before = sorted(tmp_path.rglob("*"))
    for line in ("gputui kill ", "gputui ls --session ", "gputui add --devices "):
        completed(line)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_owner_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    session = tmp_path / "work" / "gputui_run" / ".gputui"
    session.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as silent:
        os.chdir(session)  # a socket's path must be short
        silent.bind("control.sock")
        os.chdir("../..")
        silent.listen()
        assert completed("gputui kill ") == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_completion_code_is_a_valid_script(gputui: Gputui, shell: str) -> None:
    told = gputui("completion", shell)
    assert told.status == 0
    assert "gputui" in told.out
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=told.out, text=True, check=True)
