"""Pythons that lack what this one has, for every process that is started with their PYTHONPATH."""

from __future__ import annotations

import os
from pathlib import Path

CONDA = """
import os, signal

def posix_spawn(*arguments, setsid=False, _real=os.posix_spawn, **options):
    if setsid:
        raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
    return _real(*arguments, **options)

os.posix_spawn = posix_spawn
del os.pidfd_open, signal.pidfd_send_signal
"""
"""Built against an old C library, as conda's and older standalone ones are."""

WITHOUT_CTYPES = (
    CONDA
    + """
import sys
sys.modules["ctypes"] = None
"""
)
"""The C library is out of reach altogether."""


def python_path(folder: Path, lacks: str) -> str:
    """To be set as PYTHONPATH."""
    place = folder / "poor python"
    place.mkdir()
    (place / "sitecustomize.py").write_text(lacks)
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))
