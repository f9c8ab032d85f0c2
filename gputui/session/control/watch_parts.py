"""How a session's picture travels to a screen that only looks: in parts of a bounded size, and only what changed.

Packed as msgpack, which keeps what JSON has no word for (NaN), and read by the same version that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from gputui.core.job import Job, JobId
from gputui.core.results import JobResults
from gputui.core.snapshot import NO_RESULTS, Snapshot
from gputui.core.structures.packed import PackedMap
from gputui.core.structures.vector import Vector
from gputui.gpus.history.newest import newest_of
from gputui.gpus.picture import DevicesPicture
from gputui.session.files.layouts import Former, Layout

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
        from gputui.gpus.history.newest import with_newest

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
