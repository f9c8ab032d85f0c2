"""What the screen looks like at usual sizes, paused, narrow and light; one moment of a session that stands still.

Few on purpose: how the screen behaves is tested by what it does. `--snapshot-update` accepts a new look.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fixed import fixed_app
from textual.pilot import Pilot

WIDE = (120, 40)


async def settled(pilot: Pilot[Any]) -> None:
    main = pilot.app.main  # type: ignore[attr-defined]
    await pilot.pause()
    main.look()
    await pilot.pause()
    main.paint()
    main.log_pane.tick()
    await pilot.pause()


@pytest.mark.parametrize(
    ("size", "setting"),
    [
        ((80, 24), {}),
        (WIDE, {}),
        ((200, 60), {}),
        ((60, 20), {}),
        (WIDE, {"crashed": True}),
        (WIDE, {"theme": "light"}),
    ],
    ids=["80x24", "120x40", "200x60", "narrow", "paused", "light"],
)
def test_the_screen_looks(snap_compare: Any, tmp_path: Path, size: tuple[int, int], setting: dict[str, Any]) -> None:
    assert snap_compare(fixed_app(tmp_path, **setting), terminal_size=size, run_before=settled)
