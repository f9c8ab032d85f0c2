"""Colours and signs by meaning for each kind of terminal, and Textual themes made from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

from gputui.tui.terminal.tty import Colours


@dataclass(frozen=True)
class LookTable:
    theme: str
    page: str
    """The background colour, or empty for the terminal's own background."""
    meanings: dict[str, str]
    load: tuple[str, str, str, str]
    others_load: tuple[str, str, str, str]
    heat: tuple[str, str, str, str, str, str]
    """The cells of a heat map from the worst to the best. Terminals without background colours show signs instead."""
    backgrounds: dict[str, str]
    rules: bool = False


DARK = LookTable(
    theme="gputui-dark",
    page="#12161b",
    meanings={
        "text": "#d6dbe1", "past": "#808b97", "line": "#3d4650", "running": "#7fbf7f", "warning": "#d9b35f",
        "failure": "#e06c75", "focus": "#5a9be6", "external": "#c792ea", "best": "bold #ffffff", "memory": "#9fb2c6",
    },
    load=("#355a3c", "#4d7c52", "#669e69", "#7fbf7f"),
    others_load=("#54406a", "#7a5b94", "#a077bf", "#c792ea"),
    heat=(
        "#d6dbe1 on #20292e", "#d6dbe1 on #24413a", "#d6dbe1 on #2b5a48", "#d6dbe1 on #2f6849", "#12161b on #7dbd8c",
        "#12161b on #b6e3bf",
    ),
    backgrounds={"band": "on #1b2128", "header": "on #232b34", "pause": "on #2c2415", "cursor": "bold on #1e3450"},
)  # fmt: skip
LIGHT = LookTable(
    theme="gputui-light",
    page="#fbfbfa",
    meanings={
        "text": "#1d2329", "past": "#5d6874", "line": "#c3cad1", "running": "#2c7a39", "warning": "#8a6100",
        "failure": "#b3261e", "focus": "#1f5fae", "external": "#7b3fa0", "best": "bold #000000", "memory": "#5b7288",
    },
    load=("#b5d6b9", "#88b88f", "#5a9964", "#2c7a39"),
    others_load=("#d6c1e4", "#b897cd", "#9a6bb7", "#7b3fa0"),
    heat=(
        "#1d2329 on #eef1ee", "#1d2329 on #d3e6d6", "#1d2329 on #afd2b5", "#1d2329 on #84b78d", "#1d2329 on #5fa06d",
        "#ffffff on #1d7030",
    ),
    backgrounds={"band": "on #eef0f2", "header": "on #e4e7ea", "pause": "on #f6ecd2", "cursor": "bold on #d3e3f6"},
)  # fmt: skip
_NO_BACKGROUNDS = {"band": "", "header": "", "pause": "", "cursor": "bold reverse"}
SIXTEEN = LookTable(
    theme="gputui-sixteen",
    page="",
    meanings={
        "text": "default", "past": "bright_black", "line": "bright_black", "running": "green", "warning": "yellow",
        "failure": "bright_red", "focus": "blue", "external": "magenta", "best": "bold bright_white",
        "memory": "white",
    },
    load=("green", "green", "green", "green"),
    others_load=("magenta", "magenta", "magenta", "magenta"),
    heat=("none",) * 6,
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)  # fmt: skip
SIXTEEN_LIGHT = LookTable(
    theme="gputui-sixteen-light",
    page="",
    meanings={**SIXTEEN.meanings, "failure": "red", "best": "bold", "memory": "default"},
    load=SIXTEEN.load,
    others_load=SIXTEEN.others_load,
    heat=SIXTEEN.heat,
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)
PLAIN = LookTable(
    theme="gputui-plain",
    page="",
    meanings={
        "text": "none", "past": "dim", "line": "dim", "running": "none", "warning": "bold", "failure": "bold",
        "focus": "bold underline", "external": "dim", "best": "bold", "memory": "none",
    },
    load=("none", "none", "none", "none"),
    others_load=("dim", "dim", "dim", "dim"),
    heat=SIXTEEN.heat,
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)  # fmt: skip


# Styles


class Look(StrEnum):
    """The meaning of a text, optionally with a variation such as bold."""

    TEXT = "text"
    PAST = "past"  # things that have ended, and labels
    LINE = "line"
    RUNNING = "running"  # our own running jobs
    WARNING = "warning"
    FAILURE = "failure"
    FOCUS = "focus"
    EXTERNAL = "external"
    BEST = "best"
    MEMORY = "memory"
    BOLD = "text bold"
    TITLE = "text bold underline"
    RUNNING_BOLD = "running bold"
    WARNING_BOLD = "warning bold"
    FAILURE_BOLD = "failure bold"
    FOCUS_BOLD = "focus bold"
    EXTERNAL_BOLD = "external bold"
    MARK = "focus not underline"
    MARK_BOLD = "focus not underline bold"
    MEMORY_BOLD = "memory bold"
    # Load from low to high in one hue because a busy GPU is good. External processes have the same levels.
    LOAD_0 = "load 0"
    LOAD_1 = "load 1"
    LOAD_2 = "load 2"
    LOAD_3 = "load 3"
    OTHERS_0 = "others 0"
    OTHERS_1 = "others 1"
    OTHERS_2 = "others 2"
    OTHERS_3 = "others 3"
    # The cells of a heat map from the worst to the best
    HEAT_0 = "heat 0"
    HEAT_1 = "heat 1"
    HEAT_2 = "heat 2"
    HEAT_3 = "heat 3"
    HEAT_4 = "heat 4"
    HEAT_5 = "heat 5"
    # Looks with the background of a band, for any line
    HEAD = "head"
    HEAD_PAST = "head past"
    # The bars of the timeline
    OK_EVEN = "ok even"
    OK_ODD = "ok odd"
    UNDER_WAY = "under way"
    CRASHED = "crashed"
    CHOSEN = "chosen"
    OTHERS = "others"


LOADS = (Look.LOAD_0, Look.LOAD_1, Look.LOAD_2, Look.LOAD_3)
OTHERS_LOADS = (Look.OTHERS_0, Look.OTHERS_1, Look.OTHERS_2, Look.OTHERS_3)
HEAT = (Look.HEAT_0, Look.HEAT_1, Look.HEAT_2, Look.HEAT_3, Look.HEAT_4, Look.HEAT_5)


def bold(look: Look) -> Look:
    """Return the bold form of a look. `BEST` is already bold."""
    return look if look is Look.BEST else Look(f"{look} bold")


class Ground(StrEnum):
    """The background of a line."""

    PAGE = "page"
    BAND = "band"
    HEADER = "header"
    PAUSE = "pause"
    CURSOR = "cursor"


@dataclass(frozen=True)
class Palette:
    """The styles of a theme on the background of the page. Add another background to a style with `+`."""

    styles: dict[Look, Style]
    band: Style
    header: Style
    pause: Style
    cursor: Style
    rules: bool
    """Whether to draw rules in the blanks of bands. This is for terminals without background colours."""

    def __getitem__(self, look: Look) -> Style:
        return self.styles[look]

    def __getattr__(self, meaning: str) -> Style:
        """Return the style of a look, so that `palette.past` is `palette[Look.PAST]`."""
        try:
            return self.styles[Look(meaning)]
        except ValueError:
            raise AttributeError(meaning) from None

    def on(self, ground: Ground, look: Look | Style) -> Style:
        style = look if isinstance(look, Style) else self.styles[look]
        if ground is Ground.PAGE:
            return style
        if ground is Ground.CURSOR:
            return self.on_cursor(style)
        ground_style: Style = getattr(self, ground)
        return style + ground_style

    def on_cursor(self, style: Style) -> Style:
        """Return a style for the selected row. Dim text is replaced because it would be illegible there."""
        if self.cursor.reverse:
            return Style(bold=True, reverse=True)
        faint = style in (self.styles[Look.PAST], self.styles[Look.LINE])
        return (self.styles[Look.TEXT] if faint else style) + self.cursor


@lru_cache
def palette_of(theme: str) -> Palette:
    """Return the palette of a theme. Textual's own themes get the dark palette."""
    table = next((table for table in (DARK, LIGHT, SIXTEEN, SIXTEEN_LIGHT, PLAIN) if table.theme == theme), DARK)
    page = Style(bgcolor=Color.parse(table.page) if table.page else None)
    grounds = {name: Style.parse(written) if written else Style() for name, written in table.backgrounds.items()}
    styles: dict[Look, Style] = {}
    for look in Look:
        meaning, _, more = look.partition(" ")
        if meaning in table.meanings:
            styles[look] = Style.parse(table.meanings[meaning]) + page + Style.parse(more)
    styles |= {look: Style.parse(written) + page for look, written in zip(LOADS, table.load, strict=True)}
    styles |= {look: Style.parse(written) + page for look, written in zip(OTHERS_LOADS, table.others_load, strict=True)}
    styles |= {look: page + Style.parse(written) for look, written in zip(HEAT, table.heat, strict=True)}
    styles |= {Look.HEAD: styles[Look.BOLD] + grounds["band"], Look.HEAD_PAST: styles[Look.PAST] + grounds["band"]}
    styles |= _lined_bars(styles) if table.rules else _filled_bars(styles)
    return Palette(styles, **grounds, rules=table.rules)


def _lined_bars(styles: dict[Look, Style]) -> dict[Look, Style]:
    return {
        Look.OK_EVEN: styles[Look.RUNNING],
        Look.OK_ODD: styles[Look.RUNNING],
        Look.UNDER_WAY: styles[Look.RUNNING_BOLD],
        Look.CRASHED: styles[Look.FAILURE] + Style(bold=True, reverse=True),
        Look.CHOSEN: Style(bold=True, reverse=True),
        Look.OTHERS: styles[Look.EXTERNAL],
    }


def _filled_bars(styles: dict[Look, Style]) -> dict[Look, Style]:
    page = styles[Look.TEXT].bgcolor

    def filled(style: Style, look: Look, *, pale: bool = False) -> Style:
        colour = styles[look].color
        return style + Style(bgcolor=_paler(colour, page) if pale else colour)

    dark = Style(color=page, bold=True)
    return {
        Look.OK_EVEN: filled(styles[Look.TEXT], Look.LOAD_0),
        Look.OK_ODD: filled(styles[Look.TEXT], Look.LOAD_0, pale=True),
        Look.UNDER_WAY: filled(dark, Look.RUNNING),
        Look.CRASHED: filled(dark, Look.FAILURE),
        Look.CHOSEN: filled(dark, Look.FOCUS),
        Look.OTHERS: filled(styles[Look.EXTERNAL], Look.OTHERS_0, pale=True),
    }


def _paler(colour: Color | None, page: Color | None) -> Color | None:
    """Mix a colour with the background colour of the page."""
    if colour is None or page is None or colour.triplet is None or page.triplet is None:
        return colour
    mixed = [round(0.65 * first + 0.35 * second) for first, second in zip(colour.triplet, page.triplet, strict=True)]
    return Color.from_rgb(*mixed)


# Signs


STEPS = "▁▂▃▄▅▆"
"""Bar glyphs for loads and trends. The highest fills six eighths of a cell, so that rows do not touch."""
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
    """A filter that replaces signs with ASCII characters."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [
            segment
            if segment.text.isascii()
            else Segment(segment.text.translate(ASCII), segment.style, segment.control)
            for segment in segments
        ]


# Themes of Textual


def _theme(look: LookTable, *, dark: bool) -> Theme:
    meanings, backgrounds = look.meanings, {name: _last(style) for name, style in look.backgrounds.items()}
    return Theme(
        name=look.theme,
        primary=meanings["focus"],
        secondary=meanings["memory"],
        accent=meanings["external"],
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


_OWN = ("past", "line", "running", "external", "best", "memory")


def _last(style: str) -> str:
    """Return the colour of a Rich style, which is its last word."""
    return style.rpartition(" ")[2]


def _ansi(look: LookTable, like: str) -> Theme:
    """Return a theme that uses the terminal's own colours."""
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
        accent=colour["external"],
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
"""The themes by the names that users choose."""
BY_COLOURS = {Colours.MANY: DARK.theme, Colours.SIXTEEN: SIXTEEN.theme, Colours.NONE: PLAIN.theme}
"""The default theme for each number of colours."""
