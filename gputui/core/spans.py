"""Stretches of time in which something kept jobs from starting: what a session remembers of them, and how.

Pure: whoever sees it says so, with the time; whoever has a store asks for what is unsaved. Jobs and their attempts are
not here, for they are in the book.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from .events import Cause, Mode
from .job import JobId

MOST_SPANS = 5000
"""That are kept; the oldest go."""


class SpanKind(StrEnum):
    """What kept jobs from starting."""

    PAUSE = "pause"
    DRAIN = "drain"
    STRANGER = "stranger"
    TROUBLE = "trouble"
    """The device did not work."""
    AWAY = "away"
    """No gputui was there to start anything."""


class RecordedSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    kind: SpanKind
    since: float
    until: float | None = None
    """None: it goes on."""
    device: str = ""
    """As lanes name it; empty: all of them."""
    text: str = ""
    """The cause in words."""
    user: str = ""
    """Whose process it was, or who wanted it."""
    pid: int | None = None
    memory: int | None = None
    jobs: tuple[JobId, ...] = ()

    def lasts_until(self, now: float) -> float:
        return now if self.until is None else self.until


class DeviceUse(Struct, frozen=True):
    """What one device is to us at one moment: a stranger's, in trouble, or neither."""

    user: str = ""
    text: str = ""
    pid: int | None = None
    memory: int | None = None
    trouble: bool = False


class SpanRecord:
    """What goes on now, and what the store does not know yet. Costs a comparison while nothing changes."""

    def __init__(self, open_spans: Iterable[RecordedSpan] = (), next_number: int = 1) -> None:
        self.unsaved: dict[int, RecordedSpan] = {}
        self._open = {(span.kind, span.device): span for span in open_spans}
        self._next = next_number
        self._mode: tuple[Mode, Cause | None] | None = None

    def away(self, since: float, until: float) -> None:
        """Nobody had the session: what went on when it was last seen ended then, unless it still does."""
        for key, span in list(self._open.items()):
            if span.kind in (SpanKind.STRANGER, SpanKind.TROUBLE):
                self._open[key] = replace(span, until=since)
        self._note(RecordedSpan(number=self._number(), kind=SpanKind.AWAY, since=since, until=until))

    def mode(self, mode: Mode, cause: Cause | None, now: float) -> None:
        """The scheduler's, after each turn."""
        if self._mode is not None and self._mode[0] is mode and self._mode[1] is cause:
            return
        self._mode = (mode, cause)
        self._pause(cause if mode is Mode.PAUSED else None, now)
        draining = RecordedSpan(number=0, kind=SpanKind.DRAIN, since=now, text="draining: nothing new starts")
        self._keep(SpanKind.DRAIN, "", draining if mode is Mode.DRAINING else None, now)

    def _pause(self, cause: Cause | None, now: float) -> None:
        """A cause that comes to know more jobs is the same pause."""
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
        """Of every device that lanes are over, by their word for it."""
        for device, use in uses.items():
            stranger = use if use is not None and not use.trouble else None
            trouble = use if use is not None and use.trouble else None
            self._use(SpanKind.STRANGER, device, stranger, now)
            self._use(SpanKind.TROUBLE, device, trouble, now)

    def _use(self, kind: SpanKind, device: str, use: DeviceUse | None, now: float) -> None:
        open_span = self._open.get((kind, device))
        if use is None:
            self._end(kind, device, now)
        elif open_span is None or _differs(open_span, use):
            self._end(kind, device, now)
            fresh = RecordedSpan(number=0, kind=kind, since=now, device=device, text=use.text, user=use.user,
                                 pid=use.pid, memory=use.memory)  # fmt: skip
            self._keep(kind, device, fresh, now)
        elif open_span.until is not None:
            self._replace(replace(open_span, until=None))  # the same process is still there: nobody looked meanwhile
        elif (use.memory or 0) > (open_span.memory or 0):
            self._open[kind, device] = replace(open_span, memory=use.memory)  # stored when it ends

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


def _differs(span: RecordedSpan, use: DeviceUse) -> bool:
    """Somebody else's, or another process; the driver's words for a trouble may hold a number that grows."""
    if use.trouble:
        return False
    return (span.user, span.pid) != (use.user, use.pid)
