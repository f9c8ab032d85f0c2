"""Whether an attempt that failed is run again, when, and how: by the user's wishes, the kind of the failure, and its
card. Pure; says what is to be done, changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from gputui.core.crash_kind import CrashKind
from gputui.core.events import AttemptEnded, NodeFailed
from gputui.core.job import AfterOom, Crashed, End, Failed, Job, Lost, TimedOut

from .end_words import words
from .policies import OnHang, OnOom

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

FIRST_DELAY, LONGEST_DELAY = 2.0, 300.0
LATER = 75
"""The exit code by which a job says that it wants to be run later (EX_TEMPFAIL)."""
FIRST_LATER, LONGEST_LATER = 60.0, 1800.0
HANGS_PUT_BACK = 3
"""A job that hangs each time is not put back for ever."""

_OOM = (CrashKind.OOM_GPU, CrashKind.OOM_HOST)
_NO_FAILURES = (CrashKind.OOM_GPU, CrashKind.OOM_HOST, CrashKind.NONE, CrashKind.EXIT_ONLY)
KNOWN = ("oom", "signal", "node", "timeout", "hang", *(kind for kind in CrashKind if kind not in _NO_FAILURES))
"""The words for failures after which a job may be run again; `exit:75` is one too."""


class Retry(Struct, frozen=True):
    seconds: float
    why: str


def after_oom(scheduler: Scheduler, job: Job, end: End, event: AttemptEnded) -> AfterOom | None:
    """How a job whose card was full runs once more; None: as any failure."""
    placed = job.active
    if event.kind is not CrashKind.OOM_GPU or not isinstance(end, Failed | Crashed) or event.left:
        return None
    if placed is None or job.after_oom is not None or not placed.gpus or job.spec.on_oom is OnOom.FAIL:
        return None
    cards = scheduler.board.cards
    if job.spec.on_oom is OnOom.BIGGER:
        size = min((total for gpu in placed.gpus if (total := cards.total(gpu)) is not None), default=None)
        larger = AfterOom(placed.attempt, size)
        if size is not None and scheduler.board.could_ever_fit(larger.asked(job.spec.request)):
            return larger
    return AfterOom(placed.attempt) if placed.shared or any(map(cards.crowded, placed.gpus)) else None


def told(after: AfterOom) -> str:
    where = "on a card with more memory" if after.larger_than is not None else "alone on its card"
    return f"its card was full (out of memory): runs once more, {where}"


def retry(job: Job, end: End, event: AttemptEnded) -> Retry | None:
    """When a job that failed is tried again; None: it is not."""
    words = _words(end, event)
    put_back = "hang" in words and job.spec.on_hang is OnHang.REQUEUE
    most = max(job.spec.retries, HANGS_PUT_BACK) if put_back else job.spec.retries
    if not words or event.left or job.failures >= most:
        return None
    if isinstance(event.outcome, NodeFailed) and "node" not in job.spec.retry_on:
        return None  # whoever did not ask for it may have had its command's effects already
    if job.spec.retry_on and not put_back and words.isdisjoint(job.spec.retry_on):
        return None
    later = f"exit:{LATER}" in words and f"exit:{LATER}" in job.spec.retry_on
    first, longest = (FIRST_LATER, LONGEST_LATER) if later else (FIRST_DELAY, LONGEST_DELAY)
    addition = "it asked to be run later" if later else ""
    seconds = min(longest, first * 2.0 ** min(job.failures, 20))
    return Retry(seconds, _why(job.failures + 1, most, end, addition))


def _words(end: End, event: AttemptEnded) -> set[str]:
    """By which words the failure may be named; none: it is no failure that may be run again."""
    match end:
        case Failed(code=code):
            words = {f"exit:{code}"}
        case Crashed(signal=signal):
            words = {"signal", f"exit:{128 + signal}"}
        case TimedOut(silent=silent):
            return {"hang"} if silent else {"timeout"}
        case Lost() if isinstance(event.outcome, NodeFailed):
            return {"node"}
        case _:
            return set()
    if event.kind is not None:
        words |= {"oom"} if event.kind in _OOM else {str(event.kind)}
        words |= {"timeout"} if event.kind is CrashKind.TIME_LIMIT else set()
    return words


def _why(number: int, most: int, end: End, addition: str) -> str:
    return f"retry {number} of {most} after {words(end)}" + (f": {addition}" if addition else "")
