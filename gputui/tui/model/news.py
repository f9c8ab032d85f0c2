"""Whether a new snapshot tells anything new."""

from __future__ import annotations

from gputui.core.snapshot import Snapshot


def alike(new: Snapshot, old: Snapshot) -> bool:
    """Nothing that the screen tells of the queue differs; that it will be done a little later is no news."""
    return new.jobs is old.jobs and new.results is old.results and _around(new) == _around(old)


def _around(snapshot: Snapshot) -> tuple[object, ...]:
    return (snapshot.mode, snapshot.cause, snapshot.lanes, snapshot.leaving, snapshot.settings, snapshot.trouble,
            snapshot.metric, snapshot.best, snapshot.cautions)  # fmt: skip
