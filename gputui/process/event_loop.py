"""The part of the owner's loop that others are lent. All callbacks run in the owner's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Cancel(Protocol):
    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """The part of the owner's loop that engines use. All callbacks run in the owner's thread."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None: ...

    def remove_reader(self, fd: int) -> None: ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """From any thread."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancel: ...

    def run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None: ...
