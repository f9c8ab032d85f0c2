"""GPU time and energy of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from gputui.core.amounts import energy
from gputui.core.job import Attempt, Job, Usage

from .timeline import SlotPlace, places_of_attempt

JOULES_PER_KWH = 3.6e6
COMPLETE = 0.95
"""If the energy is known for at least this share of the GPU time, the sum does not count as an estimate."""


class Consumption(Struct, frozen=True):
    """The GPU time and energy that one or several jobs used."""

    gpu_hours: float = 0.0
    kwh: float | None = None
    """The energy that the GPUs used, or None if no GPU reported its power."""
    is_estimated: bool = False
    """Whether the energy was calculated from power samples, or extrapolated to times without measurements."""

    @property
    def energy_text(self) -> str:
        """The energy as text, for example `≈ 2.1 kWh`, or an empty string if it is unknown."""
        return "" if self.kwh is None else energy(self.kwh, is_estimated=self.is_estimated)


class GroupConsumption(Struct, frozen=True):
    group: str
    jobs: int
    """Number of jobs that have run."""
    used: Consumption


class AttemptUse(NamedTuple):
    seconds: float
    places: list[SlotPlace]
    usage: Usage | None = None


def use_of(attempt: Attempt) -> AttemptUse:
    return AttemptUse(attempt.seconds, places_of_attempt(attempt), attempt.usage)


def uses(jobs: Iterable[Job], until: float) -> Iterator[AttemptUse]:
    """Yield what each attempt of these jobs has used, including running attempts."""
    for job in jobs:
        yield from map(use_of, job.attempts)
        if job.active is not None and not job.submitted:
            yield AttemptUse(max(0.0, until - job.active.since), places_of_attempt(job.active))


def consumption(uses: Iterable[AttemptUse]) -> Consumption:
    """Add up what attempts have used. For times without measurements, assume the mean power of the other times."""
    seconds = measured_seconds = joules = 0.0
    is_estimated = False
    for duration, places, usage in uses:
        gpu_seconds = duration * sum(place.has_device for place in places)
        seconds += gpu_seconds
        if gpu_seconds and usage is not None and usage.energy is not None:
            known = min(usage.energy_seconds, gpu_seconds)
            measured_seconds += gpu_seconds
            joules += usage.energy * gpu_seconds / usage.energy_seconds
            is_estimated |= usage.is_energy_estimated or known < COMPLETE * gpu_seconds
    if not measured_seconds:
        return Consumption(seconds / 3600)
    kwh = joules * seconds / measured_seconds / JOULES_PER_KWH
    return Consumption(seconds / 3600, kwh, is_estimated or measured_seconds < COMPLETE * seconds)


def by_group(jobs: Iterable[Job], until: float) -> tuple[GroupConsumption, ...]:
    """Return what each group has used, or an empty tuple if jobs of only one group have run."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if job.attempts or job.active is not None:
            groups.setdefault(job.spec.group, []).append(job)
    if len(groups) < 2:
        return ()
    return tuple(GroupConsumption(group, len(some), consumption(uses(some, until))) for group, some in groups.items())
