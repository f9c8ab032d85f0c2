"""A dialog may be closed before it was painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.text import Text
from support.app import Stage, on_stage
from textual.screen import ModalScreen

from gputui.core.job import JobSpec
from gputui.tui.dialogs.ask import Ask, Choice, Item, Pick, Reading
from gputui.tui.dialogs.forms import JobForm, SweepForm

DIALOGS: list[Callable[[], ModalScreen[Any]]] = [
    lambda: Ask("Sure?", "a thing", [Choice("yes", "y", "yes")], every=0.01),
    lambda: Pick("Which?", "of these", [Item("a", "a")], go="takes them"),
    lambda: Reading("Keys", Text()),
    lambda: JobForm("Add", JobSpec(command="", cwd="/", environment=""), [], go="add"),
    SweepForm,
]


@on_stage()
async def test_a_dialog_closed_before_it_is_mounted_does_not_end_the_app(stage: Stage) -> None:
    for dialog in DIALOGS * 10:
        stage.app.push_screen(dialog())
        stage.app.pop_screen()
    await stage.press("?")
    await stage.press("escape")
    assert stage.app.is_running
    assert stage.app.screen is stage.app.main
