"""The lines around the panes: header, pane titles, dividers and the footer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
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
from gputui.views.status import Standing, Word, counts_told, outlook_words, standing

from .action_table import BY_NAME
from .theme import Palette, palette_of

# ---- The line between two panes that stand side by side ----


class Dragging(Message):
    """The border between queue and log is pulled: by so many columns to the right, or rows down."""

    def __init__(self, *, columns: int = 0, rows: int = 0) -> None:
        super().__init__()
        self.columns = columns
        self.rows = rows


class Divider(Widget):
    DEFAULT_CSS = "Divider { width: 1; height: 100%; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held = False

    def render_line(self, y: int) -> Strip:
        return Strip([Segment("│", palette_of(self.app.theme).line)])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held = True
        self.capture_mouse()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held and event.x:
            self.post_message(Dragging(columns=event.x))

    def on_mouse_up(self) -> None:
        self._held = False
        self.release_mouse()


# ---- The band over a pane ----


BandPart = tuple[str, Style]
"""A piece of text and how it looks; where a band stands, its ground is added."""
_BLANKS = re.compile(r" {3,}")
APART = "  "


class Band(Widget):
    """Shows what it is told; whoever owns the pane says whether it has the focus."""

    DEFAULT_CSS = "Band { height: 1; width: 100%; }"

    class BandClicked(Message):
        """`part`: which one of the left parts was under the mouse, if any."""

        def __init__(self, band: Band, part: int | None) -> None:
            super().__init__()
            self.band = band
            self.part = part

    def __init__(self, number: int | str, title: str, *, pulls: bool = False, id: str | None = None) -> None:
        """`pulls`: dragging it up or down moves the border between two panes."""
        super().__init__(id=id)
        self.number = number
        self.title = title
        self._pulls, self._held = pulls, False
        self.focused_pane = False
        self._parts: tuple[list[BandPart], list[BandPart]] = ([], [])
        self.places: list[tuple[int, int]] = []
        """First cell and cell after the last of each part on the left, as painted."""

    def show(self, left: Sequence[BandPart], right: Sequence[BandPart] = (), *, title: str | None = None) -> None:
        """What follows the title, and what ends the line; repainted when it is other than before."""
        parts = (list(left), list(right))
        if parts != self._parts or (title is not None and title != self.title):
            self._parts, self.title = parts, title if title is not None else self.title
            self.refresh()

    def head(self, number: int | str, title: str) -> None:
        """Another number and title than it began with."""
        if (number, title) != (self.number, self.title):
            self.number, self.title = number, title
            self.refresh()

    def focus_on(self, focused: bool) -> None:
        if focused != self.focused_pane:
            self.focused_pane = focused
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self.app.theme)
        left, right = self._parts
        head = band_head(self.number, self.title, palette, focused=self.focused_pane)
        self.places = _places(sum(cell_len(text) for text, _ in head), left)
        return band_line([*head, *left], right, self.size.width, palette)

    def on_click(self, event: events.Click) -> None:
        under = (number for number, (start, end) in enumerate(self.places) if start <= event.x < end)
        self.post_message(self.BandClicked(self, next(under, None)))

    def on_mouse_down(self) -> None:
        if self._pulls:
            self._held = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held and event.y:
            self.post_message(Dragging(rows=event.y))

    def on_mouse_up(self) -> None:
        if self._held:
            self._held = False
            self.release_mouse()


def band_head(number: int | str, title: str, palette: Palette, *, focused: bool) -> list[BandPart]:
    """`1 GPUs`, with the number in the focus colour and the title underlined where the keys go."""
    if focused:
        number_style, name = palette.focus + Style(bold=True), palette.text + Style(bold=True, underline=True)
    else:
        number_style, name = palette.past, palette.text
    blank = palette.text
    return [(" ", blank), (str(number), number_style), (" ", blank), (title, name)]


def band_line(
    left: Sequence[BandPart], right: Sequence[BandPart], width: int, palette: Palette, ground: Style | None = None
) -> Strip:
    """A whole band; what does not fit is cut from the left part. `ground`: another one than a band's."""
    room = width - sum(cell_len(text) for text, _ in right) - bool(right)
    if right and sum(cell_len(text) for text, _ in left) > room - len(APART):
        left = [*_shortened(left, room - len(APART)), (APART, palette.text)]
    segments = _fitted(left, max(0, room), palette.text)
    segments += [Segment(text, style) for text, style in right]
    if right:
        segments.append(Segment(" ", palette.text))
    ground = palette.band if ground is None else ground
    if palette.rules:
        segments = _ruled(segments, palette.line)
    laid = [Segment(text, (style or palette.text) + ground) for text, style, _ in segments]
    return Strip(laid).simplify().adjust_cell_length(width, palette.text + ground)


def _shortened(parts: Sequence[BandPart], room: int) -> list[BandPart]:
    """With a sign that there is more, so that no word runs into what ends the line."""
    shortened_parts = []
    for text, style in parts:
        short = cut(text, max(0, room))
        room -= cell_len(short)
        shortened_parts.append((short, style))
        if short != text:
            break
    return shortened_parts


def _fitted(parts: Sequence[BandPart], room: int, blank: Style) -> list[Segment]:
    fitted = []
    for text, style in parts:
        cells = min(cell_len(text), room)
        if cells:
            fitted.append(Segment(set_cell_size(text, cells), style))
        room -= cells
    if room:
        fitted.append(Segment(" " * room, blank))
    return fitted


def _ruled(segments: list[Segment], line: Style) -> list[Segment]:
    """Three blanks and more become a rule with a blank at either end."""
    ruled: list[Segment] = []
    text = "".join(segment.text for segment in segments)
    rules = [(match.start() + 1, match.end() - (match.end() < len(text))) for match in _BLANKS.finditer(text)]
    place = 0
    for segment in segments:
        end = place + len(segment.text)
        cursor = place
        for start, stop in rules:
            first, last = max(start, place), min(stop, end)
            if first < last:
                ruled.append(Segment(text[cursor:first], segment.style))
                ruled.append(Segment("─" * (last - first), line))
                cursor = last
        ruled.append(Segment(text[cursor:end], segment.style))
        place = end
    return [segment for segment in ruled if segment.text]


def _places(start: int, parts: Sequence[BandPart]) -> list[tuple[int, int]]:
    places = []
    for text, _ in parts:
        places.append((start, start + cell_len(text)))
        start += cell_len(text)
    return places


# ---- The line at the bottom ----


Offer = tuple[str, str]
"""The name of an action, and what it would do now."""
BETWEEN = "  "
LEAST_GAP = 3
"""Cells between the left and the right part."""


@dataclass(frozen=True)
class OfferedKeys:
    """Those that do not fit are left to the help: first `more` from its end, then `views`, then `row`."""

    row: Sequence[Offer] = ()
    more: Sequence[Offer] = ()
    views: Sequence[Offer] = ()
    always: Sequence[str] = ("help", "leave")

    def fitting(self, width: int, keys: Mapping[str, str]) -> tuple[list[Offer], list[Offer]]:
        """Left and right, as much as a line of this width has room for."""
        always = [offer(name) for name in self.always]
        room = width - LEAST_GAP - sum(_cells(each, keys) for each in always)
        fitting: list[Offer] = []
        for each in (*self.row, *self.views, *self.more):
            cells = _cells(each, keys)
            if cells <= room:
                fitting.append(each)
                room -= cells
        left = [each for each in (*self.row, *self.more) if each in fitting]
        return left, [*(each for each in self.views if each in fitting), *always]


class Footer(Widget):
    DEFAULT_CSS = "Footer { height: 1; width: 100%; dock: bottom; }"

    class Clicked(Message):
        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offered = OfferedKeys()
        self._keys: Mapping[str, str] = {}
        self._places: list[tuple[int, int, str]] = []

    def show(self, offered: OfferedKeys, keys: Mapping[str, str]) -> None:
        """`keys`: those that the user's own keymap changed."""
        if (offered, keys) != (self._offered, self._keys):
            self._offered, self._keys = offered, dict(keys)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, palette = self.size.width, palette_of(self.app.theme)
        left, right = self._offered.fitting(width, self._keys)
        self._places = [
            *_offer_places(left, 1, self._keys),
            *_offer_places(right, width - _length(right, self._keys), self._keys),
        ]
        parts = [(" ", palette.text), *self._parts(left)]
        return band_line(parts, self._parts(right)[:-1], width, palette, palette.header)

    def _parts(self, offers: list[Offer]) -> list[BandPart]:
        palette, parts = palette_of(self.app.theme), []
        for name, label in offers:
            parts += [(_key(name, self._keys), palette.best), (f" {label}", palette.past), (BETWEEN, palette.past)]
        return parts

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._places:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))


def offer(name: str) -> Offer:
    """By what the table calls it."""
    return name, BY_NAME[name].label


def _key(name: str, keys: Mapping[str, str]) -> str:
    return keys.get(name, BY_NAME[name].shown_key)


def _cells(each: Offer, keys: Mapping[str, str]) -> int:
    return cell_len(_key(each[0], keys)) + 1 + cell_len(each[1]) + len(BETWEEN)


def _length(offers: list[Offer], keys: Mapping[str, str]) -> int:
    """With a blank at the line's end."""
    return sum(_cells(each, keys) for each in offers) - len(BETWEEN) + 1


def _offer_places(offers: list[Offer], start: int, keys: Mapping[str, str]) -> list[tuple[int, int, str]]:
    places = []
    for each in offers:
        end = start + _cells(each, keys)
        places.append((start, end - len(BETWEEN), each[0]))
        start = end
    return places


# ---- The line at the top ----


CLOCK = 8
"""Cells for the time of day at the end of the line, with a gap before it."""
LEAST_SENTENCE = 16
"""Cells below which a cut sentence tells nothing."""
BAR, SHORT_BAR, LONG_BAR = 20, 10, 40
WIDE, WIDEST = 100, 160
"""Columns from which the bar is longer."""

SIGNS = {
    Word.RUNNING: "▶", Word.WAITING: "◷", Word.IDLE: "○", Word.DONE: "✓", Word.PAUSED: "‖", Word.DRAINING: "▽",
    Word.TRYING: "◷", Word.SUSPENDED: "◐",
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """What the line begins with."""

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
        right = [(moment(now, now), palette.past)]
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self.app.theme), self.size.width
        fits = width - sum(cell_len(text) for text, _ in (*self._left, *self._right)) >= 3
        return band_line(self._left, self._right if fits else [], width, palette, palette.header)


def terminal_title(snapshot: Snapshot) -> str:
    """`37/60 · 3✗ gputui`: what a tab of the terminal says."""
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
    """As much of it as there is room for: the host goes first, then in how long, then half of the bar, then names."""
    bar = LONG_BAR if width >= WIDEST else BAR if width >= WIDE else SHORT_BAR
    for dropped in range(7):
        parts = [(" ", palette.text), *_place(where, palette, dropped)]
        if read_only:
            parts += [("read-only", palette.warning), ("  ", palette.text)]
        if not monitor:
            length = 0 if dropped > 3 else SHORT_BAR if dropped > 2 else bar
            parts += _told(snapshot, now, width - _parts_width(parts), palette, length, brief=dropped > 1)
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


def _told(
    snapshot: Snapshot, now: float, room: int, palette: Palette, bar: int, *, brief: bool
) -> list[BandPart]:  # fmt: skip
    stands = standing(snapshot)
    gap = ("  " if brief else "   ", palette.text)
    parts: list[BandPart] = [_state(snapshot, stands, palette)]
    ended, total, failed = _progress(snapshot)
    if snapshot.submitted_count and not brief:
        parts += [gap, (f"{snapshot.submitted_count:,} submitted", palette.text + Style(bold=True))]
    if (suspended := snapshot.count(StateName.SUSPENDED)) and stands.word is Word.RUNNING:
        parts += [gap, (f"{suspended:,} suspended", palette.warning)]
    if total:
        parts += [gap, *_bar(snapshot, bar, palette), (f"{ended:,}/{total:,}", palette.best)]
    if failed and stands.word is not Word.DONE:
        parts += [gap, (f"{failed:,} ✗", palette.failure + Style(bold=True))]
    parts += _end(snapshot, stands, now, gap, palette, brief=brief)
    remaining = room - _parts_width(parts) - len(gap[0]) - CLOCK
    if stands.awaits and stands.word is not Word.TRYING and remaining >= LEAST_SENTENCE:
        parts += [gap, (cut(plain(stands.awaits), remaining), palette.warning)]
    return parts


def _state(snapshot: Snapshot, stands: Standing, palette: Palette) -> BandPart:
    failed = _progress(snapshot)[2]
    bold = Style(bold=True)
    if stands.word is Word.RUNNING:
        return f"▶ {snapshot.running - snapshot.count(StateName.SUSPENDED):,} run", palette.running + bold
    if stands.word is Word.DONE:
        return (f"DONE, {failed:,} ✗", palette.failure + bold) if failed else ("✓ DONE", palette.running + bold)
    if stands.word is Word.TRYING:
        return f"◷ TRYING {stands.awaits.removesuffix(' alone')}", palette.warning + bold
    look = palette.text if stands.word is Word.IDLE else palette.warning
    return f"{SIGNS.get(stands.word, '!')} {stands.word.upper()}", look + bold


def _end(
    snapshot: Snapshot, stands: Standing, now: float, gap: BandPart, palette: Palette, *, brief: bool
) -> list[BandPart]:  # fmt: skip
    """When all will be done; of one that is paused, what still runs and what waits."""
    told = outlook_words(snapshot, now) if stands.word in (Word.RUNNING, Word.WAITING) else []
    if told:
        parts = [gap, (" · ".join(told[:1] if brief else told), palette.text + Style(bold=True))]
        if not brief and snapshot.eta is not None and snapshot.eta > now:
            parts += [("  ", palette.text), (f"in {duration_words(snapshot.eta - now)}", palette.past)]
        return parts
    if stands.word in (Word.RUNNING, Word.DONE, Word.IDLE):
        return []
    if stands.word is Word.SUSPENDED:  # what it awaits says how many are
        words = f"{snapshot.not_begun:,} waiting" if snapshot.not_begun else ""
    else:
        words = counts_told(snapshot) if snapshot.running or snapshot.not_begun else ""
    return [gap, (words, palette.text)] if words else []


def _bar(snapshot: Snapshot, cells: int, palette: Palette) -> list[BandPart]:
    """Ended well, badly, under way, the rest; whatever there is any of has a cell, and full means that all ended."""
    if not cells:
        return []
    total = sum(snapshot.counts.values())
    failed = snapshot.count(*job.BAD_ENDS)
    good = snapshot.count(StateName.SUCCEEDED, StateName.KILLED)
    shares, used, most = [], 0, cells - (good + failed < total)
    for count, look in ((good, palette.load[1]), (failed, palette.failure), (snapshot.running, palette.running)):
        share = min(most - used, max(1, round(cells * count / total)) if count else 0)
        shares.append(("━" * share, look))
        used += share
    return [*(each for each in shares if each[0]), ("─" * (cells - used), palette.line), (" ", palette.text)]


def _progress(snapshot: Snapshot) -> tuple[int, int, int]:
    """How many jobs have ended, how many there are, how many of them ended badly."""
    return snapshot.count(*job.ENDS), sum(snapshot.counts.values()), snapshot.count(*job.BAD_ENDS)


def _parts_width(parts: list[BandPart]) -> int:
    return sum(cell_len(text) for text, _ in parts)
