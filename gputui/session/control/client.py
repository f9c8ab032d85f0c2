"""Finding a session and talking to its owner over the socket."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gputui.session.messages import (
    HEADER,
    LARGEST_FRAME,
    VERSION,
    OwnerRequest,
    ReceivedReply,
    SentRequest,
    framed,
    reply_type,
)

# ---- Talking to a session from any process ----


A = TypeVar("A")
T = TypeVar("T")

PEER = struct.Struct("3i")
PATIENCE = 30.0
"""Seconds for an answer; durable work on a slow disk takes a while."""
PRIVATE_FOLDER = 0o040000
"""The mode of a folder without any right for others."""
ANOTHER_VERSION = "; is it of another version? gputui stop ends it"
STOPPED_AFTER = 2.0
"""Seconds of silence after which we look whether the owner is stopped."""


class ClientError(Exception):
    """The message is the sentence the user reads."""


class RequestRefused(ClientError):
    """The owner understood and said no."""


class NotDurable(RequestRefused):
    """The owner cannot write the queue now; the same can be asked again later."""


class OwnerStopped(ClientError):
    """It answers when it is continued."""


class NoSession(ClientError):
    """There is none here."""


class NoOwner(Exception):
    """Nobody listens."""


def fresh_id() -> str:
    """What uuid4().hex is, without the module's price."""
    return os.urandom(16).hex()


class Connection:
    """One connection; any number of requests, one after the other."""

    def __init__(self, private: str) -> None:
        self._socket = connected(private)
        self._socket.settimeout(STOPPED_AFTER)

    def ask(self, request: OwnerRequest[T], request_id: str | None = None) -> T:
        """What the owner answers; `request_id` lets a request be repeated without being carried out twice."""
        body = encoded(request, request_id or fresh_id())
        if len(body) > LARGEST_FRAME:
            raise ClientError("that is too much at once; add it in parts")
        try:
            self._send(framed(body))
            return answer_in(self._receive(), request)
        except ConnectionError as error:
            raise NoOwner from error

    def _send(self, frame: bytes) -> None:
        unsent = memoryview(frame)
        while unsent:
            unsent = unsent[self._patiently(self._socket.send, unsent) :]

    def _receive(self) -> bytes:
        (length,) = HEADER.unpack(self._exactly(HEADER.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._patiently(self._socket.recv, min(size - len(received), 1 << 20))
            if not chunk:
                raise ConnectionResetError
            received += chunk
        return bytes(received)

    def _patiently(self, step: Callable[[A], T], argument: A) -> T:
        """Gives up on a stopped owner soon, on a slow one late."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return step(argument)
            except TimeoutError:
                owner = _listener(self._socket)
                if is_stopped(owner):
                    raise OwnerStopped(stopped_sentence(owner)) from None
                if time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        self._socket.close()


def connected(private: str) -> socket.socket:
    """A socket to the owner of the session whose private folder this is."""
    folder = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(folder).st_uid != os.getuid():
            raise ClientError(f"{private} belongs to another user")
        # sun_path holds 107 bytes; through the folder's descriptor any path fits
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        _connect(connection, f"/proc/self/fd/{folder}/control.sock")
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError) as error:
        connection.close()
        raise NoOwner from error
    finally:
        os.close(folder)
    return connection


def _connect(connection: socket.socket, address: str) -> None:
    """The kernel says at once that too many wait to be let in; they will not be that many for long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(address)
        except BlockingIOError:
            if time.monotonic() > deadline:
                connection.close()
                raise TimeoutError from None
            time.sleep(0.01)


def _listener(connection: socket.socket) -> int:
    """The process at the other end, as the kernel knows it."""
    return int(PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0])


def is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False


def stopped_sentence(pid: int) -> str:
    return f"owner pid {pid} is stopped: kill -CONT {pid}"


def encoded(request: OwnerRequest[T], request_id: str) -> bytes:
    try:
        return msgspec.json.encode(SentRequest(VERSION, request_id, request))
    except UnicodeEncodeError as error:
        raise ClientError(f"{error.object.encode('utf-8', 'surrogateescape')!r} is not UTF-8") from None


def answer_in(body: bytes, request: OwnerRequest[T]) -> T:
    """The answer, or what a reply that says no is raised as."""
    try:
        reply = msgspec.json.decode(body, type=ReceivedReply)
        if reply.ok:
            return msgspec.json.decode(reply.value, type=reply_type(request))
    except msgspec.MsgspecError as error:
        raise ClientError(f"the owner's answer is not understood: {error}{ANOTHER_VERSION}") from None
    kinds = {"refused": RequestRefused, "not_durable": NotDurable}
    another_version = ANOTHER_VERSION if reply.kind == "bad_request" else ""
    raise kinds.get(reply.kind, ClientError)(reply.message + another_version)


class Client:
    """A session as verbs see it. `ask` finds whoever can answer."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.private = os.path.join(self.root, ".gputui")
        self.notices: list[str] = []
        """What was mended on the way and the user must be told."""
        self._check()

    def _check(self) -> None:
        try:
            status = os.lstat(self.private)
        except OSError:
            raise NoSession(f"there is no session in {self.root}; begin one with: gputui run FILE") from None
        if status.st_uid != os.getuid():
            raise ClientError(f"{self.root} is a session of another user")
        if status.st_mode & 0o170077 != PRIVATE_FOLDER or not self.root.isprintable():
            self._mend()

    def _mend(self) -> None:
        """Its folder is not quite as it was made, or has an odd name."""
        from gputui.session.errors import SessionError
        from gputui.session.session_dir import Paths, refuse_unwritable_name

        paths = Paths(self.root)
        try:
            refuse_unwritable_name(self.root)
            paths.check()
        except SessionError as error:
            raise ClientError(str(error)) from None
        self.notices += paths.notices

    def ask(self, request: OwnerRequest[T], *, work: bool = False) -> T:
        """Asks the owner; `work`: an engine is needed, so a keeper is started where there is no owner."""
        request_id = fresh_id()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._ask_owner(request, request_id)
            except NoOwner:
                pass
            if work:
                self._start_keeper()
            else:
                answer = self._ask_store(request, request_id)
                if answer is not None:
                    return answer[0]
            if time.monotonic() > deadline:
                raise ClientError(self._who_holds_it())
            time.sleep(0.01)

    def _ask_owner(self, request: OwnerRequest[T], request_id: str) -> T:
        try:
            connection = Connection(self.private)
            try:
                return connection.ask(request, request_id)
            finally:
                connection.close()
        except TimeoutError:
            raise ClientError(self._who_holds_it()) from None

    def _ask_store(self, request: OwnerRequest[T], request_id: str) -> list[T] | None:
        """Takes the lock, recovers and answers from the store; None: somebody else is just taking it."""
        from gputui.session.ownership.acquisition import ask_store

        return ask_store(self.root, request, request_id)

    def _start_keeper(self) -> None:
        from gputui.session.ownership.keeper import start_keeper_and_wait

        start_keeper_and_wait(self.root)

    def _who_holds_it(self) -> str:
        from gputui.session.ownership.acquisition import holder_sentence

        return holder_sentence(self.root)


# ---- Which session a verb means ----


NAMES = ("gputui_run", "hog_run")
PRIVATE = ".gputui"
JOINING = ("add", "ls", "show")
"""The verbs that join the session of the job they are called in."""


class NeedsSession(ClientError):
    """Inside a job this verb must be told which session it means."""


def chosen(verb: str, named: str | None = None) -> str:
    """The session's folder; NoSession says how to begin one."""
    if named:
        return _named(named)
    joined = os.environ.get("GPUTUI_SESSION")
    if "GPUTUI_RUN" in os.environ and verb not in JOINING:
        here = f" (this job's is {joined})" if joined else ""
        raise NeedsSession(f"inside a job, gputui {verb} acts only on the session named by --session{here}")
    if joined:
        return _named(joined)
    session = nearest(os.getcwd(), os.path.expanduser("~")) or _configured()
    if session is None:
        raise NoSession("there is no session here; begin one with: gputui run FILE, or: gputui add -- COMMAND")
    return session


def _named(folder: str) -> str:
    """The session's folder, or the folder it is in."""
    root = os.path.abspath(folder)
    return root if os.path.lexists(os.path.join(root, PRIVATE)) else (_in(root, NAMES) or root)


def nearest(start: str, home: str) -> str | None:
    """Upward to the git root. A session in the home folder is meant only by whoever stands right there."""
    folder = os.path.realpath(start)
    ends = (os.path.realpath(home), os.sep)
    session = _in(folder, NAMES)
    while session is None and folder not in ends:
        session = folder if is_session(folder) else _in(folder, NAMES)
        if os.path.lexists(os.path.join(folder, ".git")):
            break
        folder = os.path.dirname(folder)
    return session


def _in(folder: str, names: tuple[str, ...]) -> str | None:
    paths = (os.path.join(folder, name) for name in names)
    return next((path for path in paths if is_session(path)), None)


def is_session(folder: str) -> bool:
    """A session of this user; somebody else's is nobody's business."""
    me = os.getuid()
    try:
        return os.stat(folder).st_uid == me and os.lstat(os.path.join(folder, PRIVATE)).st_uid == me
    except OSError:
        return False


def _configured() -> str | None:
    """The folder that the settings give new sessions, when it is another one."""
    from gputui.session.config import load

    folder = os.path.abspath(os.path.expanduser(str(load().get("output_dir")[0])))
    return folder if is_session(folder) else None
