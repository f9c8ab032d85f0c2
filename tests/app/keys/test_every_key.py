"""Every key of the table of actions works, everywhere, and none has two meanings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from support.app import Stage, on_stage
from textual.screen import ModalScreen
from textual.widgets import Input

from gputui.core.job import StateName
from gputui.tui.actions.table import ACTIONS, Part, keymap, topics
from gputui.tui.dialogs.help import HelpScreen, help_text
from gputui.tui.layout import Pane

KEYS = [(action.name, key) for action in ACTIONS if not action.view for key in action.keys]
VIEWS = {action.view for action in ACTIONS if action.view}
CHARACTERS = {"exclamation_mark": "!", "comma": ",", "full_stop": ".", "less_than_sign": "<", "greater_than_sign": ">"}
OWN = {"next_tab", "previous_tab", "details"}
"""Panes have these keys themselves: along a line that is wider than the pane, and opening a device."""


def test_no_key_has_two_meanings() -> None:
    assert [key for key, count in Counter(key for _, key in KEYS).items() if count > 1] == []
    for view in VIEWS:
        own = Counter(key for action in ACTIONS if action.view == view for key in action.keys)
        assert [key for key, count in own.items() if count > 1] == [], view


def test_lowercase_keys_never_affect_running_jobs() -> None:
    for action in ACTIONS:
        if action.part is Part.RUNNING:
            assert all(key.isupper() or key.startswith("f") for key in action.keys), action.name


@on_stage()
async def test_every_key_reaches_its_action_from_every_pane(stage: Stage) -> None:
    for pane in (stage.table, stage.main.log_pane, stage.main.gpus):
        pane.focus()
        await stage.settle()
        reached = {active.binding.action for active in stage.main.active_bindings.values()}
        assert {name for name, _ in KEYS if f"act('{name}')" not in reached} <= OWN, f"with {pane.id}"


@on_stage()
async def test_every_key_is_what_a_keyboard_sends(stage: Stage) -> None:
    reached: list[str] = []

    def act(name: str) -> None:
        reached.append(name)

    stage.main.action_act = act  # type: ignore[method-assign]
    await stage.press(*[CHARACTERS.get(key, key) for _, key in KEYS])
    await stage.settle()
    assert reached == [name for name, _ in KEYS]


@on_stage(keys={"kill": "ctrl+k", "help": "f5"})
async def test_the_users_keymap_moves_an_action_to_another_key(stage: Stage) -> None:
    job = await stage.running()
    await stage.shows("ctrl+k Kill")
    await stage.press("K")
    assert stage.screen is stage.main
    await stage.press("ctrl+k")
    assert isinstance(stage.screen, ModalScreen)
    await stage.press("escape")
    await stage.press("f5")
    assert isinstance(stage.screen, HelpScreen)
    assert "ctrl+k" in stage.text
    assert stage.state(job) is StateName.RUNNING


def test_an_unknown_action_in_a_keymap_is_refused_with_a_suggestion() -> None:
    assert keymap({"kill": "x"}) == {"kill": "x"}
    with pytest.raises(ValueError, match=r"keys\.kil: unknown action; did you mean kill\?"):
        keymap({"kil": "x"})


@on_stage()
async def test_help_lists_every_action_with_its_keys(stage: Stage) -> None:
    await stage.press("?")
    assert isinstance(stage.screen, HelpScreen)
    await stage.press("j", "k", "q")
    await stage.back_on_main()


@pytest.mark.parametrize(("width", "columns"), [(71, 1), (110, 2), (172, 3)], ids=["80x24", "120x40", "200x60"])
def test_the_help_lists_every_action_in_columns_that_fit(width: int, columns: int) -> None:
    lines = help_text(topics({}), width).plain.splitlines()
    assert max(map(len, lines)) <= width
    first = next(line for line in lines if line.startswith("Jobs"))
    assert len(re.split(r" {3,}", first.strip())) == columns
    text = "\n".join(lines)
    assert "…" not in text, "nothing is cut off"
    for action in ACTIONS:
        assert re.search(rf" {re.escape(action.shown_keys)} +{re.escape(action.help)}( |$)", text, re.MULTILINE), action
    assert len(lines) < sum(len(keys) + 2 for _, keys in topics({})) / columns * 1.25, "the columns are balanced"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_the_help_is_searched_as_one_types(size: tuple[int, int], tmp_path: Path) -> None:
    @on_stage(size=size)
    async def searched(stage: Stage) -> None:
        await stage.press("?", "slash")
        await stage.type("Priority raise")
        await stage.until(lambda: "lower priority" not in stage.text, "other lines are hidden")
        assert "raise priority" in stage.text
        assert "Priority raise" in stage.text
        await stage.type("zz")
        await stage.shows("nothing found")
        await stage.press("escape")
        await stage.shows("add a sweep")
        assert isinstance(stage.screen, HelpScreen)
        await stage.press("escape")
        await stage.back_on_main()

    searched(tmp_path)


@on_stage(slots=1)
async def test_the_palette_lists_and_runs_every_action(stage: Stage) -> None:
    [job] = await stage.add("true", hold=True)
    for key in (":", "ctrl+p"):
        await stage.press(key)
        assert isinstance(stage.screen, ModalScreen)
        await stage.press("escape")
        await stage.back_on_main()
    named = {" ".join(command.title.split()) for command in stage.app.get_system_commands(stage.main)}
    assert {f"{action.label} {action.shown_key} {action.help}" for action in ACTIONS if not action.view} <= named
    await stage.press(":")
    await stage.until(lambda: isinstance(stage.app.focused, Input), "the palette takes letters")
    await stage.type("hold rls")
    await stage.until(lambda: "Requeue" not in stage.text, "only what matches is listed")
    hold = next(action for action in ACTIONS if action.name == "hold")
    assert re.search(f"{hold.label} +{hold.shown_key} +{hold.help}", stage.text), "one line per action"
    assert "hold rls" in stage.text, "the typed text is shown"
    await stage.press("enter")
    await stage.until(lambda: stage.screen is stage.main or stage.press("enter"), "the palette is gone")
    await stage.becomes(job, StateName.SUCCEEDED)


@on_stage(size=(120, 40))
async def test_keys_in_the_footer_can_be_clicked(stage: Stage) -> None:
    [job] = await stage.add("true", hold=True)
    await stage.shows("h Release")
    at = stage.lines()[-1].index("h Release")
    await stage.pilot.click("#footer", offset=(at + 2, 0))
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.shows("r Rerun")


@on_stage()
async def test_pane_keys_focus_the_panes(stage: Stage) -> None:
    for key, pane in (("1", Pane.GPUS), ("3", Pane.LOG), ("2", Pane.QUEUE), ("tab", Pane.LOG), ("tab", Pane.GPUS)):
        await stage.press(key)
        assert stage.main.pane is pane, key
