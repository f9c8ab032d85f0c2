"""Snapshots of the screen at common sizes and colours, sorted, paused and narrow.

Few, since behaviour is tested elsewhere. Look at the changes before you accept them with `--snapshot-update`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.app import Stage
from support.evening import evening_app
from textual.pilot import Pilot

from gputui.tui.terminal.tty import Colours

WIDE = (120, 40)


async def settled(pilot: Pilot[Any]) -> None:
    """Everything that is to be painted is."""
    stage = Stage(pilot.app, pilot, Path())  # type: ignore[arg-type]
    for act in (stage.main.look, stage.main.paint, stage.main.log_pane.tick):
        await stage.settle()
        act()
    await stage.settle()


async def sorted_by_the_metric(pilot: Pilot[Any]) -> None:
    await settled(pilot)
    await Stage(pilot.app, pilot, Path()).press("s", "m")  # type: ignore[arg-type]
    await settled(pilot)


@pytest.mark.parametrize(
    ("size", "setting"),
    [
        ((80, 24), {}),
        (WIDE, {}),
        ((200, 60), {}),
        (WIDE, {"theme": "light"}),
        (WIDE, {"colours": Colours.SIXTEEN}),
        (WIDE, {"colours": Colours.NONE}),
    ],
    ids=["80x24", "120x40", "200x60", "light", "sixteen", "plain"],
)
def test_the_screen_looks(snap_compare: Any, tmp_path: Path, size: tuple[int, int], setting: dict[str, Any]) -> None:
    assert snap_compare(evening_app(tmp_path, **setting), terminal_size=size, run_before=settled)


def test_sorted_by_the_main_metric_the_screen_looks(snap_compare: Any, tmp_path: Path) -> None:
    assert snap_compare(evening_app(tmp_path), terminal_size=(80, 24), run_before=sorted_by_the_metric)


@pytest.mark.parametrize("size", [(60, 20), WIDE], ids=["narrow", "paused"])
def test_in_trouble_the_screen_looks(snap_compare: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    assert snap_compare(evening_app(tmp_path, trouble=True), terminal_size=size, run_before=settled)
