"""Looking on at a session that another process owns: one connection to one owner, and the picture that came over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from gputui import __version__
from gputui.session.messages.watch_requests import LookRequest, WatchRequest

from .client import ANOTHER_VERSION, ClientError, Connection, fresh_id
from .watch_parts import Joined, unpacked

T = TypeVar("T")


class LookingOn:
    """Raises NoOwner when nobody is there (any more), ClientError or OSError when it does not work out."""

    def __init__(self, private: str) -> None:
        self._connection = Connection(private)
        self._name = fresh_id()
        self._number = 0
        self.joined = Joined()

    def catch_up(self) -> bool:
        """True: there is a newer picture, and it is whole."""
        while True:
            body = self._connection.ask(WatchRequest(self._name, self._number, __version__))
            self._number += 1
            part = _understood(body, unpacked)
            if self.joined.join(part):
                return True
            if not part.jobs and not part.results:
                return False

    def ask(self, question: LookRequest, kind: type[T]) -> T:
        return _understood(self._connection.ask(question), msgspec.msgpack.Decoder(kind).decode)

    def close(self) -> None:
        self._connection.close()


def _understood(body: bytes, unpack: Callable[[bytes], T]) -> T:
    try:
        return unpack(body)
    except msgspec.MsgspecError as error:
        raise ClientError(f"the owner's answer is not understood: {error}{ANOTHER_VERSION}") from None
