"""Progress lines of a run, the lines it ends with, and what keeps new jobs from starting."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress

from gputui.core.amounts import duration_words
from gputui.core.job import Attempt, Ended, EngineName, Job, JobId, Placed, StateName, Succeeded
from gputui.core.snapshot import Snapshot, rule
from gputui.logs.plain import plain
from gputui.session.messages import PausedShown, SchedulerShown
from gputui.views.status import Word, outlook_words, standing

from .output import out, say

# ---- What `run` tells while it works ----


TIMES_A_SECOND = 5
TOLD = (Word.WAITING, Word.SUSPENDED, Word.PAUSED, Word.DRAINING)
"""The rest is told by the numbers."""


class EventLines:
    """The old line at each start, and one at each end."""

    def __init__(self) -> None:
        self._told: dict[JobId, tuple[int, int]] = {}
        """The newest attempt whose start was told, and the one whose end was."""

    def seen(self, snapshot: Snapshot) -> None:
        """What happened before this program began is no news."""
        for job in snapshot.jobs:
            if job.issued:
                last_end = job.attempts[-1].number if job.attempts else 0
                self._told[job.id] = (job.issued, last_end)

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        self.tell(*(snapshot[job_id] for job_id in sorted(changed)))

    def tell(self, *jobs: Job) -> None:
        lines = [line for job in jobs for line in self._news_of(job)]
        if lines:
            out("\n".join(lines))

    def _news_of(self, job: Job) -> list[str]:
        lines = []
        started, ended = self._told.get(job.id, (0, 0))
        for attempt in job.attempts:
            if attempt.number > started:
                lines.append(beginning(job, attempt))
                started = attempt.number
            if attempt.number > ended:
                lines.append(ending(job, attempt))
                ended = attempt.number
        if job.active is not None and job.active.attempt > started and not job.submitted:
            lines.append(beginning(job, job.active))
            started = job.active.attempt
        if job.state.name is StateName.SKIPPED and job.id not in self._told:
            lines.append(f"#{job.id} skipped: a job it waits for did not succeed")
        self._told[job.id] = (started, ended)
        return lines

    def say(self, sentence: str) -> None:
        say(sentence)

    def copy(self, line: str) -> None:
        out(line)

    def close(self) -> None:
        pass


def beginning(job: Job, run: Attempt | Placed) -> str:
    return f"Processing command `{plain(job.spec.command)}`{_on(run)}"


def _on(run: Attempt | Placed) -> str:
    """Lanes without a GPU are told by their own numbers; a job that needs no lane is on none."""
    if run.gpus:
        return f" on gpu {plain(','.join(run.gpus))}"
    if run.engine is EngineName.LOCAL and run.lanes:
        return f" on cpu {','.join(map(str, run.lanes))}"
    return ""


def ending(job: Job, attempt: Attempt) -> str:
    took = duration_words(attempt.ended - attempt.started, tenths=True)
    number = f" (attempt {attempt.number})" if attempt.number > 1 else ""
    why = "" if isinstance(attempt.end, Succeeded) or not attempt.said else f": {plain(attempt.said)}"
    return f"#{job.id} {attempt.end.name} after {took}{number}{why}"


def draws_progress(options: argparse.Namespace) -> bool:
    """On a terminal that can rewrite a line, and that nothing else is written to; elsewhere each event has its own."""
    can = sys.stderr.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return can and not (options.verbose or options.stream)


class ProgressLine:
    """One line, rewritten in place; failures stay above it."""

    def __init__(self) -> None:
        self._written = 0.0
        self._failed_told: set[tuple[JobId, int]] = set()
        self._shown = False

    def seen(self, snapshot: Snapshot) -> None:
        self._failed_told = {(job.id, past.number) for job in snapshot.jobs for past in job.attempts}

    def update(self, snapshot: Snapshot, changed: frozenset[JobId]) -> None:
        for job_id in sorted(changed):
            self._tell_failures(snapshot[job_id])
        now = time.monotonic()
        if now - self._written >= 1 / TIMES_A_SECOND or not snapshot.active:
            self._written = now
            self._write(progress(snapshot))

    def _tell_failures(self, job: Job) -> None:
        for attempt in job.attempts:
            if (job.id, attempt.number) not in self._failed_told and not isinstance(attempt.end, Succeeded):
                self._failed_told.add((job.id, attempt.number))
                self.say(ending(job, attempt))

    def _write(self, line: str) -> None:
        _put(f"\r\x1b[K{line}")
        self._shown = True

    def say(self, sentence: str) -> None:
        self.close()
        say(sentence)

    def copy(self, line: str) -> None:
        self.close()
        out(line)

    def close(self) -> None:
        if self._shown:
            _put("\r\x1b[K")
            self._shown = False


def _put(text: str) -> None:
    """A terminal that has gone is no error of ours."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def progress(snapshot: Snapshot) -> str:
    ended = snapshot.count(*(state.name for state in Ended.__subclasses__()))
    total = ended + snapshot.not_begun + snapshot.running
    bad = ended - snapshot.count(StateName.SUCCEEDED)
    suspended = snapshot.count(StateName.SUSPENDED)
    parts = [f"{ended}/{total} done", f"{snapshot.running - suspended} running"]
    parts += [f"{suspended} suspended"] if suspended else []
    parts += [f"{snapshot.submitted_count} submitted"] if snapshot.submitted_count else []
    parts += [f"{bad} failed"] if bad else []
    stands = standing(snapshot)
    parts += [f"{stands.word}: {plain(stands.awaits)}" if stands.awaits else stands.word] if stands.word in TOLD else []
    parts += [snapshot.trouble] if snapshot.trouble else []
    parts += outlook_words(snapshot, time.time())
    return " · ".join(parts)


# ---- The few lines that stand in the shell when a `run` or a screen is over ----


def closing_words(snapshot: Snapshot) -> list[str]:
    """None for less than two jobs that ran: there is nothing to sum up."""
    if sum(job.issued > 0 for job in snapshot) < 2:
        return []
    from gputui.views.summary import brief_lines, summarize

    now = time.time()
    return [plain(line) for line in brief_lines(summarize(snapshot, now), now)]


def tell_summary(snapshot: Snapshot) -> None:
    """Beside whatever the program's output is."""
    with suppress(OSError, ValueError):
        for line in closing_words(snapshot):
            print(_cut(line), file=sys.stderr)
        sys.stderr.flush()


def _cut(line: str) -> str:
    if not sys.stderr.isatty():
        return line
    from gputui.views.format import cut

    return cut(line, os.get_terminal_size(sys.stderr.fileno()).columns or 10**6)


# ---- What keeps jobs from starting that were just given, in one sentence ----


def pause_words(
    scheduler: SchedulerShown, jobs: set[JobId], groups: Collection[str] = (), resume: str = "gputui resume"
) -> str:
    """Empty: nothing does. A pause of a group counts if it is one of `groups`, or because of one of these jobs."""
    pauses = [
        pause
        for pause in scheduler.paused
        if pause.group is None or pause.group in groups or jobs & {pause.job, *pause.jobs}
    ]
    for pause in pauses:
        if pause.trying or (pause.at is not None and pause.job is not None):
            return _order_told(pause, jobs)
    if scheduler.cause is not None:
        return f"the scheduler is paused ({plain(scheduler.cause.message)}); {resume} lets it start jobs"
    return _group_words(pauses[0], resume) if pauses else ""


def _order_told(paused: PausedShown, jobs: set[JobId]) -> str:
    """As things stand now: one of these is tried, or all of them start after the one that is."""
    when = rule(paused.alive_after)
    if paused.job in jobs:
        return f"#{paused.job} is tried first; {'all others' if len(jobs) == 1 else 'the others'} start when it {when}"
    return f"{'it starts' if len(jobs) == 1 else 'they start'} when #{paused.job}, which is tried alone, {when}"


def _group_words(pause: PausedShown, resume: str) -> str:
    name = f"group {plain(pause.group)}" if pause.group else "the group without a name"
    return f"{name} is paused ({plain(pause.message)}); {resume} lets it start jobs"
