"""Where a job finds what its session keeps for it."""

from __future__ import annotations

import os

USER_CODE = os.path.dirname(os.path.abspath(__file__))
"""This folder, for Pythons that have no gputui: they are given its path."""


def keepsake(session: str, name: str) -> str:
    return os.path.join(session, ".gputui", "keepsakes", name)
