"""Rebuilding of a damaged store from claims and the jobs' INFO files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gputui.core import job as states
from gputui.core.book import Book
from gputui.core.job import Attempt, EngineName, Job, JobId, JobSpec
from gputui.core.queue_order import waiting_state
from gputui.core.scheduler import Record
from gputui.core.slots import Slot
from gputui.engines.claims import Claims
from gputui.process.directories import DirectoryId, lives_elsewhere
from gputui.process.processes import TOKEN_VARIABLE
from gputui.python.user_code.modules import Untrusted, open_own, why_untrusted
from gputui.session.job_directories import ATTEMPTS, INFO, RECORD, Directories
from gputui.session.session_dir import PRIVATE, Paths

# INFO files


_DEPTH = 4


def read_notes(root: str, doubt: Callable[[str], None] = lambda why: None) -> list[Job]:
    """Return the jobs from the INFO files that only this user can have written. For any other INFO file, call `doubt`
    with a message.

    Sessions inside this one are skipped.
    """
    notes = []
    for directory, inner, files, fd in os.fwalk(root):
        if PRIVATE in inner and directory != root:
            inner.clear()
            continue
        inner[:] = [name for name in inner if name not in (PRIVATE, ATTEMPTS)]
        if directory[len(root) :].count(os.sep) >= _DEPTH:
            inner.clear()
        if INFO in files:
            try:
                notes.append(read_note(os.path.join(directory, INFO), fd))
            except Untrusted as doubtful:
                doubt(str(doubtful))
            except (OSError, ValueError, StopIteration):
                pass  # written by another tool, or truncated
    return notes


def read_note(path: str, directory: int) -> Job:
    """Return the job from an INFO file. Raise StopIteration or ValueError if the file is truncated or was not written
    by gputui, and Untrusted if another user may have written it.
    """
    why = why_untrusted(os.fstat(directory), os.path.dirname(path))
    if why is not None:
        raise Untrusted(why)
    with open(open_own(path, directory), "rb") as file:
        record = next(line for line in file if line.startswith(RECORD))
    job = msgspec.json.decode(record.removeprefix(RECORD), type=Job)
    if job.active is None and not job.attempts:
        raise ValueError("its attempt never ran")
    return job


# Rebuilding


UNKNOWN = "echo 'the command of this job was lost with the database'; exit 1"
LOST = states.Lost("the database was damaged while it ran")


class Rebuilt(msgspec.Struct, frozen=True):
    jobs: list[Job]
    from_directories: int
    """Number of jobs that were changed according to their directories or claims."""
    doubts: list[str]
    """Reasons why INFO files were not trusted, one message for each."""


def rebuild(
    paths: Paths,
    record: Record,
    backup: list[Job],
    environment: str,
    started: Mapping[JobId, int],
    lost: states.Lost = LOST,
    *,
    stale: bool = False,
) -> Rebuilt:
    """Update the jobs of the backup from directories and claims. Add a placeholder for each missing id.

    `started` are attempts that have left a log and perhaps nothing else. `lost` is the end of an attempt whose real end
    is unknown. `stale` means that the jobs come from a backup, so a running attempt without a claim may have ended
    since.
    """
    doubts: list[str] = []
    notes = {note.id: note for note in read_notes(paths.root, doubts.append)}
    claims = read_claims(paths.claims)
    jobs = {job.id: job for job in backup}
    slots = _FreeSlots(record.slots, backup)
    touched = 0
    unclaimed = _revoke_unclaimed(backup, claims, paths.claims) if stale else set()
    for job_id in sorted({*notes, *claims, *started, *unclaimed}):
        before = jobs.get(job_id)
        claim = claims.get(job_id, 0)
        claimed_at = 0.0
        if claim:
            with suppress(OSError):
                claimed_at = os.stat(f"{paths.claims}/{job_id}.{claim}").st_mtime
        traces = DiskTraces(notes.get(job_id), claim, claimed_at, started.get(job_id, 0), job_id in unclaimed)
        after = _update_job(before, job_id, traces, slots, environment, lost)
        touched += after is not before
        jobs[job_id] = after
    for job_id in range(record.first_id, max(jobs, default=record.first_id - 1) + 1):
        if job_id not in jobs:
            jobs[job_id] = _unknown(job_id, environment, state=states.Killed(), archived=True)
    return Rebuilt(list(_with_unique_keys(jobs[job_id] for job_id in sorted(jobs))), touched, doubts)


def _with_unique_keys(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield the jobs, each key only once. A copied job directory could otherwise make the session unusable."""
    keys: set[str] = set()
    for job in jobs:
        if job.spec.key in keys:
            job = replace(job, spec=replace(job.spec, key=None))
        elif job.spec.key is not None:
            keys.add(job.spec.key)
        yield job


def _revoke_unclaimed(jobs: list[Job], claims: dict[JobId, int], directory: str) -> set[JobId]:
    """Revoke the running attempts that have no claim, and return their jobs. Such an attempt has ended or never
    started, and can no longer start.

    Attempts in a cluster are left to its engine, because they may be queued without a claim.
    """
    unclaimed = set()
    for job in jobs:
        if job.active is None or job.active.engine is not EngineName.LOCAL or claims.get(job.id, 0) >= job.issued:
            continue
        with suppress(OSError):
            if not Claims(directory).revoke(job.id, job.issued):
                claims[job.id] = job.issued  # its wrapper was faster
                continue
        unclaimed.add(job.id)
    return unclaimed


LOOKED_AT = 64
"""Number of jobs at the front of the queue that are checked for traces of a start that the store does not know."""


def is_behind(book: Book, directories: Directories, claims: str) -> bool:
    """Return whether claims or directories show attempts or jobs that the store does not know."""
    if any(job_id not in book or attempt > book[job_id].issued for job_id, attempt in read_claims(claims).items()):
        return True
    next_jobs = (book[place.job] for place in islice(book.line, LOOKED_AT))
    if any(job.spec.outfile is None and directories.has_output(job, job.issued + 1) for job in next_jobs):
        return True
    spec = JobSpec(command="", cwd="/", environment="")
    following = Job(book.next_id, spec, 0.0, spec.priority, 0.0, states.Held())
    return directories.has_output(following, 1)


def find_unknown_attempts(book: Book, directories: Directories) -> dict[JobId, int]:
    """Return the newest attempts of waiting jobs that have left traces in directories but are unknown to the store."""
    started = {}
    for job in book:
        if isinstance(job.state, states.Waiting) and directories.has_started(job):
            newest = job.issued
            while directories.has_output(job, newest + 1):
                newest += 1
            started[job.id] = newest
    return started


def unblock_jobs(book: Book, now: float) -> None:
    """Unblock the jobs whose dependencies have been found to have ended."""
    blocked = {job.id for job in book if isinstance(job.state, states.Blocked)}
    changed = True
    while changed:
        changed = False
        for job_id in sorted(blocked):
            state = waiting_state(book, book[job_id], now)
            if not isinstance(state, states.Blocked):
                book.put(replace(book[job_id], state=state))
                blocked.discard(job_id)
                changed = True


def session_of_running(claims: str, private: DirectoryId) -> str | None:
    """Return the session's uuid from the environment of a job that is still running in this directory, or None if there
    is none.
    """
    for job_id, attempt in read_claims(claims).items():
        with suppress(OSError, ValueError):
            with open(os.path.join(claims, f"{job_id}.{attempt}"), "rb") as file:
                pid = int(file.readline())
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().decode("utf-8", "replace").split("\0")
            for variable in variables:
                name, _, value = variable.partition("=")
                if (
                    name == TOKEN_VARIABLE
                    and value.endswith(f".{job_id}.{attempt}")
                    and not lives_elsewhere(pid, private)
                ):
                    return value.removesuffix(f".{job_id}.{attempt}")
    return None


class DiskTraces(NamedTuple):
    """What is on disk of a job: its INFO, the newest attempt with a claim, and the newest attempt with a log."""

    note: Job | None
    claim: int
    claimed: float
    """Time when the claim was last written, which is at the start or at the end of the attempt."""
    log: int
    unclaimed: bool
    """Whether the store records a running attempt that has no claim on disk."""


def _update_job(
    job: Job | None, job_id: JobId, traces: DiskTraces, slots: _FreeSlots, environment: str, lost: states.Lost
) -> Job:
    note, claim, claimed, log, unclaimed = traces
    issued = job.issued if job is not None else 0
    newest = max(_noted_attempt(note) if note else 0, claim, log, issued if unclaimed else 0)
    if job is not None and not unclaimed and (newest < issued or (newest == issued and _is_up_to_date(job, note))):
        return job
    if job is not None and job.active is not None:
        slots.give_back(job.active.slots)
    job = job or (_from_note(note, environment) if note else _unknown(job_id, environment, added=claimed))
    noted = note if note is not None and _noted_attempt(note) == newest else None
    if noted is not None and noted.active is None:
        attempt = replace(noted.attempts[-1], environment=job.spec.environment)
        return replace(job, state=attempt.end, issued=newest, attempts=(*job.attempts, attempt))
    known = (each.active for each in (job, noted) if each is not None)
    under_way = next((placed for placed in known if placed is not None and placed.attempt == newest), None)
    gpus = under_way.gpus if under_way is not None else ()
    # Without INFO, the start is unknown. The claim was last written at the start or at the end.
    since = under_way.since if under_way is not None else claimed or job.added
    if claim == newest:
        placed = states.Placed(newest, slots.take(gpus), gpus, since, job.spec.environment)
        return replace(job, state=states.Starting(placed), issued=newest)
    over = Attempt(newest, gpus, since, since, lost, None, lost.why, job.spec.environment)
    return replace(job, state=lost, issued=newest, attempts=(*job.attempts, over))


def _noted_attempt(note: Job) -> int:
    """Return the attempt that an INFO file describes. INFO is written when an attempt starts and when it ends."""
    return note.active.attempt if note.active is not None else note.attempts[-1].number


def _is_up_to_date(job: Job, note: Job | None) -> bool:
    """Return whether the store is as current as the note. It is not if the attempt is still running in the store but
    has ended in the note.
    """
    return job.active is None or note is None or _noted_attempt(note) != job.issued or note.active is not None


class _FreeSlots:
    """The free slots, from which attempts get slots if only their devices are known."""

    def __init__(self, slots: tuple[Slot, ...], jobs: list[Job]) -> None:
        held = {slot for job in jobs if job.active is not None for slot in job.active.slots}
        self._all = slots
        self._free = {slot.id for slot in slots} - held

    def take(self, gpus: tuple[str, ...]) -> tuple[int, ...]:
        for slot in self._all:
            if slot.id in self._free and slot.devices == gpus and gpus:
                self._free.discard(slot.id)
                return (slot.id,)
        return ()

    def give_back(self, slots: tuple[int, ...]) -> None:
        self._free.update(slots)


def _from_note(note: Job, environment: str) -> Job:
    """Return a job that the backup lacks, as it was before its newest attempt."""
    spec = replace(note.spec, environment=environment, after=())
    return replace(note, spec=spec, position=float(note.id), state=states.Held(), after=(), attempts=())


def _unknown(job_id: JobId, environment: str, **changes: object) -> Job:
    spec = JobSpec(command=UNKNOWN, cwd="/", environment=environment)
    return replace(Job(job_id, spec, 0.0, spec.priority, float(job_id), LOST), **changes)


def read_claims(directory: str) -> dict[JobId, int]:
    """Return the newest attempt with a claim for each job that has one."""
    claims: dict[JobId, int] = {}
    with suppress(OSError):
        for name in os.listdir(directory):
            job, _, attempt = name.partition(".")
            if job.isdecimal() and attempt.isdecimal():
                claims[int(job)] = max(claims.get(int(job), 0), int(attempt))
    return claims
