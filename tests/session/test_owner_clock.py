"""A clock that is set while the owner is at work: it still wakes up when something is due."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec

from gputui.core import steps
from gputui.core.events import Release
from gputui.core.lanes import Lane
from gputui.core.steps import Step

HOURS = 5 * 3600.0


@pytest.fixture
def lead(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """How far everybody's clock was moved."""
    moved, unmoved = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: unmoved() + moved[0])
    yield moved
    steps.watch(None)


def test_a_clock_set_back_in_the_midst_of_a_turn_does_not_make_a_back_off_endless(
    tmp_path: Path, lead: list[float]
) -> None:
    with owned(tmp_path / "s", (Lane(0, ()),)) as owner:

        def set_back(step: Step) -> None:
            """In the turn in which the first attempt's end was taken in."""
            if step is Step.COMMITTED and owner.scheduler.book[0].attempts:
                lead[0] = -HOURS

        [job] = add(owner, spec("sleep 1; exit 3", retries=1, hold=True))
        steps.watch(set_back)
        owner.do(lambda act: act.handle(Release(job=job))).result(60)
        assert len(ended(owner, job).attempts) == 2
