"""The help: every key, from the one table of actions."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from gputui.tui.actions.table import ACTIONS, Part

from .reading import Reading

RULE = "Lower case never touches running work; capitals may, and ask."
MOVING = "j k ↑ ↓ g G ^d ^u PgUp PgDn"


def help_screen(keys: Mapping[str, str]) -> Reading:
    return Reading("Keys", [lambda: help_text(keys)], "j k scroll")


def help_text(keys: Mapping[str, str]) -> Text:
    """`keys`: those the user's own keymap changed."""
    text = Text()
    text.append(f"{RULE}\n", "bold").append(f"{MOVING} move in a pane. Actions apply to the marked jobs, if any are.\n")
    for part in Part:
        text.append(f"\n{part}\n", "bold underline")
        for action in (action for action in ACTIONS if action.part is part):
            text.append(f"  {keys.get(action.name, action.shown_keys):<9}", "bold").append(f" {action.help}\n")
    return text
