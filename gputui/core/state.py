"""The state of the scheduler, with the operations that all its rules share.

The rules are in `commands`, `attempts`, `placement` and `breaker`. `scheduler` dispatches to them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .amounts import counted
from .book import Book
from .breaker import Breaker, Scope
from .events import Cause, Mode, Refusal, Settings, Submitted
from .job import EngineName, Job, JobId, Request, SlotId, Succeeded
from .slots import Board, DeviceKind, Slot, engine_of

REMEMBERED = 101
"""Number of succeeded jobs of each group to remember."""


class HistoryEntry(Struct, frozen=True):
    """An entry of a job's history."""

    job: JobId
    at: float
    text: str


class Record(Struct, frozen=True):
    """The stored state of the scheduler, apart from its jobs."""

    first_id: JobId = 0
    mode: Mode = Mode.RUNNING
    """The mode as users set it. Pauses because of errors are in `breaker`."""
    cause: Cause | None = None
    settings: Settings = Settings()
    slots: tuple[Slot, ...] = ()
    next_position: float = 0.0
    leaving: tuple[Slot, ...] = ()
    clock: float | None = None
    """Wall clock minus monotonic clock in this boot. It tells the next scheduler whether the wall clock was set."""
    learned: dict[str, int] = {}
    """For each group, the bytes to reserve on a device for a job, as measured on succeeded jobs."""
    breaker: Breaker = Breaker()


class SchedulerState:
    """Everything that the scheduler knows. Only the rules that `Scheduler` calls change it."""

    def __init__(
        self, record: Record | None = None, jobs: Iterable[Job] = (), revoked_keys: Iterable[str] = ()
    ) -> None:
        record = record or Record()
        self.book = Book(jobs, record.first_id, revoked_keys)
        self.board = Board(record.slots, record.leaving)
        self.wanted_mode, self.wanted_cause = record.mode, record.cause
        """The mode and cause as set by users. Errors may also pause the scheduler."""
        self.settings = record.settings
        self.breaker: Breaker = record.breaker
        self.next_probes: dict[str | None, tuple[int, Scope, JobId | None]] = {}
        """Cached results of `breaker.next_probe`, each with the book's version and the scope for which it is valid."""
        self.learned = dict(record.learned)
        self.next_position, self.clock = record.next_position, record.clock
        self.cpu_jobs_running = 0
        self.starts_again_at = float("-inf")
        """When jobs may be started again after the machine had too few resources for a start. This is not stored."""
        self.stalled = ""
        """Why the scheduler's process cannot start anything, or empty if it can. This is not stored."""
        self.unavailable = ""
        """Why the engine cannot start anything, or empty if it can. This is not stored."""
        self.submitted: dict[JobId, Submitted] = {}
        """Jobs that wait in a cluster's own queue, with the reasons given by the cluster."""
        self.remarks: dict[JobId, str] = {}
        """The engine's remarks about running attempts."""
        self.successes: dict[str, deque[Job]] = {}
        """The last succeeded jobs of each group."""
        self.recent: deque[HistoryEntry] = deque(maxlen=1000)
        """The latest transitions of all jobs, for error messages."""
        self.unsaved_history: list[HistoryEntry] = []
        """History entries that are not stored yet: what users did, and changes that the attempts do not show."""
        for job in self.book:
            self.note_success(job)
            if job.active is not None:
                self.board.hold(job.id, job.active.slots, job.active.gpus, self.effective_request(job))
                self.cpu_jobs_running += not job.active.slots

    def record(self) -> Record:
        return Record(
            self.book.first_id, self.wanted_mode, self.wanted_cause, self.settings, self.board.slots,
            self.next_position, tuple(self.board.leaving()), self.clock, dict(self.learned), self.breaker,
        )  # fmt: skip

    def change(self, job: Job, now: float, text: str, *, keep: bool = False, **changes: Any) -> Job:
        """Replace fields of a job and record the change in its history. With `keep`, the history entry is stored."""
        changed = replace(job, **changes)
        self.book.put(changed)
        self.record_history(job.id, now, text, keep=keep)
        return changed

    def record_history(self, job: JobId, now: float, text: str, *, keep: bool = False) -> None:
        moment = HistoryEntry(job, now, text)
        self.recent.append(moment)
        if keep:
            self.unsaved_history.append(moment)

    def note_success(self, job: Job) -> None:
        if isinstance(job.state, Succeeded) and job.spec.terminal is None:
            self.successes.setdefault(job.spec.group, deque(maxlen=REMEMBERED)).append(job)

    def used_gpu_seconds(self, now: float) -> defaultdict[str, float]:
        """Return the GPU-seconds that each group has used until now."""
        used = self.book.gpu_seconds.copy()
        for job in (self.book[job_id] for job_id in self.book.active):
            if job.active is not None and job.active.gpus:
                used[job.spec.group] += max(0.0, now - job.active.since) * len(job.active.gpus)
        return used

    def over_budget(self, now: float = float("-inf")) -> frozenset[tuple[Request, str]]:
        """Return the kinds of queued jobs that do not start because a budget is used up.

        Jobs without a GPU use no budget. Without `now`, the use of running attempts does not count yet.
        """
        total = self.settings.budget
        if total is None and all(request.budget is None for request, _ in self.book.ready):
            return frozenset()
        used = self.used_gpu_seconds(now)
        is_spent = total is not None and sum(used.values()) >= total
        return frozenset(
            (request, group)
            for request, group in self.book.ready
            if self.board.takes_slot(request)
            and (is_spent or (request.budget is not None and used[group] >= request.budget))
        )

    def free(self, job: Job) -> None:
        """Release everything that the job's attempt occupied."""
        assert job.active is not None
        self.board.release(job.active.slots)
        self.submitted.pop(job.id, None)
        self.remarks.pop(job.id, None)
        self.cpu_jobs_running -= not job.active.slots

    @property
    def mode(self) -> Mode:
        return Mode.PAUSED if self.breaker.pause is not None else self.wanted_mode

    @property
    def cause(self) -> Cause | None:
        """Why the scheduler is paused, or None. Errors take precedence, so leaving a session does not hide them."""
        return self.wanted_cause if self.breaker.pause is None else self.breaker.pause.cause

    @property
    def cannot_start(self) -> str:
        """Why nothing can be started now, or empty if jobs can be started."""
        return self.stalled or self.unavailable

    def may_start(self, now: float) -> bool:
        """Return whether jobs may start at all, regardless of free slots and errors."""
        return self.wanted_mode is Mode.RUNNING and not self.cannot_start and now >= self.starts_again_at

    @property
    def cpu_job_may_start(self) -> bool:
        return self.cpu_jobs_running < self.settings.cpu_jobs

    def fit(self, request: Request, reserved: Collection[SlotId] = ()) -> tuple[Slot, ...] | None:
        """Return free slots for the request within the session's limit on devices, or None if there are none."""
        return self.board.fit(request, reserved, self.most_devices())

    def most_devices(self) -> int | None:
        """Return the maximum number of devices that the session may use at the same time, or None for no limit."""
        return self.board.most_devices(self.settings.max_gpus, self.settings.keep_free)

    def effective_request(self, job: Job) -> Request:
        """Return the job's request, with the memory learned from its group if the request asks for that."""
        return self.with_learned_memory(job.request, job.spec.group)

    def with_learned_memory(self, request: Request, group: str) -> Request:
        learned = self.learned.get(group)
        return replace(request, memory=learned) if request.learns and learned is not None else request

    def check_slots(self, slots: tuple[Slot, ...]) -> None:
        """Raise Refusal if the slots are of several engines, or if attempts of another engine are active."""
        kinds = {slot.kind for slot in slots}
        if DeviceKind.SLURM in kinds and len(kinds) > 1:
            raise Refusal("cannot mix Slurm and local GPUs in one session; use two sessions")
        wanted = engine_of(slots)
        placed = (self.book[job].active for job in self.book.active)
        others = [attempt for attempt in placed if attempt is not None and attempt.engine is not wanted]
        if slots and others:
            places = {EngineName.LOCAL: "on this machine", EngineName.SLURM: "in Slurm"}
            there, here = places[others[0].engine], places[wanted]
            active = counted(len(others), "job is", "jobs are")
            raise Refusal(
                f"{active} still active {there}: drain the session or kill them before it can run jobs {here}"
            )

    def job(self, job_id: JobId) -> Job:
        if job_id not in self.book:
            raise Refusal(f"no job #{job_id}")
        return self.book[job_id]

    def history(self, job_id: JobId) -> list[HistoryEntry]:
        """Return the recent transitions of a job that this process has recorded."""
        return [moment for moment in self.recent if moment.job == job_id]
