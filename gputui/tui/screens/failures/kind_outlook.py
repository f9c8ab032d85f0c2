"""What mending a kind of failure would mean, for the footer: worked out when it changed, for it may be much."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.core.job import Held, Job, JobId, Waiting
from gputui.core.snapshot import Snapshot
from gputui.core.views.caution import rerun_manner
from gputui.core.views.failures import FailureGroup
from gputui.core.views.in_common import alike_waiting

LONG = 4000
"""Jobs; more are not looked through at each change."""
EVERY = 3.0


class KindOutlook:
    def __init__(self) -> None:
        self._manner: tuple[tuple[object, ...], str] = ((), "")
        self._alike: tuple[object, object, float, list[JobId]] = (None, None, 0.0, [])

    def manner(
        self, snapshot: Snapshot, group: FailureGroup, marked: set[JobId], picked: Callable[[], list[Job]]
    ) -> str:
        """How those that were picked would start again."""
        key = (id(group), frozenset(marked), snapshot.cautions, snapshot.settings)
        if self._manner[0] != key:
            self._manner = (key, rerun_manner(snapshot, picked()))
        return self._manner[1]

    def alike(self, snapshot: Snapshot, group: FailureGroup | None, *, fresh: bool) -> list[JobId]:
        """The waiting jobs that share what the kind shares, and are not held; `fresh`: as they are now."""
        if group is None or not group.common.parameters or not snapshot.waiting:
            return []
        shared, jobs, at, known = self._alike
        recent = len(snapshot.jobs) > LONG and time.monotonic() - at < EVERY and not fresh
        if shared != group.common.parameters or (jobs is not snapshot.jobs and not recent):
            waiting = (job for job in snapshot if isinstance(job.state, Waiting) and not isinstance(job.state, Held))
            known = alike_waiting(waiting, group.common)
            self._alike = (group.common.parameters, snapshot.jobs, time.monotonic(), known)
        return known
