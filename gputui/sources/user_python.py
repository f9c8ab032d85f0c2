"""Which Python runs what is the user's: a yielder, a task."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["python_of"]


def python_of(environment: Mapping[str, str]) -> str:
    """GPUTUI_PYTHON, that of the environment that is active there, or ours: gputui may be installed apart."""
    chosen = environment.get("GPUTUI_PYTHON")
    if chosen:
        return chosen
    folder = environment.get("VIRTUAL_ENV")
    if not folder and environment.get("CONDA_DEFAULT_ENV", "base") != "base":
        folder = environment.get("CONDA_PREFIX")
    python = os.path.join(folder, "bin", "python") if folder else ""
    return python if python and os.access(python, os.X_OK) else sys.executable
