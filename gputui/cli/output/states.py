"""The states' words as the command line groups and marks them; the owner alone decides what may follow what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gputui.core.job import StateName
from gputui.core.states import ACTIVE, BAD_ENDS, ENDS, FAILURES, WAITING, by_word

GROUPS = {
    "waiting": WAITING,
    "active": ACTIVE,
    "failed": FAILURES,
    "ended": ENDS,
}
"""Words that stand for several states; `failed` is what --all-failed means."""

_COLOURS = {"running": "32", "suspended": "33", "stopping": "33", "held": "33", "succeeded": "36", "killed": "35"}


def colour(state: str) -> str:
    """The SGR code; empty: the terminal's own colour."""
    return "31" if state in BAD_ENDS else _COLOURS.get(state, "")


def meant(words: Iterable[str]) -> list[StateName]:
    """The states that these words stand for."""
    return [state for word in words for state in GROUPS.get(word) or (StateName(word),)]


def told(counts: Mapping[StateName, int]) -> str:
    """`2 running · 5 queued`, in the order of a job's life."""
    return " · ".join(f"{number} {word}" for word, number in by_word(counts).items())


def counted(states: Iterable[StateName]) -> dict[StateName, int]:
    counts: dict[StateName, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return counts
