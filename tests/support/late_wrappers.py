"""Wrappers that come late to their claim: they sleep before their shell begins, as on a machine out of breath."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gputui.engines.local import wrapper
from gputui.engines.protocol import Launch

_SLEEP = "import os, sys, time; time.sleep({seconds}); os.execv(sys.argv[1], sys.argv[1:])"


def late(seconds: str) -> Callable[[Launch, str], list[str]]:
    """Stands in for `wrapper.arguments`; `seconds` is Python. It has no child before the claim, as no wrapper has."""
    arguments = wrapper.arguments

    def delayed(launch: Launch, claim: str) -> list[str]:
        return [sys.executable, "-ISc", _SLEEP.format(seconds=seconds), *arguments(launch, claim)]

    return delayed
