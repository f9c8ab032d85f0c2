"""Watching a session that another process owns: both ends of the connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gputui import __version__
from gputui.core.events import Refusal
from gputui.core.job import Job, JobId
from gputui.core.results import JobResults
from gputui.core.snapshot import NO_RESULTS, Snapshot
from gputui.core.structures import PackedMap, Vector
from gputui.gpus.history import newest_of
from gputui.gpus.picture import DevicesPicture
from gputui.session.layouts import Former, Layout
from gputui.session.messages import CurvesToDraw, JobInFull, LookRequest, WatchRequest, WhyJobsWait

from . import server
from .answers import details, whys
from .connection import ANOTHER_VERSION, ClientError, Connection, fresh_id

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner


# ---- How a session's picture travels to a screen that only looks ----


LARGEST_PART = 4 << 20
"""Bytes of jobs and results; one job may be larger."""


class FoldersShown(Struct, frozen=True):
    """Where jobs' folders are."""

    session: str
    """Another session may be at the same place later."""
    layout: Layout
    former: tuple[Former, ...] = ()


class PartToSend(Struct, frozen=True, omit_defaults=True):
    jobs: list[Raw] = []
    results: dict[JobId, bytes | None] = {}
    head: Snapshot | None = None
    picture: DevicesPicture | None = None
    newest: bool = False
    folders: FoldersShown | None = None


class PicturePart(Struct, frozen=True):
    """As it is read; jobs in ascending order."""

    jobs: list[Job] = []
    results: dict[JobId, bytes | None] = {}
    """Packed; None: it has none any more."""
    head: Snapshot | None = None
    """Without jobs and results. Only the last part has it: what came until then is a whole picture with it."""
    picture: DevicesPicture | None = None
    newest: bool = False
    """The picture's history is only what is newer than in the one before."""
    folders: FoldersShown | None = None


def _plain(value: Any) -> Any:
    if isinstance(value, Vector | PackedMap):
        return None if isinstance(value, Vector) else {}
    raise NotImplementedError(type(value))


def _no_jobs(kind: type, value: Any) -> Any:
    return Vector()


packed = msgspec.msgpack.Encoder(enc_hook=_plain).encode
unpacked = msgspec.msgpack.Decoder(PicturePart, dec_hook=_no_jobs).decode


class Shown(Struct, frozen=True):
    """What there is to see at one moment."""

    snapshot: Snapshot
    picture: DevicesPicture
    folders: FoldersShown


def parts(now: Shown, before: Shown | None) -> Iterator[bytes]:
    """From what was shown before to what is to be seen now; nothing when that is the same."""
    if before is not None and now.snapshot is before.snapshot and now.picture is before.picture:
        return
    jobs: list[Raw] = []
    results: dict[JobId, bytes | None] = {}
    size = 0
    for job, body in _changes(now.snapshot, before.snapshot if before is not None else None):
        if size >= LARGEST_PART:
            yield packed(PartToSend(jobs, results))
            jobs, results, size = [], {}, 0
        if isinstance(body, Raw):
            jobs.append(body)
        else:
            results[job] = body
        size += len(bytes(body or b""))
    yield packed(_last(now, before, jobs, results))


def _changes(now: Snapshot, before: Snapshot | None) -> Iterator[tuple[JobId, Raw | bytes | None]]:
    old = before.jobs if before is not None else Vector[Job]()
    for place in now.jobs.changed_since(old):
        yield now.first_id + place, Raw(packed(now.jobs[place]))
    if isinstance(now.results, PackedMap):
        earlier = before.results if before is not None else NO_RESULTS
        assert isinstance(earlier, PackedMap)
        for job in now.results.changed_since(earlier):
            yield job, now.results.packed(job)


def _last(now: Shown, before: Shown | None, jobs: list[Raw], results: dict[JobId, bytes | None]) -> PartToSend:
    head = replace(now.snapshot, changed=frozenset())
    folders = now.folders if before is None or now.folders != before.folders else None
    if before is not None and now.picture is before.picture:
        return PartToSend(jobs, results, head, folders=folders)
    newest = newest_of(now.picture.history, before.picture.history) if before is not None else None
    picture = now.picture if newest is None else replace(now.picture, history=newest)
    return PartToSend(jobs, results, head, picture, newest is not None, folders)


class Joined(Struct):
    """The picture as whoever looks has it, put together from parts; not for two threads at once."""

    snapshot: Snapshot | None = None
    picture: DevicesPicture | None = None
    folders: FoldersShown | None = None
    _jobs: list[Job] = msgspec.field(default_factory=list)
    _results: dict[JobId, bytes | None] = msgspec.field(default_factory=dict)

    def join(self, part: PicturePart) -> bool:
        """True: it is whole again, and newer."""
        self._jobs += part.jobs
        self._results.update(part.results)
        if part.head is None:
            return False
        jobs, came, results = _with(self.snapshot, part.head, self._jobs), self._jobs, self._results
        self._jobs, self._results = [], {}
        changed = frozenset(job.id for job in came) | frozenset(results)
        had = self.snapshot.results if self.snapshot is not None else PackedMap(JobResults)
        assert isinstance(had, PackedMap)
        self.snapshot = replace(
            part.head, jobs=jobs, changed=changed, results=had.with_packed(results) if results else had
        )
        self.folders = part.folders or self.folders
        if part.picture is not None:
            self._see(part.picture, newest=part.newest)
        return True

    def _see(self, picture: DevicesPicture, *, newest: bool) -> None:
        from gputui.gpus.history import with_newest

        if newest and self.picture is not None:
            picture = replace(picture, history=with_newest(self.picture.history, picture.history))
        self.picture = picture


def _with(before: Snapshot | None, head: Snapshot, came: list[Job]) -> Vector[Job]:
    jobs = before.jobs if before is not None else Vector[Job]()
    count_before = len(jobs)
    changed = [job for job in came if job.id - head.first_id < count_before]
    if len(changed) * 8 > count_before:  # packing all anew is cheaper than a path for each
        entered = list(jobs)
        for job in changed:
            entered[job.id - head.first_id] = job
        jobs = Vector(entered)
    else:
        for job in changed:
            jobs = jobs.set(job.id - head.first_id, job)
    return jobs.extend(came[len(changed) :])


# ---- The owner's side of screens that only look ----


MOST = 16
"""Screens that are remembered; one that was forgotten is sent everything again."""


class Watcher:
    """One screen: what it has, and the parts that are on their way to it."""

    def __init__(self) -> None:
        self.number = 0
        self.asked = 0.0
        self._has: Shown | None = None
        self._target: Shown | None = None
        self._coming: Iterator[bytes] = iter(())

    def next_part(self, now: Shown) -> bytes:
        """All parts of one picture, then those of the next."""
        part = next(self._coming, None)
        if part is None:
            self._has, self._target = self._target, now
            self._coming = parts(now, self._has)
            part = next(self._coming, packed(PartToSend()))
        self.number += 1
        return part


class Watchers:
    """Works in the owner's thread; what is sent is put together elsewhere, one piece at a time."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._known: dict[str, Watcher] = {}

    def answer(self, ask: LookRequest, reply: Callable[[bytes], None]) -> None:
        try:
            if isinstance(ask, WatchRequest):
                self._watch(ask, reply)
            else:
                reply(server.ok(packed(self._looked(ask))))
        except Refusal as refusal:
            reply(server.no("refused", str(refusal)))

    def _looked(self, ask: LookRequest) -> Any:
        match ask:
            case WhyJobsWait(jobs=jobs):
                return whys(self._owner, [job for job in jobs if job in self._owner.scheduler.book])
            case JobInFull(job=job):
                return details(self._owner, self._owner.scheduler.job(job).id)
            case CurvesToDraw(job=job, attempt=attempt):
                return self._owner.curves(job, attempt)
        return self._owner.spans()

    def _watch(self, ask: WatchRequest, reply: Callable[[bytes], None]) -> None:
        if ask.program != __version__:
            raise Refusal(
                f"this session has gputui {__version__} as its owner, this is {ask.program}: only the same can look on"
            )
        owner = self._owner
        owner.devices.be_watched()
        watcher = self._found(ask)
        now = Shown(owner.snapshot, owner.picture, _folders(owner))

        def make() -> bytes:
            try:
                return server.ok(watcher.next_part(now))
            except Exception as error:
                return server.no("internal", f"the owner failed at this: {error!r}")

        owner.loop.run_in_thread(make, reply)

    def _found(self, ask: WatchRequest) -> Watcher:
        """One that has missed something, or that was forgotten, begins anew under another name."""
        watcher = self._known.get(ask.watcher)
        if watcher is None or watcher.number != ask.number:
            if ask.number:
                raise Refusal("what this screen has is not known any more")
            watcher = self._known[ask.watcher] = Watcher()
        watcher.asked = time.monotonic()
        while len(self._known) > MOST:
            del self._known[min(self._known, key=lambda name: self._known[name].asked)]
        return watcher


def _folders(owner: Owner) -> FoldersShown:
    layout, former = owner.folders.layouts
    return FoldersShown(owner.identity.uuid, layout, former)


# ---- Looking on at a session that another process owns ----


T = TypeVar("T")


class LookingOn:
    """Raises NoOwner when nobody is there (any more), ClientError or OSError when it does not work out."""

    def __init__(self, private: str) -> None:
        self._connection = Connection(private)
        self._name = fresh_id()
        self._number = 0
        self.joined = Joined()

    def catch_up(self) -> bool:
        """True: there is a newer picture, and it is whole."""
        while True:
            body = self._connection.ask(WatchRequest(self._name, self._number, __version__))
            self._number += 1
            part = _understood(body, unpacked)
            if self.joined.join(part):
                return True
            if not part.jobs and not part.results:
                return False

    def ask(self, question: LookRequest, kind: type[T]) -> T:
        return _understood(self._connection.ask(question), msgspec.msgpack.Decoder(kind).decode)

    def close(self) -> None:
        self._connection.close()


def _understood(body: bytes, unpack: Callable[[bytes], T]) -> T:
    try:
        return unpack(body)
    except msgspec.MsgspecError as error:
        raise ClientError(f"the owner's answer is not understood: {error}{ANOTHER_VERSION}") from None
