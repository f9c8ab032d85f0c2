"""Recorded spans of time in which something kept jobs from starting: pauses, other users, broken devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .events import Cause, Mode
from .job import JobId

MOST_SPANS = 5000
"""Maximum number of stored spans. The oldest ones are dropped."""


class SpanKind(StrEnum):
    """What keeps jobs from starting."""

    PAUSE = "pause"
    DRAIN = "drain"
    EXTERNAL = "external_process"
    TROUBLE = "trouble"
    """The device does not work."""
    AWAY = "away"
    """No scheduler was running."""


class RecordedSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    kind: SpanKind
    since: float
    until: float | None = None
    """When the span ended, or None if it has not ended."""
    device: str = ""
    """The device's name as in slots, or empty for all devices."""
    text: str = ""
    """The cause in words."""
    user: str = ""
    """The user that the external process belongs to."""
    pid: int | None = None
    memory: int | None = None
    jobs: tuple[JobId, ...] = ()

    def lasts_until(self, now: float) -> float:
        return now if self.until is None else self.until


class DeviceUse(Struct, frozen=True):
    """Why no job may start on a device: an external process, or trouble with the device."""

    user: str = ""
    text: str = ""
    pid: int | None = None
    memory: int | None = None
    trouble: bool = False


class SpanRecord:
    """The open spans, and the spans that are not stored yet. Recording is cheap while nothing changes."""

    def __init__(self, open_spans: Iterable[RecordedSpan] = (), next_number: int = 1) -> None:
        self.unsaved: dict[int, RecordedSpan] = {}
        self._open = {(span.kind, span.device): span for span in open_spans}
        self._next = next_number
        self._mode: tuple[Mode, Cause | None] | None = None

    def away(self, since: float, until: float) -> None:
        """Record that no scheduler was running. Open spans of devices end, unless their causes are seen again."""
        for key, span in list(self._open.items()):
            if span.kind in (SpanKind.EXTERNAL, SpanKind.TROUBLE):
                self._open[key] = replace(span, until=since)
        away = RecordedSpan(number=self._number(), kind=SpanKind.AWAY, since=since, until=until)
        self.unsaved[away.number] = away

    def mode(self, mode: Mode, cause: Cause | None, now: float) -> None:
        """Record the scheduler's mode. Called after each turn."""
        if self._mode is not None and self._mode[0] is mode and self._mode[1] is cause:
            return
        self._mode = (mode, cause)
        pause = drain = None
        if mode is Mode.PAUSED and cause is not None:
            pause = RecordedSpan(number=0, kind=SpanKind.PAUSE, since=cause.since, text=cause.message, jobs=cause.jobs)
        elif mode is Mode.DRAINING:
            drain = RecordedSpan(number=0, kind=SpanKind.DRAIN, since=now, text="draining: no new jobs start")
        self._set(SpanKind.PAUSE, "", pause, now)
        self._set(SpanKind.DRAIN, "", drain, now)

    def devices(self, uses: Mapping[str, DeviceUse | None], now: float) -> None:
        """Record for each device why no job may start on it, or None if jobs may.

        The keys are the device names used in slots.
        """
        for device, use in uses.items():
            for kind in (SpanKind.EXTERNAL, SpanKind.TROUBLE):
                span = None
                if use is not None and use.trouble is (kind is SpanKind.TROUBLE):
                    span = RecordedSpan(number=0, kind=kind, since=now, device=device, text=use.text, user=use.user,
                                        pid=use.pid, memory=use.memory)  # fmt: skip
                self._set(kind, device, span, now)

    def _set(self, kind: SpanKind, device: str, span: RecordedSpan | None, now: float) -> None:
        """Begin, continue or end a device's span of this kind. `span` is the current cause, or None."""
        before = self._open.get((kind, device))
        if before is not None and (span is None or _identity(span) != _identity(before)):
            ended = before.lasts_until(span.since if span is not None else now)
            self.unsaved[before.number] = replace(before, until=max(before.since, ended))
            del self._open[kind, device]
            before = None
        if span is None:
            return
        if before is None:
            span = replace(span, number=self._number())
        elif kind is SpanKind.PAUSE:
            span = replace(before, text=span.text, jobs=span.jobs)
        else:
            span = replace(before, until=None, memory=max(before.memory or 0, span.memory or 0) or None)
        self._open[kind, device] = span
        if before is None or replace(span, memory=before.memory) != before:  # the memory is stored at the end
            self.unsaved[span.number] = span

    def _number(self) -> int:
        self._next += 1
        return self._next - 1


def _identity(span: RecordedSpan) -> object:
    """Return a value that differs between two consecutive spans of the same kind and device."""
    match span.kind:
        case SpanKind.PAUSE:
            return span.since  # the time stays the same when more failed jobs are added to the cause
        case SpanKind.EXTERNAL:
            return span.user, span.pid
    return None
