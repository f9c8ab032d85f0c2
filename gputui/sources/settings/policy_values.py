"""What a user writes of how a job is treated and judged: failures, hanging, memory, and the result that matters."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from gputui.core.results.wanted import wanted_of
from gputui.sources import values
from gputui.sources.values import BadValue

__all__ = ["LEARN", "choice", "hang_after", "hang_after_in_file", "memory", "metric", "retry_on", "retry_on_in_file"]

LEARN = "learn"
"""Instead of a size: what jobs of the group were seen to use."""

C = TypeVar("C", bound=StrEnum)


def choice(kind: type[C]) -> Callable[[str], C]:
    """One of a few words."""

    def read(written: str) -> C:
        word = written.strip().lower()
        if word not in tuple(kind):
            raise BadValue(f"{written!r} is not known{_near(word, tuple(kind))}")
        return kind(word)

    return read


def memory(written: str) -> str:
    return LEARN if written.strip().lower() == LEARN else values.memory(written)


def metric(written: str) -> str:
    """As it was written: what it means is read from it again."""
    try:
        wanted_of(written)
    except ValueError as error:
        raise BadValue(str(error)) from None
    return written.strip()


def retry_on(written: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_failure, values.words(written))))


def retry_on_in_file(value: list[str] | str) -> tuple[str, ...]:
    if isinstance(value, str):
        return retry_on(value)
    if not value:
        raise BadValue("is empty; name a failure or leave the setting out")
    return tuple(dict.fromkeys(map(_failure, value)))


def _failure(written: str) -> str:
    from gputui.core.attempts.retries import KNOWN

    word = written.strip().lower()
    kind, colon, code = word.partition(":")
    if kind == "exit" and colon:
        return f"exit:{values.count(code, lowest=1, highest=255)}"
    if word not in KNOWN:
        raise BadValue(f"{written!r} is no failure that is known{_near(word, (*KNOWN, 'exit:75'))}")
    return word


def hang_after(written: str) -> float:
    """Seconds; `off` and 0: never."""
    return 0.0 if written.strip().lower() == "off" else values.duration(written)


def hang_after_in_file(value: float | str) -> float:
    return hang_after(value if isinstance(value, str) else f"{value:f}".rstrip("0").rstrip("."))


def _near(word: str, choices: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, choices, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(choices)}"
