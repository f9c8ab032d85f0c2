"""Colours and glyphs by meaning, for every kind of terminal, and Textual's themes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from gputui.tui.terminal.tty import Colours

# ---- The tables ----


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


# ---- Colours by meaning, for every kind of terminal ----


@dataclass(frozen=True)
class Palette:
    """Styles that carry the page's background; `+` one of the backgrounds to put them elsewhere."""

    text: Style
    past: Style
    """What is over, and labels."""
    line: Style
    running: Style
    """What runs and is ours."""
    load: tuple[Style, ...]
    """From little to much, one hue: a busy card is good."""
    others_load: tuple[Style, ...]
    """The same for somebody else's."""
    warning: Style
    failure: Style
    focus: Style
    stranger: Style
    best: Style
    memory: Style
    band: Style
    """Backgrounds, to be added to a style: of a band …"""
    header: Style
    pause: Style
    cursor: Style
    """… and of the row under the cursor."""
    rules: bool
    """There are no backgrounds: a band's blanks are a rule."""
    """A sign and a word must do."""

    def on_cursor(self, style: Style) -> Style:
        """In the selected row; what is dim elsewhere would be too faint there."""
        if self.cursor.reverse:
            return Style(bold=True, reverse=True)
        return (self.text if style == self.past or style == self.line else style) + self.cursor

    def on_band(self, style: Style) -> Style:
        return style + self.band


@lru_cache
def palette_of(theme: str) -> Palette:
    """By the name of the app's theme; a theme that is not ours looks like the dark one."""
    tables = (DARK, LIGHT, SIXTEEN, SIXTEEN_LIGHT, PLAIN)
    return _made(next((table for table in tables if table.theme == theme), DARK))


def _made(table: LookTable) -> Palette:
    page = _colour(table.page)
    styles = {name: _style(written, page) for name, written in table.meanings.items()}
    load = tuple(_style(written, page) for written in table.load)
    others = tuple(_style(written, page) for written in table.others_load)
    backgrounds = {name: _background(written) for name, written in table.backgrounds.items()}
    return Palette(**styles, load=load, others_load=others, **backgrounds, rules=table.rules)


def _style(written: str, page: Color | None) -> Style:
    return Style.parse(written) + Style(bgcolor=page)


def _background(written: str) -> Style:
    return Style.parse(written) if written else Style()


def _colour(written: str) -> Color | None:
    return Color.parse(written) if written else None


# ---- The signs the screen is drawn with, and what stands for each where the terminal knows ASCII only ----


STEPS = "▁▂▃▄▅▆"
"""Load and trend in one row; they stop at six eighths, so that rows never run into each other."""
_BRAILLE = range(0x2801, 0x2900)
_PAIRS = {
    "●": "*", "·": ".", "✓": "+", "✗": "x", "‖": "=", "◷": "@", "■": "#", "○": "o", "◐": "%", "◌": "o", "▽": "v",
    "━": "=", "─": "-", "╸": "=", "╺": "-", "│": "|", "┃": "|", "├": "|", "┤": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+",
    "▁": "_", "▂": ".", "▃": "-", "▄": "=", "▅": "+", "▆": "#", "▇": "#", "█": "#",
    "★": "*", "▾": "v", "▴": "^", "≈": "~", "⋮": ":", "…": "~", "▌": ">", "┊": "|", "┄": ".", "▶": ">", "►": ">",
    "–": "-", "›": ">", "×": "x", "°": "'", "←": "<", "→": ">", "↑": "^", "↓": "v", "•": "*",
}  # fmt: skip
ASCII = {**{ord(sign): plain for sign, plain in _PAIRS.items()}, 0x2800: " ", **dict.fromkeys(_BRAILLE, "#"),
         **dict.fromkeys((0x2840, 0x2880, 0x28C0), "_")}  # fmt: skip


class AsciiSigns(LineFilter):
    """For terminals that would show three odd letters for every sign."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [segment if segment.text.isascii() else _translated(segment) for segment in segments]


def _translated(segment: Segment) -> Segment:
    return Segment(segment.text.translate(ASCII), segment.style, segment.control)


# ---- What Textual is told of our looks, for the parts of the screen that it draws itself ----


def _theme(look: LookTable, *, dark: bool) -> Theme:
    meanings, backgrounds = look.meanings, {name: _last(style) for name, style in look.backgrounds.items()}
    return Theme(
        name=look.theme,
        primary=meanings["focus"],
        secondary=meanings["memory"],
        accent=meanings["stranger"],
        foreground=meanings["text"],
        background=look.page,
        surface=backgrounds["band"],
        panel=backgrounds["header"],
        success=meanings["running"],
        warning=meanings["warning"],
        error=meanings["failure"],
        dark=dark,
        variables={**{name: _last(meanings[name]) for name in _OWN}, **backgrounds},
    )


_OWN = ("past", "line", "running", "stranger", "best", "memory")


def _last(style: str) -> str:
    """The colour in a style as Rich reads it."""
    return style.rpartition(" ")[2]


def _ansi(look: LookTable, like: str) -> Theme:
    """Textual's own theme of the terminal's colours, under our name and with our meanings."""
    base = BUILTIN_THEMES[like]
    own = {name: _ansi_colour(_last(look.meanings[name])) for name in _OWN}
    grounds = dict.fromkeys(look.backgrounds, "ansi_default")
    colour = {meaning: _ansi_colour(style) for meaning, style in look.meanings.items()}
    return Theme(
        name=look.theme,
        ansi=True,
        primary=colour["focus"],
        success=colour["running"],
        warning=colour["warning"],
        error=colour["failure"],
        accent=colour["stranger"],
        secondary=base.secondary,
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=base.dark,
        variables={**base.variables, **own, **grounds},
    )


def _ansi_colour(style: str) -> str:
    return "ansi_default" if set(style.split()) & _UNCOLOURED else f"ansi_{style}"


_UNCOLOURED = {"none", "dim", "bold", "underline", "default"}

OWN = (
    _theme(DARK, dark=True),
    _theme(LIGHT, dark=False),
    _ansi(SIXTEEN, "ansi-dark"),
    _ansi(SIXTEEN_LIGHT, "ansi-light"),
    _ansi(PLAIN, "ansi-dark"),
)
NAMES = {"dark": DARK.theme, "light": LIGHT.theme, "ansi": SIXTEEN.theme, "ansi-light": SIXTEEN_LIGHT.theme}
"""What the user writes, and what Textual calls it."""
BY_COLOURS = {Colours.MANY: DARK.theme, Colours.SIXTEEN: SIXTEEN.theme, Colours.NONE: PLAIN.theme}
"""What a terminal gets when the user wrote nothing."""
