"""One key after the other: the next is handed on when the one before has done what it does.

Textual hands a key to whoever has the focus when it arrives, but carries it out later. Over a slow link keys arrive in
heaps: of `/held` the h would hold a job before the filter has the focus. Knows nothing of what keys mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.events import Key, Paste
from textual.message_pump import MessagePump
from textual.screen import Screen

__all__ = ["Turns"]

PATIENCE = 0.25
"""Seconds after which a key that was not seen to be done holds up the others no longer."""


class Turns:
    """`deliver` hands a key or a paste to whoever has the focus now."""

    def __init__(self, app: App[Any], deliver: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._app = app
        self._deliver = deliver
        self._waiting: deque[Key | Paste] = deque()
        self._turn = 0
        self._patience: asyncio.TimerHandle | None = None
        """Runs out while a key is under way; None: the next one may go."""

    async def take(self, event: Key | Paste) -> None:
        self._waiting.append(event)
        await self._next()

    async def _next(self) -> None:
        if self._patience is not None or not self._waiting:
            return
        self._turn += 1
        self._patience = asyncio.get_running_loop().call_later(PATIENCE, self._done, self._turn)
        screen, target = self._app.screen, self._app.focused or self._app.screen
        await self._deliver(self._waiting.popleft())
        self._follow(self._turn, screen, [*target.ancestors_with_self])

    def _follow(self, turn: int, screen: Screen[Any], way: list[MessagePump]) -> None:
        """A key goes up from the focus to the app; whatever is sent after it arrives after it."""
        while way:
            if way.pop(0).call_later(self._follow, turn, screen, way):
                return
        if self._app.screen is screen:
            self._app.call_later(self._done, turn)  # behind a change of focus, which is sent this way too
        else:
            self._app.screen.call_after_refresh(self._app.call_later, self._done, turn)

    def _done(self, turn: int) -> None:
        if turn == self._turn and self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._waiting:
                self._app.call_later(self._next)
