"""The help: every key by topic, from the one table of actions; in two columns where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from gputui.tui.actions.table import ACTIONS, Part
from gputui.tui.model.words import cut

from .reading import Reading

RULE = "Lower case never touches running work; capitals may, and ask."
SECOND = "gputui --read-only in another terminal looks on, and changes nothing."
MOVING = "j k ↑ ↓ g G ^d ^u PgUp PgDn"
COLUMN, GAP = 58, 2
KEYS = 9

Line = tuple[str, str]
"""Keys, or nothing before a heading; and what they do."""


def help_screen(keys: Mapping[str, str], width: int = 0) -> Reading:
    wide = width >= 2 * COLUMN + GAP + 4
    return Reading("Keys", [lambda: help_text(keys, columns=2 if wide else 1)], "j k scroll", wide=wide)


def help_text(keys: Mapping[str, str], *, columns: int = 1) -> Text:
    """`keys`: those the user's own keymap changed."""
    text = Text(no_wrap=columns > 1)
    text.append(f"{RULE}\n", "bold").append(
        f"{MOVING} move in a pane. Actions apply to the marked jobs, if any are.\n{SECOND}\n\n"
    )
    parts = [list(_part(part, keys)) for part in Part if any(action.part is part for action in ACTIONS)]
    if columns == 1:
        for line in (line for part in parts for line in part):
            _append(text, line, 0)
            text.append("\n")
        return text
    left, right = _halves(parts)
    for number in range(max(len(left), len(right))):
        _append(text, left[number] if number < len(left) else ("", ""), COLUMN)
        text.append(" " * GAP)
        _append(text, right[number] if number < len(right) else ("", ""), COLUMN)
        text.append("\n")
    return text


def _part(part: Part, keys: Mapping[str, str]) -> Iterator[Line]:
    yield "", part
    for action in (action for action in ACTIONS if action.part is part):
        yield keys.get(action.name, action.shown_keys), action.help
    yield "", ""


def _halves(parts: list[list[Line]]) -> tuple[list[Line], list[Line]]:
    """As even as topics allow, in their order."""
    total = sum(map(len, parts))
    left: list[Line] = []
    while parts and len(left) + len(parts[0]) // 2 <= total // 2:
        left += parts.pop(0)
    return left, [line for part in parts for line in part]


def _append(text: Text, line: Line, cells: int) -> None:
    """`cells`: exactly so many; 0: as many as it takes."""
    keys, words = line
    before = text.cell_len
    if keys:
        text.append(f"  {keys:<{KEYS}}", "bold").append(" ")
        text.append(cut(words, cells - (text.cell_len - before)) if cells else words)
    else:
        text.append(words, "bold underline")
    if cells:
        text.append(" " * max(0, cells - (text.cell_len - before)))
