"""Why an attempt failed is kept with it: in the job's own words, and as a kind."""

from __future__ import annotations

from pathlib import Path

from support.owning import add, change_settings, ended, owned, spec

from gputui.core.job import CrashKind
from gputui.session.control.answers import shown_attempt

CRASHES = [
    ("echo \"KeyError: 'depth'\" >&2; exit 1", CrashKind.EXCEPTION, "KeyError: 'depth'"),
    ("pyhton train.py", CrashKind.NOT_FOUND, "pyhton: "),
    ("kill -9 $$", CrashKind.SIGNAL, "killed by signal 9 (SIGKILL)"),
    ("echo 'Loss is nan, stopping training'; exit 1", CrashKind.EXIT_ONLY, "Loss is nan, stopping training"),
    ("exit 3", CrashKind.EXIT_ONLY, "exit code 3"),
]


def test_the_kind_of_a_crash_is_kept_with_the_attempt_also_by_the_next_owner(tmp_path: Path) -> None:
    with owned(tmp_path) as owner:
        change_settings(owner, pause_after=0)
        jobs = add(owner, *(spec(command) for command, _, _ in CRASHES), spec("true"))
        for job_id in jobs:
            ended(owner, job_id)
    with owned(tmp_path) as owner:
        kept = [owner.snapshot[job_id] for job_id in jobs]
        shown = [shown_attempt(job, job.attempts[-1], owner.folders) for job in kept]
    assert [attempt.kind for attempt in shown] == [*(kind for _, kind, _ in CRASHES), None]
    for attempt, (_, _, words) in zip(shown, CRASHES, strict=False):
        assert words in (attempt.message or "")
