"""What the machines answered, line by line: a band for each, a line a card, a line a session. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputui.core.views.amounts import counted, duration_words, memory_of
from gputui.core.views.cells import cut, width
from gputui.hosts.look import CardLook, MachineLook, SessionLook
from gputui.hosts.survey import PATIENCE, Answer
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart, band_line

__all__ = ["machine_lines"]

NAME, BAR, MEMORY = 18, 20, 11
NARROW = 100
"""Columns below which the bar goes."""


def machine_lines(answer: Answer, now: float, columns: int, palette: Palette, *, selected: bool) -> list[Strip]:
    """Everything on one machine."""
    parts = [_band(answer, now, columns, palette, selected=selected)]
    if answer.look is not None:
        parts += [_card(card, answer.look, columns, palette) for card in answer.look.cards]
        parts += [_session(session, columns, palette) for session in answer.look.sessions]
    return parts


def _band(answer: Answer, now: float, columns: int, palette: Palette, *, selected: bool) -> Strip:
    name_style = (palette.focus if selected else palette.text) + Style(bold=True, underline=selected)
    left: list[BandPart] = [(" ▌" if selected else "  ", palette.focus), (answer.place.alias, name_style)]
    look = answer.look
    if look is not None:
        kind = ("GPU", "GPUs") if look.gpus else ("CPU lane", "CPU lanes")
        free = (f"{look.free_cards} free", palette.running if look.free_cards else palette.past)
        left += [(f"   {counted(len(look.cards), *kind)}   ", palette.text), free]
    trouble = _trouble(answer, now)
    if trouble:
        style = palette.failure if answer.trouble else palette.warning
        left.append((f"   {plain(trouble)}", style))
    right = [(f"CPU load {look.load:.0%}", palette.past)] if look is not None else []
    return band_line(left, right, columns, palette)


def _trouble(answer: Answer, now: float) -> str:
    if answer.trouble:
        return answer.trouble
    silent = now - answer.at
    if silent <= PATIENCE:
        return "" if answer.look is not None else "connecting …"
    return f"! no answer for {duration_words(silent)}"


def _card(card: CardLook, look: MachineLook, columns: int, palette: Palette) -> Strip:
    name = f"{card.index} {card.name.removeprefix('NVIDIA ')}" if look.gpus else f"cpu {card.index}"
    load = "n/a" if card.utilization is None else f"{card.utilization} %"
    cells = [
        ("    ", palette.text),
        (_fitted(name, NAME), palette.text),
        (f"{load:>6}  ", palette.text if card.utilization else palette.past),
    ]
    if columns >= NARROW:
        cells += _bar(card, palette)
    cells.append((f"{memory_of(card.memory_used, card.memory_total):>{MEMORY}}   ", palette.memory))
    cells.append(_whose(card, palette))
    return _strip(cells, columns, palette)


def _bar(card: CardLook, palette: Palette) -> list[BandPart]:
    if not card.memory_total or card.memory_used is None:
        return [(" " * (BAR + 1), palette.text)]
    used = round(BAR * card.memory_used / card.memory_total)
    return [("━" * used, palette.memory), ("─" * (BAR - used), palette.line), (" ", palette.text)]


def _whose(card: CardLook, palette: Palette) -> BandPart:
    if card.trouble:
        return f"✗ {plain(card.trouble)}", palette.failure
    if card.holders:
        ours = any(holder.startswith("#") for holder in card.holders)
        return plain(", ".join(card.holders)), palette.running if ours else palette.stranger
    return ("● a job of yours", palette.running) if card.taken else ("free", palette.running)


def _session(session: SessionLook, columns: int, palette: Palette) -> Strip:
    counts = session.told or ("" if session.standing else "nobody owns it")
    cells = [
        ("    ", palette.text),
        (_fitted(plain(session.name), NAME), palette.text),
        (f"{session.standing.upper() or '–':<9} ", palette.running if session.standing == "running" else palette.past),
        (f"{counts}   ", palette.text),
        (plain(session.folder), palette.past),
    ]
    return _strip(cells, columns, palette)


def _fitted(text: str, cells: int) -> str:
    short = cut(text, cells)
    return short + " " * (cells - width(short) + 1)


def _strip(cells: Iterable[BandPart], columns: int, palette: Palette) -> Strip:
    return Strip([Segment(text, style) for text, style in cells]).adjust_cell_length(columns, palette.text)
