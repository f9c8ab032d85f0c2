"""The file that names attempts which were taken back and may still stand in a queue: see `slurm/leftovers.py`.

Whoever only wants to know that there are some needs no engine for it.
"""

from __future__ import annotations

from gputui.core.job import JobId

MARK = "news/withdrawn"
"""In the session's private folder."""


def jobs_in_queue(private: str) -> list[JobId]:
    try:
        with open(f"{private}/{MARK}", encoding="ascii", errors="replace") as file:
            keys = [key_of(line.strip()) for line in file]
    except OSError:
        return []
    return sorted({key[0] for key in keys if key is not None})


def key_of(words: str) -> tuple[JobId, int] | None:
    """Of `JOB.ATTEMPT`."""
    job, _, attempt = words.partition(".")
    return (int(job), int(attempt)) if job.isdecimal() and attempt.isdecimal() else None
