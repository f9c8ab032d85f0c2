"""The control socket: framed requests from this user's own processes, and their encoding."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from gputui.session.event_loop import Loop, Timer
from gputui.session.messages import (
    HEADER,
    LARGEST_FRAME,
    VERSION,
    Commands,
    Curves,
    CurvesToDraw,
    Follow,
    HandOver,
    JobInFull,
    Lanes,
    Leave,
    Listing,
    PickJobs,
    SentRequest,
    Show,
    SpansToShow,
    StatusQuestion,
    WatchRequest,
    WhyJobsWait,
    framed,
)
from gputui.session.owner.requests import Begin, ChooseMetric, Forget, Load, OpenSession, Reload, Sources
from gputui.session.result_requests import ResultsQuestion, SummaryQuestion
from gputui.session.session_dir import Paths

# ---- What an owner takes in from its control socket, and what it writes there ----


Write = Commands | Load | Begin | OpenSession | Forget | ChooseMetric
Read = Listing | Show | PickJobs | StatusQuestion | Lanes | Follow | Sources | Reload | Curves
Ask = (
    Commands
    | Load
    | Begin
    | OpenSession
    | Forget
    | ChooseMetric
    | Listing
    | Show
    | PickJobs
    | StatusQuestion
    | Lanes
    | Follow
    | Sources
    | Reload
    | Curves
    | ResultsQuestion
    | SummaryQuestion
    | WatchRequest
    | WhyJobsWait
    | JobInFull
    | CurvesToDraw
    | SpansToShow
    | Leave
    | HandOver
)


class SocketRequest(SentRequest, frozen=True):
    """One as it is taken in."""

    ask: Ask


_decode = msgspec.json.Decoder(SocketRequest).decode
_encode = msgspec.json.Encoder().encode


def decode(body: bytes) -> SocketRequest:
    """Raises msgspec.MsgspecError."""
    return _decode(body)


def ok(value: Any) -> bytes:
    return _encode({"v": VERSION, "ok": True, "value": value})


def no(kind: str, message: str) -> bytes:
    return _encode({"v": VERSION, "ok": False, "kind": kind, "message": message})


# ---- The control socket ----


MOST_CONNECTIONS = 128
SLOWEST = 60.0
"""Seconds for a request to arrive whole, or for a reply to be read."""
SWEEP_EVERY = 5.0
CHUNK = 1 << 18
BACKLOG = 1024
REST = 0.1
"""Seconds until we look again after the machine had no descriptor or no room for a socket."""

Answer = Callable[[bytes, "ClientConnection"], None]


class Server:
    """Bound only by the holder of the session's lock, so a socket file that is there is a dead owner's."""

    def __init__(self, loop: Loop, paths: Paths, answer: Answer, tell: Callable[[str], None]) -> None:
        self._loop = loop
        self._answer = answer
        self._tell = tell
        self._paths = paths
        self._connections: set[ClientConnection] = set()
        self._socket: socket.socket | None = None
        self._resting: Timer | None = None
        self._bind()
        self._sweep()

    def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        if self._socket is not None:
            with suppress(KeyError):
                self._loop.remove_reader(self._socket.fileno())
            with suppress(OSError):
                os.unlink(self._paths.socket)
            self._socket.close()
        for connection in list(self._connections):
            connection.close()

    def _bind(self) -> None:
        """A disk without room for a socket keeps nobody from scheduling."""
        try:
            self._socket = _bound(self._paths)
        except OSError as error:
            self._tell(f"no control socket yet: {error}")
            self._resting = self._loop.call_later(SWEEP_EVERY, self._bind)
            return
        self._listen()

    def _listen(self) -> None:
        assert self._socket is not None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _rest(self) -> None:
        assert self._socket is not None
        self._loop.remove_reader(self._socket.fileno())
        self._resting = self._loop.call_later(REST, self._listen)

    def forget(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            listener, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # it went away
        except OSError:
            self._rest()  # there are no descriptors now; those who wait are still there later
            return
        listener.setblocking(False)
        if _peer_uid(listener) not in (os.getuid(), 0):
            with suppress(OSError):
                listener.send(framed(no("refused", "this session is another user's")))
            listener.close()
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            self._put_out_the_idlest()
        self._connections.add(ClientConnection(self._loop, self, listener, self._answer))

    def _put_out_the_idlest(self) -> None:
        """Whoever has owed us a request for longest; a client that meant to send one connects again."""
        idlest = min(self._connections, key=lambda each: each.waiting_since)
        if idlest.waiting_since != float("inf"):
            idlest.close()

    def _sweep(self) -> None:
        late = time.monotonic() - SLOWEST
        for connection in [each for each in self._connections if each.waiting_since < late]:
            connection.close()
        self._loop.call_later(SWEEP_EVERY, self._sweep)


class ClientConnection:
    """One client: reads a request, hands it on, writes the reply, and reads the next."""

    def __init__(self, loop: Loop, server: Server, connection: socket.socket, take: Answer) -> None:
        self.socket = connection
        self.waiting_since = time.monotonic()
        """Since when the client has owed us something; infinity while we owe the answer."""
        self._loop = loop
        self._server = server
        self._take = take
        self._incoming = bytearray()
        self._outgoing = memoryview(b"")
        self._closed = False
        self._parting = False
        loop.add_reader(connection.fileno(), self._read)

    def reply(self, body: bytes) -> None:
        """Once for each request."""
        if self._closed:
            return
        if self._outgoing:
            raise RuntimeError("a request was answered twice")
        self._outgoing = memoryview(framed(body))
        self.waiting_since = time.monotonic()
        self._loop.add_writer(self.socket.fileno(), self._write)

    def release(self) -> socket.socket:
        """Gives the socket away, for a reply that carries a descriptor; while we owe one, no loop watches it."""
        self._closed = True
        self._server.forget(self)
        return self.socket

    def close(self) -> None:
        if self._closed:
            return
        with suppress(KeyError):
            self._loop.remove_reader(self.socket.fileno())
        self._closed = True
        self._server.forget(self)
        self.socket.close()

    def _read(self) -> None:
        try:
            chunk = self.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        if not self._incoming:
            self.waiting_since = time.monotonic()
        self._incoming += chunk
        self._hand_on()

    def _hand_on(self) -> None:
        """One request at a time: while it is answered nothing more is read."""
        if len(self._incoming) < HEADER.size:
            return
        (length,) = HEADER.unpack_from(self._incoming)
        end = HEADER.size + length
        if length > LARGEST_FRAME:
            self._loop.remove_reader(self.socket.fileno())
            self._parting = True
            self.reply(no("bad_request", "that is no request, or one that is too large"))
        elif len(self._incoming) >= end:
            body = bytes(self._incoming[HEADER.size : end])
            del self._incoming[:end]
            self._loop.remove_reader(self.socket.fileno())
            self.waiting_since = float("inf")
            if self._has_left():
                self.close()
            else:
                self._take(body, self)

    def _has_left(self) -> bool:
        """Whoever gave up before we could read it was told that nothing came of it, so nothing may."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _write(self) -> None:
        try:
            sent = self.socket.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing and self._parting:
            self.close()
        elif not self._outgoing:
            self._loop.remove_writer(self.socket.fileno())
            self._loop.add_reader(self.socket.fileno(), self._read)
            self.waiting_since = time.monotonic()
            self._hand_on()


def _bound(paths: Paths) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(paths.private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(paths.socket)
        # sun_path holds 107 bytes; through the folder's descriptor any path fits
        listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(paths.socket)}")
    finally:
        os.close(folder)
    os.chmod(paths.socket, 0o600)
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return listener


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
