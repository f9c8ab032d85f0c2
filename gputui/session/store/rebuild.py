"""Rebuilding a damaged store from claims and the jobs' INFO files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gputui.core.book import Book
from gputui.core.job import (
    Attempt,
    Blocked,
    Crashed,
    End,
    EngineName,
    Failed,
    Held,
    Job,
    JobId,
    JobSpec,
    Killed,
    Lost,
    Placed,
    Refused,
    Starting,
    StateName,
    Succeeded,
    TimedOut,
    Waiting,
)
from gputui.core.lanes import Lane
from gputui.core.queue_order import waiting_state
from gputui.core.scheduler import Record
from gputui.engines.claims import Claims
from gputui.process.directories import FolderId, lives_elsewhere
from gputui.process.processes import TOKEN_VARIABLE
from gputui.python.user_code.modules import Doubtful, open_own
from gputui.python.user_code.modules import doubt as doubt_about
from gputui.session.job_folders import ATTEMPTS, INFO, Folders
from gputui.session.session_dir import PRIVATE, Paths

# ---- Reading INFO back ----


_DEPTH = 4
_LONGEST = 1_000_000


class Note(msgspec.Struct, frozen=True):
    """What an INFO file says."""

    job: JobId
    name: str
    command: str
    cwd: str
    gpus: tuple[str, ...]
    occurrence: int | None
    attempt: int
    started: float
    end: End | None
    ended: float
    exit_code: int | None
    why: str | None
    wrap: str = ""
    task: str = ""


def read_notes(root: str, doubt: Callable[[str], None] = lambda why: None) -> list[Note]:
    """Those that nobody but this user can have written; `doubt` is told of the others, a sentence each.

    What is in a session within this one is that session's.
    """
    notes = []
    for folder, inner, files, fd in os.fwalk(root):
        if PRIVATE in inner and folder != root:
            inner.clear()
            continue
        inner[:] = [name for name in inner if name not in (PRIVATE, ATTEMPTS)]
        if folder[len(root) :].count(os.sep) >= _DEPTH:
            inner.clear()
        if INFO in files:
            try:
                notes.append(read_note(os.path.join(folder, INFO), fd))
            except Doubtful as doubtful:
                doubt(str(doubtful))
            except (OSError, ValueError, KeyError):
                pass  # another tool's, or cut off
    return notes


def read_note(path: str, folder: int) -> Note:
    """Raises KeyError or ValueError for an INFO that is not ours or was cut off."""
    why = doubt_about(os.fstat(folder), os.path.dirname(path))
    if why is not None:
        raise Doubtful(why)
    with open(open_own(path, folder), "rb") as file:
        text = file.read(_LONGEST).decode("utf-8", "replace").replace("\n    ", "\0")
    return _understood(text)


def _understood(text: str) -> Note:
    said: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition(": ")
        said.setdefault(key, value.replace("\0", "\n"))
    code = int(said["exit code"]) if "exit code" in said else None
    gpus = tuple(filter(None, said.get("ran on gpu", "").split(",")))
    return Note(
        int(said["id"]), said["job name"], said["command"], said["cwd"], gpus,
        int(said["occurrence"]) if "occurrence" in said else None, int(said["attempt"]),
        _moment(said["started"]), _end(said, code),
        _moment(said.get("ended", "(0)")), code, said.get("why"), said.get("wrap", ""), said.get("task", ""),
    )  # fmt: skip


def _moment(text: str) -> float:
    moment = re.search(r"\(([\d.]+)\)", text)
    return float(moment[1]) if moment else 0.0


def _end(said: dict[str, str], code: int | None) -> End | None:
    why = said.get("why", "")
    match said.get("state"):
        case None:
            return None
        case StateName.SUCCEEDED:
            return Succeeded()
        case StateName.CRASHED:
            return Crashed((code or 129) - 128)
        case StateName.KILLED:
            return Killed()
        case StateName.TIMED_OUT:
            silent = "silence limit" in said
            return TimedOut(float(said["silence limit" if silent else "time limit"]), silent)
        case StateName.REFUSED:
            return Refused(why)
        case StateName.LOST:
            return Lost(why)
    return Failed(code if code is not None else 1)


# ---- After the store was damaged ----


UNKNOWN = "echo 'the command of this job was lost with the store'; exit 1"
LOST = Lost("the store was damaged while it ran")


class Rebuilt(msgspec.Struct, frozen=True):
    jobs: list[Job]
    from_folders: int
    """Jobs of which the folder or the claim knew more than the backup."""
    doubts: list[str]
    """Why folders were not believed, a sentence each."""


def rebuild(
    paths: Paths,
    record: Record,
    backup: list[Job],
    environment: str,
    begun: Mapping[JobId, int],
    lost: Lost = LOST,
    *,
    stale: bool = False,
) -> Rebuilt:
    """The backup's jobs, brought up to what the folders and claims say; gaps are filled with lost jobs.

    `begun`: attempts that have left a log and perhaps nothing else. `lost`: what becomes of one whose end is not known.
    `stale`: the jobs are as they once were, so an attempt under way without a claim may have ended since.
    """
    doubts: list[str] = []
    notes = {note.job: note for note in read_notes(paths.root, doubts.append)}
    claims = read_claims(paths.claims)
    jobs = {job.id: job for job in backup}
    lanes = _FreeLanes(record.lanes, backup)
    touched = 0
    unclaimed = _revoke_unclaimed(backup, claims, paths.claims) if stale else set()
    for job_id in sorted({*notes, *claims, *begun, *unclaimed}):
        before = jobs.get(job_id)
        claim = claims.get(job_id, 0)
        since = _written(f"{paths.claims}/{job_id}.{claim}") if claim else 0.0
        traces = DiskTraces(notes.get(job_id), claim, since, begun.get(job_id, 0), job_id in unclaimed)
        after = _caught_up(before, job_id, traces, lanes, environment, lost)
        touched += after is not before
        jobs[job_id] = after
    for job_id in range(record.first_id, max(jobs, default=record.first_id - 1) + 1):
        if job_id not in jobs:
            jobs[job_id] = _unknown(job_id, environment, state=Killed(), archived=True)
    return Rebuilt([jobs[job_id] for job_id in sorted(jobs)], touched, doubts)


def _revoke_unclaimed(jobs: list[Job], claims: dict[JobId, int], folder: str) -> set[JobId]:
    """Jobs whose attempt under way has no claim: it has ended, or never began and cannot any more.

    A cluster's attempt may still be in its queue without a claim; its engine asks there.
    """
    unclaimed = set()
    for job in jobs:
        if job.active is None or job.active.engine is not EngineName.LOCAL or claims.get(job.id, 0) >= job.issued:
            continue
        with suppress(OSError):
            if not Claims(folder).revoke(job.id, job.issued):
                claims[job.id] = job.issued  # its wrapper was faster
                continue
        unclaimed.add(job.id)
    return unclaimed


def _written(path: str) -> float:
    """When the file was last written; 0: it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


LOOKED_AT = 64
"""So many of the next jobs are checked for traces of a start that the store does not know of."""


def is_behind(book: Book, folders: Folders, claims: str) -> bool:
    """Whether claims or folders know of attempts or jobs that the store has never issued."""
    if any(job_id not in book or attempt > book[job_id].issued for job_id, attempt in read_claims(claims).items()):
        return True
    next_jobs = (book[place.job] for place in islice(book.line, LOOKED_AT))
    if any(job.spec.outfile is None and folders.has_output(job, job.issued + 1) for job in next_jobs):
        return True
    spec = JobSpec(command="", cwd="/", environment="")
    following = Job(book.next_id, spec, 0.0, spec.priority, 0.0, Held())
    return folders.has_output(following, 1)


def begun_unknown(book: Book, folders: Folders) -> dict[JobId, int]:
    """Attempts that the store has never issued and that have left traces in their folders, for every job that waits:
    after a power cut. What has left none may run again."""
    begun = {}
    for job in book:
        if isinstance(job.state, Waiting) and folders.has_begun(job):
            newest = job.issued
            while folders.has_output(job, newest + 1):
                newest += 1
            begun[job.id] = newest
    return begun


def settle_blocked(book: Book, now: float) -> None:
    """Jobs that waited for others, some of which have turned out to be done."""
    to_look_at = [job.id for job in book if isinstance(job.state, Blocked)]
    while to_look_at:
        changed = []
        for job_id in to_look_at:
            state = waiting_state(book, book[job_id], now)
            if not isinstance(state, Blocked):
                book.put(replace(book[job_id], state=state))
                changed.append(job_id)
        to_look_at = [job_id for job_id in to_look_at if job_id not in changed] if changed else []


def session_of_running(claims: str, private: FolderId) -> str | None:
    """The name under which the jobs that still run know their session, which is the one in this very folder."""
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
    """What is on the disk of a job: its note, and the newest attempts with a claim and with a log."""

    note: Note | None
    claim: int
    claimed: float
    """When the claim was written; its end too is written there."""
    log: int
    unclaimed: bool
    """The attempt that was under way has no claim any more."""


def _compared(attempt: Attempt, why: str) -> Attempt:
    """With what makes it comparable to crashes that come later."""
    from gputui.logs.crashes.signature import recalled  # 30 ms that only a damaged session costs

    crash = recalled(why, attempt.exit_code)
    return replace(attempt, signature=crash.signature, kind=crash.kind)


def _caught_up(
    job: Job | None, job_id: JobId, traces: DiskTraces, lanes: _FreeLanes, environment: str, lost: Lost
) -> Job:
    note, claim, claimed, log, unclaimed = traces
    issued = job.issued if job is not None else 0
    newest = max(note.attempt if note else 0, claim, log, issued if unclaimed else 0)
    if job is not None and not unclaimed and (newest < issued or (newest == issued and _says_as_much(job, note))):
        return job
    if job is not None and job.active is not None:
        lanes.give_back(job.active.lanes)
    job = job or (_from_note(note, environment) if note else _unknown(job_id, environment, added=claimed))
    noted = note if note is not None and note.attempt == newest else None
    if noted is not None and noted.end is not None:
        attempt = Attempt(
            newest, noted.gpus, noted.started, noted.ended, noted.end, noted.exit_code, noted.why, job.spec.environment,
            message=noted.why,
        )  # fmt: skip
        if noted.why and isinstance(noted.end, Failed | Crashed):
            attempt = _compared(attempt, noted.why)
        return replace(job, state=noted.end, issued=newest, attempts=(*job.attempts, attempt))
    under_way = job.active if job.active is not None and job.active.attempt == newest else None
    gpus = under_way.gpus if under_way is not None else noted.gpus if noted is not None else ()
    # Without a note nobody knows when it began; its claim was written then, or at its end.
    since = under_way.since if under_way is not None else noted.started if noted is not None else claimed or job.added
    if claim == newest:
        placed = Placed(newest, lanes.over(gpus), gpus, since, job.spec.environment)
        return replace(job, state=Starting(placed), issued=newest)
    over = Attempt(newest, gpus, since, since, lost, None, lost.why, job.spec.environment)
    return replace(job, state=lost, issued=newest, attempts=(*job.attempts, over))


def _says_as_much(job: Job, note: Note | None) -> bool:
    """Of an attempt that both know, the note tells more only if it has seen the end."""
    return job.active is None or note is None or note.attempt != job.issued or note.end is None


class _FreeLanes:
    """The lanes that no job holds, given to attempts of which only the devices are known."""

    def __init__(self, lanes: tuple[Lane, ...], jobs: list[Job]) -> None:
        held = {lane for job in jobs if job.active is not None for lane in job.active.lanes}
        self._all = lanes
        self._free = {lane.id for lane in lanes} - held

    def over(self, gpus: tuple[str, ...]) -> tuple[int, ...]:
        for lane in self._all:
            if lane.id in self._free and lane.devices == gpus and gpus:
                self._free.discard(lane.id)
                return (lane.id,)
        return ()

    def give_back(self, lanes: tuple[int, ...]) -> None:
        self._free.update(lanes)


def _from_note(note: Note, environment: str) -> Job:
    name = note.name if note.name != f"job_{note.job}" else None
    spec = JobSpec(
        command=note.command, cwd=note.cwd, environment=environment, name=name, occurrence=note.occurrence,
        wrap=note.wrap, task=note.task,
    )  # fmt: skip
    return Job(note.job, spec, note.started, spec.priority, float(note.job), Held())


def _unknown(job_id: JobId, environment: str, **changes: object) -> Job:
    spec = JobSpec(command=UNKNOWN, cwd="/", environment=environment)
    return replace(Job(job_id, spec, 0.0, spec.priority, float(job_id), LOST), **changes)


def read_claims(folder: str) -> dict[JobId, int]:
    """The newest attempt of each job that has a claim."""
    claims: dict[JobId, int] = {}
    with suppress(OSError):
        for name in os.listdir(folder):
            job, _, attempt = name.partition(".")
            if job.isdecimal() and attempt.isdecimal():
                claims[int(job)] = max(claims.get(int(job), 0), int(attempt))
    return claims
