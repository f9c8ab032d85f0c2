"""The progress lines of a run, the summary at its end, and the reason why no new jobs start."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress

from gputui.core.amounts import duration_words
from gputui.core.job import Attempt, Ended, EngineName, Job, JobId, Placed, StateName, Succeeded
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import plain
from gputui.session.messages import PausedShown, SchedulerShown
from gputui.views.format import cut
from gputui.views.status import StatusWord, describe_outlook, queue_status
from gputui.views.waiting import resume_rule

from .output import JSON, StatusLine, out, say

UPDATE_INTERVAL = 0.2
SHOWN_STATES = (StatusWord.WAITING, StatusWord.SUSPENDED, StatusWord.PAUSED, StatusWord.DRAINING)
"""Scheduler states that are shown because they cannot be derived from the counts."""


class EventLines:
    """Prints a line when a job starts, in the format of older tools, and a line when it ends."""

    def __init__(self) -> None:
        self._printed: dict[JobId, tuple[int, int]] = {}
        """For each job, the newest attempt whose start was printed and the newest attempt whose end was printed."""

    def skip_past(self, snapshot: Snapshot) -> None:
        """Mark everything that happened before this program started as printed."""
        for job in snapshot.jobs:
            if job.issued:
                last_end = job.attempts[-1].number if job.attempts else 0
                self._printed[job.id] = (job.issued, last_end)

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        self.print_new(*(snapshot[job_id] for job_id in sorted(changed)))

    def print_new(self, *jobs: Job) -> None:
        lines = [line for job in jobs for line in self._new_lines(job)]
        if lines:
            out("\n".join(lines))

    def _new_lines(self, job: Job) -> list[str]:
        lines = []
        started, ended = self._printed.get(job.id, (0, 0))
        for attempt in job.attempts:
            if attempt.number > started:
                lines.append(describe_start(job, attempt))
                started = attempt.number
            if attempt.number > ended:
                lines.append(describe_end(job, attempt))
                ended = attempt.number
        if job.active is not None and job.active.attempt > started and not job.submitted:
            lines.append(describe_start(job, job.active))
            started = job.active.attempt
        if job.state.name is StateName.SKIPPED and job.id not in self._printed:
            lines.append(f"#{job.id} skipped: a dependency did not succeed")
        self._printed[job.id] = (started, ended)
        return lines

    def say(self, message: str) -> None:
        say(message)

    def copy(self, line: str) -> None:
        out(line)

    def close(self) -> None:
        pass


def describe_start(job: Job, run: Attempt | Placed) -> str:
    device = ""
    if run.gpus:
        device = f" on gpu {plain(','.join(run.gpus))}"
    elif run.engine is EngineName.LOCAL and run.slots:
        device = f" on cpu {','.join(map(str, run.slots))}"
    return f"Processing command `{plain(job.spec.command)}`{device}"


def describe_end(job: Job, attempt: Attempt) -> str:
    took = duration_words(attempt.ended - attempt.started, tenths=True)
    number = f" (attempt {attempt.number})" if attempt.number > 1 else ""
    why = "" if isinstance(attempt.end, Succeeded) or not attempt.reason else f": {plain(attempt.reason)}"
    return f"#{job.id} {attempt.end.name} after {took}{number}{why}"


def reporter(options: argparse.Namespace) -> EventLines | ProgressLine:
    """Return how a run reports its progress: in one rewritten line if nothing else is printed on a capable terminal."""
    can_rewrite = sys.stderr.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if JSON.on or (can_rewrite and not (options.verbose or options.stream)):
        return ProgressLine()  # with --json it shows no line, and failures become messages
    return EventLines()


class ProgressLine:
    """A progress line that is rewritten in place. Failures are printed above it."""

    def __init__(self) -> None:
        self._written = 0.0
        self._reported: set[tuple[JobId, int]] = set()
        self._line = StatusLine()

    def skip_past(self, snapshot: Snapshot) -> None:
        self._reported = {(job.id, past.number) for job in snapshot.jobs for past in job.attempts}

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        for job_id in sorted(changed):
            job = snapshot[job_id]
            for attempt in job.attempts:
                if (job.id, attempt.number) not in self._reported and not isinstance(attempt.end, Succeeded):
                    self._reported.add((job.id, attempt.number))
                    self.say(describe_end(job, attempt))
        now = time.monotonic()
        if now - self._written >= UPDATE_INTERVAL or not snapshot.active:
            self._written = now
            self._line.show(format_progress(snapshot))

    def say(self, message: str) -> None:
        self.close()
        say(message)

    def copy(self, line: str) -> None:
        self.close()
        out(line)

    def close(self) -> None:
        self._line.clear()


def format_progress(snapshot: Snapshot) -> str:
    ended = snapshot.count(*(state.name for state in Ended.__subclasses__()))
    total = ended + snapshot.not_begun + snapshot.running
    bad = ended - snapshot.count(StateName.SUCCEEDED)
    suspended = snapshot.count(StateName.SUSPENDED)
    parts = [f"{ended}/{total} done", f"{snapshot.running - suspended} running"]
    parts += [f"{suspended} suspended"] if suspended else []
    parts += [f"{snapshot.submitted_count} submitted"] if snapshot.submitted_count else []
    parts += [f"{bad} failed"] if bad else []
    status = queue_status(snapshot)
    if status.word in SHOWN_STATES:
        parts.append(f"{status.word}: {plain(status.awaits)}" if status.awaits else status.word)
    parts += [snapshot.trouble] if snapshot.trouble else []
    parts += describe_outlook(snapshot, time.time())
    return " · ".join(parts)


# The summary at the end of a run or of the app


def closing_lines(snapshot: Snapshot) -> list[str]:
    """Return a short summary, or no lines if fewer than two jobs ran."""
    if sum(job.issued > 0 for job in snapshot) < 2:
        return []
    from gputui.views.summary import brief_lines, summarize

    now = time.time()
    return [plain(line) for line in brief_lines(summarize(snapshot, now), now)]


def print_summary(snapshot: Snapshot) -> None:
    with suppress(OSError, ValueError):
        width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
        for line in closing_lines(snapshot):
            print(cut(line, width or 10**6), file=sys.stderr)
        sys.stderr.flush()


# Why jobs that were just added do not start


def describe_pause(
    scheduler: SchedulerShown, jobs: set[JobId], groups: Collection[str] = (), resume: str = "gputui resume"
) -> str:
    """Return why these jobs do not start, or "" if nothing prevents it.

    A group's pause counts if the group is one of `groups` or if one of these jobs caused the pause.
    """
    pauses = [
        pause
        for pause in scheduler.paused
        if pause.group is None or pause.group in groups or jobs & {pause.job, *pause.jobs}
    ]
    for pause in pauses:
        if pause.probing or (pause.at is not None and pause.job is not None):
            return _describe_probe(pause, jobs)
    if scheduler.cause is not None:
        return f"scheduler paused ({plain(scheduler.cause.message)}); resume with: {resume}"
    if not pauses:
        return ""
    name = f"group {plain(pauses[0].group)}" if pauses[0].group else "the unnamed group"
    return f"{name} is paused ({plain(pauses[0].message)}); resume with: {resume}"


def _describe_probe(paused: PausedShown, jobs: set[JobId]) -> str:
    """Describe the probe, which is one of these jobs or another job that they wait for."""
    when = resume_rule(paused.alive_after)
    if paused.job in jobs:
        return f"#{paused.job} runs first; {'all others' if len(jobs) == 1 else 'the others'} start once it {when}"
    return f"{'it starts' if len(jobs) == 1 else 'they start'} once #{paused.job}, running alone, {when}"
