"""What can be asked of an owner, and of which kind the answer is. A verb loads this and no scheduler.

What adds jobs carries sources along and stands in `session/owner/requests.py`. `hand_over` and its reply never change
their shape: a newer gputui must be able to take a session from an older one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from gputui.core.events import Edit, Refusal, Rerun, UserCommand
from gputui.core.job import JobId, StateName
from gputui.core.views.parameters import following

from .replies import (
    CurvePoint,
    Departure,
    Followed,
    LanesShown,
    Listed,
    ListedRows,
    Outcome,
    PickedJobs,
    SessionStatus,
    ShownJob,
)

if TYPE_CHECKING:
    from gputui.session.owner.ticket import Act

T = TypeVar("T")
VERSION = 1
LARGEST_FRAME = 256 << 20
HEADER = struct.Struct(">I")
TOO_OLD = "too_old"
"""The kind of a refusal: whoever asks could not open the session's store."""


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


class OwnerRequest(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """Base of all of them; `T` is what an owner answers."""


def reply_type(request: OwnerRequest[T]) -> type[T]:
    """What stands in the brackets after its base."""
    (kind,) = get_args(type(request).__orig_bases__[0])  # type: ignore[attr-defined]  # whatever has a generic base has
    answer: type[T] = kind
    return answer


class SentRequest(msgspec.Struct, frozen=True):
    """One as it travels."""

    v: int
    uuid: str
    """Repeated with the same one, it is answered again and not carried out again."""
    ask: OwnerRequest[Any]


class ReceivedReply(msgspec.Struct, frozen=True):
    ok: bool
    value: msgspec.Raw = msgspec.Raw(b"null")
    """Of the request's own kind."""
    kind: str = ""
    """Of a refusal."""
    message: str = ""


class Commands(OwnerRequest[list[Outcome]], frozen=True, tag="commands"):
    """Any number of commands, each carried out or refused on its own."""

    events: tuple[UserCommand, ...]
    environment: dict[str, str] | None = None

    def __call__(self, act: Act) -> list[Outcome]:
        digest = act.keep_environment(self.environment) if self.environment is not None else None
        return [self._one(act, _following(act, _with_environment(event, digest))) for event in self.events]

    def _one(self, act: Act, event: UserCommand) -> Outcome:
        job = getattr(event, "job", None)
        try:
            act.handle(event)
        except Refusal as refusal:
            return Outcome(job, str(refusal))
        return Outcome(job, None)


def _with_environment(event: UserCommand, digest: str | None) -> UserCommand:
    """A rerun in the caller's environment says so with an empty digest: a light client cannot make one."""
    if isinstance(event, Rerun) and event.environment == "":
        return replace(event, environment=digest)
    return event


def _following(act: Act, event: UserCommand) -> UserCommand:
    """What is shown of an edited job follows its command, whichever client wrote it."""
    if not isinstance(event, Edit) or event.job not in act.scheduler.book:
        return event
    return replace(event, spec=following(event.spec, act.scheduler.book[event.job].spec))


class Listing(OwnerRequest[Listed], frozen=True, tag="listing"):
    """`ls --json`: all jobs that were not removed, or these."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = False
    """Only what a table shows: a RowListing."""


class RowListing(OwnerRequest[ListedRows], frozen=True, tag="listing", omit_defaults=False):
    """The same for a table, as clients send it."""

    jobs: list[JobId] | None = None
    states: list[StateName] | None = None
    rows: bool = True


class Show(OwnerRequest[ShownJob], frozen=True, tag="show"):
    job: JobId
    environment: bool = False


class PickJobs(OwnerRequest[PickedJobs], frozen=True, tag="pick"):
    """Which jobs a user's words mean."""

    ids: list[tuple[JobId, JobId]] = []
    names: list[str] = []
    failed: bool = False
    """Those that the current pause names; when crashes have not paused it, all that failed."""
    all_failed: bool = False
    succeeded: bool = False
    all: bool = False


class StatusQuestion(OwnerRequest[SessionStatus], frozen=True, tag="status"):
    pass


class Lanes(OwnerRequest[LanesShown], frozen=True, tag="lanes"):
    pass


class Follow(OwnerRequest[Followed], frozen=True, tag="follow"):
    """These jobs whole, for a client that reports on them."""

    jobs: list[JobId]


class Curves(OwnerRequest[dict[JobId, dict[str, list[CurvePoint]]]], frozen=True, tag="curves"):
    """How the metrics of these jobs went; of the attempt, or of the newest that printed any."""

    jobs: list[JobId]
    attempt: int | None = None
    metric: str | None = None
    """Only this one."""


class Leave(OwnerRequest[Departure | None], frozen=True, tag="leave"):
    """To an owning keeper: go, if there is nothing left to do."""

    stop: bool = False
    """To every owner: the user wants nothing of the session to run."""


class HandOver(OwnerRequest[Any], frozen=True, tag="hand_over"):
    """Pass the locked descriptor and go; an app or a run only does so when forced."""

    force: bool = False
    schema: int = 1
    """The newest store that the taker can open: 0.1.0, which did not say so, knew the first."""
