"""A machine that gives no further threads, for tests in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch, but: tuple[str, ...] = ()) -> Iterator[None]:
    """Nobody gets one but those of these names; who has one keeps it."""
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name in but:
            start(self)
        else:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        yield
