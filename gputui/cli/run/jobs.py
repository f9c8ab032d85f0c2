"""The jobs of one run: the sources that add them, the pauses after errors, the counts and the exit status."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator

from msgspec import Struct

from gputui.cli.follower import YielderOutput
from gputui.core.amounts import counted, duration_exact
from gputui.core.events import Refusal
from gputui.core.job import Ended, Job, JobId, Killed, Refused, Skipped, Succeeded
from gputui.core.snapshot import PausedScope, Snapshot
from gputui.logs.plain import plain
from gputui.process.watch import start_thread
from gputui.session.control.connection import ClientError, NotDurable
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import OwnerGone
from gputui.session.loading import SourceKind, SourceRecord
from gputui.session.owner.requests import Loaded
from gputui.sources.command_list import CommandLines
from gputui.sources.source import BadInput, Draft


class RunJobs:
    """The jobs of one run. The cost of an update depends only on the number of changed jobs."""

    def __init__(self) -> None:
        self.jobs: set[JobId] = set()
        self.unfinished: set[JobId] = set()
        self.adopt_from: JobId | None = None
        """First id of the other clients' jobs that this run also waits for, because no other process would run them."""
        self._adopted: set[JobId] = set()
        self._added: set[JobId] = set()

    def add(self, jobs: Iterable[JobId]) -> None:
        added = set(jobs)
        self.jobs |= added
        self.unfinished |= added
        self._added |= added

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        added, self._added = self._added, set()
        if self.adopt_from is not None:
            self._adopted.update(job for job in changed if job >= self.adopt_from and job not in self.jobs)
        for job in changed | added:
            if job in self.jobs or job in self._adopted:
                (self.unfinished.discard if isinstance(snapshot[job].state, Ended) else self.unfinished.add)(job)

    def succeeded(self, snapshot: Snapshot) -> bool:
        return all(isinstance(snapshot[job].state, Succeeded) for job in self.jobs)

    def count_others(self, snapshot: Snapshot) -> int:
        """Count the session's unfinished jobs that do not belong to this run."""
        return sum(job.id not in self.jobs and not isinstance(job.state, Ended) for job in snapshot)

    def leftovers(self, snapshot: Snapshot) -> list[str]:
        """Describe the processes left over from each job's newest attempt."""
        return [
            leftover.words
            for job in sorted(self.jobs)
            for past in snapshot[job].attempts[-1:]
            for leftover in past.left
        ]


# Pauses after errors


class CrashNotes:
    """Reports when a pause after errors starts and ends.

    Failures during the pause are reported by the jobs' own lines.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reported: dict[str | None, PausedScope] = {}

    def update(self, snapshot: Snapshot) -> bool:
        """Report changes, and return whether the scheduler is paused until the user resumes it."""
        now = {paused.group: paused for paused in snapshot.paused_scopes}
        for group in self._reported.keys() - now.keys():
            self._say(_describe_end(snapshot, self._reported.pop(group)))
        for group, paused in now.items():
            before = self._reported.get(group)
            if before is None or (before.resumes_itself and not paused.resumes_itself and paused.job is not None):
                self._say(_describe_pause(paused))
            self._reported[group] = paused if paused.probing or before is None else before
        return any(paused.group is None and not paused.resumes_itself for paused in now.values())


def _describe_pause(paused: PausedScope) -> str:
    group = f"group {paused.group or '(unnamed)'}" if paused.group is not None else ""
    if paused.resumes_itself and paused.job is not None and not paused.wait:
        return f"{group}{': ' * bool(group)}{paused.cause.message}; running one at a time until one succeeds"
    message = f"{group}{' is ' * bool(group)}paused: {paused.cause.message}"
    if not paused.resumes_itself or paused.job is None:
        return message
    at = f" in {duration_exact(paused.at - time.time())}" if paused.at is not None and not paused.probing else ""
    return f"{message}; probe: #{paused.job}{at}"


def _describe_end(snapshot: Snapshot, paused: PausedScope) -> str:
    if not paused.probing or paused.job is None:
        return "scheduler resumed"
    succeeded = isinstance(snapshot[paused.job].state, Succeeded)
    return f"#{paused.job} {'succeeded' if succeeded else 'ran longer than the failed jobs'}: resuming"


# Counts


class RunAnswer(Struct, frozen=True):
    """The jobs of a run by how they ended. `failed` also counts jobs that timed out or were lost."""

    session: str
    jobs: list[JobId]
    total: int
    succeeded: int
    failed: int
    not_run: int


def tally_jobs(jobs: Iterable[Job]) -> dict[str, int]:
    """Count the jobs by how they ended. A job that was never started counts as not run, not as failed."""
    tally = {"total": 0, "succeeded": 0, "failed": 0, "not_run": 0}
    for job in jobs:
        tally["total"] += 1
        if isinstance(job.state, Succeeded):
            tally["succeeded"] += 1
        elif isinstance(job.state, Refused | Skipped) or not isinstance(job.state, Ended) or not job.attempts:
            tally["not_run"] += 1
        elif not isinstance(job.state, Killed):
            tally["failed"] += 1
    return tally


def report_tally(tally: dict[str, int], path: str | None, say: Callable[[str], None]) -> None:
    """Write the counts to a file if one was given, and report the jobs that failed or were not run."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tally, file)
    if not tally["failed"] and not tally["not_run"]:
        return
    failed = f"{tally['failed']:,} of {counted(tally['total'], 'job', 'jobs')} failed"
    noun = ("was", "were") if tally["failed"] else ("job was", "jobs were")
    not_run = f"{counted(tally['not_run'], *noun)} not run"
    say(", ".join([failed] * bool(tally["failed"]) + [not_run] * bool(tally["not_run"])))


def load_messages(loaded: Iterable[Loaded]) -> Iterator[str]:
    for answer in loaded:
        if answer.sentence:
            yield f"{answer.sentence} {answer.advice}".rstrip()
        if answer.warning:
            yield f"warning: {plain(answer.warning)}"


# Sources that keep adding jobs: followed files and yielders


class OngoingSources:
    """The followed files and yielders of one run.

    `on_fed` is called in the owner's thread, the other methods in the run's thread.
    """

    def __init__(self, say: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._say = say
        self._wake = wake
        self._sources: dict[str, SourceRecord] = {}
        """The sources in the state they had when they last added jobs."""
        self._fed: queue.SimpleQueue[tuple[SourceRecord, list[JobId], list[str]]] = queue.SimpleQueue()
        self.failed = False
        self.output: YielderOutput | None = None

    def add(self, sources: Iterable[SourceRecord]) -> bool:
        """Remember the sources that may add jobs, so that the run waits for them. Return whether there are any."""
        self._sources.update((source.key, source) for source in sources if source.lasts)
        return bool(self._sources)

    def copy_output(self, log: str, write_line: Callable[[str], None]) -> None:
        """If there are yielders, copy everything they print from now on."""
        if any(source.kind is SourceKind.YIELDER for source in self._sources.values()):
            self.output = YielderOutput(log, write_line)

    def announce(self) -> None:
        for source in self._sources.values():
            if source.kind is SourceKind.FOLLOWED:
                self._say(f"following {source.path} for new commands")

    def on_fed(self, source: SourceRecord, jobs: list[JobId], complaints: list[str]) -> None:
        self._fed.put((source, jobs, complaints))
        self._wake()

    def take(self) -> list[JobId]:
        """Return the jobs that were added since the last call."""
        job_ids: list[JobId] = []
        if self.output is not None:
            self.output.copy()
        while not self._fed.empty():
            source, jobs, complaints = self._fed.get()
            for complaint in complaints:
                self._say(complaint)
            if source.key in self._sources:
                self._sources[source.key] = source
                job_ids += jobs
                if source.trouble is not None:
                    self.failed = True
                    self._say(f"{source.trouble}; its jobs continue" if source.position else source.trouble)
        return job_ids

    def more_may_come(self, snapshot: Snapshot, remembered: Container[str]) -> bool:
        remembered_sources = (source for key, source in self._sources.items() if key in remembered)
        return any(source.may_yield(snapshot.mode, snapshot.cause) for source in remembered_sources)


# Jobs from standard input


CHUNK = 1 << 16
RETRY_EVERY = 0.5
"""Seconds between retries while the queue cannot be written."""
MOST_WAITING = 10_000
"""Maximum number of waiting jobs for which reading continues. With more, the full pipe blocks the producer."""


class StdinReader:
    """Reads commands until the end of the input. Then it sets `ended`, and if there was an error, `trouble`."""

    def __init__(
        self,
        fd: int,
        add: Callable[[list[Draft]], None],
        waiting: Callable[[], int],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended = threading.Event()
        self.trouble: str | None = None
        self.finish = threading.Event()
        """Set when the program is about to exit, so that reading no longer pauses."""
        self._fd = fd
        self._reading_since: float | None = None
        self._add = add
        self._waiting = waiting
        self._on_end = on_end

    def start(self, *, wanted: bool = True) -> None:
        """Start the thread, or count as ended if no input is wanted. Raise NoThread if the thread cannot be started."""
        if wanted:
            start_thread(self._read, "gputui-stdin")
        else:
            self.ended.set()

    def quiet_for(self, seconds: float) -> bool:
        """Return whether nothing has arrived for this many seconds."""
        return self._reading_since is not None and time.monotonic() - self._reading_since > seconds

    def _read(self) -> None:
        lines = CommandLines("standard input")
        try:
            while chunk := self._read_chunk():
                self._add_drafts(lines.feed(chunk))
                while self._waiting() > MOST_WAITING and not self.finish.wait(0.2):
                    pass
            self._add_drafts(lines.finish())
        except BadInput as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = f"cannot read standard input: {error.strerror}"
        except (ClientError, Refusal, OwnerGone) as error:
            self.trouble = str(error)
        finally:
            self.ended.set()
            self._on_end()

    def _read_chunk(self) -> bytes:
        self._reading_since = time.monotonic()
        try:
            return os.read(self._fd, CHUNK)
        finally:
            self._reading_since = None

    def _add_drafts(self, drafts: Iterable[Draft]) -> None:
        """Add the drafts in one batch.

        If a line is invalid, the drafts before it are added and then its error is raised.
        """
        batch: list[Draft] = []
        try:
            batch.extend(drafts)
        finally:
            try:
                if batch:
                    self._add_batch(batch)
            except CommitFailed:
                raise
            except Refusal:
                if len(batch) == 1:
                    raise
                # Only the refused jobs must be lost, not others that happened to be in the same batch.
                for draft in batch:
                    self._add_batch([draft])

    def _add_batch(self, batch: list[Draft]) -> None:
        """Add a batch. It is retried while the queue cannot be written, because a pipe cannot be read twice."""
        while True:
            try:
                return self._add(batch)
            except (CommitFailed, NotDurable):
                if self.finish.wait(RETRY_EVERY):
                    raise
