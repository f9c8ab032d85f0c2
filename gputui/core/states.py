"""Which states wait, are under way, have ended, have ended badly: the one list of each, by the states' names.

A name equals its word, so these serve whoever has a job and whoever has its JSON. What may follow what is no matter of
this module.
"""

from __future__ import annotations

from collections.abc import Mapping

from .job import StateName

WAITING = (StateName.QUEUED, StateName.HELD, StateName.BLOCKED, StateName.DELAYED)
ACTIVE = (StateName.STARTING, StateName.RUNNING, StateName.SUSPENDED, StateName.STOPPING)
FAILURES = (StateName.FAILED, StateName.CRASHED, StateName.TIMED_OUT, StateName.LOST, StateName.REFUSED)
"""The job itself came to no good; `rerun --all-failed` means these."""
BAD_ENDS = (*FAILURES, StateName.SKIPPED)
ENDS = (StateName.SUCCEEDED, StateName.KILLED, *BAD_ENDS)
ALL = (*WAITING, *ACTIVE, *ENDS)
"""In the order of a job's life."""

WORDS = {state: state.replace("_", " ") for state in ALL} | {StateName.CRASHED: "failed"}
"""For people: a job that a signal ended has failed like any other; `crashed` is its word for programs."""

_PREDICATES = {state: f"is {WORDS[state]}" for state in ALL} | {
    StateName.BLOCKED: "waits for other jobs",
    StateName.STOPPING: "is being stopped",
    StateName.SUCCEEDED: "has succeeded",
    StateName.FAILED: "has failed",
    StateName.CRASHED: "has failed",
    StateName.TIMED_OUT: "has timed out",
    StateName.KILLED: "was killed",
    StateName.REFUSED: "could not be started",
    StateName.SKIPPED: "was skipped",
}


def by_word(counts: Mapping[StateName, int]) -> dict[str, int]:
    """How many jobs each word tells of, in the order of a job's life."""
    words: dict[str, int] = {}
    for state in ALL:
        if counts.get(state):
            words[WORDS[state]] = words.get(WORDS[state], 0) + counts[state]
    return words


def predicate(state: StateName) -> str:
    """In a sentence about a job: `has succeeded`, `is running`."""
    return _PREDICATES[state]
