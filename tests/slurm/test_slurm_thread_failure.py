"""A defect in one of the engine's threads ends the owner with a message; it never leaves it waiting."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.sessions import Session
from support.slurm import Cluster
from support.waiting import PATIENCE

BROKEN = """
import sys
from gputui.__main__ import main
from gputui.engines.slurm import {module}

def broken(*arguments, **options):
    raise RuntimeError("a defect")

{module}.{name} = broken
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("module", "name"), [("engine", "submit"), ("poll", "QueueAnswer"), ("poll", "ClaimReading")])
def test_a_defect_in_a_thread_of_the_engine_ends_the_owner(
    slurm: Cluster, tmp_path: Path, module: str, name: str
) -> None:
    session = Session(tmp_path)
    session.write(session.told(1))
    program = tmp_path / "broken.py"
    program.write_text(BROKEN.format(module=module, name=name))
    owner = session.start("jobs.txt", gpus="slurm:2", program=(sys.executable, str(program)))
    _, err = owner.communicate(timeout=PATIENCE)
    assert owner.returncode != 0
    assert "a defect" in err
