"""The environment a job runs in."""

from __future__ import annotations

import os
from _blake2 import blake2b  # from hashlib it would bring all of OpenSSL along
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gputui.core.job import Job, Placed
from gputui.core.lanes import DeviceKind, Lane

# ---- What of a user's environment belongs to the work, and what to the login or to an outer job ----


_LOGIN = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_ID", "STY", "WINDOW")
_LOGIN_PREFIXES = ("SSH_", "TMUX")
_JOB_VARIABLES = frozenset(
    "GPUTUI_" + word
    for word in ("SESSION", "JOB_ID", "JOB_NAME", "ATTEMPT", "JOB_DIR", "CHECKPOINT_DIR", "RUN")
)  # fmt: skip


def inherited() -> dict[str, str]:
    """What of our environment belongs to the work and not to the login or to an outer job."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _LOGIN and name not in _JOB_VARIABLES and not name.startswith(_LOGIN_PREFIXES)
    }


def captured() -> dict[str, str]:
    """The same as the store keeps it, for jobs."""
    return {storable(name): storable(value) for name, value in inherited().items()}


_LONE_BYTE, _KEPT_BYTE = 0xDC00, 0x10FE00
"""Where Python counts characters that stand for single bytes from, and where we do: the store takes UTF-8 only."""


def storable(text: str) -> str:
    """Text of a variable or path with the same bytes for every locale, also where these are not UTF-8."""
    if text.isascii():
        return text
    return _moved(os.fsencode(text).decode("utf-8", "surrogateescape"), _LONE_BYTE, _KEPT_BYTE)


def as_given(environment: Mapping[str, str]) -> dict[str, str]:
    """A stored environment with its own bytes, to start a process with."""
    return {
        _moved(name, _KEPT_BYTE, _LONE_BYTE): _moved(value, _KEPT_BYTE, _LONE_BYTE)
        for name, value in environment.items()
    }


def _moved(text: str, source: int, to: int) -> str:
    """With the characters that stand for the bytes 128 to 255 counted from elsewhere."""
    if text.isascii():
        return text
    return "".join(chr(ord(each) - source + to) if 128 <= ord(each) - source < 256 else each for each in text)


# ---- The environment a job runs in ----


_encode = msgspec.json.Encoder(order="deterministic").encode


def digest(environment: Mapping[str, str]) -> str:
    return blake2b(_encode(dict(environment)), digest_size=12).hexdigest()


ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


def told(job: Job, placed: Placed, session: str, folder: str) -> dict[str, str]:
    """What gputui tells every job of itself."""
    return {
        "GPUTUI_SESSION": session,
        "GPUTUI_JOB_ID": str(job.id),
        "GPUTUI_JOB_NAME": job.name,
        "GPUTUI_ATTEMPT": str(placed.attempt),
        "GPUTUI_JOB_DIR": folder,
        "GPUTUI_CHECKPOINT_DIR": folder,
    }


def visible(gpus: Sequence[str], own: Mapping[str, str], uuid_of: Callable[[str], str | None]) -> dict[str, str]:
    """The devices that CUDA shows a job. Our numbers count along the bus; in an order of the user's own (`own`) they
    would mean other cards, so there the cards are named by their UUIDs."""
    numbered = all(gpu.isdecimal() for gpu in gpus)
    if not numbered or own.get(ORDER, BY_BUS) == BY_BUS:
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus), **({ORDER: BY_BUS} if numbered else {})}
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuid_of(gpu) or gpu for gpu in gpus), ORDER: own[ORDER]}


def defaults(lanes: tuple[Lane, ...]) -> dict[str, str]:
    """What a job on a lane gets unless its environment says otherwise: unbuffered Python, its share of the cores."""
    variables = {"PYTHONUNBUFFERED": "1"}
    cpu_lanes = sum(lane.kind is DeviceKind.CPU for lane in lanes)
    if cpu_lanes == len(lanes) > 0:
        variables["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // cpu_lanes))
    return variables
