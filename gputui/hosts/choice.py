"""Which machine gets a job that may run on any of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gputui.core.views.amounts import counted, memory

from .look import CardLook, MachineLook
from .survey import Answer

__all__ = ["RoomWanted", "chosen_host"]


class RoomWanted(Struct, frozen=True):
    """What the job asks for."""

    gpus: int = 1
    memory: int | None = None

    @property
    def told(self) -> str:
        cards = counted(self.gpus, "free GPU", "free GPUs")
        return cards if self.memory is None else f"{cards} with {memory(self.memory)}"


def chosen_host(answers: Iterable[Answer], wanted: RoomWanted) -> Answer | None:
    """The one with most cards to spare, then the least loaded. Processors count only where no machine has a GPU."""
    answered = [answer for answer in answers if answer.look is not None]
    with_gpus = [answer for answer in answered if answer.look is not None and answer.look.gpus]
    fitting = [answer for answer in (with_gpus or answered) if _room(answer, wanted) >= wanted.gpus]
    return max(fitting, key=lambda answer: _rank(answer, wanted), default=None)


def _rank(answer: Answer, wanted: RoomWanted) -> tuple[int, float]:
    assert answer.look is not None
    return (_room(answer, wanted) if wanted.gpus else 0, -answer.look.load)


def _room(answer: Answer, wanted: RoomWanted) -> int:
    return sum(_fits(card, answer.look, wanted) for card in answer.look.cards) if answer.look is not None else 0


def _fits(card: CardLook, look: MachineLook | None, wanted: RoomWanted) -> bool:
    if not card.free or look is None:
        return False
    return wanted.memory is None or not look.gpus or card.memory_free >= wanted.memory
