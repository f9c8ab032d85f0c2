"""Counts what a call costs in operations, so that a test of cost does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(act: Callable[[], object]) -> int:
    """Lines of Python executed, and calls of built-in functions."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return line

    def call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    sys.settrace(line)
    sys.setprofile(call)
    try:
        act()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return count
