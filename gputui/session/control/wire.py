"""What travels over the control socket: typed on the owner's side, plain JSON on the other.

`hand_over` and its reply never change their shape: a newer gputui must be able to take a session from an older one.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from gputui.core.job import JobId, JobSpec, StateName
from gputui.session.owner.requests import Begin, ChooseMetric, Commands, Forget, Load, OpenSession

VERSION = 1
LARGEST_FRAME = 256 << 20
HEADER = struct.Struct(">I")


class Listing(msgspec.Struct, frozen=True, tag="listing"):
    """`ls --json`: all jobs that were not removed, or these."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = False
    """Only what a table shows."""


class Show(msgspec.Struct, frozen=True, tag="show"):
    job: JobId
    environment: bool = False


class PickJobs(msgspec.Struct, frozen=True, tag="pick"):
    """Which jobs a user's words mean."""

    ids: list[tuple[JobId, JobId]] = []
    names: list[str] = []
    failed: bool = False
    """Those that the current pause names; when crashes have not paused it, all that failed."""
    all_failed: bool = False
    succeeded: bool = False
    all: bool = False


class StatusQuestion(msgspec.Struct, frozen=True, tag="status"):
    pass


class Lanes(msgspec.Struct, frozen=True, tag="lanes"):
    pass


class Follow(msgspec.Struct, frozen=True, tag="follow"):
    """These jobs whole, for a client that reports on them."""

    jobs: list[JobId]


class Sources(msgspec.Struct, frozen=True, tag="sources"):
    """What the session remembers of where its jobs came from."""


class Reload(msgspec.Struct, frozen=True, tag="reload"):
    """How these specs, read from the session's files, differ from what it has."""

    specs: tuple[JobSpec, ...]
    groups: frozenset[str]


class Curves(msgspec.Struct, frozen=True, tag="curves"):
    """How the metrics of these jobs went; of the attempt, or of the newest that printed any."""

    jobs: list[JobId]
    attempt: int | None = None
    metric: str | None = None
    """Only this one."""


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """To an owning keeper: go, if there is nothing left to do."""

    stop: bool = False
    """To every owner: the user wants nothing of the session to run."""


class HandOver(msgspec.Struct, frozen=True, tag="hand_over"):
    """Pass the locked descriptor and go; an app or a run only does so when forced."""

    force: bool = False


Write = Commands | Load | Begin | OpenSession | Forget | ChooseMetric
Read = Listing | Show | PickJobs | StatusQuestion | Lanes | Follow | Sources | Reload | Curves
Ask = (
    Commands
    | Load
    | Begin
    | OpenSession
    | Forget
    | ChooseMetric
    | Listing
    | Show
    | PickJobs
    | StatusQuestion
    | Lanes
    | Follow
    | Sources
    | Reload
    | Curves
    | Leave
    | HandOver
)


class SocketRequest(msgspec.Struct, frozen=True):
    v: int
    uuid: str
    ask: Ask


_decode = msgspec.json.Decoder(SocketRequest).decode
_encode = msgspec.json.Encoder().encode


def decode(body: bytes) -> SocketRequest:
    """Raises msgspec.MsgspecError."""
    return _decode(body)


def ok(value: Any) -> bytes:
    return _encode({"v": VERSION, "ok": True, "value": value})


def no(kind: str, message: str) -> bytes:
    return _encode({"v": VERSION, "ok": False, "kind": kind, "message": message})


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body
