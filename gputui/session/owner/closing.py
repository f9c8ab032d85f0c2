"""The last steps of whoever holds something: each is taken, whatever became of the ones before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def take_all(steps: Iterable[Callable[[], object]], failed: Callable[[], None]) -> None:
    """`failed` is called in the handler of each exception, and must not raise."""
    for step in steps:
        try:
            step()
        except BaseException:  # also of memory that is gone: others wait for the steps that follow
            failed()
