"""The lines around the panes: the status line, titles, borders and footer; and lists of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.core import job
from gputui.core.amounts import counted, duration_words, moment
from gputui.core.job import StateName
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.views.format import cut, width
from gputui.views.status import QueueStatus, StatusWord, describe_outlook, format_counts, queue_status

from .text import Line, Piece, blank, width_of
from .theme import Ground, Look, bold, palette_of


class Divider(Widget):
    """The border between two panes that are side by side."""

    DEFAULT_CSS = "Divider { width: 1; height: 100%; }"

    def render_line(self, y: int) -> Strip:
        return Strip([Segment("│", palette_of(self.app.theme).line)])


class Band(Widget):
    """The title line above a pane."""

    DEFAULT_CSS = "Band { height: 1; width: 100%; }"

    class BandClicked(Message):
        def __init__(self, band: Band, part: int | None) -> None:
            super().__init__()
            self.band = band
            self.part = part
            """The index of the clicked part among those on the left, or None if no part was clicked."""

    def __init__(self, number: int | str, title: str) -> None:
        super().__init__()
        self.number = number
        self.title = title
        self.focused_pane = False
        self.parts: tuple[list[Piece], list[Piece]] = ([], [])
        """The texts after the title, and the texts at the right end."""

    def show(self, left: Sequence[Piece], right: Sequence[Piece] = (), *, title: str | None = None) -> None:
        parts = (list(left), list(right))
        if parts != self.parts or (title is not None and title != self.title):
            self.parts, self.title = parts, title if title is not None else self.title
            self.refresh()

    def focus_on(self, focused: bool) -> None:
        if focused != self.focused_pane:
            self.focused_pane = focused
            self.refresh()

    @property
    def _head(self) -> list[Piece]:
        """The start of the line, such as `1 GPUs`."""
        number_look, title_look = (Look.FOCUS_BOLD, Look.TITLE) if self.focused_pane else (Look.PAST, Look.TEXT)
        return [blank(1), (str(self.number), number_look), blank(1), (self.title, title_look)]

    def render_line(self, y: int) -> Strip:
        left, right = self.parts
        return Line([*self._head, *left], Ground.BAND, right).strip(self.size.width, palette_of(self.app.theme))

    def on_click(self, event: events.Click) -> None:
        head = self._head
        part = _part_at([*head, *self.parts[0]], event.x)
        self.post_message(self.BandClicked(self, part - len(head) if part is not None and part >= len(head) else None))


def _part_at(parts: Sequence[Piece], x: int) -> int | None:
    """Return the index of the part at a cell of the line, or None."""
    end = 0
    for number, (text, _) in enumerate(parts):
        end += width(text)
        if x < end:
            return number
    return None


# The footer


Offer = tuple[str, str]
"""The name of an action and its current label."""
BETWEEN = "  "
LEAST_GAP = 3
"""Minimum number of cells between the left and the right part."""


@dataclass(frozen=True)
class OfferedKeys:
    """The keys offered in the footer. If there is too little room, keys are dropped from the end of `more` first, then
    from `views`, then from `row`.
    """

    row: Sequence[Offer] = ()
    more: Sequence[Offer] = ()
    views: Sequence[Offer] = ()
    always: Sequence[Offer] = (("help", "Help"), ("leave", "Quit"))

    def fitting(self, width: int, keys: Mapping[str, str]) -> tuple[list[Offer], list[Offer]]:
        """Return the keys that fit in the width: those on the left and those on the right."""
        room = width - LEAST_GAP - sum(_cells(offer, keys) for offer in self.always)
        fitting: list[Offer] = []
        for offer in (*self.row, *self.views, *self.more):
            cells = _cells(offer, keys)
            if cells <= room:
                fitting.append(offer)
                room -= cells
        left = [offer for offer in (*self.row, *self.more) if offer in fitting]
        return left, [*(offer for offer in self.views if offer in fitting), *self.always]


class Footer(Widget):
    DEFAULT_CSS = "Footer { height: 1; width: 100%; dock: bottom; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offered = OfferedKeys(always=())
        self._keys: Mapping[str, str] = {}
        self._places: list[tuple[int, int, str]] = []
        """The first cell, the end (exclusive) and the action of each painted key."""

    def show(self, offered: OfferedKeys, keys: Mapping[str, str]) -> None:
        """Show the actions. `keys` contains the key of each action."""
        if (offered, keys) != (self._offered, self._keys):
            self._offered, self._keys = offered, dict(keys)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        cells = self.size.width
        left, right = self._offered.fitting(cells, self._keys)
        right_start = cells - 1 + len(BETWEEN) - sum(_cells(offer, self._keys) for offer in right)
        self._places = []
        for offers, start in ((left, 1), (right, right_start)):
            for offer in offers:
                end = start + _cells(offer, self._keys)
                self._places.append((start, end - len(BETWEEN), offer[0]))
                start = end
        parts = [blank(1), *self._parts(left)]
        return Line(parts, Ground.HEADER, self._parts(right)[:-1]).strip(cells, palette_of(self.app.theme))

    def _parts(self, offers: list[Offer]) -> list[Piece]:
        parts: list[Piece] = []
        for name, label in offers:
            parts += [(self._keys[name], Look.BEST), (f" {label}", Look.PAST), (BETWEEN, Look.PAST)]
        return parts

    async def on_click(self, event: events.Click) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                await self.run_action(f"screen.act('{name}')")


def _cells(offer: Offer, keys: Mapping[str, str]) -> int:
    name, label = offer
    return width(keys[name]) + 1 + width(label) + len(BETWEEN)


# The status line


CLOCK = 8
"""Number of cells for the time at the end of the line, including a gap."""
LEAST_SENTENCE = 16
"""Minimum number of cells for a sentence that is cut."""
BAR, SHORT_BAR, LONG_BAR = 20, 10, 40
WIDE, WIDEST = 100, 160
"""Minimum widths of the line in cells for a normal bar and for a long bar."""

SIGNS = {
    StatusWord.RUNNING: "▶", StatusWord.WAITING: "◷", StatusWord.IDLE: "○", StatusWord.DONE: "✓",
    StatusWord.PAUSED: "‖", StatusWord.DRAINING: "▽", StatusWord.PROBING: "◷", StatusWord.SUSPENDED: "◐",
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """The names of the session and host in the status line."""

    session: str
    host: str


class StatusLine(Widget):
    DEFAULT_CSS = "StatusLine { height: 1; width: 100%; }"

    def __init__(self, where: Where, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.where = where
        self._parts: list[Piece] = []
        self._clock: list[Piece] = []

    def show(self, snapshot: Snapshot, now: float, *, monitor: bool = False, read_only: bool = False) -> None:
        parts = status_parts(self.where, snapshot, now, self.size.width, monitor=monitor, read_only=read_only)
        clock = [(moment(now, now), Look.PAST)]
        if (parts, clock) != (self._parts, self._clock):
            self._parts, self._clock = parts, clock
            self.refresh()

    def render_line(self, y: int) -> Strip:
        fits = self.size.width - width_of([*self._parts, *self._clock]) >= 3
        right = self._clock if fits else []
        return Line(self._parts, Ground.HEADER, right).strip(self.size.width, palette_of(self.app.theme))


def terminal_title(snapshot: Snapshot) -> str:
    """Return the title for the terminal window, such as `37/60 · 3✗ gputui`."""
    ended, total, failed = _progress(snapshot)
    parts = [f"{ended:,}/{total:,}"] if total else []
    parts += [f"{failed:,}✗"] if failed else []
    return f"{' · '.join(parts)} gputui".strip()


def status_parts(
    where: Where, snapshot: Snapshot, now: float, width: int, *, monitor: bool = False, read_only: bool = False
) -> list[Piece]:
    """Return the parts of the status line that fit. Parts are dropped in this order: the host, the remaining time, half
    of the bar, the rest of the bar with the session, and the name `gputui`.
    """
    longest = LONG_BAR if width >= WIDEST else BAR if width >= WIDE else SHORT_BAR
    for dropped in range(7):
        parts = [blank(1), *_place(where, dropped)]
        if read_only:
            parts += [("read-only", Look.WARNING), blank(2)]
        if not monitor:
            length = 0 if dropped > 3 else SHORT_BAR if dropped > 2 else longest
            parts += _session_parts(
                snapshot, now, width - width_of(parts), length, brief=dropped > 1, read_only=read_only
            )
        if dropped > 5:
            parts = parts[:4]
        if width_of(parts) <= width - (CLOCK if dropped < 4 else 1):
            break
    return parts


def _place(where: Where, dropped: int) -> list[Piece]:
    session, host = plain(where.session), plain(where.host)
    place = f"{session} @ {host}" if session and not dropped else session or host
    named = [("gputui", Look.BEST)] if dropped < 5 else []
    named += [blank(2), (place, Look.PAST)] if dropped < 4 else []
    return [*named, blank(3 if dropped < 2 else 2)] if named else []


def _session_parts(
    snapshot: Snapshot, now: float, room: int, bar_cells: int, *, brief: bool, read_only: bool
) -> list[Piece]:
    status = queue_status(snapshot)
    gap = blank(2 if brief else 3)
    parts = [_state(snapshot, status)]
    ended, total, failed = _progress(snapshot)
    if snapshot.submitted_count and not brief:
        parts += [gap, (f"{snapshot.submitted_count:,} submitted", Look.BOLD)]
    if (suspended := snapshot.count(StateName.SUSPENDED)) and status.word is StatusWord.RUNNING:
        parts += [gap, (f"{suspended:,} suspended", Look.WARNING)]
    if total:
        parts += [gap, *_progress_bar(snapshot, bar_cells), (f"{ended:,}/{total:,}", Look.BEST)]
    if failed and status.word is not StatusWord.DONE:
        parts += [gap, (f"{failed:,} ✗", Look.FAILURE_BOLD)]
    parts += _end(snapshot, status, now, gap, brief=brief)
    remaining = room - width_of(parts) - len(gap[0]) - CLOCK
    advice = status.awaits
    if status.word is StatusWord.SUSPENDED and not read_only:  # here a key does what other programs need a command for
        advice = f"S: continue {counted(suspended, 'job', 'jobs')}"
    if advice and status.word is not StatusWord.PROBING and remaining >= LEAST_SENTENCE:
        parts += [gap, (cut(plain(advice), remaining), Look.WARNING)]
    return parts


def _state(snapshot: Snapshot, status: QueueStatus) -> Piece:
    failed = _progress(snapshot)[2]
    if status.word is StatusWord.RUNNING:
        return f"▶ {snapshot.running - snapshot.count(StateName.SUSPENDED):,} running", Look.RUNNING_BOLD
    if status.word is StatusWord.DONE:
        return (f"DONE, {failed:,} ✗", Look.FAILURE_BOLD) if failed else ("✓ DONE", Look.RUNNING_BOLD)
    if status.word is StatusWord.PROBING:
        return f"◷ PROBING {', '.join(f'#{job}' for job in status.probes)}", Look.WARNING_BOLD
    look = Look.TEXT if status.word is StatusWord.IDLE else Look.WARNING
    return f"{SIGNS.get(status.word, '!')} {status.word.upper()}", bold(look)


def _end(snapshot: Snapshot, status: QueueStatus, now: float, gap: Piece, *, brief: bool) -> list[Piece]:
    """Return when all jobs will have ended. For a paused session, return how many jobs are running and waiting."""
    outlook = describe_outlook(snapshot, now) if status.word in (StatusWord.RUNNING, StatusWord.WAITING) else []
    if outlook:
        parts = [gap, (" · ".join(outlook[:1] if brief else outlook), Look.BOLD)]
        if not brief and snapshot.eta is not None and snapshot.eta > now:
            parts += [blank(2), (f"in {duration_words(snapshot.eta - now)}", Look.PAST)]
        return parts
    if status.word in (StatusWord.RUNNING, StatusWord.DONE, StatusWord.IDLE):
        return []
    if status.word is StatusWord.SUSPENDED:  # the number of suspended jobs is shown elsewhere
        words = f"{snapshot.not_begun:,} waiting" if snapshot.not_begun else ""
    else:
        words = format_counts(snapshot) if snapshot.running or snapshot.not_begun else ""
    return [gap, (words, Look.TEXT)] if words else []


def _progress_bar(snapshot: Snapshot, cells: int) -> list[Piece]:
    """Return a bar of succeeded, failed, running and other jobs. Each kind present has at least one cell, and the bar
    is full only if all jobs have ended.
    """
    if not cells:
        return []
    total = sum(snapshot.counts.values())
    failed = snapshot.count(*job.BAD_ENDS)
    good = snapshot.count(StateName.SUCCEEDED, StateName.KILLED)
    shares, used, most = [], 0, cells - (good + failed < total)
    for count, look in ((good, Look.OK), (failed, Look.FAILURE), (snapshot.running, Look.RUNNING)):
        length = min(most - used, max(1, round(cells * count / total)) if count else 0)
        shares.append(("━" * length, look))
        used += length
    return [*(share for share in shares if share[0]), ("─" * (cells - used), Look.LINE), blank(1)]


def _progress(snapshot: Snapshot) -> tuple[int, int, int]:
    """Return three counts: jobs that have ended, all jobs, and jobs that failed."""
    return snapshot.count(*job.ENDS), sum(snapshot.counts.values()), snapshot.count(*job.BAD_ENDS)


# Lists of lines


WHEEL_LINES = 3


class LinesView(Widget):
    """A scrollable list of lines. `top` is the number of the first visible line."""

    class LineClicked(Message):
        """The message sent when a line with a value was clicked."""

        def __init__(self, view: LinesView, value: object) -> None:
            super().__init__()
            self.view = view
            self.value = value

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.lines: list[Line] = []
        self.top = 0

    def show(self, lines: Sequence[Line], visible: tuple[int, int] | None = None) -> None:
        """Repaint the lines that have changed. `visible` gives the first and last line that must be visible."""
        before, top, height = self.lines, self.top, max(1, self.size.height)
        self.lines = list(lines)
        if visible is not None:
            self.top = min(max(self.top, visible[1] - height + 1), visible[0])
        self.top = max(0, min(self.top, len(lines) - height))
        if self.top != top or len(before) != len(lines):
            self.refresh()
            return
        for number, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh(Region(0, number - self.top, self.size.width, 1))

    def scroll_by(self, lines: int) -> None:
        top = max(0, min(self.top + lines, len(self.lines) - max(1, self.size.height)))
        if self.top != top:
            self.top = top
            self.refresh()

    def render_line(self, y: int) -> Strip:
        number = self.top + y
        line = self.lines[number] if number < len(self.lines) else Line()
        return line.strip(self.size.width, palette_of(self.app.theme))

    def on_click(self, event: events.Click) -> None:
        number = self.top + event.y
        if number < len(self.lines) and self.lines[number].value is not None:
            self.post_message(self.LineClicked(self, self.lines[number].value))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-WHEEL_LINES)
