"""Which drawing shows which kind of machine. A new kind of picture is drawn by a class of its own, named here."""

from __future__ import annotations

from gputui.core.lanes import DeviceKind
from gputui.gpus.picture import DevicesPicture

from .full import full
from .layout import rows_wanted as rows_of_cards
from .nodes import NodeDrawing
from .occupants import View
from .page import Drawing, Page, Room
from .rows import compact


class CardDrawing:
    """GPUs, and what stands for them, of this machine."""

    def rows_wanted(self, picture: DevicesPicture, width: int, height: int, *, unfolded: bool) -> int:
        return rows_of_cards(picture, width, height, unfolded=unfolded)

    def page(self, view: View, room: Room) -> Page:
        return full(view, room) if room.full else compact(view, room)


CARDS: Drawing = CardDrawing()
DRAWINGS: dict[DeviceKind, Drawing] = {DeviceKind.SLURM: NodeDrawing()}
"""Kinds that are not cards of this machine."""


def drawing_of(picture: DevicesPicture) -> Drawing:
    return DRAWINGS.get(picture.kind, CARDS)


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool = False) -> int:
    """Lines that the pane should get on a screen of this size."""
    return drawing_of(picture).rows_wanted(picture, width, height, unfolded=unfolded)
