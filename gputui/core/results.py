"""What jobs printed as numbers under a name: the shapes that every room uses. How they are read is not known here."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Direction"]


class Direction(StrEnum):
    """Which way of a metric is the good one."""

    DOWN = "min"
    UP = "max"
    UNKNOWN = "unknown"
