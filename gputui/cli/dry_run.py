"""`--dry-run`: carry out a command on a copy of the session in memory, and describe what would follow."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from gputui.core.amounts import moment
from gputui.core.eta import RunningJobs
from gputui.core.events import AttemptEnded, Event, Exited, Spawned, Tick
from gputui.core.job import WORDS, JobId, StateName
from gputui.core.placement import place
from gputui.core.scheduler import Undo
from gputui.logs.plain import plain
from gputui.process.directories import DirectoryId
from gputui.process.machine import this_host
from gputui.session.client import PRIVATE, Client
from gputui.session.control import server
from gputui.session.control.connection import ClientError, decode_reply, encode_request, fresh_id
from gputui.session.control.handlers import RequestHandler
from gputui.session.environment import digest
from gputui.session.errors import SessionError, StoreDamaged, StoreTrouble
from gputui.session.event_loop import Ticket
from gputui.session.messages import Layout, Outcome, OwnerRequest, PickedJob
from gputui.session.session_copy import SessionCopy
from gputui.session.session_dir import Paths
from gputui.session.store.opening import refuse_other_machine
from gputui.session.store.store import MEMORY, Change, Identity, Store
from gputui.views.waiting import why

from .output import OutputFormat, print_answer

T = TypeVar("T")
MOST_STARTS = 20_000
"""Number of starts after which later ones are not predicted."""
SHOWN = 20
"""Number of jobs that are described in words; the others are only counted."""


class PreviewedJob(Struct, frozen=True):
    """A job as it would be after the command, and when it is expected to run next."""

    id: JobId
    name: str
    command: str
    state: StateName
    removed: bool
    """Whether the job would be removed from the list."""
    gpus: tuple[str, ...]
    """The GPUs on which the job would run next, or on which it is running."""
    start: float | None
    """When the job would start, or None if that cannot be predicted."""
    end: float | None
    why: str | None
    """Why the job would not start now."""


class RefusedCommand(Struct, frozen=True):
    job: JobId | None
    message: str


class Preview(Struct, frozen=True):
    """What a command would do. Nothing was changed."""

    session: str
    new_session: bool
    """Whether the command would create the session."""
    jobs: list[PreviewedJob]
    refused: list[RefusedCommand]
    dry_run: bool = True


ANSWERS = {"--dry-run": Preview}


class Rehearsal(SessionCopy):
    """A copy of a session that carries out every request."""

    def __init__(self, paths: Paths, *, new: bool) -> None:
        super().__init__(paths, "dry run", _empty_store() if new else None)
        self.now = self.since

    def submit(self, ticket: Ticket[object]) -> None:
        ticket.carry_out(self)
        self.snapshot = self.results.update(self.scheduler.snapshot())
        ticket.settle()

    # What a request uses of an owner, see TurnContext

    def handle(self, event: Event | Undo) -> None:
        self.scheduler.handle(event, self.now)

    def lay_out(self, layout: Layout) -> None:
        pass

    def keep_environment(self, environment: dict[str, str]) -> str:
        return digest(environment)

    # What follows

    def preview(self, jobs: Collection[JobId]) -> list[PreviewedJob]:
        """Simulate the queue until these jobs have started, as far as the run times of the other jobs
        can be estimated.
        """
        scheduler, paces = self.scheduler, self.results.book.paces.usual()
        running = RunningJobs(scheduler, self.now, self.results.book.results, paces)
        after = {job: scheduler.book[job] for job in jobs}
        ends = [(end, job) for job, end in running.ends.items()]
        heapq.heapify(ends)
        expected: dict[JobId, tuple[tuple[str, ...], float, float | None]] = {}
        reasons: dict[JobId, str | None] = {}
        now = self.now
        while len(expected) < MOST_STARTS and not expected.keys() >= after.keys():
            for start in place(scheduler, now):
                job, active = start.job, start.job.active
                assert active is not None
                end = now + running.length(job.spec.group) if running.lengths else None
                expected[job.id] = (active.gpus, now, end)
                scheduler.handle(Spawned(job=job.id, attempt=active.attempt, pid=None), now)
                if end is not None:
                    heapq.heappush(ends, (end, job.id))
            if not reasons:
                waiting = (scheduler.book[job] for job in jobs if job not in expected)
                reasons = {job.id: why(scheduler, job, now) for job in waiting}
            if not ends:
                break
            now, ended = heapq.heappop(ends)
            attempt = scheduler.book[ended].issued
            scheduler.handle(AttemptEnded(job=ended, attempt=attempt, outcome=Exited(0), at=now), now)
            scheduler.handle(Tick(), now)
        return [
            PreviewedJob(
                id=job.id,
                name=job.name,
                command=job.spec.command,
                state=job.state.name,
                removed=job.archived,
                gpus=expected[job.id][0] if job.id in expected else job.active.gpus if job.active is not None else (),
                start=expected[job.id][1] if job.id in expected else None,
                end=expected[job.id][2] if job.id in expected else running.ends.get(job.id),
                why=reasons.get(job.id),
            )
            for job in after.values()
        ]


def _empty_store() -> Store:
    store = Store(MEMORY)
    store.commit(Change(identity=Identity("dry-run", this_host(), DirectoryId(0, 0)), full=True))
    return store


class RehearsalClient(Client):
    """A client of a rehearsal: its requests change nothing."""

    def __init__(self, root: str, *, new: bool = False) -> None:
        """Copy the session in `root`. If there is none, or `new` is set, begin with an empty one."""
        paths = Paths(root)
        self.root, self.private = paths.root, os.path.join(paths.root, PRIVATE)
        self.new_session = new or not paths.exists()
        try:
            if not self.new_session:
                super().__init__(root)
                refuse_other_machine(paths, this_host())
            self.rehearsal = Rehearsal(paths, new=self.new_session)
        except SessionError as error:
            raise ClientError(str(error)) from error
        except (StoreDamaged, StoreTrouble, OSError) as error:
            raise ClientError(f"cannot read {paths.root}: {error}") from error
        self._handler = RequestHandler(self.rehearsal)

    def ask(self, request: OwnerRequest[T], *, work: bool = False) -> T:
        replies: list[bytes] = []
        self._handler.answer(server.decode(encode_request(request, fresh_id())), replies.append)
        return decode_reply(replies[0], request)


def print_preview(client: Client, jobs: Iterable[JobId], refused: Sequence[RefusedCommand] = ()) -> int:
    """Print what would become of these jobs. Return 1 if something would be refused."""
    assert isinstance(client, RehearsalClient)
    preview = Preview(client.root, client.new_session, client.rehearsal.preview(dict.fromkeys(jobs)), list(refused))
    print_answer(lambda: preview, lambda fmt: describe(preview, fmt, time.time()))
    return int(bool(refused))


def refused_commands(outcomes: Sequence[Outcome], jobs: Sequence[PickedJob]) -> list[RefusedCommand]:
    pairs = zip(jobs, outcomes, strict=False)
    return [RefusedCommand(job.id, outcome.refused) for job, outcome in pairs if outcome.refused is not None]


def describe(preview: Preview, fmt: OutputFormat, now: float) -> list[str]:
    created = f"; a session would be created in {preview.session}" if preview.new_session else ""
    lines = [f"dry run: nothing was changed{created}"]
    lines += [f"would be refused: {plain(refusal.message)}" for refusal in preview.refused]
    lines += [_describe_job(job, now) for job in preview.jobs[:SHOWN]]
    lines += [f"and {len(preview.jobs) - SHOWN} more"] if len(preview.jobs) > SHOWN else []
    return [fmt.cut(line) for line in lines]


def _describe_job(job: PreviewedJob, now: float) -> str:
    words = f"#{job.id} {plain(job.name)}: {'removed' if job.removed else WORDS[job.state]}"
    if job.start is not None:
        words += f", starts {'now' if job.start <= now else f'at {moment(job.start, now)}'}"
    on = f" on GPU {' '.join(job.gpus)}" if job.gpus else ""
    end = f", ends at {moment(job.end, now)}" if job.end is not None else ""
    return words + on + end + (f" ({plain(job.why)})" if job.why and job.start is None else "")
