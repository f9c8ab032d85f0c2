"""When a scheduler ends unexpectedly, the last message to the screen says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputui.session.lock import OwnerKind
from gputui.session.ownership.acquisition import OwnedSession
from gputui.session.session_dir import Paths
from gputui.tui.bridge import Bridge


@contextmanager
def taken_by(directory: Path) -> Iterator[tuple[Bridge, list[str | None]]]:
    """A bridge, and for each of its messages whether the scheduler was gone when it was posted."""
    heard: list[str | None] = []
    bridge = Bridge(
        lambda on_change: OwnedSession(Paths(str(directory)), OwnerKind.APP, daemon=False, on_change=on_change)
    )

    def post(call: Callable[[], None]) -> None:
        heard.append(bridge.why_gone())

    bridge.connect(post, lambda: None)
    bridge.take()
    try:
        yield bridge, heard
    finally:
        bridge.close()


@pytest.mark.parametrize("earlier_news", ["painted", "waits to be painted"])
def test_the_last_message_of_a_scheduler_says_that_it_is_gone(tmp_path: Path, earlier_news: str) -> None:
    with taken_by(tmp_path / "s") as (bridge, heard):
        assert bridge.owner is not None
        bridge.owner.do(lambda act: None).result(60)
        if earlier_news == "painted":
            bridge.take_changed()
        bridge.owner.leave()
        bridge.owner.wait(60)
        assert heard[-1] is not None
