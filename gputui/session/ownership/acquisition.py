"""How a process becomes the owner of a session, serves its socket, and holds the session until the end or for a single
request.
"""

from __future__ import annotations

import array
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

import gputui
from gputui import __version__
from gputui.core.amounts import counted
from gputui.core.job import Job
from gputui.core.state import Record
from gputui.process.directories import DirectoryId
from gputui.process.machine import collect_rarely
from gputui.process.spawn import c_library
from gputui.session import config, errors, messages
from gputui.session import lock as locks
from gputui.session.control import server
from gputui.session.control.connection import (
    ClientError,
    Connection,
    NoOwner,
    connect,
    decode_reply,
    describe_stopped,
    encode_request,
    fresh_id,
    is_stopped,
)
from gputui.session.control.handlers import RequestHandler
from gputui.session.control.server import ClientConnection, Server
from gputui.session.control.watch import Watchers
from gputui.session.errors import SessionError
from gputui.session.event_loop import OwnerGone
from gputui.session.hooks import Hooks, Reactions
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import Layout, OwnerRequest
from gputui.session.owner.owner import Owner
from gputui.session.session_dir import Paths
from gputui.session.store.event_log import EventWaiters
from gputui.session.store.opening import open_session
from gputui.session.store.store import Identity

from .daemon import Waiter, end_daemon, spawn_daemon

if TYPE_CHECKING:
    from importlib.abc import Loader

# Modules of gputui that outlive its files


PACKAGES = ("engines", "gpus", "logs", "process", "session", "sources", "views")
"""Packages with modules that an owner may need to import later."""


class KeptModules:
    """An importer that keeps the source of modules that have not been imported yet.

    The Python environment may be deleted while jobs run for days. Importing all modules at the start would take too
    long.
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
    if not any(isinstance(finder, KeptModules) for finder in sys.meta_path):
        top = os.path.dirname(os.path.abspath(gputui.__file__))
        sys.meta_path.append(
            KeptModules({name: kept for package in PACKAGES for name, kept in _unloaded(top, package)})
        )


def get_ready() -> None:
    """Prepare what the first requests and the first start of a process need, so that a takeover is fast."""
    keep_modules()
    server.decode(encode_request(messages.StatusQuestion(), fresh_id()))
    for stored in (Job, Record, Identity):
        msgspec.json.Decoder(stored)
    with suppress(OSError):
        c_library()


def _unloaded(top: str, package: str) -> Iterator[tuple[str, tuple[str, bytes]]]:
    for directory, directories, files in os.walk(os.path.join(top, package)):
        directories[:] = [name for name in directories if name != "__pycache__"]
        parents = os.path.relpath(directory, os.path.dirname(top)).split(os.sep)
        for file in files:
            stem, extension = os.path.splitext(file)
            name = ".".join(parents if stem == "__init__" else [*parents, stem])
            if extension == ".py" and name not in sys.modules:
                path = os.path.join(directory, file)
                with suppress(OSError), open(path, "rb") as text:
                    yield name, (path, text.read())


# Becoming the owner


PATIENCE = 30.0


class AlreadyOwned(Exception):
    """Raised when an app or a run owns the session."""

    def __init__(self, kind: OwnerKind, pid: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.pid = pid


def become_owner(paths: Paths, kind: OwnerKind, *, daemon: bool, force: bool = False) -> tuple[Lock, int | None]:
    """Take the lock of a free session, or make a daemon hand it over. Return the lock and the pid of the daemon if one
    was started for the new owner.

    Raise AlreadyOwned if an app or a run owns the session. If `force` is set, make it hand over the session and exit
    instead.
    """
    keep_modules()
    lock, daemon_pid = locks.take(paths), None
    deadline = time.monotonic() + PATIENCE
    try:
        while lock is None:
            if time.monotonic() > deadline:
                raise SessionError(f"{locks.busy(paths)} and is not responding")
            owner = _ask_for_owner(paths)
            if owner is not None and owner[0] is not OwnerKind.DAEMON and not force:
                raise AlreadyOwned(*owner)
            if owner is not None:
                if daemon and daemon_pid is None:
                    # Our daemon comes first, to take over if this process dies during the hand-over.
                    with suppress(OSError):  # no process can be started now; the owner retries
                        daemon_pid = spawn_daemon(paths.root, wait=True, directory=DirectoryId.of(paths.private))
                with suppress(OSError, NoOwner):
                    lock = _ask_for_lock(paths, force=force)
            lock = lock or locks.take(paths)
            if lock is None:
                time.sleep(0.01)
    except BaseException:
        if daemon_pid is not None:
            end_daemon(daemon_pid)
        raise
    lock.sign(kind)
    return lock, daemon_pid


def _ask_for_owner(paths: Paths) -> tuple[OwnerKind, int] | None:
    try:
        connection = Connection(paths.private)
    except (NoOwner, TimeoutError):
        return None
    try:
        owner = connection.ask(messages.StatusQuestion()).process
        return (OwnerKind(owner.kind), owner.pid) if owner is not None else None
    except ClientError as error:
        raise SessionError(str(error)) from error
    except (NoOwner, OSError):
        return None
    finally:
        connection.close()


def _ask_for_lock(paths: Paths, *, force: bool) -> Lock | None:
    connection = connect(paths.private)
    try:
        connection.sendall(messages.frame(encode_request(messages.HandOver(force), fresh_id())))
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        _, ancillary, _, _ = connection.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
    finally:
        connection.close()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return Lock(array.array("i", data[: array.array("i").itemsize])[0])
    return None


# Answering one request without an owner


T = TypeVar("T")


def ask_store(root: str, request: OwnerRequest[T], request_id: str, *, silent: bool = False) -> list[T] | None:
    """Answer a request from the store. Return the reply in a list, or None if another process holds the lock and can be
    asked.

    If `silent` is set, the other process has not answered for a while, so a read-only request is answered from a copy.
    """
    paths, only_reads = Paths(root), not isinstance(request, server.Write)
    collect_rarely()
    try:
        paths.check()
        lock = locks.take(paths)
        if lock is None and silent and only_reads:
            return [ask_copy(root, request, request_id, describe_holder(root))]
        if lock is None:
            return None
        try:
            return [_ask_as_owner(paths, lock, request, request_id)]
        finally:
            lock.release()
    except (errors.NotOurs, errors.NewerStore) as error:
        raise ClientError(str(error)) from error
    except SessionError as error:
        if not only_reads:
            raise ClientError(str(error)) from error
        return [ask_copy(root, request, request_id, str(error))]


def ask_copy(root: str, request: OwnerRequest[T], request_id: str, why: str) -> T:
    """Answer a request from a copy of the store in memory. `why` tells the user why the store itself cannot be opened.

    Nothing on the disk changes, so this works on read-only disks and for sessions that belong to another machine.
    """
    from gputui.session.session_copy import SessionCopy

    try:
        session = SessionCopy(Paths(root), why)
    except (SessionError, errors.StoreDamaged, errors.StoreTrouble, OSError) as error:
        raise ClientError(f"{why} (and reading a copy failed: {error})") from error
    replies: list[bytes] = []
    RequestHandler(session).answer(server.decode(encode_request(request, request_id)), replies.append)
    session.close()
    return decode_reply(replies[0], request)


def _ask_as_owner(paths: Paths, lock: Lock, request: OwnerRequest[T], request_id: str) -> T:
    received = server.decode(encode_request(request, request_id))
    owner = _client_owner(paths, lock)
    handler = RequestHandler(owner)
    replied = threading.Event()
    replies: list[bytes] = []

    def take(reply: bytes) -> None:
        replies.append(reply)
        replied.set()

    try:
        with suppress(OwnerGone):
            owner.do(lambda act: None).result()  # wait for the recovery, so that the answer is correct
            owner.do(lambda act: owner.results.reader.catch_up()).result()
            owner.loop.call_soon_threadsafe(lambda: handler.answer(received, take))
        while not replied.wait(0.1) and owner.alive:
            pass
    finally:
        owner.close()
    if not replies:
        raise ClientError(f"cannot read the session: {(owner.failure or 'no answer').splitlines()[-1]}")
    return decode_reply(replies[0], request)


def _client_owner(paths: Paths, lock: Lock, *, adopt: bool = False) -> Owner:
    """Start an owner for a client, which starts no jobs."""
    lock.sign(OwnerKind.CLIENT)
    owner = Owner(paths, lock, OwnerKind.CLIENT, places=False, adopt=adopt)
    owner.start()
    return owner


def describe_holder(root: str) -> str:
    """Return a message that says why a locked session does not answer."""
    paths = Paths(root)
    holder = locks.holder(paths)
    if holder is not None and is_stopped(holder.pid):
        return describe_stopped(holder.pid)
    return f"{locks.busy(paths)} and is not responding"


# Serving the socket


QUIET_FOR = float(os.environ.get("GPUTUI_DAEMON_QUIET") or 1.0)
"""Seconds without work and without a request after which a daemon that owns the session exits. Tests use a smaller
value.
"""


class OwnerServer:
    """The part of an owner that makes it reachable for clients. It is created before the owner starts; everything else
    happens in the owner's thread.
    """

    def __init__(self, owner: Owner, *, daemon: bool = True, daemon_pid: int | None = None) -> None:
        self._owner = owner
        waiters = EventWaiters(owner.loop, owner.saver.log)
        owner.on_turn.append(waiters.look)
        self._handler = RequestHandler(owner, Watchers(owner), waiters)
        self._last_request = time.monotonic()
        """Monotonic time of the last request. Requests of read-only screens do not count."""
        self._server = Server(owner.loop, owner.session_dir.paths, self._answer, owner.journal.write)
        self._waiter = Waiter(owner.loop, owner.paths, owner.session_dir.id, owner.journal) if daemon else None
        self.handed_over = False
        """Whether the session is being handed over to another process."""
        self.without_successor = False
        """Whether to leave no daemon behind if there is nothing left to do. Set this before calling `owner.leave()`."""
        self.dismissed: Callable[[], None] = self._go
        """Callback that makes this owner exit when the user stops everything. It is called in the owner's thread."""
        owner.on_leaving.append(self._leaving)
        self._set_up_hooks()
        if self._waiter is not None:
            if daemon_pid is None:
                owner.loop.call_soon(self._waiter.start)
            else:
                self._waiter.watch(daemon_pid)
        if owner.kind is OwnerKind.DAEMON:
            owner.loop.call_later(QUIET_FOR, self._go_if_idle)

    def _set_up_hooks(self) -> None:
        """Read the hooks from the user's configuration. If it is invalid, the session runs without hooks."""
        owner = self._owner
        try:
            settings = config.load()
        except errors.ConfigError as error:
            owner.journal.write(f"hooks disabled: {error}")
            return
        hooks = Hooks(owner.loop, settings, owner.paths.root, owner.journal.write)
        if hooks.wanted:
            reactions = Reactions(hooks, owner.directories, owner.snapshot)
            owner.saver.log.on_saved = reactions.note
            owner.on_turn.append(reactions.look)
            owner.on_leaving.append(hooks.close)

    @property
    def daemon_pid(self) -> int | None:
        return self._waiter.pid if self._waiter is not None else None

    def _answer(self, body: bytes, connection: ClientConnection) -> None:
        """Answer a request. Errors are caught, so that no request can end the owner."""
        try:
            request = server.decode(body)
            if request.v != messages.VERSION:
                connection.reply(server.no("bad_request", f"the scheduler runs another version (gputui {__version__})"))
                return
            if not isinstance(request.ask, messages.ScreenRequest):
                self._last_request = time.monotonic()
            match request.ask:
                case messages.HandOver(force=force):
                    self._hand_over(connection, force=force)
                case messages.Leave(stop=stop):
                    self._leave(connection, stop=stop)
                case _:
                    self._handler.answer(request, connection.reply)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            connection.reply(server.no("bad_request", f"invalid request: {error}"))
        except Exception as error:
            self._owner.journal.write(traceback.format_exc())
            connection.reply(server.no("internal", f"scheduler error: {error!r}"))

    def _hand_over(self, connection: ClientConnection, *, force: bool) -> None:
        """Pass the descriptor that holds the lock to the next owner. The session stays locked throughout."""
        if self._owner.kind is not OwnerKind.DAEMON and not force:
            connection.reply(server.no("refused", f"the session is open in gputui {self._owner.kind}"))
            return
        if self.handed_over:
            connection.close()  # another process was faster, and the client can ask that one
            return
        self.handed_over = True
        # Our own daemon exits. The next owner's daemon must not take us for a settled owner and exit too.
        self._owner.lock.sign(OwnerKind.CLIENT)
        taker = connection.release()
        self._owner.on_closed = lambda: self._pass_lock(taker)
        self._owner.leave()

    def _pass_lock(self, taker: socket.socket) -> None:
        reply = messages.frame(server.ok({"lock": True}))
        descriptor = array.array("i", [self._owner.lock.fd])
        try:
            taker.settimeout(5.0)
            taker.sendmsg([reply], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor)])
        except OSError as error:
            self._owner.journal.write(f"session handover failed: {error}")
            with suppress(OSError):
                spawn_daemon(self._owner.paths.root, wait=True, directory=self._owner.session_dir.id)
        taker.close()

    def _leave(self, connection: ClientConnection, *, stop: bool) -> None:
        if self._owner.kind is not OwnerKind.DAEMON and not stop:
            connection.reply(server.no("refused", f"the session is open in gputui {self._owner.kind}; quit it there"))
        elif self._owner.has_work():
            connection.reply(server.no("refused", "there are unfinished jobs"))
        else:
            connection.reply(server.ok(None))
            self._owner.loop.call_later(0.05, self.dismissed)

    def _go_if_idle(self) -> None:
        quiet = time.monotonic() - self._last_request > QUIET_FOR
        if quiet and not self._owner.snapshot.trouble and not self._owner.has_work():
            self._go()
        else:
            self._owner.loop.call_later(QUIET_FOR / 2, self._go_if_idle)

    def _go(self) -> None:
        self.without_successor = True
        self._owner.leave()

    def _leaving(self) -> None:
        """Stop serving, and make sure that a daemon remains if it is needed. Called after the owner's last turn, so all
        accepted jobs are counted.
        """
        self._server.close()
        if self._waiter is None:
            return
        may_end = self.without_successor or not self._owner.started
        if self.handed_over or self._owner.ousted or (may_end and not self._owner.has_work()):
            self._waiter.end()
        else:
            self._waiter.ensure()


# Holding a session


class OwnedSession:
    """A session owned by this process: its scheduler, its socket and its waiting daemon."""

    def __init__(
        self,
        paths: Paths,
        kind: OwnerKind,
        *,
        layout: Layout | None = None,
        daemon: bool = True,
        force: bool = False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Become the owner of the session. Raise AlreadyOwned if an app or a run owns it and `force` is not set."""
        made_directory = paths.create()
        self._lock, daemon_pid = become_owner(paths, kind, daemon=daemon, force=force)
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            self.owner = Owner(
                paths, self._lock, kind, layout=layout, made_directory=made_directory, on_change=on_change
            )
            undo.callback(self.owner.close)
            self.serving = OwnerServer(self.owner, daemon=daemon, daemon_pid=daemon_pid)
            undo.pop_all()

    def let_go(self, *, without_successor: bool) -> None:
        """Release the session. Jobs keep running. If `without_successor` is set, leave no daemon if there is nothing
        left to do.
        """
        self.serving.without_successor = without_successor
        try:
            self.owner.close()
        finally:
            self._lock.release()  # after a hand-over, the new owner has a descriptor of its own

    def why_gone(self) -> str:
        """Return a message that says why the owner ended without a call of `let_go`."""
        if self.serving.handed_over:
            return "another gputui took over the session and continues it"
        if self.owner.ousted is not None:
            return self.owner.ousted
        failure = (self.owner.failure or "unknown reason").splitlines()[-1]
        return f"scheduler failed, jobs keep running: {failure} ({self.owner.paths.log})"


# Existing sessions: moved aside for --new, or adopted from another machine


def move_aside(paths: Paths) -> str | None:
    """Rename an existing session directory and return its new name, or None if there is no session. Raise SessionError
    if jobs may be running.
    """
    if not paths.exists():
        return None
    paths.check()
    lock = locks.take(paths)
    if lock is None:
        raise SessionError(f"{locks.busy(paths)}; quit that first, or choose another --output-dir")
    try:
        opened = open_session(paths, Layout())
        running, is_ours = len(opened.scheduler.book.active), opened.identity.made_directory
        opened.store.close()
        if running:
            run = counted(running, "job still running", "jobs still running")
            raise SessionError(f"{run} in {paths.root}; wait, or choose another --output-dir")
        if not is_ours:
            raise SessionError(
                f"{paths.root} was not created by gputui, so it is not moved; choose another --output-dir"
            )
        number = 1
        while os.path.lexists(aside := f"{paths.root}.{number}"):
            number += 1
        os.rename(paths.root, aside)
        return aside
    finally:
        lock.release()


def foreign_session(paths: Paths) -> errors.ForeignSession | None:
    """Return the error that says why the session cannot be opened on this machine, or None if it can."""
    lock = _lock_free_session(paths)
    try:
        open_session(paths, Layout()).store.close()
    except errors.ForeignSession as foreign:
        return foreign
    finally:
        lock.release()
    return None


def adopt(paths: Paths) -> None:
    """Take over a session of another machine. Its running attempts count as lost, except those in a cluster."""
    lock = _lock_free_session(paths)
    try:
        owner = _client_owner(paths, lock, adopt=True)
        try:
            owner.do(lambda act: None).result()
        except OwnerGone:
            raise SessionError(f"cannot adopt the session: {(owner.failure or 'no answer').splitlines()[-1]}") from None
        finally:
            owner.close()
    finally:
        lock.release()


def _lock_free_session(paths: Paths) -> Lock:
    lock = locks.take(paths)
    if lock is None:
        raise locks.busy(paths)
    return lock
