"""Which states wait, are under way, have ended, have ended badly: the one list of each, by the states' names.

A name equals its word, so these serve whoever has a job and whoever has its JSON. What may follow what is no matter of
this module.
"""

from __future__ import annotations

from .job import StateName

WAITING = (StateName.QUEUED, StateName.HELD, StateName.BLOCKED, StateName.DELAYED)
ACTIVE = (StateName.STARTING, StateName.RUNNING, StateName.SUSPENDED, StateName.STOPPING)
FAILURES = (StateName.FAILED, StateName.CRASHED, StateName.TIMED_OUT, StateName.LOST, StateName.REFUSED)
"""The job itself came to no good; `rerun --all-failed` means these."""
BAD_ENDS = (*FAILURES, StateName.SKIPPED)
ENDS = (StateName.SUCCEEDED, StateName.KILLED, *BAD_ENDS)
ALL = (*WAITING, *ACTIVE, *ENDS)
"""In the order of a job's life."""
