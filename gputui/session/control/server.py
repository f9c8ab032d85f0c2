"""The control socket, which accepts requests from processes of this user, and the encoding of replies."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from gputui.session import messages
from gputui.session.event_loop import Loop, Timer
from gputui.session.owner import requests
from gputui.session.session_dir import Paths

from .connection import peer

# Encoding


Write = (
    messages.Commands | requests.Load | requests.Begin | requests.OpenSession | requests.Forget | requests.ChooseMetric
)
Read = (
    messages.Show
    | messages.PickJobs
    | messages.StatusQuestion
    | messages.Slots
    | messages.Follow
    | requests.Sources
    | requests.Reload
    | messages.Curves
    | messages.Listing
    | requests.ResultsQuestion
    | requests.SummaryQuestion
    | messages.WatchRequest
    | messages.WhyJobsWait
    | messages.JobInFull
    | messages.CurvesToDraw
    | messages.SpansToShow
    | messages.ActionsToShow
    | messages.Events
    | messages.Leave
    | messages.HandOver
)
Ask = Write | Read


class SocketRequest(messages.SentRequest, frozen=True):
    """A request as the owner decodes it, with the concrete type of `ask`."""

    ask: Ask


_encode = msgspec.json.Encoder().encode


def decode(body: bytes) -> SocketRequest:
    # A decoder made on import would cost every owner 3 ms; many get no request.
    return msgspec.json.decode(body, type=SocketRequest)


def ok(value: Any) -> bytes:
    return _encode({"v": messages.VERSION, "ok": True, "value": value})


def no(kind: str, message: str, hint: str | None = None) -> bytes:
    reply = {"v": messages.VERSION, "ok": False, "kind": kind, "message": message}
    return _encode(reply | {"hint": hint} if hint else reply)


# The socket


MAX_CONNECTIONS = 128
TIMEOUT = 60.0
"""Seconds to wait for a client to send a complete request or to read a reply."""
SWEEP_EVERY = 5.0
CHUNK = 1 << 18
BACKLOG = 1024
RETRY_AFTER = 0.1
"""Seconds to wait before the next accept() if the process has run out of file descriptors."""

Answer = Callable[[bytes, "ClientConnection"], None]


class Server:
    """The listening socket of a session. Only the holder of the session's lock creates one, so an existing socket file
    was left by a dead owner.
    """

    def __init__(self, loop: Loop, paths: Paths, answer: Answer, log: Callable[[str], None]) -> None:
        self._loop = loop
        self._answer = answer
        self._log = log
        self._paths = paths
        self._connections: set[ClientConnection] = set()
        self._socket: socket.socket | None = None
        self._retry: Timer | None = None
        self._bind()
        self._sweep()

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            with suppress(KeyError):
                self._loop.remove_reader(self._socket.fileno())
            with suppress(OSError):
                os.unlink(self._paths.socket)
            self._socket.close()
        for connection in list(self._connections):
            connection.close()

    def _bind(self) -> None:
        """Create the socket. If that fails, for example on a full disk, retry later, because jobs can run
        without it.
        """
        try:
            self._socket = _listen_at(self._paths)
        except OSError as error:
            self._log(f"cannot create the control socket, retrying: {error}")
            self._retry = self._loop.call_later(SWEEP_EVERY, self._bind)
            return
        self._listen()

    def _listen(self) -> None:
        assert self._socket is not None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def forget(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            listener, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # the client has gone
        except OSError:  # out of descriptors; the clients stay in the backlog
            self._loop.remove_reader(self._socket.fileno())
            self._retry = self._loop.call_later(RETRY_AFTER, self._listen)
            return
        listener.setblocking(False)
        if peer(listener)[1] not in (os.getuid(), 0):
            with suppress(OSError):
                listener.send(messages.frame(no("refused", "this session belongs to another user")))
            listener.close()
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close_idlest()
        self._connections.add(ClientConnection(self._loop, self, listener, self._answer))

    def _close_idlest(self) -> None:
        """Close the connection whose client has been idle longest. The client can connect again."""
        idlest = min(self._connections, key=lambda connection: connection.waiting_since)
        if idlest.waiting_since != float("inf"):
            idlest.close()

    def _sweep(self) -> None:
        late = time.monotonic() - TIMEOUT
        for connection in [client for client in self._connections if client.waiting_since < late]:
            connection.close()
        self._loop.call_later(SWEEP_EVERY, self._sweep)


class ClientConnection:
    """A connection to one client: reads a request, writes the reply, and reads the next request."""

    def __init__(self, loop: Loop, server: Server, connection: socket.socket, answer: Answer) -> None:
        self.socket = connection
        self.waiting_since = time.monotonic()
        """Monotonic time when the server began to wait for the client. It is infinite while the client waits for the
        server.
        """
        self._loop = loop
        self._server = server
        self._answer = answer
        self._incoming = bytearray()
        self._outgoing = memoryview(b"")
        self._closed = False
        self._close_after_reply = False
        loop.add_reader(connection.fileno(), self._read)

    def reply(self, body: bytes) -> None:
        """Send the reply. Call this exactly once for each request."""
        if self._closed:
            return
        if self._outgoing:
            raise RuntimeError("request answered twice")
        self._outgoing = memoryview(messages.frame(body))
        self.waiting_since = time.monotonic()
        self._loop.add_writer(self.socket.fileno(), self._write)

    def release(self) -> socket.socket:
        """Hand the socket over to the caller, which replies on it with a file descriptor. This connection no longer
        uses it.
        """
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
        self._dispatch()

    def _dispatch(self) -> None:
        """Answer the next request if it has arrived completely. Nothing more is read until it is answered."""
        if len(self._incoming) < messages.HEADER.size:
            return
        (length,) = messages.HEADER.unpack_from(self._incoming)
        end = messages.HEADER.size + length
        if length > messages.LARGEST_FRAME:
            self._loop.remove_reader(self.socket.fileno())
            self._close_after_reply = True
            self.reply(no("bad_request", "invalid or oversized request"))
        elif len(self._incoming) >= end:
            body = bytes(self._incoming[messages.HEADER.size : end])
            del self._incoming[:end]
            self._loop.remove_reader(self.socket.fileno())
            self.waiting_since = float("inf")
            if self._has_gone():
                self.close()
            else:
                self._answer(body, self)

    def _has_gone(self) -> bool:
        """Return whether the client gave up before its request was read. Such a request must not be carried out."""
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
        if not self._outgoing and self._close_after_reply:
            self.close()
        elif not self._outgoing:
            self._loop.remove_writer(self.socket.fileno())
            self._loop.add_reader(self.socket.fileno(), self._read)
            self.waiting_since = time.monotonic()
            self._dispatch()


def _listen_at(paths: Paths) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(paths.private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(paths.socket)
        # sun_path holds 107 bytes; through the directory's descriptor any path fits
        listener.bind(f"/proc/self/fd/{directory}/{os.path.basename(paths.socket)}")
    finally:
        os.close(directory)
    os.chmod(paths.socket, 0o600)
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return listener
