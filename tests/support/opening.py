"""`gputui …` as the command line does it, but with a pilot in place of the terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gputui.cli import app as command
from gputui.tui.app import GputuiApp

from .stage import Stage

Story = Callable[[Stage], Awaitable[None]]


def opened(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, story: Story, size: tuple[int, int] = (120, 40)
) -> int:
    """The exit status of `gputui WORDS`, during which the story is told; no keeper stays behind."""

    def run(app: GputuiApp, *_: Any, **__: Any) -> None:
        async def told() -> None:
            async with app.run_test(size=size) as pilot:
                stage = Stage(app, pilot, folder)
                await pilot.pause()
                await story(stage)

        asyncio.run(told())

    monkeypatch.chdir(folder)
    monkeypatch.setattr(command, "refusal", lambda: None)
    monkeypatch.setattr(command, "set_piped_stdin_aside", lambda: None)
    monkeypatch.setattr(GputuiApp, "run", run)
    interval = sys.getswitchinterval()
    try:
        return command.main("app", ["--no-keeper", *words])
    finally:
        sys.setswitchinterval(interval)
