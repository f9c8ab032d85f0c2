"""The command line called within this process, and what it printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Told:
    """What a call printed, and its status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"status {self.status}\nout: {self.out}\nerr: {self.err}"


Gputui = Callable[..., Told]
Answers = Callable[[str], None]


def only(found: list[Any]) -> Any:
    (one,) = found
    return one
