"""Why jobs are paused because of crashes, in words: always a true message of a real job."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gputui.core.events import PauseKind
from gputui.core.mode import Cause
from gputui.core.views.amounts import counted

from .streak import Failure

MOST_NAMED = 500
"""So many jobs are named by a cause; of more, the newest."""


def crash_cause(failures: Sequence[Failure], since: float, more: int = 0) -> Cause:
    """`more`: so many others crashed that are named no longer."""
    newest, count = failures[-1], len(failures) + more
    signatures = {failure.signature for failure in failures}
    jobs = tuple(failure.job for failure in failures)
    if count == 1:
        message = f"job #{newest.job} crashed: {newest.said}"
    elif len(signatures) == 1:
        message = f"{count:,} jobs: {newest.said}{_variants(failures)}"
    else:
        message = f"{count:,} jobs crashed in a row, in {len(signatures)} ways; the last: {newest.said}"
    signature = newest.signature if len(signatures) == 1 else None
    return Cause(PauseKind.CRASHES, message, since, jobs, signature, more=more)


def _variants(failures: Sequence[Failure]) -> str:
    others = len({failure.said for failure in failures}) - 1
    return f" · +{counted(others, 'variant', 'variants')}" if others else ""


def joined(cause: Cause, failures: Sequence[Failure]) -> Cause:
    """With a crash that came later: it belongs to the same story."""
    dropped = max(0, len(failures) - MOST_NAMED)
    newest, more = failures[dropped:], cause.more + dropped
    if cause.signature is None:
        return replace(crash_cause(newest, cause.since, more), left=cause.left)
    same = [failure for failure in newest if failure.signature == cause.signature]
    others = [failure for failure in newest if failure.signature != cause.signature]
    message = (crash_cause(same, cause.since, more).message if same else cause.message) + _since_then(others)
    return replace(cause, message=message, jobs=tuple(failure.job for failure in newest), more=more)


def _since_then(others: Sequence[Failure]) -> str:
    if not others:
        return ""
    newest = f"#{others[-1].job}: {others[-1].said}"
    return f"; since then {newest}" if len(others) == 1 else f"; since then {len(others)} others, the last {newest}"
