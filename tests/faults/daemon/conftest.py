"""The length of drills."""

from __future__ import annotations

import pytest


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """Return the number of kills of a drill."""
    return 25 if request.config.getoption("--long") else 5
