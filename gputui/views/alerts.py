"""What is worth calling the user for: a pause after crashes, the end of all, and the ends of jobs marked for it. Pure.

Compares each picture with the one before; what was so when it began to look is told to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gputui.core.amounts import duration_words
from gputui.core.events import PauseKind
from gputui.core.job import FAILURES, WORDS, Ended, Job, JobId, Running, StateName, Succeeded
from gputui.core.snapshot import Snapshot

from .failures import said_of
from .format import silence
from .status import goes_on

__all__ = ["Alerts", "is_wanted"]


def is_wanted(job: Job) -> bool:
    """Whether the user wants to be told of its end."""
    return job.notify if job.notify is not None else job.spec.notify


class Alerts:
    def __init__(self, snapshot: Snapshot, name: str) -> None:
        """`name`: of the session, as its user knows it."""
        self._name = name
        self._cause = snapshot.cause
        self._paused = {caution.group for caution in snapshot.cautions}
        self._worked = False
        self._told = {job.id: job.issued for job in snapshot if is_wanted(job) and isinstance(job.state, Ended)}
        self._silent: set[tuple[JobId, int]] = set()

    def look(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> list[str]:
        """Sentences, each to be told once."""
        sentences = [*self._jobs(snapshot, changed, now), *self._pause(snapshot)]
        works = goes_on(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works and snapshot.cause is None:
            sentences.append(self._done(snapshot))
        self._worked = works
        return [f"gputui {self._name}: {sentence}" for sentence in sentences]

    def _pause(self, snapshot: Snapshot) -> Iterator[str]:
        """What the user did with a key or a verb, nobody needs to tell them."""
        before, self._cause = self._cause, snapshot.cause
        self._paused &= {caution.group for caution in snapshot.cautions}
        for caution in snapshot.cautions:
            # One that is tried at once was asked for, or holds nobody up.
            if caution.group not in self._paused and not caution.due and not caution.tries:
                self._paused.add(caution.group)
                which = f" ({caution.group})" if caution.group else ""
                yield f"paused{which}: {caution.cause.message}"
        if snapshot.cause is not None and snapshot.cause.kind is PauseKind.DRAINED and before is None:
            yield snapshot.cause.message

    def _jobs(self, snapshot: Snapshot, changed: Iterable[JobId], now: float) -> Iterator[str]:
        for job_id in sorted(changed):
            if job_id not in snapshot or not is_wanted(job := snapshot[job_id]):
                continue
            key = (job_id, job.issued)
            if isinstance(job.state, Ended) and self._told.get(job_id) != job.issued:
                self._told[job_id] = job.issued
                yield f"#{job_id} {job.name}: {_end(job)}"
            elif isinstance(job.state, Running) and job.state.silent_since is not None and key not in self._silent:
                self._silent.add(key)
                yield f"#{job_id} {job.name}: {silence(job, now)}"

    def _done(self, snapshot: Snapshot) -> str:
        failed = snapshot.count(*FAILURES)
        return f"done: {snapshot.count(StateName.SUCCEEDED):,} ok" + (f", {failed:,} failed" if failed else "")


def _end(job: Job) -> str:
    took = job.attempts[-1].ended - job.attempts[-1].started if job.attempts else 0.0
    after = f" after {duration_words(took)}" if job.attempts else ""
    if isinstance(job.state, Succeeded):
        return f"succeeded{after}"
    assert isinstance(job.state, Ended)
    why = f": {said_of(job)}" if job.state.name in FAILURES else ""
    return f"{WORDS[job.state.name]}{after}{why}"
