"""What keeps jobs from starting that were just given, in one sentence."""

from __future__ import annotations

from collections.abc import Collection

from gputui.core.job import JobId
from gputui.core.views.caution import rule
from gputui.logs.plain import plain
from gputui.session.messages.replies import PausedShown, SchedulerShown


def pause_words(
    scheduler: SchedulerShown, jobs: set[JobId], groups: Collection[str] = (), resume: str = "gputui resume"
) -> str:
    """Empty: nothing does. A pause of a group counts if it is one of `groups`, or because of one of these jobs."""
    pauses = [
        pause
        for pause in scheduler.paused
        if pause.group is None or pause.group in groups or jobs & {pause.job, *pause.jobs}
    ]
    for pause in pauses:
        if pause.trying or (pause.at is not None and pause.job is not None):
            return _order_told(pause, jobs)
    if scheduler.cause is not None:
        return f"the scheduler is paused ({plain(scheduler.cause.message)}); {resume} lets it start jobs"
    return _group_words(pauses[0], resume) if pauses else ""


def _order_told(paused: PausedShown, jobs: set[JobId]) -> str:
    """As things stand now: one of these is tried, or all of them start after the one that is."""
    when = rule(paused.alive_after)
    if paused.job in jobs:
        return f"#{paused.job} is tried first; {'all others' if len(jobs) == 1 else 'the others'} start when it {when}"
    return f"{'it starts' if len(jobs) == 1 else 'they start'} when #{paused.job}, which is tried alone, {when}"


def _group_words(pause: PausedShown, resume: str) -> str:
    name = f"group {plain(pause.group)}" if pause.group else "the group without a name"
    return f"{name} is paused ({plain(pause.message)}); {resume} lets it start jobs"
