"""The failures of a session as the view has them: a long queue is read in pieces, later only what changed."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.core.views.failures import FailureGroup, Failures
from gputui.core.views.in_common import devices_of
from gputui.core.views.parameter_columns import Parameters

SLICE = 0.012
"""Seconds of reading before keys are looked at again."""


class FailureReading:
    def __init__(self, snapshot: Snapshot) -> None:
        self._failures = Failures()
        self._known = snapshot
        """Of which the failures were read."""
        self._unread: Iterator[Job] | None = iter(snapshot.jobs)

    @property
    def is_done(self) -> bool:
        return self._unread is None

    def read_on(self) -> bool:
        """For a moment; True: all was read."""
        until = time.monotonic() + SLICE
        for job in self._unread or ():
            self._failures.learn(job)
            if time.monotonic() > until:
                return False
        self._unread = None
        return True

    def groups(self, snapshot: Snapshot, parameters: Parameters) -> list[FailureGroup]:
        """By the newest, once all was read."""
        before, self._known = self._known, snapshot
        if snapshot.first_id != before.first_id:
            self._failures = Failures(snapshot.jobs)
        elif snapshot.jobs is not before.jobs:
            for place in snapshot.jobs.changed_since(before.jobs):
                self._failures.learn(snapshot.jobs[place])
        return self._failures.groups(parameters, devices_of(snapshot))
