"""What the user types after `/`: words that must all match a job. Pure; unknown words are text to look for."""

from __future__ import annotations

import re
from collections.abc import Callable

from gputui.core.job import Job, StateName

Check = Callable[[Job], bool]
NOT = "!"
STATE = "state"


class Filter:
    """`state:failed lr=0.1 resnet`: settings are compared, other words looked for in the job's texts."""

    def __init__(self, written: str = "") -> None:
        self.written = written
        self.states: frozenset[StateName] | None = None
        """Only jobs in these; None: in any."""
        self.needles: list[tuple[str, bool]] = []
        """Words that must be, or must not be, in the job's text."""
        self.pairs: list[tuple[Pair, bool]] = []
        self.checks: list[Check] = []
        for word in written.lower().split():
            wanted = not word.startswith(NOT)
            self._take(word if wanted else word[len(NOT) :], wanted)

    def _take(self, word: str, wanted: bool) -> None:
        key, colon, value = word.partition(":")
        check = _check(word)
        if colon and not value and key in (*_COLON, STATE):
            return  # the value is still to be typed
        if colon and key == STATE:
            states = _states(value)
            states = states if wanted else frozenset(StateName) - states
            self.states = states if self.states is None else self.states & states
        elif check is not None:
            self.checks.append(check if wanted else lambda job: not check(job))
        elif (parts := word.partition("="))[0] and parts[2]:
            self.pairs.append((Pair(parts[0], parts[2]), wanted))
        elif word:
            self.needles.append((word, wanted))

    def __bool__(self) -> bool:
        return bool(self.needles or self.pairs or self.checks) or self.states is not None

    def matches(self, job: Job, text: str) -> bool:
        """`text`: all of the job's texts in lower case."""
        if self.states is not None and job.state.name not in self.states:
            return False
        has_all = all((needle in text) is wanted for needle, wanted in self.needles)
        has_all = has_all and all(pair.is_in(text) is wanted for pair, wanted in self.pairs)
        return has_all and all(check(job) for check in self.checks)


def text_of(job: Job) -> str:
    """What a filter's words are looked for in."""
    spec = job.spec
    params = " ".join(f"{key}={value}" for key, value in spec.params.items()) if spec.params else ""
    return f"#{job.id} {spec.name or ''} {spec.command} {params} {spec.group}".lower()


def _check(word: str) -> Check | None:
    key, colon, value = word.partition(":")
    return _COLON[key](value) if colon and value and key in _COLON else None


class Pair:
    """`lr=0.1`: a parameter of that value, or `--lr 0.1` and `--lr=0.1` in the command."""

    def __init__(self, key: str, value: str) -> None:
        self._written = (f"{key}={value}", f"{key} {value}")
        self._whole = re.compile(rf"(?<![\w.]){re.escape(key)}[= ]{re.escape(value)}(?!\S)")

    def is_in(self, text: str) -> bool:
        """Looks for the letters first, which is quick, and only then at what stands around them."""
        joined, apart = self._written
        return (joined in text or apart in text) and self._whole.search(text) is not None


def _states(value: str) -> frozenset[StateName]:
    """`state:fail,crash`: the beginnings of words are enough."""
    beginnings = tuple(part for part in value.replace("-", "_").split(",") if part)
    return frozenset(name for name in StateName if name.startswith(beginnings))


def _gpu(value: str) -> Check:
    wanted = set(value.split(","))

    def check(job: Job) -> bool:
        gpus = job.active.gpus if job.active is not None else job.attempts[-1].gpus if job.attempts else ()
        return not wanted.isdisjoint(gpus)

    return check


def _priority(value: str) -> Check:
    return lambda job: str(job.priority) == value


def _group(value: str) -> Check:
    return lambda job: value in job.spec.group.lower()


_COLON: dict[str, Callable[[str], Check]] = {
    "gpu": _gpu,
    "pri": _priority,
    "priority": _priority,
    "group": _group,
    "project": _group,
}
