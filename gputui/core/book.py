"""The book of all jobs and every index over it; `put` is the only way a job changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gputui.core.structures.order import Order, Place, place_of
from gputui.core.structures.timers import Timers
from gputui.core.structures.vector import Vector

from .job import Blocked, Ended, Held, Job, JobId, Queued, Request, StateName, Waiting


class Book:
    """Jobs by id, and who waits where. Ids run from `first_id` without gaps and are never reused."""

    def __init__(self, jobs: Iterable[Job] = (), first_id: JobId = 0) -> None:
        self.first_id = first_id
        self.jobs: Vector[Job] = Vector()
        self.line = Order()
        """All waiting jobs, in the order the user sees."""
        self.ready: dict[tuple[Request, str], Order] = {}
        """The eligible ones, one line for each request of each group, so that a group can be passed over."""
        self.timers = Timers()
        self.counts: Counter[StateName] = Counter()
        self.active: set[JobId] = set()
        self.waiting_in_group: Counter[str] = Counter()
        """Held ones apart: they do not start by themselves."""
        self.dependents: dict[JobId, list[JobId]] = {}
        self.unmet: dict[JobId, set[JobId]] = {}
        """For each blocked job, the jobs it still waits for."""
        self.named: dict[str, list[JobId]] = {}
        self.changed: set[JobId] = set()
        """Since the last snapshot."""
        self.unsaved: set[JobId] = set()
        """Since the last durable commit."""
        self.extend(jobs)
        self.unsaved.clear()

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, job_id: JobId) -> Job:
        return self.jobs[job_id - self.first_id]

    def __contains__(self, job_id: JobId) -> bool:
        return 0 <= job_id - self.first_id < len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    @property
    def next_id(self) -> JobId:
        return self.first_id + len(self.jobs)

    def extend(self, jobs: Iterable[Job]) -> None:
        """Enters new jobs; their ids must follow on."""
        entered = list(jobs)
        self.jobs = self.jobs.extend(entered)
        self._line_up(entered)
        for job in entered:
            self._enter(job, is_in_line=True)
            for earlier in job.after:
                self.dependents.setdefault(earlier, []).append(job.id)
            if job.spec.name is not None:
                self.named.setdefault(job.spec.name, []).append(job.id)

    def put(self, job: Job) -> None:
        """Replaces a job and moves it between the indexes."""
        before = self[job.id]
        self._leave(before)
        self.jobs = self.jobs.set(job.id - self.first_id, job)
        self._enter(job, is_timed=job.state is before.state)
        if job.spec is not before.spec:
            self._reindex_spec(before, job)

    def put_all(self, jobs: Iterable[Job]) -> None:
        """Replaces jobs of which only the times differ: each stays in its place in every line."""
        entered = list(self.jobs)
        for job in jobs:
            entered[job.id - self.first_id] = job
            self.changed.add(job.id)
            self.unsaved.add(job.id)
            self.timers.set(job)
        self.jobs = Vector(entered)

    def _reindex_spec(self, before: Job, job: Job) -> None:
        if before.after != job.after:
            for earlier in before.after:
                self.dependents[earlier].remove(job.id)
            for earlier in job.after:
                self.dependents.setdefault(earlier, []).append(job.id)
        if before.spec.name != job.spec.name:
            if before.spec.name is not None:
                self.named[before.spec.name].remove(job.id)
            if job.spec.name is not None:
                self.named.setdefault(job.spec.name, []).append(job.id)

    def _enter(self, job: Job, *, is_timed: bool = False, is_in_line: bool = False) -> None:
        self.changed.add(job.id)
        self.unsaved.add(job.id)
        if job.archived:
            return
        state = job.state
        self.counts[state.name] += 1
        if isinstance(state, Waiting):
            self.waiting_in_group[job.spec.group] += not isinstance(state, Held)
            if isinstance(state, Blocked):
                self.unmet[job.id] = {id for id in job.after if not isinstance(self[id].state, Ended)}
            if not is_in_line:
                self._line_up([job])
        elif job.active is not None:
            self.active.add(job.id)
        if not is_timed and not isinstance(state, Queued):
            self.timers.set(job)

    def _line_up(self, jobs: list[Job]) -> None:
        """Puts those that wait into their lines."""
        waiting: list[Place] = []
        ready: dict[tuple[Request, str], list[Place]] = {}
        for job in jobs:
            if isinstance(job.state, Waiting) and not job.archived:
                place = place_of(job)
                waiting.append(place)
                if isinstance(job.state, Queued):
                    ready.setdefault((job.request, job.spec.group), []).append(place)
        self.line.extend(waiting)
        for kind, places in ready.items():
            self.ready.setdefault(kind, Order()).extend(places)

    def _leave(self, job: Job) -> None:
        if job.archived:
            return
        self.counts[job.state.name] -= 1
        self.unmet.pop(job.id, None)
        if isinstance(job.state, Waiting):
            place = place_of(job)
            self.line.remove(place)
            self.waiting_in_group[job.spec.group] -= not isinstance(job.state, Held)
            if isinstance(job.state, Queued):
                self._leave_ready((job.request, job.spec.group), place)
        else:
            self.active.discard(job.id)

    def _leave_ready(self, kind: tuple[Request, str], place: Place) -> None:
        line = self.ready[kind]
        line.remove(place)
        if not line:
            del self.ready[kind]
