"""The style of every ink, by the palette of the app's theme."""

from __future__ import annotations

from rich.style import Style

from gputui.tui.looks.palette import Palette

from .page import LOADS, OTHERS, Ink, InkPiece

_BOLD = Style(bold=True)


def style_of(palette: Palette, piece: InkPiece) -> Style:
    style = _plain(palette, piece.ink)
    return style + _BOLD if piece.bold else style


def _plain(palette: Palette, ink: Ink) -> Style:
    if ink in LOADS:
        return palette.load[LOADS.index(ink)]
    if ink in OTHERS:
        return palette.others_load[OTHERS.index(ink)]
    style: Style = getattr(palette, ink.value)
    return style
