"""Signals that the kernel gives to another thread than the main one, as it may."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from .waiting import until


def signal_another_thread(pid: int, number: int) -> None:
    """When all of the process rests, so that nothing but the signal can wake its main thread."""
    until(lambda: len(_threads(pid)) > 1 and _rests(pid), f"process {pid} has threads and rests")
    assert ctypes.CDLL(None).tgkill(pid, max(_threads(pid)), number) == 0


def _threads(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def _rests(pid: int) -> bool:
    before = _main_switches(pid)
    time.sleep(0.3)
    return _main_switches(pid) == before


def _main_switches(pid: int) -> list[str]:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in status if line.startswith("voluntary_ctxt_switches")]
