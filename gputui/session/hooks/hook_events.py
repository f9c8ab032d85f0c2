"""When hooks are due: compares each durable snapshot with the one before."""

from __future__ import annotations

import time

from gputui.core.job import Ended, Job, JobId, Running
from gputui.core.mode import Cause
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES
from gputui.core.views.alerts import Alerts
from gputui.core.views.outlook import goes_on
from gputui.core.views.silence import silence
from gputui.session.files.folders import Folders

from .hooks import Facts, Hooks


class Reactions:
    """Told every snapshot, in the owner's thread; a job's end counts once for each of its attempts."""

    def __init__(self, hooks: Hooks, folders: Folders, snapshot: Snapshot) -> None:
        self._hooks = hooks
        self._folders = folders
        self._told: set[tuple[JobId, int]] = {
            (job.id, job.issued) for job in snapshot.jobs if isinstance(job.state, Ended)
        }
        self._begun: dict[JobId, int] = {job: snapshot[job].issued for job in snapshot.active}
        running = (snapshot[job].state for job in snapshot.active)
        self._silent: dict[JobId, float] = {
            job: state.silent_since
            for job, state in zip(snapshot.active, running, strict=True)
            if isinstance(state, Running) and state.silent_since is not None
        }
        """What the owner before told of already is not told again."""
        self._alerts = Alerts(snapshot, hooks.session_name)
        self._paused = _cause(snapshot) is not None
        self._worked = False
        self._unseen: set[JobId] = set()

    def look(self, snapshot: Snapshot) -> None:
        self._unseen |= snapshot.changed
        if snapshot.trouble is not None:
            return  # not durable yet
        changed, self._unseen = self._unseen, set()
        for job_id in sorted(changed):
            self._job(snapshot, snapshot[job_id])
        cause = _cause(snapshot)
        if cause is not None and not self._paused:
            self._hooks.paused(cause, _facts(snapshot))
        self._paused = cause is not None
        works = goes_on(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works:
            self._hooks.drained(_facts(snapshot))
        self._worked = works
        for message in self._alerts.look(snapshot, changed, time.time()):
            self._hooks.told(message)

    def _job(self, snapshot: Snapshot, job: Job) -> None:
        key = (job.id, job.issued)
        ended = isinstance(job.state, Ended) and key not in self._told
        ran = bool(job.attempts) and job.attempts[-1].number == job.issued
        # A quick one has ended before anybody saw it run.
        if (isinstance(job.state, Running) or (ended and ran)) and self._begun.get(job.id) != job.issued:
            self._begun[job.id] = job.issued
            now = self._folders.files(job, job.issued)
            self._hooks.job_started(job, _facts(snapshot, now.out, now.err))
        self._hang(snapshot, job)
        if ended:
            self._told.add(key)
            files = self._folders.written(job, job.issued) if job.issued else None
            out, err = (files.out, files.err) if files is not None else (None, None)
            self._hooks.job_ended(job, _facts(snapshot, out, err))

    def _hang(self, snapshot: Snapshot, job: Job) -> None:
        since = job.state.silent_since if isinstance(job.state, Running) else None
        before = self._silent.pop(job.id, None)
        if since is None:
            return
        self._silent[job.id] = since
        if before is None:
            files = self._folders.files(job, job.issued)
            self._hooks.job_hangs(job, silence(job, time.time()), _facts(snapshot, files.out, files.err))


def _facts(snapshot: Snapshot, out: str | None = None, err: str | None = None) -> Facts:
    failed = snapshot.count(*FAILURES)
    return Facts(out=out, err=err, running=snapshot.running, waiting=snapshot.waiting, failed=failed)


def _cause(snapshot: Snapshot) -> Cause | None:
    """Of a pause of all jobs, or of one group."""
    paused = (caution.cause for caution in snapshot.cautions)
    return snapshot.cause or next(paused, None)
