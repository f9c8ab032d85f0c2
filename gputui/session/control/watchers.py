"""The owner's side of screens that only look: remembers what each was shown, and answers with what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.core.events import Refusal
from gputui.session.messages.watch_requests import CurvesToDraw, JobInFull, LookRequest, WatchRequest, WhyJobsWait

from . import wire
from .job_details import details, whys
from .watch_parts import FoldersShown, PartToSend, Shown, packed, parts

if TYPE_CHECKING:
    from gputui.session.owner.owner import Owner

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
                reply(wire.ok(packed(self._looked(ask))))
        except Refusal as refusal:
            reply(wire.no("refused", str(refusal)))

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
                return wire.ok(watcher.next_part(now))
            except Exception as error:
                return wire.no("internal", f"the owner failed at this: {error!r}")

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
