"""Every test here has a session of its own, and leaves no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import Home, reap


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.end()
    assert made.members() == []
    assert made.processes() == []
    reap()


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often a drill kills."""
    return 25 if request.config.getoption("--long") else 5
