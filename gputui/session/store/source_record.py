"""The sources a session remembers: files to load again, and those that go on giving, with how far they were read."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gputui.core.mode import Cause, Mode
from gputui.session.owner.load_plan import Again
from gputui.sources.mark import Mark
from gputui.sources.settings.table import NO_SETTINGS, JobSettings


class SourceKind(StrEnum):
    FILE = "file"
    """Read whole; remembered so that it can be loaded again."""
    FOLLOWED = "followed"
    YIELDER = "yielder"


class SourceRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One source, with all that turns its drafts into specs."""

    kind: SourceKind
    path: str
    cwd: str
    environment: str = ""
    """Digest; empty: that of the request that brings it."""
    group: str = ""
    settings: JobSettings = NO_SETTINGS
    again: Again = Again()
    load: str = ""
    """Which load brought it: files that were loaded together count equal commands together."""
    place: int = 0
    """Among the files of that load."""
    position: int = 0
    """Bytes of a followed file, items of a yielder."""
    mark: Mark | None = None
    rest: bytes = b""
    """Of a FIFO: half a command, for it cannot be read again."""
    ended: bool = False
    trouble: str | None = None
    """Why it ended, when it did so badly."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.path}"

    @property
    def reading(self) -> tuple[object, ...]:
        """By what a reader knows that nobody else has read on; a yielder that is given again is another one."""
        return (self.position, self.mark, self.rest, self.load if self.kind is SourceKind.YIELDER else "")

    @property
    def lasts(self) -> bool:
        """It may give jobs still, now or later."""
        return self.kind is not SourceKind.FILE and not self.ended

    def goes_on(self, mode: Mode, cause: Cause | None) -> bool:
        """It may give jobs now: nobody left on purpose."""
        if not self.lasts or mode is Mode.DRAINING:
            return False
        if self.kind is SourceKind.YIELDER:
            return mode is Mode.RUNNING
        return cause is None or not cause.on_purpose
