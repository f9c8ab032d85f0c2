"""Policies for jobs in trouble: retries, hung jobs, and learning how much memory each group needs."""

from __future__ import annotations

from msgspec import Struct

from .amounts import memory_words
from .events import AttemptEnded, NodeFailed
from .job import AfterOom, CrashKind, End, Failed, Job, JobSpec, Lost, OnHang, OnOom, Succeeded, TimedOut, describe_end
from .state import SchedulerState

# Retries


FIRST_DELAY, LONGEST_DELAY = 2.0, 300.0
RETRY_LATER_CODE = 75
"""The exit code by which a job asks to be run again later (EX_TEMPFAIL)."""
FIRST_LATER, LONGEST_LATER = 60.0, 1800.0
HANGS_PUT_BACK = 3
"""Maximum number of times that a hung job is requeued."""

_OOM = (CrashKind.OOM_GPU, CrashKind.OOM_HOST)
_NO_FAILURES = (CrashKind.OOM_GPU, CrashKind.OOM_HOST, CrashKind.NONE, CrashKind.EXIT_ONLY)
FAILURE_NAMES = ("oom", "signal", "node", "timeout", "hang", *(kind for kind in CrashKind if kind not in _NO_FAILURES))
"""The names of failures that `retry_on` accepts, besides `exit:CODE`."""


def after_oom(scheduler: SchedulerState, job: Job, end: End, event: AttemptEnded) -> AfterOom | None:
    """Return how to retry a job that ran out of GPU memory, or None to treat it like any other failure."""
    placed = job.active
    if event.kind is not CrashKind.OOM_GPU or not isinstance(end, Failed) or event.left:
        return None
    if placed is None or job.after_oom is not None or not placed.gpus or job.spec.on_oom is OnOom.FAIL:
        return None
    devices = scheduler.board.devices
    if job.spec.on_oom is OnOom.BIGGER:
        size = min((total for gpu in placed.gpus if (total := devices.total(gpu)) is not None), default=None)
        larger = AfterOom(placed.attempt, size)
        if size is not None and scheduler.board.could_ever_fit(larger.applied_to(job.spec.request)):
            return larger
    return AfterOom(placed.attempt) if placed.shared or any(map(devices.crowded, placed.gpus)) else None


def retry(job: Job, end: End, event: AttemptEnded) -> tuple[float, str] | None:
    """Return the delay in seconds and the reason of a retry, or None if the job is not retried."""
    names = _names(end, event)
    put_back = "hang" in names and job.spec.on_hang is OnHang.REQUEUE
    most = max(job.spec.retries, HANGS_PUT_BACK) if put_back else job.spec.retries
    if not names or event.left or job.failures >= most:
        return None
    if isinstance(event.outcome, NodeFailed) and "node" not in job.spec.retry_on:
        return None  # the command may already have had effects, so retry it only if the user asked for that
    if job.spec.retry_on and not put_back and names.isdisjoint(job.spec.retry_on):
        return None
    later = f"exit:{RETRY_LATER_CODE}" in names and f"exit:{RETRY_LATER_CODE}" in job.spec.retry_on
    first, longest = (FIRST_LATER, LONGEST_LATER) if later else (FIRST_DELAY, LONGEST_DELAY)
    seconds = min(longest, first * 2.0 ** min(job.failures, 20))
    addition = ": it asked to be run later" if later else ""
    return seconds, f"retry {job.failures + 1} of {most} after {describe_end(end)}{addition}"


def _names(end: End, event: AttemptEnded) -> set[str]:
    """Return all names of the failure that `retry_on` may contain, or no names if the job must not be retried."""
    match end:
        case Failed(code=code):
            names = {f"exit:{code}"} | ({"signal"} if end.signal is not None else set())
        case TimedOut(silent=silent):
            return {"hang"} if silent else {"timeout"}
        case Lost() if isinstance(event.outcome, NodeFailed):
            return {"node"}
        case _:
            return set()
    if event.kind is not None:
        names |= {"oom"} if event.kind in _OOM else {str(event.kind)}
        names |= {"timeout"} if event.kind is CrashKind.TIME_LIMIT else set()
    return names


# Hung jobs


LONGEST_GAP = 10.0
"""Seconds after which the last value from the driver is too old to be used."""
IDLE_SHARE = 0.01
"""CPU time that counts as idle, as a share of one core. Even a program that only waits uses a little."""


class ActivitySample(Struct, frozen=True):
    """The activity of an attempt at one moment. None means that a value is unknown, not that it is zero."""

    at: float
    """Time on the monotonic clock. Other clocks are used only for time differences."""
    output: tuple[int, ...] = ()
    """A value that changes whenever the attempt prints something."""
    output_age: float | None = None
    """Seconds since the attempt last printed something."""
    gpu_age: float | None = None
    """Seconds since the driver last reported the load of the attempt's devices."""
    gpu_work: float | None = None
    """A value that changes with every sample in which the devices are busy."""
    gpu_work_age: float | None = None
    cpu_seconds: float | None = None
    """CPU time of all processes of the attempt. It is measured only if the driver does not report the load."""


def last_activity(signs: ActivitySample, before: ActivitySample, life: float) -> float:
    """Return when an attempt was last active. `life` is the result for the previous sample."""
    moments = [life]
    if signs.output != before.output:
        moments.append(_ago(signs.output_age, before, signs))
    if signs.gpu_work is not None and signs.gpu_work != before.gpu_work:
        moments.append(_ago(signs.gpu_work_age, before, signs))
    if not gpu_activity_known(signs.gpu_age) and _used_cpu(signs, before):
        moments.append(signs.at)
    return max(moments)


def gpu_activity_known(gpu_age: float | None) -> bool:
    """Return whether the load of the devices is known. If it is not, CPU time decides whether an attempt is active."""
    return gpu_age is not None and gpu_age <= LONGEST_GAP


def _used_cpu(signs: ActivitySample, before: ActivitySample) -> bool:
    """Return whether the attempt used CPU time. Return True if that is unknown."""
    if signs.cpu_seconds is None or before.cpu_seconds is None:
        return True
    return signs.cpu_seconds - before.cpu_seconds > IDLE_SHARE * (signs.at - before.at)


def _ago(age: float | None, before: ActivitySample, signs: ActivitySample) -> float:
    """Return when something happened. The result lies between the two samples, as `age` is from another clock."""
    return min(signs.at, max(before.at, signs.at - (age or 0.0)))


def is_hung(spec: JobSpec, silent_for: float) -> bool:
    return 0 < spec.hang_after <= silent_for


# Learned memory


MARGIN = 1.1
"""Factor by which measured memory peaks are raised, because samples miss the peaks between them."""


def learn(scheduler: SchedulerState, job: Job, now: float) -> None:
    """Remember how much memory a succeeded job used, unless another job of its group has used more."""
    if not job.spec.request.learns or not isinstance(job.state, Succeeded):
        return
    usage = job.attempts[-1].usage
    peak = usage.gpu_peak_memory_each if usage is not None else None
    size = int(peak * MARGIN) if peak else 0
    if size > scheduler.learned.get(job.spec.group, 0):
        scheduler.learned[job.spec.group] = size
        scheduler.record_history(
            job.id, now, f"learned: its group now reserves {memory_words(size)} of GPU memory", keep=True
        )
