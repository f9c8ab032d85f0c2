"""Which engine runs a session's attempts: the one place in `session` that knows an engine by its name."""

from __future__ import annotations

from collections.abc import Callable

from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Engine, Report
from gputui.process.event_loop import EventLoop


def local_engine(loop: EventLoop, private: int, session: str, report: Callable[[Report], None]) -> Engine:
    return LocalEngine(loop, private, session, report)
