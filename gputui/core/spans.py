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
        """Record that no scheduler was running. This ends the spans of devices, unless the cause is seen again."""
        for key, span in list(self._open.items()):
            if span.kind in (SpanKind.EXTERNAL, SpanKind.TROUBLE):
                self._open[key] = replace(span, until=since)
        self._note(RecordedSpan(number=self._number(), kind=SpanKind.AWAY, since=since, until=until))

    def mode(self, mode: Mode, cause: Cause | None, now: float) -> None:
        """Record the scheduler's mode. Called after each turn."""
        if self._mode is not None and self._mode[0] is mode and self._mode[1] is cause:
            return
        self._mode = (mode, cause)
        self._pause(cause if mode is Mode.PAUSED else None, now)
        draining = RecordedSpan(number=0, kind=SpanKind.DRAIN, since=now, text="draining: no new jobs start")
        self._keep(SpanKind.DRAIN, "", draining if mode is Mode.DRAINING else None, now)

    def _pause(self, cause: Cause | None, now: float) -> None:
        """Record a pause. A cause with the same start time belongs to the same pause, even if it lists more jobs."""
        open_pause = self._open.get((SpanKind.PAUSE, ""))
        if cause is not None and open_pause is not None and open_pause.since == cause.since:
            self._replace(replace(open_pause, text=cause.message, jobs=cause.jobs))
            return
        paused = None
        if cause is not None:
            paused = RecordedSpan(number=0, kind=SpanKind.PAUSE, since=cause.since, text=cause.message, jobs=cause.jobs)
        self._end(SpanKind.PAUSE, "", paused.since if paused is not None else now)
        self._keep(SpanKind.PAUSE, "", paused, now)

    def devices(self, uses: Mapping[str, DeviceUse | None], now: float) -> None:
        """Record why jobs may not start on each device, by the device's name in slots. None means that they may."""
        for device, use in uses.items():
            external_process = use if use is not None and not use.trouble else None
            trouble = use if use is not None and use.trouble else None
            self._use(SpanKind.EXTERNAL, device, external_process, now)
            self._use(SpanKind.TROUBLE, device, trouble, now)

    def _use(self, kind: SpanKind, device: str, use: DeviceUse | None, now: float) -> None:
        open_span = self._open.get((kind, device))
        if use is None:
            self._end(kind, device, now)
        elif open_span is None or (not use.trouble and (open_span.user, open_span.pid) != (use.user, use.pid)):
            self._end(kind, device, now)
            fresh = RecordedSpan(number=0, kind=kind, since=now, device=device, text=use.text, user=use.user,
                                 pid=use.pid, memory=use.memory)  # fmt: skip
            self._keep(kind, device, fresh, now)
        elif open_span.until is not None:
            self._replace(replace(open_span, until=None))  # the same use continues after a time without a scheduler
        elif (use.memory or 0) > (open_span.memory or 0):
            self._open[kind, device] = replace(open_span, memory=use.memory)  # stored when the span ends

    def _keep(self, kind: SpanKind, device: str, span: RecordedSpan | None, now: float) -> None:
        if span is None:
            self._end(kind, device, now)
        elif (kind, device) not in self._open:
            self._replace(replace(span, number=self._number()))

    def _end(self, kind: SpanKind, device: str, now: float) -> None:
        span = self._open.pop((kind, device), None)
        if span is not None:
            self._note(replace(span, until=max(span.since, span.lasts_until(now))))

    def _replace(self, span: RecordedSpan) -> None:
        if self._open.get((span.kind, span.device)) != span:
            self._open[span.kind, span.device] = span
            self._note(span)

    def _note(self, span: RecordedSpan) -> None:
        self.unsaved[span.number] = span

    def _number(self) -> int:
        self._next += 1
        return self._next - 1
