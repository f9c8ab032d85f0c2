"""The few lines that stand in the shell when a `run` or a screen is over: how it ended and what was best."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain

__all__ = ["closing_words", "tell_summary"]


def closing_words(snapshot: Snapshot) -> list[str]:
    """None for less than two jobs that ran: there is nothing to sum up."""
    if sum(job.issued > 0 for job in snapshot) < 2:
        return []
    from gputui.core.views.summary import summarize
    from gputui.core.views.summary_text import brief_lines

    now = time.time()
    return [plain(line) for line in brief_lines(summarize(snapshot, now), now)]


def tell_summary(snapshot: Snapshot) -> None:
    """Beside whatever the program's output is."""
    with suppress(OSError, ValueError):
        for line in closing_words(snapshot):
            print(_cut(line), file=sys.stderr)
        sys.stderr.flush()


def _cut(line: str) -> str:
    if not sys.stderr.isatty():
        return line
    from gputui.core.views.cells import cut

    return cut(line, os.get_terminal_size(sys.stderr.fileno()).columns or 10**6)
