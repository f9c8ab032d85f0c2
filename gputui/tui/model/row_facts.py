"""All that a row of the queue tells of its job, worked out once for every row that is painted. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gputui.core.job import Active, Ended, Job, JobId, Running, StateName, Stopping, Suspended, Waiting
from gputui.core.results import JobResults, MetricResult
from gputui.core.snapshot import NO_RESULTS
from gputui.core.views.eta import job_eta
from gputui.core.views.parameter_columns import Parameters, parameters_of
from gputui.core.views.submission import is_submitted
from gputui.logs.plain import plain

from .result_cells import NO_RESULT_SHAPE, ResultShape
from .words import note_of

__all__ = ["RowFacts", "Told"]

JUST_THE_LINE = re.compile(
    r".* ahead of it|held by you; release it to let it run|a lane is free: it starts next"
    r"|needs (a lane|\d+ GPUs?); the lanes are held by [^;]*"
)
"""The reason of a job that waits for nothing but its turn, or for what its state says already."""
LEAST_ELAPSED, LEAST_FRACTION = 5.0, 0.005
"""Below these an estimate would jump."""


@dataclass
class Told:
    """What rows say besides what the job itself knows."""

    parameters: Parameters
    whys: Mapping[JobId, str] = field(default_factory=dict)
    progress: Mapping[JobId, float] = field(default_factory=dict)
    """How far running jobs are, 0 to 1."""
    pids: Mapping[JobId, int] = field(default_factory=dict)
    """Of the commands that run, where there is a column for them."""
    now: float = 0.0
    results: Mapping[JobId, JobResults] = field(default_factory=lambda: NO_RESULTS)
    shape: ResultShape = NO_RESULT_SHAPE
    best: JobId | None = None

    def forget(self, jobs: Iterable[JobId]) -> None:
        """What was said of jobs that are no longer what they were: why one waits is wrong of one that runs."""
        outdated = self.whys.keys() & jobs
        if outdated:
            self.whys = {job: words for job, words in self.whys.items() if job not in outdated}


class RowFacts:
    """One job at one moment."""

    __slots__ = ("_parameters", "_results", "job", "told")

    def __init__(self, job: Job, told: Told) -> None:
        self.job, self.told = job, told
        self._parameters: dict[str, str] | None = None
        self._results: JobResults | bool | None = False

    @property
    def bad(self) -> bool:
        state = self.job.state
        return isinstance(state, Ended) and state.name not in (StateName.SUCCEEDED, StateName.KILLED)

    @property
    def best(self) -> bool:
        return self.job.id == self.told.best

    def parameter(self, name: str) -> str:
        if self._parameters is None:
            self._parameters = parameters_of(self.job.spec)
        return plain(self._parameters.get(name, ""))

    @property
    def results(self) -> JobResults | None:
        if self._results is False:
            self._results = self.told.results.get(self.job.id)
        return self._results  # type: ignore[return-value]  # True is never put there

    @property
    def main(self) -> MetricResult | None:
        results, name = self.results, self.told.shape.main
        return results.get(name) if results is not None and name is not None else None

    @property
    def second(self) -> float | None:
        """At the checkpoint where the main one was best, so that a row is one checkpoint."""
        results, shape = self.results, self.told.shape
        if results is None or shape.main is None or shape.second is None:
            return None
        return results.at_best(shape.second, shape.main)

    @property
    def progress(self) -> float | None:
        """Of a running job only: an ended one has its end."""
        if not isinstance(self.job.state, Active):
            return None
        results = self.results
        if results is not None and results.progress is not None:
            return min(1.0, max(0.0, results.progress))
        return self.told.progress.get(self.job.id)

    @property
    def ends(self) -> tuple[float, bool] | None:
        """When it ended, or will by its progress; True: an estimate."""
        job = self.job
        if isinstance(job.state, Ended):
            return (job.attempts[-1].ended, False) if job.attempts else None
        if job.active is None or isinstance(job.state, Suspended | Stopping):
            return None
        if isinstance(job.state, Running) and job.state.silent_since is not None:
            return None  # unknown while silent
        by_results = job_eta(job, self.results)
        if by_results is not None:
            return by_results, True
        fraction = self.progress
        if not fraction:
            return None
        elapsed = self.told.now - job.active.since
        if elapsed < LEAST_ELAPSED or fraction < LEAST_FRACTION:
            return None
        return job.active.since + elapsed / fraction, True

    @property
    def waits(self) -> bool:
        """Nothing of it runs: in our queue, or in a cluster's."""
        return isinstance(self.job.state, Waiting) or is_submitted(self.job)

    @property
    def message(self) -> str:
        """What a row says instead of progress and results: its crash, or why it waits if that is more than the line."""
        note = note_of(self.job, self.told.now)
        if note or not self.waits:
            return note
        why = self.told.whys.get(self.job.id, "")
        return "" if JUST_THE_LINE.fullmatch(why) else why

    @property
    def remark(self) -> str:
        """What is odd about a job that runs; its results stay in sight beside it."""
        return self.told.whys.get(self.job.id, "") if isinstance(self.job.state, Active) and not self.waits else ""
