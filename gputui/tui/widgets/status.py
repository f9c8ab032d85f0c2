"""The line at the top: which session, what the scheduler does, how much is done, and when all will be."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from gputui.core import states
from gputui.core.job import StateName
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import duration_words, moment
from gputui.core.views.cells import cut
from gputui.core.views.standing import Standing, Word, standing
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette, palette_of

from .band import BandPart, band_line

__all__ = ["StatusLine", "Where", "status_parts", "terminal_title"]

CLOCK = 8
"""Cells for the time of day at the end of the line, with a gap before it."""
LEAST_SENTENCE = 16
"""Cells below which a cut sentence tells nothing."""
BAR, SHORT_BAR, LONG_BAR = 20, 10, 40
WIDE, WIDEST = 100, 160
"""Columns from which the bar is longer."""

SIGNS = {
    Word.RUNNING: "▶", Word.WAITING: "◷", Word.IDLE: "○", Word.DONE: "✓", Word.PAUSED: "‖", Word.DRAINING: "▽",
    Word.TRYING: "◷",
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
            parts += _told(snapshot, now, width - _cells(parts), palette, length, brief=dropped > 1)
        if dropped > 5:
            parts = parts[:4]
        if _cells(parts) <= width - (CLOCK if dropped < 4 else 1):
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
    if snapshot.submitted and not brief:
        parts += [gap, (f"{len(snapshot.submitted):,} submitted", palette.text + Style(bold=True))]
    if total:
        parts += [gap, *_bar(snapshot, bar, palette), (f"{ended:,}/{total:,}", palette.best)]
    if failed and stands.word is not Word.DONE:
        parts += [gap, (f"{failed:,} ✗", palette.failure + Style(bold=True))]
    parts += _end(snapshot, stands, now, gap, palette, brief=brief)
    remaining = room - _cells(parts) - len(gap[0]) - CLOCK
    if stands.awaits and stands.word is not Word.TRYING and remaining >= LEAST_SENTENCE:
        parts += [gap, (cut(plain(stands.awaits), remaining), palette.warning)]
    return parts


def _state(snapshot: Snapshot, stands: Standing, palette: Palette) -> BandPart:
    failed = _progress(snapshot)[2]
    bold = Style(bold=True)
    if stands.word is Word.RUNNING:
        return f"▶ {max(0, snapshot.running - len(snapshot.submitted)):,} run", palette.running + bold
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
    if stands.word in (Word.RUNNING, Word.WAITING) and snapshot.eta is not None and snapshot.eta > now:
        parts = [gap, (f"done ≈ {moment(snapshot.eta, now)}", palette.text + Style(bold=True))]
        return (
            parts
            if brief
            else [*parts, ("  ", palette.text), (f"in {duration_words(snapshot.eta - now)}", palette.past)]
        )
    if stands.word in (Word.RUNNING, Word.DONE, Word.IDLE):
        return []
    runs = f"{snapshot.running:,} run{'s' * (snapshot.running == 1)} on" if snapshot.running else ""
    waits = f"{snapshot.waiting:,} wait{'s' * (snapshot.waiting == 1)}" if snapshot.waiting else ""
    words = ", ".join(part for part in (runs, waits) if part)
    return [gap, (words, palette.text)] if words else []


def _bar(snapshot: Snapshot, cells: int, palette: Palette) -> list[BandPart]:
    """Ended well, badly, under way, the rest; whatever there is any of has a cell, and full means that all ended."""
    if not cells:
        return []
    total = sum(snapshot.counts.values())
    failed = snapshot.count(*states.BAD_ENDS)
    good = snapshot.count(StateName.SUCCEEDED, StateName.KILLED)
    shares, used, most = [], 0, cells - (good + failed < total)
    for count, look in ((good, palette.load[1]), (failed, palette.failure), (snapshot.running, palette.running)):
        share = min(most - used, max(1, round(cells * count / total)) if count else 0)
        shares.append(("━" * share, look))
        used += share
    return [*(each for each in shares if each[0]), ("─" * (cells - used), palette.line), (" ", palette.text)]


def _progress(snapshot: Snapshot) -> tuple[int, int, int]:
    """How many jobs have ended, how many there are, how many of them ended badly."""
    return snapshot.count(*states.ENDS), sum(snapshot.counts.values()), snapshot.count(*states.BAD_ENDS)


def _cells(parts: list[BandPart]) -> int:
    return sum(cell_len(text) for text, _ in parts)
