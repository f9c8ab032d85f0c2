"""Which commit each attempt of a job ran at, in the lines of its INFO. Pure.

INFO tells of the newest attempt; what an earlier one ran at is kept in a line of its own, and what was found when an
attempt began is not replaced by what the repository is at when it ends.
"""

from __future__ import annotations

import re

from msgspec import Struct

__all__ = ["Commit", "commits_in", "with_earlier"]

_COMMIT = re.compile(r"^git commit: (\w+)$", re.MULTILINE)
_DIRTY = re.compile(r"^git dirty: (?:and (\d+) more$)?", re.MULTILINE)
_GIT = re.compile(r"^git (?:commit|dirty): .*\n?", re.MULTILINE)
_ATTEMPT = re.compile(r"^attempt: (\d+)$", re.MULTILINE)
_EARLIER = re.compile(r"^earlier commit: attempt (\d+) at (\w+) with (\d+) changed$", re.MULTILINE)


class Commit(Struct, frozen=True):
    name: str
    changed: int
    """Files that were changed and not committed."""


def commits_in(info: str) -> dict[int, Commit]:
    """By attempt, as far as INFO tells."""
    commits = {int(number): Commit(name, int(changed)) for number, name, changed in _EARLIER.findall(info)}
    attempt, commit = _ATTEMPT.search(info), _COMMIT.search(info)
    if attempt is not None and commit is not None:
        changed = sum(int(more) if more else 1 for more in _DIRTY.findall(info))
        commits[int(attempt[1])] = Commit(commit[1], changed)
    return commits


def with_earlier(git: str, attempt: int, before: str) -> str:
    """The lines on git for a new INFO: `git` is what was found now, `before` the INFO that it replaces."""
    commits = commits_in(before)
    own = "".join(_GIT.findall(before)) if attempt in commits and _is_of(before, attempt) else git
    earlier = [
        f"earlier commit: attempt {number} at {commit.name} with {commit.changed} changed\n"
        for number, commit in sorted(commits.items())
        if number < attempt
    ]
    return own + "".join(earlier)


def _is_of(info: str, attempt: int) -> bool:
    number = _ATTEMPT.search(info)
    return number is not None and int(number[1]) == attempt
