"""An older gputui that wants a session of a newer one: it is refused, and the session keeps its owner."""

from __future__ import annotations

from typing import Any

import pytest
from support.homes import Home
from support.waiting import until

from gputui.session.errors import SessionError
from gputui.session.lock import OwnerKind
from gputui.session.messages import HandOver
from gputui.session.ownership import acquisition
from gputui.session.session_dir import Paths


def test_a_session_is_not_handed_to_somebody_who_could_not_open_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.begin("sleep 600")
    home.resume()
    keeper = home.owner()

    def as_before(force: bool, schema: int) -> Any:
        return HandOver(force)

    monkeypatch.setattr(acquisition, "HandOver", as_before)
    with pytest.raises(SessionError, match=r"owns this session; upgrade this one"):
        acquisition.become_owner(Paths(str(home.root)), OwnerKind.RUN, keeper=False)
    assert home.owner() == keeper
    until(lambda: home.ask_quietly(), "it listens still")
