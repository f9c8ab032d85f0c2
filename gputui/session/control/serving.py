"""An owner that others can reach: its control socket, its waiting keeper, and how it passes the session on."""

from __future__ import annotations

import array
import os
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

import msgspec

from gputui import __version__
from gputui.session import config
from gputui.session.hooks.hook_events import Reactions
from gputui.session.hooks.hooks import Hooks
from gputui.session.messages.replies import Departure
from gputui.session.messages.socket_requests import TOO_OLD, HandOver, Leave
from gputui.session.messages.watch_requests import LookRequest
from gputui.session.owner.owner import Owner
from gputui.session.ownership.keeper import Waiter, spawn_keeper
from gputui.session.ownership.lock import OwnerKind
from gputui.session.store.store import SCHEMA_VERSION

from . import wire
from .handlers import Desk
from .server import ClientConnection, Server
from .watchers import Watchers

QUIET_FOR = float(os.environ.get("GPUTUI_KEEPER_QUIET") or 1.0)
"""Seconds without work and without a request after which an owning keeper goes; fewer in tests, which wait for it."""

NONSENSE = (msgspec.MsgspecError, RecursionError, UnicodeError)


class Serving:
    """Set up before the owner starts; all else happens in the owner's thread."""

    def __init__(self, owner: Owner, *, keeper: bool = True, keeper_pid: int | None = None) -> None:
        self._owner = owner
        self._desk = Desk(owner)
        self._watchers = Watchers(owner)
        self._last_request = time.monotonic()
        """Of somebody who does more than look."""
        self._server = Server(owner.loop, owner.ground.paths, self._answer, owner.journal.write)
        self._waiter = Waiter(owner.loop, owner.paths, owner.ground.id, owner.journal) if keeper else None
        self.handed_over = False
        """The session belongs to another process now."""
        self.without_successor = False
        """Leave nobody behind if there is nothing left to do: set before the owner is told to leave."""
        self.dismissed: Callable[[], None] = self._go
        """How this owner goes when the user stops everything; called in the owner's thread."""
        owner.on_leaving.append(self._leaving)
        self._set_up_hooks()
        if self._waiter is not None:
            if keeper_pid is None:
                owner.loop.call_soon(self._waiter.start)
            else:
                self._waiter.watch(keeper_pid)
        if owner.kind is OwnerKind.KEEPER:
            owner.loop.call_later(QUIET_FOR, self._go_if_idle)

    def _set_up_hooks(self) -> None:
        """From the user's own file; one that cannot be read costs the hooks, never the session."""
        owner = self._owner
        try:
            settings = config.load()
        except config.ConfigError as error:
            owner.journal.write(f"no hooks are run: {error}")
            return
        hooks = Hooks(owner.loop, settings, owner.paths.root, owner.journal.write)
        if hooks.wanted:
            owner.on_turn.append(Reactions(hooks, owner.folders, owner.snapshot).look)
            owner.on_leaving.append(hooks.close)

    @property
    def keeper_pid(self) -> int | None:
        return self._waiter.pid if self._waiter is not None else None

    def _answer(self, body: bytes, connection: ClientConnection) -> None:
        """Whatever a request brings about, the owner survives it."""
        try:
            self._answer_request(wire.decode(body), connection)
        except NONSENSE as error:
            connection.reply(wire.no("bad_request", f"the request is not understood: {error}"))
        except Exception as error:
            self._owner.journal.write(traceback.format_exc())
            connection.reply(wire.no("internal", f"the owner failed at this: {error!r}"))

    def _answer_request(self, request: wire.SocketRequest, connection: ClientConnection) -> None:
        if isinstance(request.ask, LookRequest):
            self._watchers.answer(request.ask, connection.reply)
            return
        self._last_request = time.monotonic()
        match request.ask:
            case HandOver(schema=schema) if schema < SCHEMA_VERSION:
                # Handed over to somebody who cannot open it, the session would have no owner at all.
                connection.reply(wire.no(TOO_OLD, f"gputui {__version__} owns this session; upgrade this one"))
            case HandOver(force=force):
                self._hand_over(connection, force=force)
            case Leave(stop=stop):
                self._leave(connection, stop=stop)
            case _:
                self._desk.answer_request(request, connection.reply)

    # Going

    def _hand_over(self, connection: ClientConnection, *, force: bool) -> None:
        """The lock is never let go: the next owner gets the very descriptor that holds it."""
        if self._owner.kind is not OwnerKind.KEEPER and not force:
            connection.reply(wire.no("refused", f"the session is open in gputui {self._owner.kind}"))
            return
        if self.handed_over:
            connection.close()  # another was faster, and can be asked next
            return
        self.handed_over = True
        # Its own keeper goes now: the one that waits for the taker must not think that it is one too many.
        self._owner.lock.sign(OwnerKind.CLIENT)
        taker = connection.release()
        self._owner.last_act = lambda: self._pass_lock(taker)
        self._owner.leave()

    def _pass_lock(self, taker: socket.socket) -> None:
        reply = wire.framed(wire.ok({"lock": True}))
        descriptor = array.array("i", [self._owner.lock.fd])
        try:
            taker.settimeout(5.0)
            taker.sendmsg([reply], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor)])
        except OSError as error:
            self._owner.journal.write(f"nobody was there to take the session: {error}")
            with suppress(OSError):
                spawn_keeper(self._owner.paths.root, wait=True, folder=self._owner.ground.id)
        taker.close()

    def _leave(self, connection: ClientConnection, *, stop: bool) -> None:
        if self._owner.kind is not OwnerKind.KEEPER and not stop:
            connection.reply(wire.no("refused", f"the session is open in gputui {self._owner.kind}; leave it there"))
        elif self._owner.goes_on():
            connection.reply(wire.no("refused", "there is work to do still"))
        else:
            connection.reply(wire.ok(Departure(leaving=True)))
            self._owner.loop.call_later(0.05, self.dismissed)

    def _go_if_idle(self) -> None:
        quiet = time.monotonic() - self._last_request > QUIET_FOR
        if quiet and not self._owner.snapshot.trouble and not self._owner.goes_on():
            self._go()
        else:
            self._owner.loop.call_later(QUIET_FOR / 2, self._go_if_idle)

    def _go(self) -> None:
        self.without_successor = True
        self._owner.leave()

    def _leaving(self) -> None:
        """In the owner's thread, after its last turn: whatever was said to be added by then is seen here."""
        self._server.close()
        if self._waiter is None:
            return
        may_end = self.without_successor or not self._owner.began
        if self.handed_over or self._owner.ousted or (may_end and not self._owner.goes_on()):
            self._waiter.end()
        else:
            self._waiter.ensure()
