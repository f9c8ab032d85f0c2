"""How values of a result are written: one rule for the table, the summary and the report. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

__all__ = ["decimals_of", "result_text", "value_text"]

MOST_DECIMALS = 6
SMALL, LARGE = 1e-3, 1e9
"""Outside of them decimals tell nothing: four digits and a power."""


def decimals_of(values: Sequence[float]) -> int:
    """By the size of the best, and enough that the best two differ; the values come in their order."""
    if all(value == int(value) for value in values):
        return 0
    size = abs(values[0])
    fewest = 4 if size < 10 else 3 if size < 100 else 2 if size < 1000 else 1
    return next((places for places in range(fewest, MOST_DECIMALS) if _apart(values, places)), fewest)


def _apart(values: Sequence[float], places: int) -> bool:
    return len(values) < 2 or result_text(values[0], places) != result_text(values[1], places)


def result_text(value: float, decimals: int) -> str:
    if 0 < abs(value) < SMALL or abs(value) >= LARGE:
        return f"{value:.3e}"
    return f"{value:.{decimals}f}"


def value_text(value: float) -> str:
    """Of one that stands alone."""
    return result_text(value, decimals_of([value])) if isfinite(value) else str(value)
