"""What Textual is told of our looks, for the parts of the screen that it draws itself: dialogs, fields, scroll bars.

Colours come from `looks.meanings`; in CSS they are `$past`, `$line`, `$running`, `$stranger`, `$best`, `$memory`,
`$band`, `$header`, `$pause`, `$cursor`, besides Textual's own names.
"""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

from gputui.tui.looks.meanings import DARK, LIGHT, PLAIN, SIXTEEN, SIXTEEN_LIGHT, LookTable
from gputui.tui.terminal.checks import Colours


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
