"""The lines around the panes: the status line, titles, borders and footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.core import job
from gputui.core.amounts import duration_words, moment
from gputui.core.job import StateName
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.views.format import cut
from gputui.views.status import QueueStatus, StatusWord, describe_outlook, format_counts, queue_status

from .text import Line
from .theme import Ground, Look, Palette, palette_of


class Divider(Widget):
    """The border between two panes that are side by side."""

    DEFAULT_CSS = "Divider { width: 1; height: 100%; }"

    def render_line(self, y: int) -> Strip:
        return Strip([Segment("│", palette_of(self.app.theme).line)])


BandPart = tuple[str, Style]
AnyPart = tuple[str, Look | Style]
"""A text and its look. The background of the band is added to the look."""


class Band(Widget):
    """The title line above a pane."""

    DEFAULT_CSS = "Band { height: 1; width: 100%; }"

    class BandClicked(Message):
        def __init__(self, band: Band, part: int | None) -> None:
            super().__init__()
            self.band = band
            self.part = part
            """The index of the clicked part among those on the left, or None if no part was clicked."""

    def __init__(self, number: int | str, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.number = number
        self.title = title
        self.focused_pane = False
        self.parts: tuple[list[AnyPart], list[AnyPart]] = ([], [])
        """The texts after the title, and the texts at the right end."""
        self.places: list[tuple[int, int]] = []
        """The first cell and the end (exclusive) of each painted part on the left."""

    def show(self, left: Sequence[AnyPart], right: Sequence[AnyPart] = (), *, title: str | None = None) -> None:
        parts = (list(left), list(right))
        if parts != self.parts or (title is not None and title != self.title):
            self.parts, self.title = parts, title if title is not None else self.title
            self.refresh()

    def focus_on(self, focused: bool) -> None:
        if focused != self.focused_pane:
            self.focused_pane = focused
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        left, right = self.parts
        head = band_head(self.number, self.title, palette, focused=self.focused_pane)
        self.places, start = [], _parts_width(head)
        for text, _ in left:
            self.places.append((start, start + cell_len(text)))
            start += cell_len(text)
        return band_line([*head, *left], right, self.size.width, palette)

    def on_click(self, event: events.Click) -> None:
        under = (number for number, (start, end) in enumerate(self.places) if start <= event.x < end)
        self.post_message(self.BandClicked(self, next(under, None)))


def band_head(number: int | str, title: str, palette: Palette, *, focused: bool) -> list[BandPart]:
    """Return the head of a band, such as `1 GPUs`."""
    number_style, title_style = palette.past, palette.text
    if focused:
        number_style, title_style = palette.focus + Style(bold=True), palette.text + Style(bold=True, underline=True)
    return [(" ", palette.text), (str(number), number_style), (" ", palette.text), (title, title_style)]


def band_line(
    left: Sequence[AnyPart],
    right: Sequence[AnyPart],
    width: int,
    palette: Palette,
    ground: Ground = Ground.BAND,
) -> Strip:
    """Render a band. The left part is cut if it does not fit."""
    return Line(left, ground, right).strip(width, palette)  # type: ignore[arg-type]


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

    class Clicked(Message):
        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offered = OfferedKeys(always=())
        self._keys: Mapping[str, str] = {}
        self._places: list[tuple[int, int, str]] = []

    def show(self, offered: OfferedKeys, keys: Mapping[str, str]) -> None:
        """Show the actions. `keys` contains the key of each action."""
        if (offered, keys) != (self._offered, self._keys):
            self._offered, self._keys = offered, dict(keys)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, palette = self.size.width, palette_of(self.app.theme)
        left, right = self._offered.fitting(width, self._keys)
        right_start = width - 1 + len(BETWEEN) - sum(_cells(offer, self._keys) for offer in right)
        self._places = [*self._locate(left, 1), *self._locate(right, right_start)]
        parts = [(" ", palette.text), *self._parts(left)]
        return band_line(parts, self._parts(right)[:-1], width, palette, Ground.HEADER)

    def _locate(self, offers: list[Offer], start: int) -> Iterator[tuple[int, int, str]]:
        for offer in offers:
            end = start + _cells(offer, self._keys)
            yield start, end - len(BETWEEN), offer[0]
            start = end

    def _parts(self, offers: list[Offer]) -> list[BandPart]:
        palette = palette_of(self.app.theme)
        parts: list[BandPart] = []
        for name, label in offers:
            parts += [(self._keys[name], palette.best), (f" {label}", palette.past), (BETWEEN, palette.past)]
        return parts

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))


def _cells(offer: Offer, keys: Mapping[str, str]) -> int:
    name, label = offer
    return cell_len(keys[name]) + 1 + cell_len(label) + len(BETWEEN)


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
        self._left: list[BandPart] = []
        self._right: list[BandPart] = []

    def show(self, snapshot: Snapshot, now: float, *, monitor: bool = False, read_only: bool = False) -> None:
        palette = palette_of(self.app.theme)
        left = status_parts(
            self.where, snapshot, now, self.size.width, palette, monitor=monitor, read_only=read_only
        )  # fmt: skip
        right: list[BandPart] = [(moment(now, now), palette.past)]
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self.app.theme), self.size.width
        fits = width - sum(cell_len(text) for text, _ in (*self._left, *self._right)) >= 3
        return band_line(self._left, self._right if fits else [], width, palette, Ground.HEADER)


def terminal_title(snapshot: Snapshot) -> str:
    """Return the title for the terminal window, such as `37/60 · 3✗ gputui`."""
    ended, total, failed = _progress(snapshot)
    parts = [f"{ended:,}/{total:,}"] if total else []
    parts += [f"{failed:,}✗"] if failed else []
    return f"{' · '.join(parts)} gputui".strip()


def status_parts(
    where: Where,
    snapshot: Snapshot,
    now: float,
    width: int,
    palette: Palette,
    *,
    monitor: bool = False,
    read_only: bool = False,
) -> list[BandPart]:
    """Return the parts of the status line that fit. Parts are dropped in this order: the host, the remaining time, half
    of the bar, the rest of the bar with the session, and the name `gputui`.
    """
    bar = LONG_BAR if width >= WIDEST else BAR if width >= WIDE else SHORT_BAR
    for dropped in range(7):
        parts = [(" ", palette.text), *_place(where, palette, dropped)]
        if read_only:
            parts += [("read-only", palette.warning), ("  ", palette.text)]
        if not monitor:
            length = 0 if dropped > 3 else SHORT_BAR if dropped > 2 else bar
            parts += _session_parts(snapshot, now, width - _parts_width(parts), palette, length, brief=dropped > 1)
        if dropped > 5:
            parts = parts[:4]
        if _parts_width(parts) <= width - (CLOCK if dropped < 4 else 1):
            break
    return parts


def _place(where: Where, palette: Palette, dropped: int) -> list[BandPart]:
    session, host = plain(where.session), plain(where.host)
    place = f"{session} @ {host}" if session and not dropped else session or host
    named = [("gputui", palette.best)] if dropped < 5 else []
    named += [("  ", palette.text), (place, palette.past)] if dropped < 4 else []
    return [*named, ("   " if dropped < 2 else "  ", palette.text)] if named else []


def _session_parts(
    snapshot: Snapshot, now: float, room: int, palette: Palette, bar: int, *, brief: bool
) -> list[BandPart]:  # fmt: skip
    status = queue_status(snapshot)
    gap = ("  " if brief else "   ", palette.text)
    parts: list[BandPart] = [_state(snapshot, status, palette)]
    ended, total, failed = _progress(snapshot)
    if snapshot.submitted_count and not brief:
        parts += [gap, (f"{snapshot.submitted_count:,} submitted", palette.text + Style(bold=True))]
    if (suspended := snapshot.count(StateName.SUSPENDED)) and status.word is StatusWord.RUNNING:
        parts += [gap, (f"{suspended:,} suspended", palette.warning)]
    if total:
        parts += [gap, *_bar(snapshot, bar, palette), (f"{ended:,}/{total:,}", palette.best)]
    if failed and status.word is not StatusWord.DONE:
        parts += [gap, (f"{failed:,} ✗", palette.failure + Style(bold=True))]
    parts += _end(snapshot, status, now, gap, palette, brief=brief)
    remaining = room - _parts_width(parts) - len(gap[0]) - CLOCK
    if status.awaits and status.word is not StatusWord.PROBING and remaining >= LEAST_SENTENCE:
        parts += [gap, (cut(plain(status.awaits), remaining), palette.warning)]
    return parts


def _state(snapshot: Snapshot, status: QueueStatus, palette: Palette) -> BandPart:
    failed = _progress(snapshot)[2]
    bold = Style(bold=True)
    if status.word is StatusWord.RUNNING:
        return f"▶ {snapshot.running - snapshot.count(StateName.SUSPENDED):,} running", palette.running + bold
    if status.word is StatusWord.DONE:
        return (f"DONE, {failed:,} ✗", palette.failure + bold) if failed else ("✓ DONE", palette.running + bold)
    if status.word is StatusWord.PROBING:
        return f"◷ PROBING {', '.join(f'#{job}' for job in status.probes)}", palette.warning + bold
    look = palette.text if status.word is StatusWord.IDLE else palette.warning
    return f"{SIGNS.get(status.word, '!')} {status.word.upper()}", look + bold


def _end(
    snapshot: Snapshot, status: QueueStatus, now: float, gap: BandPart, palette: Palette, *, brief: bool
) -> list[BandPart]:  # fmt: skip
    """Return when all jobs will have ended. For a paused session, return how many jobs are running and waiting."""
    outlook = describe_outlook(snapshot, now) if status.word in (StatusWord.RUNNING, StatusWord.WAITING) else []
    if outlook:
        parts = [gap, (" · ".join(outlook[:1] if brief else outlook), palette.text + Style(bold=True))]
        if not brief and snapshot.eta is not None and snapshot.eta > now:
            parts += [("  ", palette.text), (f"in {duration_words(snapshot.eta - now)}", palette.past)]
        return parts
    if status.word in (StatusWord.RUNNING, StatusWord.DONE, StatusWord.IDLE):
        return []
    if status.word is StatusWord.SUSPENDED:  # the number of suspended jobs is shown elsewhere
        words = f"{snapshot.not_begun:,} waiting" if snapshot.not_begun else ""
    else:
        words = format_counts(snapshot) if snapshot.running or snapshot.not_begun else ""
    return [gap, (words, palette.text)] if words else []


def _bar(snapshot: Snapshot, cells: int, palette: Palette) -> list[BandPart]:
    """Return a bar of succeeded, failed, running and other jobs. Each kind present has at least one cell, and the bar
    is full only if all jobs have ended.
    """
    if not cells:
        return []
    total = sum(snapshot.counts.values())
    failed = snapshot.count(*job.BAD_ENDS)
    good = snapshot.count(StateName.SUCCEEDED, StateName.KILLED)
    shares, used, most = [], 0, cells - (good + failed < total)
    for count, look in ((good, palette[Look.LOAD_1]), (failed, palette.failure), (snapshot.running, palette.running)):
        length = min(most - used, max(1, round(cells * count / total)) if count else 0)
        shares.append(("━" * length, look))
        used += length
    return [*(share for share in shares if share[0]), ("─" * (cells - used), palette.line), (" ", palette.text)]


def _progress(snapshot: Snapshot) -> tuple[int, int, int]:
    """Return three counts: jobs that have ended, all jobs, and jobs that failed."""
    return snapshot.count(*job.ENDS), sum(snapshot.counts.values()), snapshot.count(*job.BAD_ENDS)


def _parts_width(parts: Sequence[AnyPart]) -> int:
    return sum(cell_len(text) for text, _ in parts)
