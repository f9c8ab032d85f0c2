"""What the user types after `/`: words that must all match a job. Pure; unknown words are text to look for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from gputui.core.job import Job, StateName

Check = Callable[[Job], bool]
NOT = "!"


class Filter:
    """`state:failed lr=0.1 resnet`: settings are compared, other words looked for in the job's texts."""

    def __init__(self, written: str = "") -> None:
        self.written = written
        self._needles: list[tuple[str, bool]] = []
        self._checks: list[Check] = []
        for word in written.lower().split():
            wanted = not word.startswith(NOT)
            self._take(word if wanted else word[len(NOT) :], wanted)

    def _take(self, word: str, wanted: bool) -> None:
        check = _check(word)
        if check is not None:
            turned = wanted or check is _anything
            self._checks.append(check if turned else lambda job: not check(job))
        elif word:
            self._needles.append((word, wanted))

    def __bool__(self) -> bool:
        return bool(self._needles or self._checks)

    def matches(self, job: Job, text: str) -> bool:
        """`text`: all of the job's texts in lower case."""
        return all((needle in text) is wanted for needle, wanted in self._needles) and all(
            check(job) for check in self._checks
        )


def text_of(job: Job, name: str) -> str:
    """What a filter's words are looked for in."""
    params = " ".join(f"{key}={value}" for key, value in job.spec.params.items())
    return f"#{job.id} {name} {job.spec.command} {params} {job.spec.group}".lower()


def _check(word: str) -> Check | None:
    key, colon, value = word.partition(":")
    if colon and key in _COLON:
        return _COLON[key](value) if value else _anything  # the value is still to be typed
    key, equals, value = word.partition("=")
    return _parameter(key, value) if equals and key and value else None


def _anything(job: Job) -> bool:
    return True


def _parameter(key: str, value: str) -> Check:
    """A parameter of the job, or else these very letters in its command."""

    def check(job: Job) -> bool:
        for name, given in job.spec.params.items():
            if name.lower() == key:
                return given.lower() == value
        words = job.spec.command.lower().split()
        return f"{key}={value}" in (word.lstrip("-") for word in words) or _followed(words, key, value)

    return check


def _followed(words: list[str], key: str, value: str) -> bool:
    return any(word.startswith("-") and word.lstrip("-") == key and after == value for word, after in pairwise(words))


def _states(value: str) -> Check:
    """`state:fail,crash`: the beginnings of words are enough."""
    beginnings = tuple(part for part in value.replace("-", "_").split(",") if part)
    wanted = {name for name in StateName if name.startswith(beginnings)}
    return lambda job: job.state.name in wanted


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
    "state": _states,
    "gpu": _gpu,
    "pri": _priority,
    "priority": _priority,
    "group": _group,
    "project": _group,
}
