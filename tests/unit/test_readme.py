"""What the README tells people to type is typed here, word for word, from its text.

A block of shell that cannot be run here begins with a comment `# not run here: …` that says why. What opens a screen is
opened in a terminal of its own and left again; everything else runs in one directory, in the order it stands there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Session
from support.terminal import recorded

import gputui

README = Path(gputui.__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
NOT_RUN = "# not run here: "
SCREENS = re.compile(r"^gputui( demo| \S+\.txt| hosts --live)?\s*(#.*)?$")
LONGEST = 170
TRAIN = """\
import argparse, sys
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--bs", type=int, default=32)
p.add_argument("--model", default="resnet")
o, _ = p.parse_known_args()
for epoch in range(1, 4):
    print(f"epoch {epoch}/3 val_loss={abs(o.lr - 0.03) + 1 / epoch:.4f}", flush=True)
"""


def blocks() -> list[str]:
    return BLOCK.findall(README.read_text())


def commands(block: str) -> list[str]:
    """One a line; here-documents and lines ending in a backslash stay together."""
    found: list[str] = []
    until: str | None = None
    for line in block.splitlines():
        if until is not None or (found and found[-1].endswith("\\")):
            found[-1] += "\n" + line
            until = None if line == until else until
        elif line.strip() and not line.startswith("#"):
            found.append(line)
            here = re.search(r"<<-?'?(\w+)'?", line)
            until = here[1] if here else None
    return found


def test_it_is_short() -> None:
    assert len(README.read_text().splitlines()) <= LONGEST


def test_its_first_command_installs_and_its_second_tests() -> None:
    first, second = blocks()[:2]
    assert "pip install ." in first
    assert "gputui run" in first
    assert "-m pytest" in second


def test_its_pictures_and_pages_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    missing = [link for link in links if "://" not in link and not (README.parent / link).exists()]
    assert links
    assert not missing


@pytest.fixture
def project(tmp_path: Path) -> Session:
    """A directory as a reader would have it: a training program, a list of jobs."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "jobs.txt").write_text("".join(f"python3 train.py --lr {lr}\n" for lr in (0.1, 0.03, 0.01)))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gputui").write_text(f'#!/bin/sh\nexec {" ".join(GPUTUI)} "$@"\n')
    (programs / "gputui").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    return Session(tmp_path, "gputui_run")


RUNNABLE = [block for block in blocks()[2:] if not block.startswith(NOT_RUN)]


@pytest.mark.parametrize("block", RUNNABLE, ids=[commands(block)[0][:40] for block in RUNNABLE])
def test_every_command_of_the_readme_works(project: Session, block: str) -> None:
    environment = {
        **os.environ,
        "PATH": f"{project.directory / 'bin'}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "GPUTUI_GPUS": "cpu:2",
    }
    try:
        for command in commands(block):
            if SCREENS.match(command):
                opens(command, project.directory, environment)
            else:
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=project.directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=120,
                )  # fmt: skip
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    finally:
        subprocess.run([*GPUTUI, "stop", "--session", project.root], capture_output=True)
        project.sweep()


def opens(command: str, directory: Path, environment: dict[str, str]) -> None:
    words = command.partition("#")[0].split()
    program = shutil.which(words[0], path=environment["PATH"])
    assert program is not None
    with recorded([program, *words[1:]], size=(120, 40), cwd=directory, env=environment) as terminal:
        terminal.shows("Quit")
        terminal.press("q")
        terminal.press("q")
        assert terminal.status() == 0
