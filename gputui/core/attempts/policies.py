"""What is done about a job in trouble, by the user's wish; imports nothing, for sources read these words too."""

from __future__ import annotations

from enum import StrEnum


class OnOom(StrEnum):
    """What becomes of a job whose card was full."""

    ALONE = "alone"
    """Once more without others on its card, if there were any."""
    BIGGER = "bigger"
    """Once more on a card with more memory, or alone where there is none."""
    FAIL = "fail"


class OnHang(StrEnum):
    """What becomes of a job that runs and does nothing."""

    NOTIFY = "notify"
    KILL = "kill"
    REQUEUE = "requeue"
