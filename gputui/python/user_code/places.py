"""Where a job finds what its session keeps for it."""

from __future__ import annotations

import os


def keepsake(session: str, name: str) -> str:
    return os.path.join(session, ".gputui", "keepsakes", name)
