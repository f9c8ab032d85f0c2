"""Becoming the owner of a session, serving its socket, and holding it until the end or for one request."""

from __future__ import annotations

import array
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

import gputui
from gputui import __version__
from gputui.process.directories import FolderId
from gputui.process.machine import collect_rarely
from gputui.session import config
from gputui.session import lock as locks
from gputui.session.control import server
from gputui.session.control.connection import (
    ClientError,
    Connection,
    NoOwner,
    OwnerStopped,
    answer_in,
    connected,
    encoded,
    fresh_id,
    is_stopped,
    stopped_sentence,
)
from gputui.session.control.handlers import Desk
from gputui.session.control.server import ClientConnection, Server
from gputui.session.control.watch import Watchers
from gputui.session.errors import ConfigError, NewerStore, NotOurs, SessionError, StoreDamaged, StoreTrouble
from gputui.session.event_loop import OwnerGone
from gputui.session.hooks import Hooks, Reactions
from gputui.session.layouts import Layout
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import (
    HEADER,
    TOO_OLD,
    Departure,
    HandOver,
    Leave,
    LookRequest,
    OwnerRequest,
    StatusQuestion,
    framed,
)
from gputui.session.owner.owner import Owner
from gputui.session.session_dir import Paths
from gputui.session.store.store import SCHEMA_VERSION

from .keeper import Waiter, end_keeper, spawn_keeper

if TYPE_CHECKING:
    from importlib.abc import Loader

# ---- What an owner may need when gputui's own files are gone ----


PACKAGES = ("engines", "gpus", "logs", "process", "session", "sources", "views")
"""Where an owner's modules are."""


class KeptModules:
    """The text of modules that are not loaded yet: an environment may be deleted while jobs run for days.

    Python asks it last, for modules whose files are gone. Loading them all would cost each owner more than it needs.
    """

    def __init__(self, texts: dict[str, tuple[str, bytes]]) -> None:
        self._texts = texts

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in self._texts:
            return None
        file = self._texts[name][0]
        is_package = os.path.basename(file) == "__init__.py"
        return ModuleSpec(name, cast("Loader", self), origin=file, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        file, text = self._texts[module.__name__]
        exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)


def keep_modules() -> None:
    """Called before the lock is taken."""
    if not any(isinstance(finder, KeptModules) for finder in sys.meta_path):
        top = os.path.dirname(os.path.abspath(gputui.__file__))
        sys.meta_path.append(
            KeptModules({name: kept for package in PACKAGES for name, kept in _unloaded(top, package)})
        )


def _unloaded(top: str, package: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    for folder, folders, files in os.walk(os.path.join(top, package)):
        folders[:] = [name for name in folders if name != "__pycache__"]
        parents = os.path.relpath(folder, os.path.dirname(top)).split(os.sep)
        for file in files:
            stem, extension = os.path.splitext(file)
            name = ".".join(parents if stem == "__init__" else [*parents, stem])
            if extension == ".py" and name not in sys.modules:
                path = os.path.join(folder, file)
                with suppress(OSError), open(path, "rb") as text:
                    yield name, (path, text.read())


# ---- Becoming the owner of a session, whoever has it now ----


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
    keep_modules()
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
            end_keeper(self.keeper)


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


# ---- A session without an owner, for one request ----


T = TypeVar("T")


def ask_store(root: str, request: OwnerRequest[T], request_id: str, *, silent: bool = False) -> list[T] | None:
    """The answer in a list; None: somebody else holds the lock now, and can be asked.

    `silent`: they were asked for a while; a request that only looks is answered all the same.
    """
    paths, only_looks = Paths(root), not isinstance(request, server.Write)
    collect_rarely()
    try:
        paths.check()
        lock = locks.take(paths)
        if lock is None and silent and only_looks:
            return [ask_copy(root, request, request_id, holder_sentence(root))]
        if lock is None:
            return None
        try:
            return [_answered(paths, lock, request, request_id)]
        finally:
            lock.release()
    except (NotOurs, NewerStore) as error:
        raise ClientError(str(error)) from error
    except SessionError as error:
        if not only_looks:
            raise ClientError(str(error)) from error
        return [ask_copy(root, request, request_id, str(error))]


def ask_copy(root: str, request: OwnerRequest[T], request_id: str, why: str) -> T:
    """The answer of whoever may only look, from a copy of the store; `why` it cannot be opened, for the user.

    Nothing on the disk changes, so it works on read-only disks and for sessions that live on another machine.
    """
    from gputui.session.session_copy import SessionCopy

    try:
        session = SessionCopy(Paths(root), why)
    except (SessionError, StoreDamaged, StoreTrouble, OSError) as error:
        raise ClientError(f"{why} (and it cannot be looked at: {error})") from error
    replies: list[bytes] = []
    Desk(session).answer(encoded(request, request_id), replies.append)
    session.close()
    return answer_in(replies[0], request)


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
    try:
        with suppress(OwnerGone):
            owner.do(lambda act: None).result()  # recovery first, so that nothing shown is a lie
            owner.do(lambda act: owner.catch_up()).result()
            owner.loop.call_soon_threadsafe(lambda: desk.answer(body, take))
        while not replied.wait(0.1) and owner.alive:
            pass
    finally:
        owner.close()
    if not replies:
        raise ClientError(f"the session could not be read: {(owner.failure or 'no answer').splitlines()[-1]}")
    return answer_in(replies[0], request)


# ---- Who holds a session that does not answer, for the sentence that a waiting user reads ----


def holder_sentence(root: str) -> str:
    paths = Paths(root)
    who = locks.holder(paths)
    if who is not None and is_stopped(who.pid):
        return stopped_sentence(who.pid)
    return f"{locks.busy(paths)} and does not answer"


# ---- An owner that others can reach ----


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
        except ConfigError as error:
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
            self._answer_request(server.decode(body), connection)
        except NONSENSE as error:
            connection.reply(server.no("bad_request", f"the request is not understood: {error}"))
        except Exception as error:
            self._owner.journal.write(traceback.format_exc())
            connection.reply(server.no("internal", f"the owner failed at this: {error!r}"))

    def _answer_request(self, request: server.SocketRequest, connection: ClientConnection) -> None:
        if isinstance(request.ask, LookRequest):
            self._watchers.answer(request.ask, connection.reply)
            return
        self._last_request = time.monotonic()
        match request.ask:
            case HandOver(schema=schema) if schema < SCHEMA_VERSION:
                # Handed over to somebody who cannot open it, the session would have no owner at all.
                connection.reply(server.no(TOO_OLD, f"gputui {__version__} owns this session; upgrade this one"))
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
            connection.reply(server.no("refused", f"the session is open in gputui {self._owner.kind}"))
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
        reply = framed(server.ok({"lock": True}))
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
            connection.reply(server.no("refused", f"the session is open in gputui {self._owner.kind}; leave it there"))
        elif self._owner.goes_on():
            connection.reply(server.no("refused", "there is work to do still"))
        else:
            connection.reply(server.ok(Departure(leaving=True)))
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


# ---- Holding a session ----


class Holding:
    """A session that this process owns: its scheduler, its socket, its waiting keeper."""

    def __init__(
        self,
        paths: Paths,
        kind: OwnerKind,
        *,
        layout: Layout | None = None,
        keeper: bool = True,
        force: bool = False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises Owned if an app or a run has the session, unless it is taken by force."""
        made_folder = paths.create()
        self._ownership = become_owner(paths, kind, keeper=keeper, force=force)
        try:
            self.owner = Owner(
                paths, self._ownership.lock, kind, layout=layout, made_folder=made_folder, on_change=on_change
            )
            self.serving = self._served(keeper=keeper)
        except BaseException:
            self._ownership.lock.release()
            raise

    def _served(self, *, keeper: bool) -> Serving:
        try:
            return Serving(self.owner, keeper=keeper, keeper_pid=self._ownership.keeper)
        except BaseException:
            self.owner.close()
            raise

    def let_go(self, *, without_successor: bool) -> None:
        """Jobs run on. `without_successor`: no keeper is left behind when there is nothing for it to do."""
        self.serving.without_successor = without_successor
        try:
            self.owner.close()
        finally:
            self._ownership.lock.release()  # handed over: the taker has a descriptor of its own

    def why_gone(self) -> str:
        """For an owner that ended by itself."""
        if self.serving.handed_over:
            return "the session was taken over by another gputui, which goes on with it"
        if self.owner.ousted is not None:
            return self.owner.ousted
        failure = (self.owner.failure or "no reason is known").splitlines()[-1]
        return f"the scheduler failed; its jobs run on: {failure} ({self.owner.paths.log})"
