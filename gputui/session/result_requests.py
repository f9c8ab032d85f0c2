"""What can be asked of a session's results. Apart from the other requests: the answers' kinds load more of core."""

from __future__ import annotations

from gputui.views.results_table import ResultsTable
from gputui.views.summary import Summary

from .messages import OwnerRequest

__all__ = ["ResultsQuestion", "SummaryQuestion"]


class ResultsQuestion(OwnerRequest[ResultsTable], frozen=True, tag="results"):
    """The jobs by what they printed, best first."""

    metric: str = ""
    """`val_acc max`; empty: the session's."""
    top: int | None = None


class SummaryQuestion(OwnerRequest[Summary], frozen=True, tag="summary"):
    """What came of the session; `left`: also since then."""

    metric: str = ""
    left: float | None = None
