"""A session without an owner, for one request: takes the lock, recovers, answers from the store, and leaves."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TypeVar

from gputui.process.memory import collect_rarely
from gputui.session.errors import SessionError
from gputui.session.files.paths import Paths
from gputui.session.messages.socket_requests import OwnerRequest
from gputui.session.owner.owner import Owner
from gputui.session.owner.ticket import OwnerGone
from gputui.session.ownership import lock as locks
from gputui.session.ownership.lock import Lock, OwnerKind

from .client import ClientError, answer_in, encoded
from .handlers import Desk

T = TypeVar("T")


def ask_store(root: str, request: OwnerRequest[T], request_id: str) -> list[T] | None:
    """The answer in a list; None: somebody else holds the lock now, and can be asked."""
    paths = Paths(root)
    collect_rarely()
    try:
        paths.check()
        lock = locks.take(paths)
        if lock is None:
            return None
        try:
            return [_answered(paths, lock, request, request_id)]
        finally:
            lock.release()
    except SessionError as error:
        raise ClientError(str(error)) from error


def _answered(paths: Paths, lock: Lock, request: OwnerRequest[T], request_id: str) -> T:
    body = encoded(request, request_id)
    lock.sign(OwnerKind.CLIENT)
    owner = Owner(paths, lock, OwnerKind.CLIENT, places=False)
    desk = Desk(owner)
    replied = threading.Event()
    replies: list[bytes] = []

    def take(reply: bytes) -> None:
        replies.append(reply)
        replied.set()

    owner.start()
    with suppress(OwnerGone):
        owner.do(lambda act: None).result()  # recovery first, so that nothing shown is a lie
        owner.do(lambda act: owner.catch_up()).result()
        owner.loop.call_soon_threadsafe(lambda: desk.answer(body, take))
    while not replied.wait(0.1) and owner.alive:
        pass
    owner.close()
    if not replies:
        raise ClientError(f"the session could not be read: {(owner.failure or 'no answer').splitlines()[-1]}")
    return answer_in(replies[0], request)
