"""A job that runs and does nothing, in the words of every view."""

from __future__ import annotations

from gputui.core.job import Job, Running

from .amounts import duration_words


def silence(job: Job, now: float) -> str:
    """`silent 34 m`, which a view marks with `!`; empty for a job that is not thought to hang."""
    state = job.state
    if not isinstance(state, Running) or state.silent_since is None:
        return ""
    return f"silent {duration_words(now - state.silent_since)}"
