"""What one machine tells of itself: its GPUs, whose they are, and this user's sessions on it."""

from __future__ import annotations

import os

from msgspec import Struct

from gputui.core.states import ACTIVE, BAD_ENDS, WAITING

__all__ = ["CardLook", "MachineLook", "SessionLook"]

VERSION = 1


class CardLook(Struct, frozen=True, kw_only=True):
    """One GPU, or CPU stand-in."""

    index: int
    name: str
    trouble: str = ""
    """Why it cannot be used; empty: it can."""
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    holders: tuple[str, ...] = ()
    """Who is on it: `#12 sweep` for jobs of ours, else the user's name."""
    taken: bool = False
    """A job of ours was given it, whether or not it uses it yet."""

    @property
    def free(self) -> bool:
        return not (self.trouble or self.holders or self.taken)

    @property
    def memory_free(self) -> int:
        """Without figures: nothing is known to be free."""
        return 0 if self.memory_total is None else self.memory_total - (self.memory_used or 0)


class SessionLook(Struct, frozen=True, kw_only=True):
    folder: str
    standing: str = ""
    """Its scheduler in a word; empty: nobody owns it, and it was not opened."""
    counts: dict[str, int] = {}

    @property
    def told(self) -> str:
        """`4 run · 12 wait · 37 ok · 3 ✗`; empty where nothing is known."""
        figures = (
            (sum(self.counts.get(state, 0) for state in ACTIVE), "run"),
            (sum(self.counts.get(state, 0) for state in WAITING), "wait"),
            (self.counts.get("succeeded", 0), "ok"),
            (sum(self.counts.get(state, 0) for state in BAD_ENDS), "✗"),
        )
        return " · ".join(f"{count} {word}" for count, word in figures if count)

    @property
    def name(self) -> str:
        folder, last = os.path.split(self.folder)
        return os.path.basename(folder) if last in ("gputui_run", "hog_run") else last


class MachineLook(Struct, frozen=True, kw_only=True):
    host: str
    gputui: str
    gpus: bool
    """False: there is no GPU, and the cards are its processors."""
    cards: tuple[CardLook, ...] = ()
    sessions: tuple[SessionLook, ...] = ()
    load: float = 0.0
    """Per processor."""
    version: int = VERSION

    @property
    def free_cards(self) -> int:
        return sum(card.free for card in self.cards)
