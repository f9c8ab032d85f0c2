"""Wrappers that come late to their claim: they sleep before their shell begins, as on a machine out of breath."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gputui.engines.local import spawn as wrapper
from gputui.engines.protocol import Launch

_BEGIN = """
import os, sys, time
claim = sys.argv[1]
{wait}
os.execv(sys.argv[2], sys.argv[2:])
"""
UNTIL_CLAIMED = "while not os.path.exists(claim): time.sleep(0.01)"


def late(wait: str) -> Callable[[Launch, str], list[str]]:
    """Stands in for `wrapper.arguments`; `wait` is Python. It has no child before the claim, as no wrapper has."""
    arguments = wrapper.arguments

    def delayed(launch: Launch, claim: str) -> list[str]:
        return [sys.executable, "-ISc", _BEGIN.format(wait=wait), claim, *arguments(launch, claim)]

    return delayed
