"""What a `run` says about crashes: that jobs are tried one at a time, and that all go on again."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.core.job import Succeeded
from gputui.core.mode import Cause
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import duration_exact
from gputui.core.views.caution import Caution


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
