"""How a read-only screen watches a session: both ends of the connection.

The owner sends what has changed since the last picture, in parts of limited size. The screen joins the parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gputui import __version__
from gputui.core.events import Refusal
from gputui.core.job import Job, JobId, share_equal
from gputui.core.results import NO_RESULTS, PackedResults
from gputui.core.snapshot import Snapshot, changed_places
from gputui.gpus.history import merge_newest, newest_part
from gputui.gpus.picture import DevicesPicture
from gputui.session.job_directories import Former
from gputui.session.messages import (
    ActionsToShow,
    CurvesToDraw,
    JobInFull,
    Layout,
    ScreenRequest,
    WatchRequest,
    WhyJobsWait,
)

from .connection import ANOTHER_VERSION, ClientError, Connection, fresh_id
from .handlers import details, reasons

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner

T = TypeVar("T")


LARGEST_PART = 4 << 20
"""Maximum number of bytes of jobs and results in one part."""


class DirectoriesShown(Struct, frozen=True):
    """How job directories are named, for a screen that shows them."""

    session: str
    """The uuid of the session. The path alone does not identify it, because another session may be created there later.
    """
    layout: Layout
    former: tuple[Former, ...] = ()


J = TypeVar("J")


class PicturePart(Struct, Generic[J], frozen=True, omit_defaults=True):
    jobs: list[J] = []
    """Changed jobs, in ascending order of their ids."""
    results: dict[JobId, bytes | None] = {}
    """Changed results in packed form; None if the job no longer has any."""
    head: Snapshot | None = None
    """The snapshot without jobs and results. It is set only in the last part of a picture."""
    picture: DevicesPicture | None = None
    newest: bool = False
    """Whether `picture.history` contains only what is newer than the previous picture."""
    directories: DirectoriesShown | None = None


def _plain(value: Any) -> Any:
    if isinstance(value, PackedResults):
        return {}
    raise NotImplementedError(type(value))


packed = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def unpacked(part: bytes) -> PicturePart[Job]:
    return msgspec.msgpack.decode(part, type=PicturePart[Job])


class Shown(Struct, frozen=True):
    """The state that a read-only screen shows."""

    snapshot: Snapshot
    picture: DevicesPicture
    directories: DirectoriesShown


def parts(now: Shown, before: Shown | None) -> Iterator[bytes]:
    """Yield the differences between two states as encoded parts."""
    if before is not None and now.snapshot is before.snapshot and now.picture is before.picture:
        return
    jobs: list[Raw] = []
    results: dict[JobId, bytes | None] = {}
    size = 0
    for job, body in _changes(now.snapshot, before.snapshot if before is not None else None):
        if size >= LARGEST_PART:
            yield packed(PicturePart(jobs, results))
            jobs, results, size = [], {}, 0
        if isinstance(body, Raw):
            jobs.append(body)
        else:
            results[job] = body
        size += len(bytes(body or b""))
    yield packed(_last(now, before, jobs, results))


def _changes(now: Snapshot, before: Snapshot | None) -> Iterator[tuple[JobId, Raw | bytes | None]]:
    for place in changed_places(now.jobs, before.jobs if before is not None else ()):
        yield now.first_id + place, Raw(packed(now.jobs[place]))
    if isinstance(now.results, PackedResults):
        earlier = before.results if before is not None else NO_RESULTS
        assert isinstance(earlier, PackedResults)
        for job in now.results.changed_since(earlier):
            yield job, now.results.packed(job)


def _last(now: Shown, before: Shown | None, jobs: list[Raw], results: dict[JobId, bytes | None]) -> PicturePart[Raw]:
    head = replace(now.snapshot, jobs=(), changed=frozenset())
    directories = now.directories if before is None or now.directories != before.directories else None
    if before is not None and now.picture is before.picture:
        return PicturePart(jobs, results, head, directories=directories)
    newest = newest_part(now.picture.history, before.picture.history) if before is not None else None
    picture = now.picture if newest is None else replace(now.picture, history=newest)
    return PicturePart(jobs, results, head, picture, newest is not None, directories)


class JoinedPicture(Struct):
    """A picture that is put together from parts. Not thread-safe."""

    snapshot: Snapshot | None = None
    picture: DevicesPicture | None = None
    directories: DirectoriesShown | None = None
    _jobs: list[Job] = msgspec.field(default_factory=list)
    _results: dict[JobId, bytes | None] = msgspec.field(default_factory=dict)

    def join(self, part: PicturePart[Job]) -> bool:
        """Add a part. Return whether it completes a new picture."""
        self._jobs += share_equal(part.jobs)
        self._results.update(part.results)
        if part.head is None:
            return False
        jobs = _updated(self.snapshot, part.head.first_id, self._jobs)
        changed = frozenset(job.id for job in self._jobs) | frozenset(self._results)
        results = self.snapshot.results if self.snapshot is not None else NO_RESULTS
        assert isinstance(results, PackedResults)
        if self._results:
            results = results.with_packed(self._results)
        self._jobs, self._results = [], {}
        self.snapshot = replace(part.head, jobs=jobs, changed=changed, results=results)
        self.directories = part.directories or self.directories
        if part.newest and part.picture is not None and self.picture is not None:
            history = merge_newest(self.picture.history, part.picture.history)
            self.picture = replace(part.picture, history=history)
        else:
            self.picture = part.picture or self.picture
        return True


def _updated(before: Snapshot | None, first_id: JobId, new: list[Job]) -> tuple[Job, ...]:
    jobs = list(before.jobs) if before is not None else []
    count_before = len(jobs)
    for job in new:
        if job.id - first_id < count_before:
            jobs[job.id - first_id] = job
        else:
            jobs.append(job)
    return tuple(jobs)


# The owner's side


MAX_WATCHERS = 16
"""Maximum number of screens that the owner keeps track of. The one that has been silent longest is dropped, and has to
start again from the beginning.
"""


class Watcher:
    """The owner's record of one screen: what the screen has received and the parts that it still has to get."""

    def __init__(self) -> None:
        self.number = 0
        self.asked = 0.0
        self._target: Shown | None = None
        self._parts: Iterator[bytes] = iter(())

    def next_part(self, now: Shown) -> bytes:
        """Return the next part of the current picture, or the first part of a new one if the current one is
        complete.
        """
        part = next(self._parts, None)
        if part is None:
            self._parts = parts(now, self._target)
            self._target = now
            part = next(self._parts, packed(PicturePart()))
        self.number += 1
        return part


def answer(owner: Owner, ask: ScreenRequest) -> Any:
    """Answer a question of a screen, in the owner's thread."""
    match ask:
        case WhyJobsWait(jobs=jobs):
            return reasons(owner, [job for job in jobs if job in owner.scheduler.book])
        case JobInFull(job=job):
            return details(owner, owner.scheduler.job(job).id)
        case CurvesToDraw(job=job, attempt=attempt):
            curves = owner.results.curves(job, attempt)
            if attempt is None or job not in owner.scheduler.book:
                return curves
            return (*curves, *owner.devices.recording.curves(owner.scheduler.book[job], attempt))
        case ActionsToShow():
            return owner.store.actions()
    return owner.store.spans()


class Watchers:
    """The read-only screens that watch a session, and the answers to their requests."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._known: dict[str, Watcher] = {}

    def read(self, ask: ScreenRequest) -> Any:
        """Return the packed reply or, for a picture, a function that makes it outside the owner's thread."""
        return self._next_part(ask) if isinstance(ask, WatchRequest) else packed(answer(self._owner, ask))

    def _next_part(self, ask: WatchRequest) -> Callable[[], bytes]:
        if ask.program != __version__:
            raise Refusal(f"session runs gputui {__version__}, this is {ask.program}: read-only needs the same version")
        owner = self._owner
        owner.devices.keep_watched()
        watcher = self._known.get(ask.watcher)
        if watcher is None or watcher.number != ask.number:
            if ask.number:  # a part was lost or the watcher was dropped; the screen starts again under a new name
                raise Refusal("this view is out of sync")
            watcher = self._known[ask.watcher] = Watcher()
        watcher.asked = time.monotonic()
        while len(self._known) > MAX_WATCHERS:
            del self._known[min(self._known, key=lambda name: self._known[name].asked)]
        layout, former = owner.directories.layouts
        now = Shown(owner.snapshot, owner.picture, DirectoriesShown(owner.identity.uuid, layout, former))
        return lambda: watcher.next_part(now)


# The screen's side


class WatchConnection:
    """A screen's connection to the owner that keeps a copy of the picture. Its methods raise NoOwner, ClientError or
    OSError.
    """

    def __init__(self, private: str) -> None:
        self._connection = Connection(private)
        self._name = fresh_id()
        self._number = 0
        self.joined = JoinedPicture()

    def catch_up(self) -> bool:
        """Get all changes and return whether there were any."""
        while True:
            body = self._connection.ask(WatchRequest(self._name, self._number, __version__))
            self._number += 1
            part = _decoded(body, unpacked)
            if self.joined.join(part):
                return True
            if not part.jobs and not part.results:
                return False

    def ask(self, question: ScreenRequest, kind: type[T]) -> T:
        return _decoded(self._connection.ask(question), msgspec.msgpack.Decoder(kind).decode)

    def close(self) -> None:
        self._connection.close()


def _decoded(body: bytes, unpack: Callable[[bytes], T]) -> T:
    try:
        return unpack(body)
    except msgspec.MsgspecError as error:
        raise ClientError(f"invalid reply from the scheduler: {error}{ANOTHER_VERSION}") from None
