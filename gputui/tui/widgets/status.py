"""The line at the top: which session, what the scheduler does, how much is left, and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.widgets import Static

from gputui.core.job import StateName
from gputui.core.snapshot import Snapshot
from gputui.core.views.standing import Word, standing
from gputui.logs.plain import plain
from gputui.tui.model.rows import BAD_ENDS
from gputui.tui.model.words import cut, moment

LEAST_SENTENCE = 16
"""Cells below which a cut sentence tells nothing."""

WORDS = {
    Word.RUNNING: ("▶ RUNNING", "bold green"),
    Word.WAITING: ("◷ WAITING", "bold yellow"),
    Word.IDLE: ("○ IDLE", "bold"),
    Word.DONE: ("✓ DONE", "bold green"),
    Word.PAUSED: ("‖ PAUSED", "bold yellow"),
    Word.DRAINING: ("▽ DRAINING", "bold yellow"),
    Word.TRYING: ("◷ TRYING", "bold yellow"),
}


@dataclass(frozen=True)
class Where:
    """What the line begins with."""

    session: str
    host: str


class StatusLine(Static):
    def __init__(self, where: Where, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.where = where
        self._shown: tuple[str, int] | None = None

    def show(self, snapshot: Snapshot, now: float, *, monitor: bool = False, read_only: bool = False) -> None:
        line = status_text(self.where, snapshot, now, self.size.width, monitor=monitor, read_only=read_only)
        key = (line.plain, self.size.width)
        if key != self._shown:
            self._shown = key
            self.update(line, layout=False)


def status_text(
    where: Where, snapshot: Snapshot, now: float, width: int, *, monitor: bool = False, read_only: bool = False
) -> Text:
    """As much of it as there is room for: the clock goes first, then the host, then the end."""
    right = [moment(now, now)]
    stands = standing(snapshot)
    if snapshot.eta is not None and stands.word is Word.RUNNING:
        right.insert(0, f"done ≈ {moment(snapshot.eta, now)}")
    state, style = ("", "") if monitor else WORDS[stands.word]
    place = f"{where.session} @ {where.host}" if where.session else where.host
    left = [("gputui", "bold"), (plain(place), ""), (state, style), (_counts(snapshot), "")]
    if read_only:
        left.insert(2, ("read-only", "italic"))
    while right and _length(left) + sum(map(cell_len, right)) + 3 * len(right) + 2 > width:
        right.pop()
    for part, shorter in ((1, plain(where.session or where.host)), (0, ""), (1, "")):
        if _length(left) - 1 > width:  # the state and the counts are worth more than names
            left[part] = (shorter, left[part][1])
    room = width - _length(left) - sum(map(cell_len, right)) - 3 * len(right) - 2
    if room >= LEAST_SENTENCE and not monitor:
        left.append((cut(plain(stands.awaits), room), "italic"))
    text = Text(" ", no_wrap=True, overflow="crop")
    for words, style in left:
        if words:
            text.append(words, style).append("   ")
    tail = "   ".join(right)
    text.append(" " * max(0, width - text.cell_len - cell_len(tail) - 1)).append(tail)
    return text


def _length(parts: list[tuple[str, str]]) -> int:
    return sum(cell_len(words) + 3 for words, _ in parts if words)


def _counts(snapshot: Snapshot) -> str:
    failed = snapshot.count(*BAD_ENDS)
    parts = [
        (snapshot.running, "run"),
        (snapshot.waiting, "wait"),
        (snapshot.count(StateName.SUCCEEDED), "ok"),
        (failed, "failed"),
    ]
    return " · ".join(f"{number:,} {word}" for number, word in parts if number)
