"""Becoming the owner of a session, whoever has it now."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import time
from contextlib import suppress

import msgspec

from gputui.process.folder_id import FolderId
from gputui.session.control.client import Connection, NoOwner, OwnerStopped, connected, encoded, fresh_id
from gputui.session.errors import SessionError
from gputui.session.files.paths import Paths
from gputui.session.messages.socket_requests import HEADER, TOO_OLD, HandOver, StatusQuestion, framed
from gputui.session.store.store import SCHEMA_VERSION

from . import lock as locks
from .keeper import spawn_keeper
from .lock import Lock, OwnerKind

PATIENCE = 30.0


class Ownership(msgspec.Struct, frozen=True):
    lock: Lock
    keeper: int | None
    """The keeper that waits for us, if one was started before the session was asked for."""


class Owned(Exception):
    """An app or a run has the session; it can be asked to do things."""

    def __init__(self, kind: OwnerKind, pid: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.pid = pid


def become_owner(paths: Paths, kind: OwnerKind, *, keeper: bool, force: bool = False) -> Ownership:
    """Takes a free session, or has it handed over by a keeper. Raises Owned if an app or a run has it.

    `force`: they hand it over too, and end.
    """
    lock = locks.take(paths)
    if lock is not None:
        lock.sign(kind)
        return Ownership(lock, None)
    taker = _Taker(paths, keeper=keeper, force=force)
    try:
        lock = taker.take()
    except BaseException:
        taker.end_keeper()
        raise
    lock.sign(kind)
    return Ownership(lock, taker.keeper)


class _Taker:
    """Asks again and again, until it has the lock or knows that it will not get it."""

    def __init__(self, paths: Paths, *, keeper: bool, force: bool) -> None:
        self._paths = paths
        self._wants_keeper = keeper
        self._force = force
        self.keeper: int | None = None

    def take(self) -> Lock:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            owner = _owner(self._paths)
            if owner is not None and owner[0] is not OwnerKind.KEEPER and not self._force:
                raise Owned(*owner)
            lock = self._from_keeper() if owner is not None else None
            lock = lock or locks.take(self._paths)
            if lock is not None:
                return lock
            time.sleep(0.01)
        raise SessionError(f"{locks.busy(self._paths)} and does not answer")

    def _from_keeper(self) -> Lock | None:
        """Our keeper comes first: if this process dies while the session is passed to it, the keeper has it at once."""
        if self._wants_keeper and self.keeper is None:
            with suppress(OSError):  # the machine gives no process now; the owner tries again and again
                self.keeper = spawn_keeper(self._paths.root, wait=True, folder=FolderId.of(self._paths.private))
        with suppress(OSError, NoOwner):
            fd = _asked_for_lock(self._paths, force=self._force)
            return Lock(fd) if fd is not None else None
        return None

    def end_keeper(self) -> None:
        if self.keeper is not None:
            with suppress(ProcessLookupError):
                os.kill(self.keeper, signal.SIGKILL)
            os.waitpid(self.keeper, 0)


def _owner(paths: Paths) -> tuple[OwnerKind, int] | None:
    """Who answers; None: nobody does, just now."""
    try:
        connection = Connection(paths.private)
    except (NoOwner, TimeoutError):
        return None
    try:
        owner = connection.ask(StatusQuestion()).owner
        return (OwnerKind(owner.kind), owner.pid) if owner is not None else None
    except OwnerStopped as stopped:
        raise SessionError(str(stopped)) from stopped
    except (NoOwner, OSError):
        return None
    finally:
        connection.close()


def _asked_for_lock(paths: Paths, *, force: bool) -> int | None:
    connection = connected(paths.private)
    try:
        connection.sendall(framed(encoded(HandOver(force, SCHEMA_VERSION), fresh_id())))
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        reply, ancillary, _, _ = connection.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                return array.array("i", data[: array.array("i").itemsize])[0]
    finally:
        connection.close()
    _check_age(reply[HEADER.size :])
    return None


def _check_age(reply: bytes) -> None:
    """Whoever is too old to open the store will not get it by asking again."""
    with suppress(ValueError):
        answer = json.loads(reply)
        if answer.get("kind") == TOO_OLD:
            raise SessionError(str(answer.get("message")))
