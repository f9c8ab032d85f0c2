"""Lends each test a machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.clear_away()
