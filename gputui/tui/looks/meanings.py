"""The tables: what each meaning looks like on a dark and a light screen, with sixteen colours, and with none.

Text is at least 5:1 on its background. Knows no widget and no Textual; styles are written as Rich reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DARK", "LIGHT", "PLAIN", "SIXTEEN", "SIXTEEN_LIGHT", "LookTable"]


@dataclass(frozen=True)
class LookTable:
    theme: str
    page: str
    """The background; empty: the terminal's own."""
    meanings: dict[str, str]
    load: tuple[str, str, str, str]
    others_load: tuple[str, str, str, str]
    backgrounds: dict[str, str]
    rules: bool = False


DARK = LookTable(
    theme="gputui-dark",
    page="#12161b",
    meanings={
        "text": "#d6dbe1", "past": "#808b97", "line": "#3d4650", "running": "#7fbf7f", "warning": "#d9b35f",
        "failure": "#e06c75", "focus": "#5a9be6", "stranger": "#c792ea", "best": "bold #ffffff", "memory": "#9fb2c6",
    },
    load=("#355a3c", "#4d7c52", "#669e69", "#7fbf7f"),
    others_load=("#54406a", "#7a5b94", "#a077bf", "#c792ea"),
    backgrounds={"band": "on #1b2128", "header": "on #232b34", "pause": "on #2c2415", "cursor": "bold on #1e3450"},
)  # fmt: skip
LIGHT = LookTable(
    theme="gputui-light",
    page="#fbfbfa",
    meanings={
        "text": "#1d2329", "past": "#5d6874", "line": "#c3cad1", "running": "#2c7a39", "warning": "#8a6100",
        "failure": "#b3261e", "focus": "#1f5fae", "stranger": "#7b3fa0", "best": "bold #000000", "memory": "#5b7288",
    },
    load=("#b5d6b9", "#88b88f", "#5a9964", "#2c7a39"),
    others_load=("#d6c1e4", "#b897cd", "#9a6bb7", "#7b3fa0"),
    backgrounds={"band": "on #eef0f2", "header": "on #e4e7ea", "pause": "on #f6ecd2", "cursor": "bold on #d3e3f6"},
)  # fmt: skip
_NO_BACKGROUNDS = {"band": "", "header": "", "pause": "", "cursor": "bold reverse"}
SIXTEEN = LookTable(
    theme="gputui-sixteen",
    page="",
    meanings={
        "text": "default", "past": "bright_black", "line": "bright_black", "running": "green", "warning": "yellow",
        "failure": "bright_red", "focus": "blue", "stranger": "magenta", "best": "bold bright_white",
        "memory": "white",
    },
    load=("green", "green", "green", "green"),
    others_load=("magenta", "magenta", "magenta", "magenta"),
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)  # fmt: skip
SIXTEEN_LIGHT = LookTable(
    theme="gputui-sixteen-light",
    page="",
    meanings={**SIXTEEN.meanings, "failure": "red", "best": "bold", "memory": "default"},
    load=SIXTEEN.load,
    others_load=SIXTEEN.others_load,
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)
PLAIN = LookTable(
    theme="gputui-plain",
    page="",
    meanings={
        "text": "none", "past": "dim", "line": "dim", "running": "none", "warning": "bold", "failure": "bold",
        "focus": "bold underline", "stranger": "dim", "best": "bold", "memory": "none",
    },
    load=("none", "none", "none", "none"),
    others_load=("dim", "dim", "dim", "dim"),
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)  # fmt: skip
