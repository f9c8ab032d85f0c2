"""Each test has its own session and must leave no processes."""

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
    """Return the number of kills of a drill."""
    return 25 if request.config.getoption("--long") else 5
