"""The core is pure: loading it loads nothing that touches the world."""

from __future__ import annotations

import subprocess
import sys

FOREIGN = {"textual", "asyncio", "psutil", "pynvml", "sqlite3", "socket", "subprocess"}


def test_the_core_loads_nothing_that_touches_the_world() -> None:
    modules = "gputui.core.scheduler, gputui.views.waiting"
    program = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "gputui.core.scheduler" in loaded.stdout.split()
    assert FOREIGN.isdisjoint(loaded.stdout.split())
