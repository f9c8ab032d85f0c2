"""What the reader of results gives: one number under a name, at a step."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["MetricReading"]


class MetricReading(Struct, frozen=True):
    """A number that a job printed under a name."""

    name: str
    value: float
    step: float | None = None
    """A step that does not begin again with each epoch, else the epoch; None where neither was printed."""
    exact: bool = False
    """The job said it in so many words: `::gputui metric …::`."""
    unit: str = ""
    """`%`, where it was printed behind the number."""
