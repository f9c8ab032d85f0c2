"""Lends each test a machine of every engine; another engine adds its kind here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import EngineMachine, Machine, SlurmMachine

KINDS: dict[str, type[EngineMachine]] = {"local": Machine, "slurm": SlurmMachine}


@pytest.fixture(params=KINDS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineMachine]:
    if request.param == "slurm":
        request.getfixturevalue("slurm")
    machine = KINDS[request.param](tmp_path)
    yield machine
    machine.clear_away()
