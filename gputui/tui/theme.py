"""Colours and signs by meaning for each kind of terminal, and Textual themes made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """The colours of a theme. A number is an index of the 256 colours."""

    theme: str
    page: str | int
    """The background colour, or empty for the terminal's own background."""
    meanings: Mapping[str, str | int]
    scales: Mapping[str, Sequence[str | int]]
    """Colours that are numbered: loads from low to high, memory over time, and the curves of a chart."""
    backgrounds: Mapping[str, str | int]
    bars: dict[str, tuple[str | int, str | int]] = field(default_factory=dict)
    """Text and background colours of the timeline's bars, and of the heat map's cells from worst to best."""
    on: dict[str, dict[str, str | int]] = field(default_factory=dict)
    """For each background, other colours for the meanings that would be illegible on it."""
    grave: str | int = ""
    """The background of a message about a serious problem."""
    veil: str = "00"
    """The opacity of the colour that covers the screen below a dialog, as two hexadecimal digits."""
    rules: bool = False


DARK = LookTable(
    theme="gputui-dark",
    page="#12161b",
    meanings={
        "text": "#d6dbe1", "past": "#87929e", "line": "#3d4650", "running": "#7fbf7f", "ok": "#5ea37d",
        "warning": "#d9b35f", "failure": "#ea7d86", "focus": "#62a3ee", "external": "#c792ea", "best": "#ffffff",
        "memory": "#9fb2c6",
    },
    scales={
        "load": ("#355a3c", "#4d7c52", "#669e69", "#7fbf7f"), "others": ("#54406a", "#7a5b94", "#a077bf", "#c792ea"),
        "memory": ("#3b4754", "#5c6a7a", "#7e8ea0", "#9fb2c6"),
        "curve": ("#7fbf7f", "#6aa9f0", "#c792ea", "#d9b35f", "#56c2c2", "#e0915c", "#d6dbe1", "#e58fb4"),
    },
    backgrounds={"band": "#1b2128", "header": "#232b34", "pause": "#2c2415", "cursor": "#1e3450"},
    bars={
        "even": ("#d6dbe1", "#355a3c"), "odd": ("#d6dbe1", "#294230"), "others": ("#c792ea", "#3d314e"),
        "0": ("#ffffff", "#20292e"), "1": ("#ffffff", "#24413a"), "2": ("#ffffff", "#2b5a48"),
        "3": ("#ffffff", "#2f6849"), "4": ("#000000", "#7dbd8c"), "5": ("#000000", "#b6e3bf"),
    },
    grave="#5e3a40",
    veil="99",
)  # fmt: skip
LIGHT = LookTable(
    theme="gputui-light",
    page="#fbfbfa",
    meanings={
        "text": "#1d2329", "past": "#5a5f64", "line": "#c3cad1", "running": "#1d7030", "ok": "#486b5d",
        "warning": "#7a5500", "failure": "#b3261e", "focus": "#1f5fae", "external": "#7b3fa0", "best": "#000000",
        "memory": "#576285",
    },
    scales={
        "load": ("#b5d6b9", "#84b78d", "#5fa06d", "#1d7030"), "others": ("#d6c1e4", "#b897cd", "#9a6bb7", "#7b3fa0"),
        "memory": ("#c9cfda", "#a4abc0", "#7d86a3", "#576285"),
        "curve": ("#1d7030", "#1f5fae", "#7b3fa0", "#7a5500", "#0f6e74", "#a8481c", "#1d2329", "#a03468"),
    },
    backgrounds={"band": "#eef0f2", "header": "#e4e7ea", "pause": "#f6ecd2", "cursor": "#d3e3f6"},
    bars={
        "even": ("#1d2329", "#b5d6b9"), "odd": ("#1d2329", "#cee3d0"), "others": ("#7b3fa0", "#e3d5ec"),
        "0": ("#000000", "#eef1ee"), "1": ("#000000", "#d3e6d6"), "2": ("#000000", "#afd2b5"),
        "3": ("#000000", "#84b78d"), "4": ("#000000", "#5fa06d"), "5": ("#ffffff", "#1d7030"),
    },
    grave="#e2b0ad",
    veil="99",
)  # fmt: skip
# Chosen by hand, because the nearest index gives different meanings the same colour.
DARK_256 = LookTable(
    theme="gputui-dark-256",
    page=232,
    meanings={
        "text": 252, "past": 247, "line": 240, "running": 114, "ok": 71, "warning": 221, "failure": 210, "focus": 75,
        "external": 177, "best": 231, "memory": 152,
    },
    scales={
        "load": (22, 65, 71, 114), "others": (53, 96, 134, 177), "memory": (239, 243, 109, 152),
        "curve": (114, 75, 177, 221, 80, 208, 252, 211),
    },
    backgrounds={"band": 234, "header": 236, "pause": 58, "cursor": 17},
    bars={
        "even": (252, 22), "odd": (16, 65), "others": (177, 53),
        "0": (231, 236), "1": (231, 22), "2": (16, 65), "3": (16, 71), "4": (16, 114), "5": (16, 157),
    },
    on={"pause": {"text": 255, "past": 255, "memory": 255, "focus": 255, "running": 157, "ok": 157, "warning": 228,
                  "failure": 224, "external": 225}},
    grave=52,
)  # fmt: skip
LIGHT_256 = LookTable(
    theme="gputui-light-256",
    page=231,
    meanings={
        "text": 235, "past": 240, "line": 250, "running": 22, "ok": 23, "warning": 94, "failure": 124, "focus": 25,
        "external": 91, "best": 16, "memory": 60,
    },
    scales={
        "load": (151, 108, 65, 22), "others": (182, 140, 97, 91), "memory": (252, 146, 103, 60),
        "curve": (22, 25, 91, 94, 23, 130, 235, 125),
    },
    backgrounds={"band": 255, "header": 254, "pause": 230, "cursor": 195},
    bars={
        "even": (235, 151), "odd": (235, 194), "others": (91, 225),
        "0": (16, 255), "1": (16, 194), "2": (16, 151), "3": (16, 108), "4": (16, 65), "5": (231, 22),
    },
    grave=224,
)  # fmt: skip
_NO_BACKGROUNDS = dict.fromkeys(("band", "header", "pause", "cursor"), "")
SIXTEEN = LookTable(
    theme="gputui-sixteen",
    page="",
    meanings={
        "text": "default", "past": "bright_black", "line": "bright_black", "running": "green", "ok": "green",
        "warning": "yellow", "failure": "bright_red", "focus": "blue", "external": "magenta", "best": "bright_white",
        "memory": "white",
    },
    scales={
        "load": ["green"] * 4, "others": ["magenta"] * 4, "memory": ["white"] * 4,
        "curve": ("green", "blue", "magenta", "yellow", "cyan", "bright_red", "default", "bright_black"),
    },
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)  # fmt: skip
SIXTEEN_LIGHT = LookTable(
    theme="gputui-sixteen-light",
    page="",
    meanings={**SIXTEEN.meanings, "failure": "red", "best": "default", "memory": "default"},
    scales={**SIXTEEN.scales, "memory": ["default"] * 4},
    backgrounds=_NO_BACKGROUNDS,
    rules=True,
)
PLAIN = LookTable(
    theme="gputui-plain",
    page="",
    meanings={
        "text": "none", "past": "dim", "line": "dim", "running": "none", "ok": "dim", "warning": "bold",
        "failure": "bold", "focus": "bold underline", "external": "dim", "best": "none", "memory": "none",
    },
    scales={"load": ["none"] * 4, "others": ["dim"] * 4, "memory": ["none"] * 4, "curve": ["none"] * 8},
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
    OK = "ok"  # jobs that have succeeded
    WARNING = "warning"
    FAILURE = "failure"
    FOCUS = "focus"
    EXTERNAL = "external"
    BEST = "best"  # always bold
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
    # Memory over time, from little to much
    MEMORY_0 = "memory 0"
    MEMORY_1 = "memory 1"
    MEMORY_2 = "memory 2"
    MEMORY_3 = "memory 3"
    # The curves of a chart
    CURVE_0 = "curve 0"
    CURVE_0_BOLD = "curve 0 bold"
    CURVE_1 = "curve 1"
    CURVE_1_BOLD = "curve 1 bold"
    CURVE_2 = "curve 2"
    CURVE_2_BOLD = "curve 2 bold"
    CURVE_3 = "curve 3"
    CURVE_3_BOLD = "curve 3 bold"
    CURVE_4 = "curve 4"
    CURVE_4_BOLD = "curve 4 bold"
    CURVE_5 = "curve 5"
    CURVE_5_BOLD = "curve 5 bold"
    CURVE_6 = "curve 6"
    CURVE_6_BOLD = "curve 6 bold"
    CURVE_7 = "curve 7"
    CURVE_7_BOLD = "curve 7 bold"
    # The cells of a heat map, from worst to best
    HEAT_0 = "bar 0"
    HEAT_1 = "bar 1"
    HEAT_2 = "bar 2"
    HEAT_3 = "bar 3"
    HEAT_4 = "bar 4"
    HEAT_5 = "bar 5"
    # Looks with the background of a band, for any line
    HEAD = "head"
    HEAD_PAST = "head past"
    # The bars of the timeline
    OK_EVEN = "bar even"
    OK_ODD = "bar odd"
    UNDER_WAY = "under way"
    CRASHED = "crashed"
    KILLED = "killed"
    CHOSEN = "chosen"
    OTHERS = "bar others"


LOADS = (Look.LOAD_0, Look.LOAD_1, Look.LOAD_2, Look.LOAD_3)
OTHERS_LOADS = (Look.OTHERS_0, Look.OTHERS_1, Look.OTHERS_2, Look.OTHERS_3)
MEMORY_LEVELS = (Look.MEMORY_0, Look.MEMORY_1, Look.MEMORY_2, Look.MEMORY_3)
CURVES = tuple(look for look in Look if look.startswith("curve") and not look.endswith("bold"))
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
    """The styles of a theme on the background of the page. Add another background to a style with `on`."""

    styles: dict[Look, Style]
    grounds: dict[Ground, Style]
    replaced: dict[Ground, dict[str, Style]]
    """For each background, other styles for the meanings that would be illegible on it."""
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
        if ground is Ground.CURSOR and self.rules:
            return Style(bold=True, reverse=True)
        if isinstance(look, Look):
            style += self.replaced[ground].get(look.partition(" ")[0], Style())
        return style + self.grounds[ground]


@lru_cache
def palette_of(theme: str) -> Palette:
    """Return the palette of a theme. Textual's own themes get the dark palette."""
    table = next((table for table in _TABLES if table.theme == theme), DARK)
    page = _style(background=table.page)
    bases = {meaning: _style(colour) + page for meaning, colour in table.meanings.items()}
    bases["best"] += Style(bold=True)
    styles: dict[Look, Style] = {}
    for look in Look:
        meaning, _, more = look.partition(" ")
        if meaning in bases and not more.isdigit():
            styles[look] = bases[meaning] + Style.parse(more)
    for name, scale in table.scales.items():
        styles |= {Look(f"{name} {number}"): _style(colour) + page for number, colour in enumerate(scale)}
    styles |= {bold(look): styles[look] + Style(bold=True) for look in CURVES}
    grounds = {Ground(name): _style(background=colour) for name, colour in table.backgrounds.items()}
    grounds[Ground.CURSOR] += Style(bold=True)
    replaced = {
        ground: {name: _style(colour) for name, colour in table.on.get(ground, {}).items()} for ground in grounds
    }
    replaced[Ground.CURSOR] = dict.fromkeys(("past", "line", "ok"), _style(table.meanings["text"]))
    styles |= {look: styles[base] + grounds[Ground.BAND] for look, base in _ON_BANDS.items()}
    styles |= _lined_bars(styles) if table.rules else _filled_bars(styles, table)
    return Palette(styles, grounds, replaced, table.rules)


_ON_BANDS = {Look.HEAD: Look.BOLD, Look.HEAD_PAST: Look.PAST}


def _style(colour: str | int = "", background: str | int = "") -> Style:
    """Return the style of a colour. Where there are no colours, a word such as `dim` takes the place of the colour."""
    if background:
        return Style(bgcolor=Color.parse(_css(background)))
    return Style.parse(_css(colour))


def _css(colour: str | int) -> str:
    """Return the name or RGB value of a colour. For an index, return an RGB value that Rich rounds to
    the same index.
    """
    if isinstance(colour, str):
        return colour
    if colour >= _GREYS:
        return "#" + 3 * f"{round((colour - _GREYS + 1) * 255 / 25):02x}"
    levels = (0, 95, 135, 175, 215, 255)
    red, rest = divmod(colour - 16, 36)
    return "#{:02x}{:02x}{:02x}".format(*(levels[part] for part in (red, *divmod(rest, 6))))


_GREYS = 232
"""The first index of the 24 greys."""


def _lined_bars(styles: dict[Look, Style]) -> dict[Look, Style]:
    return {
        Look.OK_EVEN: styles[Look.RUNNING],
        Look.OK_ODD: styles[Look.RUNNING],
        Look.UNDER_WAY: styles[Look.RUNNING_BOLD],
        Look.CRASHED: styles[Look.FAILURE] + Style(bold=True, reverse=True),
        Look.KILLED: styles[Look.WARNING] + Style(reverse=True),
        Look.CHOSEN: Style(bold=True, reverse=True),
        Look.OTHERS: styles[Look.EXTERNAL],
        **dict.fromkeys(HEAT, styles[Look.TEXT]),
    }


def _filled_bars(styles: dict[Look, Style], table: LookTable) -> dict[Look, Style]:
    dark = Style(color=styles[Look.TEXT].bgcolor, bold=True)
    over = {
        Look.UNDER_WAY: Look.RUNNING,
        Look.CRASHED: Look.FAILURE,
        Look.KILLED: Look.WARNING,
        Look.CHOSEN: Look.FOCUS,
    }
    bars = {look: dark + Style(bgcolor=styles[meaning].color) for look, meaning in over.items()}
    return bars | {
        Look(f"bar {name}"): _style(text) + _style(background=bar) for name, (text, bar) in table.bars.items()
    }


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
    "–": "-", "›": ">", "×": "x", "°": "'", "←": "<", "→": ">", "↑": "^", "↓": "v", "•": "*", "«": "<",
    "◆": "o", "▲": "x", "□": "#", "◇": "o", "△": "x",
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
    """Return a theme that only uses colours of the table. The colours that Textual would mix are defined here."""
    meanings = {name: _css(colour) for name, colour in look.meanings.items()}
    backgrounds = {name: _css(colour) for name, colour in look.backgrounds.items()}
    page = _css(look.page)
    mixed = {
        "veil": page + look.veil, "thumb": meanings["line"], "notice": backgrounds["pause"], "grave": _css(look.grave),
        "chosen": backgrounds["cursor"], "text": meanings["text"], "text-muted": meanings["past"],
        "text-disabled": meanings["past"], "text-error": meanings["failure"],
    }  # fmt: skip
    return Theme(
        name=look.theme,
        primary=meanings["focus"],
        secondary=meanings["memory"],
        accent=meanings["external"],
        foreground=meanings["text"],
        background=page,
        surface=backgrounds["band"],
        panel=backgrounds["header"],
        success=meanings["running"],
        warning=meanings["warning"],
        error=meanings["failure"],
        dark=dark,
        variables={**{name: meanings[name] for name in _OWN}, **backgrounds, **mixed},
    )


_OWN = ("past", "line", "running", "external", "best", "memory")


def _ansi(look: LookTable, like: str) -> Theme:
    """Return a theme that uses the terminal's own colours."""
    base = BUILTIN_THEMES[like]
    colour = {meaning: _ansi_colour(str(style)) for meaning, style in look.meanings.items()}
    own = {name: colour[name] for name in _OWN}
    grounds = dict.fromkeys(look.backgrounds, "ansi_default")
    mixed = {
        "veil": "ansi_default 60%", "thumb": "ansi_default 25%",
        "notice": f"{colour['warning']} 25%", "grave": f"{colour['failure']} 35%",
        "chosen": f"{colour['focus']} 40%",
    }  # fmt: skip
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
        variables={**base.variables, **own, **grounds, **mixed},
    )


def _ansi_colour(style: str) -> str:
    return "ansi_default" if style.split()[0] in _UNCOLOURED else f"ansi_{style}"


_UNCOLOURED = {"none", "dim", "bold", "underline", "default"}

_TABLES = (DARK, LIGHT, DARK_256, LIGHT_256, SIXTEEN, SIXTEEN_LIGHT, PLAIN)
OWN = (
    *(_theme(table, dark=table in (DARK, DARK_256)) for table in (DARK, LIGHT, DARK_256, LIGHT_256)),
    _ansi(SIXTEEN, "ansi-dark"),
    _ansi(SIXTEEN_LIGHT, "ansi-light"),
    _ansi(PLAIN, "ansi-dark"),
)


def theme_names(colours: Colours) -> dict[str, str]:
    """Return the themes for a terminal by the names that users choose. The first one is the default."""
    own = {"ansi": SIXTEEN.theme, "ansi-light": SIXTEEN_LIGHT.theme}
    match colours:
        case Colours.RGB:
            return {"dark": DARK.theme, "light": LIGHT.theme, **own}
        case Colours.INDEXED:
            return {"dark": DARK_256.theme, "light": LIGHT_256.theme, **own}
        case Colours.SIXTEEN:
            return {**own, "dark": DARK.theme, "light": LIGHT.theme}
        case Colours.NONE:
            return dict.fromkeys(("dark", "light", *own), PLAIN.theme)
