"""What happens to jobs in trouble: retries, hanging, and learning how much memory a group needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from . import commands
from .amounts import duration_words, memory_words
from .events import AttemptEnded, Instruction, NodeFailed, Silence, words
from .job import (
    AfterOom,
    Crashed,
    CrashKind,
    End,
    Failed,
    Job,
    JobSpec,
    Lost,
    OnHang,
    OnOom,
    Purpose,
    Request,
    Running,
    Succeeded,
    TimedOut,
)

if TYPE_CHECKING:
    from .scheduler import Scheduler


# ---- Whether an attempt that failed is run again, when, and how ----


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


# ---- Jobs that run and do nothing ----


LONGEST_GAP = 10.0
"""Seconds without a figure from the driver after which there is none."""
IDLE_SHARE = 0.01
"""Of a core: a program that only waits now and then looks at a clock."""


class Signs(Struct, frozen=True):
    """What was seen of an attempt at one moment. None: it cannot be told, which is not the same as none."""

    at: float
    """By a clock that nobody sets; of what other clocks tell only differences are used."""
    output: tuple[int, ...] = ()
    """Changes with everything it prints."""
    output_age: float | None = None
    """Seconds since it last printed."""
    gpu_age: float | None = None
    """Seconds since the driver last told how much its devices work."""
    gpu_work: float | None = None
    """Changes with every sample in which they work."""
    gpu_work_age: float | None = None
    cpu_seconds: float | None = None
    """Of all its processes, since their beginning; asked for where the driver does not tell."""


def last_life(signs: Signs, before: Signs, life: float) -> float:
    """When an attempt last showed that it does something, that being `life` at the look before."""
    moments = [life]
    if signs.output != before.output:
        moments.append(_ago(signs.output_age, before, signs))
    if signs.gpu_work is not None and signs.gpu_work != before.gpu_work:
        moments.append(_ago(signs.gpu_work_age, before, signs))
    if not driver_tells(signs.gpu_age) and _works(signs, before):
        moments.append(signs.at)
    return max(moments)


def driver_tells(gpu_age: float | None) -> bool:
    """How much the devices work is known; else the processors must tell."""
    return gpu_age is not None and gpu_age <= LONGEST_GAP


def _works(signs: Signs, before: Signs) -> bool:
    """By its processors; where nobody can tell, it may well work."""
    if signs.cpu_seconds is None or before.cpu_seconds is None:
        return True
    return signs.cpu_seconds - before.cpu_seconds > IDLE_SHARE * (signs.at - before.at)


def _ago(age: float | None, before: Signs, signs: Signs) -> float:
    """It happened between the two looks, whatever another clock says."""
    return min(signs.at, max(before.at, signs.at - (age or 0.0)))


def is_hung(spec: JobSpec, silent_for: float) -> bool:
    return 0 < spec.hang_after <= silent_for


def heard(scheduler: Scheduler, job: Job, event: Silence, now: float) -> list[Instruction]:
    """Flags a job that hangs, takes the flag off one that goes on, and ends it if its settings say so."""
    state = job.state
    assert isinstance(state, Running)
    if event.since is None or not is_hung(job.spec, now - event.since):
        if state.silent_since is not None and event.since is None:
            text = f"goes on after being silent for {duration_words(now - state.silent_since)}"
            scheduler.change(job, now, text, keep=True, state=replace(state, silent_since=None))
        return []
    if state.silent_since is None:
        text = f"silent for {duration_words(now - event.since)}: no output, and nothing done"
        job = scheduler.change(job, now, text, keep=True, state=replace(state, silent_since=event.since))
    if job.spec.on_hang is OnHang.NOTIFY or not event.may_end:
        return []
    return commands.stop(scheduler, job, now, Purpose.HANG)


# ---- How much memory jobs of a group use, learned from those of them that have succeeded ----


MARGIN = 1.1
"""Samples are a second apart: a peak between them is not seen."""


def with_learned(request: Request, size: int | None) -> Request:
    return replace(request, memory=size) if request.learns and size is not None else request


def learn(scheduler: Scheduler, job: Job, now: float) -> None:
    """From a job that has ended; a later one that used more corrects what was learned."""
    if not job.spec.request.learns or not isinstance(job.state, Succeeded):
        return
    usage = job.attempts[-1].usage
    peak = usage.gpu_peak_memory_each if usage is not None else None
    size = int(peak * MARGIN) if peak else 0
    if size > scheduler.learned.get(job.spec.group, 0):
        scheduler.learned[job.spec.group] = size
        scheduler.tell(job.id, now, f"learned: jobs of its group are given {memory_words(size)} of a GPU", keep=True)
