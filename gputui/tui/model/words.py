"""The words and signs by which the screen tells of jobs. Never colour alone: each state has a sign and a word."""

from __future__ import annotations

import time

from rich.cells import cell_len, set_cell_size

from gputui.core.attempts.end_words import words as end_words
from gputui.core.job import Delayed, Ended, Job, StateName, Stopping, Suspended
from gputui.core.states import WORDS
from gputui.core.views import submission
from gputui.core.views.signs import SIGNS
from gputui.logs.plain import plain

LONG_STATES = WORDS | {StateName.SUCCEEDED: "ok"}
SHORT_STATES = {
    StateName.QUEUED: "wait", StateName.HELD: "held", StateName.BLOCKED: "dep", StateName.DELAYED: "late",
    StateName.STARTING: "init", StateName.RUNNING: "run", StateName.SUSPENDED: "susp", StateName.STOPPING: "stop",
    StateName.SUCCEEDED: "ok", StateName.FAILED: "fail", StateName.CRASHED: "fail", StateName.KILLED: "kill",
    StateName.TIMED_OUT: "time", StateName.LOST: "lost", StateName.REFUSED: "no", StateName.SKIPPED: "skip",
}  # fmt: skip
"""Where there is little room."""


def state_words(job: Job) -> str:
    return f"{sign_of(job)} {submission.WORD if submission.is_submitted(job) else WORDS[job.state.name]}"


def sign_of(job: Job) -> str:
    return submission.SIGN if submission.is_submitted(job) else SIGNS[job.state.name]


def state_word(job: Job, *, short: bool) -> str:
    """Of a row; one that waits in a cluster's queue has not begun to start."""
    if submission.is_submitted(job):
        return submission.SHORT_WORD if short else submission.WORD
    return (SHORT_STATES if short else LONG_STATES)[job.state.name]


def clock(seconds: float) -> str:
    """`2:11:04`, `3:07`; days are told as days."""
    whole = max(0, int(seconds))
    if whole >= 86400:
        return f"{whole // 86400}d {whole // 3600 % 24:02d}h"
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def stake(seconds: float) -> str:
    """How much work is at stake, as one says it: `9 h 12 m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m"
    return f"{whole // 3600} h {whole // 60 % 60:02d} m"


def moment(at: float, now: float) -> str:
    """The time of day, with the day when it is another."""
    then, today = time.localtime(at), time.localtime(now)
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%a %d %b %H:%M", then)


def time_of(job: Job, now: float) -> str:
    """How long it runs or ran; for a job that waits for a moment, how long still."""
    if isinstance(job.state, Delayed):
        return _soon(job.state.until - now)
    seconds = seconds_of(job, now)
    return clock(seconds) if seconds is not None else ""


def seconds_of(job: Job, now: float) -> float | None:
    """How long it runs or ran; None: it waits."""
    if isinstance(job.state, Suspended):
        return job.state.since - job.state.placed.since
    if job.active is not None:
        return now - job.active.since
    if isinstance(job.state, Ended) and job.attempts:
        return job.attempts[-1].ended - job.attempts[-1].started
    return None


def _soon(seconds: float) -> str:
    """`in 9:05`, `in 25 m`, `in 3 h`, `in 12d`: no wider than a clock."""
    whole = max(0, int(seconds))
    if whole < 600:
        return f"in {clock(whole)}"
    if whole < 3600:
        return f"in {whole // 60} m"
    return f"in {whole // 3600} h" if whole < 86400 else f"in {whole // 86400}d"


def gpus_of(job: Job) -> str:
    """Where it runs or ran; one that waits again has no GPU. UUIDs are cut to what tells them apart."""
    ran = job.attempts[-1].gpus if job.attempts and isinstance(job.state, Ended) else ()
    gpus = job.active.gpus if job.active is not None else ran
    return ",".join(gpu if len(gpu) <= 4 or ":" in gpu else f"{gpu[:8]}…" for gpu in gpus)


def note_of(job: Job, now: float) -> str:
    """What else is to be said of a job that runs or has ended; why one waits is the owner's to say."""
    if isinstance(job.state, Stopping):
        remaining = max(0, int(job.state.deadline - now + 0.999))
        return f"killed in {remaining} s" if remaining and not job.state.hard else "being killed"
    if isinstance(job.state, Suspended):
        return "stands still, keeps its GPU memory"
    if isinstance(job.state, Ended):
        return plain(_end(job))
    return ""


def _end(job: Job) -> str:
    assert isinstance(job.state, Ended)
    if job.state.name in (StateName.SUCCEEDED, StateName.KILLED):
        return ""
    said = job.attempts[-1].said if job.attempts and job.state.name is not StateName.SKIPPED else None
    return said or end_words(job.state)


def cut(text: str, width: int) -> str:
    """No wider than this; what was cut is told by an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(set_cell_size(text, max(0, width - 1)).rstrip() + "…", max(0, width)).rstrip()
