"""Machines for these tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sshd import Lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="lab-") as directory:  # ssh's sockets need short paths
        made = Lab(Path(directory))
        try:
            yield made
        finally:
            made.close()
