"""Colours by meaning, for every kind of terminal: a widget names what a thing means and gets a style.

Never colour alone: whoever paints a meaning also writes a sign or a word. `palette_of(app.theme)` is the way in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rich.color import Color
from rich.style import Style

from .meanings import DARK, LIGHT, PLAIN, SIXTEEN, SIXTEEN_LIGHT, LookTable

__all__ = ["LOAD_STEPS", "Palette", "palette_of"]

LOAD_STEPS = 4


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
    colourless: bool
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
    return Palette(**styles, load=load, others_load=others, **backgrounds, rules=table.rules, colourless=table is PLAIN)


def _style(written: str, page: Color | None) -> Style:
    return Style.parse(written) + Style(bgcolor=page)


def _background(written: str) -> Style:
    return Style.parse(written) if written else Style()


def _colour(written: str) -> Color | None:
    return Color.parse(written) if written else None
