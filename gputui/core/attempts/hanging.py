"""Jobs that run and do nothing: when one counts as hung, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gputui.core import commands
from gputui.core.attempts.policies import OnHang
from gputui.core.events import Silence
from gputui.core.instructions import Instruction
from gputui.core.job import Job, JobSpec, Purpose, Running
from gputui.core.views.amounts import duration_words

if TYPE_CHECKING:
    from gputui.core.scheduler import Scheduler

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
