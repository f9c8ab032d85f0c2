"""The environment of jobs: what is captured from the user and what gputui sets."""

from __future__ import annotations

import os
from _blake2 import blake2b  # importing it from hashlib would load OpenSSL
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gputui.core.job import Job, Placed
from gputui.core.slots import DeviceKind, Slot

_LOGIN = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_ID", "STY", "WINDOW")
_LOGIN_PREFIXES = ("SSH_", "TMUX")
_JOB_VARIABLES = frozenset(
    f"GPUTUI_{name}" for name in ("SESSION", "JOB_ID", "JOB_NAME", "ATTEMPT", "JOB_DIR", "CHECKPOINT_DIR", "RUN")
)


def inherited() -> dict[str, str]:
    """Return the environment of this process, except the variables of the login session and of an enclosing job."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _LOGIN and name not in _JOB_VARIABLES and not name.startswith(_LOGIN_PREFIXES)
    }


def captured() -> dict[str, str]:
    """Return the inherited environment in the form in which it is stored."""
    return {storable(name): storable(value) for name, value in inherited().items()}


_LONE_BYTE, _KEPT_BYTE = 0xDC00, 0x10FE00
"""Start of the range of Python's surrogates for undecodable bytes, and of the private Unicode range that replaces them
in the store. The store is UTF-8, which cannot represent surrogates.
"""


def storable(text: str) -> str:
    """Convert a variable or path to text that UTF-8 can represent, whatever the locale. Undecodable bytes are moved to
    the private Unicode range.
    """
    if text.isascii():
        return text
    return _moved(os.fsencode(text).decode("utf-8", "surrogateescape"), _LONE_BYTE, _KEPT_BYTE)


def as_given(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a stored environment with its original bytes, ready for starting a process."""
    return {
        _moved(name, _KEPT_BYTE, _LONE_BYTE): _moved(value, _KEPT_BYTE, _LONE_BYTE)
        for name, value in environment.items()
    }


def _moved(text: str, source: int, to: int) -> str:
    """Move the characters that represent the bytes 128 to 255 from one Unicode range to another."""
    if text.isascii():
        return text
    return "".join(chr(ord(char) - source + to) if 128 <= ord(char) - source < 256 else char for char in text)


_encode = msgspec.json.Encoder(order="deterministic").encode


def digest(environment: Mapping[str, str]) -> str:
    return blake2b(_encode(dict(environment)), digest_size=12).hexdigest()


ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


def job_variables(job: Job, placed: Placed, session: str, directory: str) -> dict[str, str]:
    """Return the variables that gputui sets for every job."""
    return {
        "GPUTUI_SESSION": session,
        "GPUTUI_JOB_ID": str(job.id),
        "GPUTUI_JOB_NAME": job.name,
        "GPUTUI_ATTEMPT": str(placed.attempt),
        "GPUTUI_JOB_DIR": directory,
        "GPUTUI_CHECKPOINT_DIR": directory,
    }


def cuda_variables(gpus: Sequence[str], own: Mapping[str, str], uuid_of: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables that select the job's GPUs.

    gputui numbers GPUs in PCI bus order. If the user's environment (`own`) sets another order, UUIDs are used instead
    of numbers.
    """
    numbered = all(gpu.isdecimal() for gpu in gpus)
    if not numbered or own.get(ORDER, BY_BUS) == BY_BUS:
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus), **({ORDER: BY_BUS} if numbered else {})}
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuid_of(gpu) or gpu for gpu in gpus), ORDER: own[ORDER]}


def default_variables(slots: tuple[Slot, ...]) -> dict[str, str]:
    """Return default values of variables, which the job's own environment overrides."""
    variables = {"PYTHONUNBUFFERED": "1"}
    cpu_slots = sum(slot.kind is DeviceKind.CPU for slot in slots)
    if cpu_slots == len(slots) > 0:
        variables["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // cpu_slots))
    return variables
