"""What an owner takes in from its control socket, and what it writes there."""

from __future__ import annotations

from typing import Any

import msgspec

from gputui.session.messages.result_requests import ResultsQuestion, SummaryQuestion
from gputui.session.messages.socket_requests import (
    HEADER,
    LARGEST_FRAME,
    VERSION,
    Commands,
    Curves,
    Follow,
    HandOver,
    Lanes,
    Leave,
    Listing,
    PickJobs,
    SentRequest,
    Show,
    StatusQuestion,
    framed,
)
from gputui.session.messages.watch_requests import CurvesToDraw, JobInFull, SpansToShow, WatchRequest, WhyJobsWait
from gputui.session.owner.requests import Begin, ChooseMetric, Forget, Load, OpenSession, Reload, Sources

__all__ = [
    "HEADER",
    "LARGEST_FRAME",
    "VERSION",
    "Ask",
    "Read",
    "SocketRequest",
    "Write",
    "decode",
    "framed",
    "no",
    "ok",
]

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
    | ResultsQuestion
    | SummaryQuestion
    | WatchRequest
    | WhyJobsWait
    | JobInFull
    | CurvesToDraw
    | SpansToShow
    | Leave
    | HandOver
)


class SocketRequest(SentRequest, frozen=True):
    """One as it is taken in."""

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
