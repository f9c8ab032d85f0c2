"""The jobs of one run: the sources that give them, crashes, counts and exit status."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Container, Iterable

from gputui.core.amounts import counted, duration_exact
from gputui.core.events import Cause, Refusal
from gputui.core.job import Ended, Job, JobId, Killed, Refused, Skipped, Succeeded
from gputui.core.snapshot import Caution, Snapshot
from gputui.process.watch import begin
from gputui.session.control.connection import ClientError, NotDurable
from gputui.session.errors import CommitFailed
from gputui.session.event_loop import OwnerGone
from gputui.session.loading import SourceKind, SourceRecord
from gputui.sources.command_list import CommandLines
from gputui.sources.source import BadInput, Draft

from .streaming import Prints

# ---- The jobs of one `run` ----


class Charges:
    """Costs what changed, not what there is."""

    def __init__(self) -> None:
        self.jobs: set[JobId] = set()
        self.unfinished: set[JobId] = set()
        self._guests: set[JobId] = set()
        self._guests_from: JobId | None = None
        self._fresh: set[JobId] = set()

    def own(self, jobs: Iterable[JobId]) -> None:
        fresh = set(jobs)
        self.jobs |= fresh
        self.unfinished |= fresh
        self._fresh |= fresh

    def welcome(self, first: JobId) -> None:
        """From this number on jobs of others count too: nobody else would run them."""
        self._guests_from = first

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        fresh, self._fresh = self._fresh, set()
        if self._guests_from is not None:
            self._guests.update(job for job in changed if job >= self._guests_from and job not in self.jobs)
        for job in changed | fresh:
            if job in self.jobs or job in self._guests:
                (self.unfinished.discard if isinstance(snapshot[job].state, Ended) else self.unfinished.add)(job)

    def succeeded(self, snapshot: Snapshot) -> bool:
        return all(isinstance(snapshot[job].state, Succeeded) for job in self.jobs)

    def others(self, snapshot: Snapshot) -> int:
        """How many jobs of the session are none of these and have not ended."""
        return sum(job.id not in self.jobs and not isinstance(job.state, Ended) for job in snapshot)

    def left(self, snapshot: Snapshot) -> list[str]:
        """What lives on of their newest attempts, in words."""
        return [
            leftover.words
            for job in sorted(self.jobs)
            for past in snapshot[job].attempts[-1:]
            for leftover in past.left
        ]


# ---- What a `run` says about crashes ----


class CrashNotes:
    """Each pause is told when it begins and when it is over; what joins it meanwhile is told by the jobs' own lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str | None, Caution] = {}

    def update(self, snapshot: Snapshot) -> bool:
        """True: nothing goes on without somebody's help."""
        now = {caution.group: caution for caution in snapshot.cautions}
        for group in self._told.keys() - now.keys():
            self._say(_over(snapshot, self._told.pop(group)))
        for group, caution in now.items():
            before = self._told.get(group)
            if before is None or (before.goes_on and not caution.goes_on and caution.job is not None):
                self._say(_begun(caution))
            self._told[group] = caution if caution.tries or before is None else before
        return any(caution.group is None and not caution.goes_on for caution in now.values())


def _begun(caution: Caution) -> str:
    group = f"group {caution.group or 'without a name'}" if caution.group is not None else ""
    if caution.goes_on and caution.job is not None and not caution.wait:
        return f"{group}{': ' * bool(group)}{_crashed(caution.cause)}; going on one at a time until one succeeds"
    sentence = f"{group}{' is ' * bool(group)}paused: {caution.cause.message}"
    if not caution.goes_on or caution.job is None:
        return sentence
    at = f" in {duration_exact(caution.at - time.time())}" if caution.at is not None and not caution.tries else ""
    return f"{sentence}; tries #{caution.job} alone{at}"


def _crashed(cause: Cause) -> str:
    """`5 jobs crashed alike: exit code 3`"""
    alike = cause.count > 1 and cause.signature is not None
    return cause.message.replace(" jobs: ", " jobs crashed alike: ", 1) if alike else cause.message


def _over(snapshot: Snapshot, caution: Caution) -> str:
    if not caution.tries or caution.job is None:
        return "the scheduler starts jobs again"
    succeeded = isinstance(snapshot[caution.job].state, Succeeded)
    return f"#{caution.job} {'succeeded' if succeeded else 'has outlived the crashes'}: all go on"


# ---- How many jobs of a `run` failed, and how many were not run ----


def tallied(jobs: Iterable[Job]) -> dict[str, int]:
    """A job that was never started has not failed: it was not run."""
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


def told(tally: dict[str, int]) -> str | None:
    """None where all is well."""
    if not tally["failed"] and not tally["not_run"]:
        return None
    failed = f"{tally['failed']:,} of {counted(tally['total'], 'job', 'jobs')} failed"
    noun = ("was", "were") if tally["failed"] else ("job was", "jobs were")
    not_run = f"{counted(tally['not_run'], *noun)} not run"
    return ", ".join([failed] * bool(tally["failed"]) + [not_run] * bool(tally["not_run"]))


def write(path: str | None, tally: dict[str, int]) -> None:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tally, file)


# ---- The sources of one `run` that go on giving jobs ----


class Lasting:
    """Told in the sources' threads, asked in the run's own."""

    def __init__(self, say: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._say = say
        self._wake = wake
        self._sources: dict[str, SourceRecord] = {}
        """As they were when they last gave something."""
        self._fed: queue.SimpleQueue[tuple[SourceRecord, list[JobId], list[str]]] = queue.SimpleQueue()
        self.failed = False
        self.prints: Prints | None = None
        """What the yielders among them print, if there are any."""

    def wait_for(self, sources: Iterable[SourceRecord]) -> bool:
        """These are this run's; whether there are any that may give more."""
        self._sources.update((source.key, source) for source in sources if source.lasts)
        return bool(self._sources)

    def listen(self, log: str, tell: Callable[[str], None]) -> None:
        """From now on what yielders print is told, where there are any."""
        if any(source.kind is SourceKind.YIELDER for source in self._sources.values()):
            self.prints = Prints(log, tell)

    def announce(self) -> None:
        for source in self._sources.values():
            if source.kind is SourceKind.FOLLOWED:
                self._say(f"what is appended to {source.path} is run")

    def fed(self, source: SourceRecord, jobs: list[JobId], complaints: list[str]) -> None:
        self._fed.put((source, jobs, complaints))
        self._wake()

    def take(self) -> list[JobId]:
        """The jobs that came since it was asked last."""
        job_ids: list[JobId] = []
        if self.prints is not None:
            self.prints.copy()
        while not self._fed.empty():
            source, jobs, complaints = self._fed.get()
            for sentence in complaints:
                self._say(sentence)
            if source.key in self._sources:
                self._sources[source.key] = source
                job_ids += jobs
                self._tell_end(source)
        return job_ids

    def _tell_end(self, source: SourceRecord) -> None:
        if source.trouble is not None:
            self.failed = True
            self._say(f"{source.trouble}; the jobs it gave go on" if source.position else source.trouble)

    def more_may_come(self, snapshot: Snapshot, remembered: Container[str]) -> bool:
        remembered_sources = (source for key, source in self._sources.items() if key in remembered)
        return any(source.goes_on(snapshot.mode, snapshot.cause) for source in remembered_sources)


# ---- Jobs that arrive on standard input while others run ----


CHUNK = 1 << 16
OFFERED_EVERY = 0.5
"""Seconds between tries, while the queue cannot be written."""
MOST_WAITING = 10_000
"""A producer is held back while so many jobs wait; the pipe makes it wait."""


class Feeder:
    """Reads until the end of the input; `ended` is set then, and `trouble` says what was wrong with a line."""

    def __init__(
        self,
        fd: int,
        add: Callable[[list[Draft]], None],
        waiting: Callable[[], int],
        at_its_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended = threading.Event()
        self.trouble: str | None = None
        self.to_its_end = threading.Event()
        """Set when the program is about to leave: take all there is, without holding back."""
        self._fd = fd
        self._reading_since: float | None = None
        self._add = add
        self._waiting = waiting
        self._at_its_end = at_its_end

    def start(self) -> None:
        """Raises NoThread."""
        begin(self._read, "gputui-stdin")

    def quiet_for(self, seconds: float) -> bool:
        """Nothing has come for so long."""
        return self._reading_since is not None and time.monotonic() - self._reading_since > seconds

    def _read(self) -> None:
        lines = CommandLines("standard input")
        try:
            while chunk := self._next():
                self._pass_on(lines.feed(chunk))
                while self._waiting() > MOST_WAITING and not self.to_its_end.wait(0.2):
                    pass
            self._pass_on(lines.finish())
        except BadInput as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble = f"standard input cannot be read: {error.strerror}"
        except (ClientError, Refusal, OwnerGone) as error:
            self.trouble = str(error)
        finally:
            self.ended.set()
            self._at_its_end()

    def _next(self) -> bytes:
        self._reading_since = time.monotonic()
        try:
            return os.read(self._fd, CHUNK)
        finally:
            self._reading_since = None

    def _pass_on(self, drafts: Iterable[Draft]) -> None:
        """All together; those before a bad line are added before it is complained of."""
        batch: list[Draft] = []
        try:
            batch.extend(drafts)
        finally:
            self._add_batch(batch)

    def _add_batch(self, batch: list[Draft]) -> None:
        try:
            if batch:
                self._offer(batch)
        except CommitFailed:
            raise
        except Refusal:
            if len(batch) == 1:
                raise
            # How lines fall into batches is chance, so a bad one must not cost its neighbours.
            for draft in batch:
                self._offer([draft])

    def _offer(self, batch: list[Draft]) -> None:
        """Again while the queue cannot be written: a pipe does not give its lines twice."""
        while True:
            try:
                return self._add(batch)
            except (CommitFailed, NotDurable):
                if self.to_its_end.wait(OFFERED_EVERY):
                    raise
