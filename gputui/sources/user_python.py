"""Which Python runs what is the user's: a yielder, a configuration, a task."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["python_of"]


def python_of(environment: Mapping[str, str]) -> str:
    """GPUTUI_PYTHON, that of the environment that is active there, or ours."""
    return environment.get("GPUTUI_PYTHON") or _active(environment) or sys.executable


def _active(environment: Mapping[str, str]) -> str | None:
    """Of an environment that was activated and is not ours: gputui may be installed apart, as a tool."""
    folder = environment.get("VIRTUAL_ENV")
    if not folder and environment.get("CONDA_DEFAULT_ENV", "base") != "base":
        folder = environment.get("CONDA_PREFIX")
    if not folder or os.path.realpath(folder) == os.path.realpath(sys.prefix):
        return None
    python = os.path.join(folder, "bin", "python")
    return python if os.access(python, os.X_OK) else None
