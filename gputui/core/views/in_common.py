"""What jobs that failed alike have in common and others of their session do not: parameters, a GPU, a group. Pure.

Learnt one job after the other: a further crash costs its own words, however many there were.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot

from .arguments import FLAG
from .parameter_columns import Parameters, parameters_of

__all__ = [
    "InCommon", "Sharing", "alike_waiting", "devices_of", "in_common", "learnt_parameters", "place_of", "places_told",
    "shares",
]  # fmt: skip


class InCommon(Struct, frozen=True):
    """Of one job nothing is said to be shared but where it ran."""

    parameters: tuple[tuple[str, str, str], ...] = ()
    """Name as the commands have it, title, value; only those in which jobs of the session differ."""
    gpus: tuple[str, ...] = ()
    """Where their last attempts ran."""
    only_there: bool = False
    """All on one GPU, though the session has others."""
    group: str = ""
    """The one group that all are of, where the session has several."""

    @property
    def told(self) -> str:
        """`model=vit-b bs=256`; empty: no parameter is the same in all."""
        return " ".join(title if value == FLAG else f"{title}={value}" for _, title, value in self.parameters)

    @property
    def where(self) -> str:
        """`only on GPU 3`, `GPU 3`, `GPUs 0 1 2`; empty: they ran on none."""
        places = places_told(self.gpus)
        return f"only on {places}" if self.only_there else places


class Sharing:
    """Learns the jobs of one kind of crash."""

    __slots__ = ("_gpus", "_group", "_named", "count")

    def __init__(self) -> None:
        self.count = 0
        self._named: dict[str, str] = {}
        self._gpus: dict[tuple[str, ...], None] = {}
        self._group: str | None = None

    def learn(self, job: Job) -> None:
        self.count += 1
        named = parameters_of(job.spec)
        if self.count == 1:
            self._named, self._group = dict(named), job.spec.group
        elif self._named:
            self._named = {name: value for name, value in self._named.items() if named.get(name) == value}
        if job.spec.group != self._group:
            self._group = None
        self._gpus[place_of(job)] = None

    def common(self, parameters: Parameters, devices: int) -> InCommon:
        """`parameters` has learnt the session, `devices` is how many of them it uses."""
        gpus = tuple(sorted({gpu for place in self._gpus for gpu in place}, key=_in_order))
        several = self.count > 1
        shared = self._named if several else {}
        return InCommon(
            parameters=tuple(
                (column.name, column.title, shared[column.name])
                for column in parameters.columns()
                if column.name in shared
            ),
            gpus=gpus,
            only_there=several and len(gpus) == 1 < devices,
            group=self._group if several and self._group and parameters.groups > 1 else "",
        )


def in_common(jobs: Iterable[Job], parameters: Parameters, devices: int) -> InCommon:
    """Of just these jobs, at once."""
    sharing = Sharing()
    for job in jobs:
        sharing.learn(job)
    return sharing.common(parameters, devices)


def learnt_parameters(jobs: Iterable[Job]) -> Parameters:
    """For whoever looks once and keeps nothing."""
    parameters = Parameters()
    for job in jobs:
        parameters.learn(job)
    return parameters


def devices_of(snapshot: Snapshot) -> int:
    """How many devices the session's lanes have."""
    return len({device for lane in snapshot.lanes for device in lane.devices})


def place_of(job: Job) -> tuple[str, ...]:
    """The GPUs of its last attempt."""
    return job.attempts[-1].gpus if job.attempts else ()


def places_told(gpus: tuple[str, ...]) -> str:
    return f"GPU{'s' if len(gpus) > 1 else ''} {' '.join(gpus)}" if gpus else ""


def shares(job: Job, common: InCommon) -> bool:
    """Whether a job has all the parameters that the crashed ones share; where they share none, none does."""
    spec = job.spec
    if not common.parameters:
        return False
    if not spec.params and not spec.variables and not _mentions(spec.command, common):
        return False
    named = parameters_of(job.spec)
    return all(named.get(name) == value for name, _, value in common.parameters)


def _mentions(command: str, common: InCommon) -> bool:
    """Cheap: most jobs are told apart without reading their commands."""
    return all(value == FLAG or value in command for _, _, value in common.parameters)


def alike_waiting(jobs: Iterable[Job], common: InCommon) -> list[JobId]:
    """Those of the given jobs that would run into the same, as far as parameters tell."""
    return [job.id for job in jobs if shares(job, common)] if common.parameters else []


def _in_order(gpu: str) -> tuple[int, int, str]:
    return (0, int(gpu), "") if gpu.isdecimal() else (1, 0, gpu)
