"""A client's connection to the owner of a session. Every client loads this module, so it imports little."""

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
    frame,
    reply_type,
)

A = TypeVar("A")
T = TypeVar("T")

PATIENCE = 30.0
"""Seconds to wait for a reply. Durable writes on a slow disk can take a while."""
ANOTHER_VERSION = "; another version? Stop it with: gputui stop"
STOPPED_AFTER = 2.0
"""Seconds of silence before the client checks whether the owner is stopped by SIGSTOP."""


class ClientError(Exception):
    """Raised when a request fails. The message is shown to the user."""


class RequestRefused(ClientError):
    """Raised when the owner refuses the request, or when the session is not safe to use.

    `hint`: a gputui command that may help, for JSON.
    """

    hint: str | None = None


class NotDurable(RequestRefused):
    """Raised when the owner cannot write the queue now. The request can be repeated later."""


class OwnerStopped(ClientError):
    """Raised when the owner is stopped by SIGSTOP. It answers once it is continued."""


class NoSession(ClientError):
    """Raised when there is no session in the directory."""


class NoOwner(Exception):
    """Raised when no process listens on the socket."""


def fresh_id() -> str:
    """Return a random id. Does not use the uuid module, which is slow to import."""
    return os.urandom(16).hex()


class Connection:
    """A connection that carries any number of requests, one after the other."""

    def __init__(self, private: str) -> None:
        self._socket = connect(private)
        self._socket.settimeout(STOPPED_AFTER)

    def ask(self, request: OwnerRequest[T], request_id: str | None = None) -> T:
        """Send the request and return the reply. A request that is repeated with the same `request_id` is not carried
        out again.
        """
        body = encode_request(request, request_id or fresh_id())
        if len(body) > LARGEST_FRAME:
            raise ClientError("request too large; add the jobs in smaller batches")
        try:
            unsent = memoryview(frame(body))
            while unsent:
                unsent = unsent[self._patiently(self._socket.send, unsent) :]
            (length,) = HEADER.unpack(self._receive(HEADER.size))
            return decode_reply(self._receive(length), request)
        except ConnectionError as error:
            raise NoOwner from error

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._patiently(self._socket.recv, min(size - len(received), 1 << 20))
            if not chunk:
                raise ConnectionResetError
            received += chunk
        return bytes(received)

    def _patiently(self, step: Callable[[A], T], argument: A) -> T:
        """Call `step`, and repeat it after timeouts until PATIENCE seconds are over. Raise OwnerStopped if the owner is
        stopped.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return step(argument)
            except TimeoutError:
                owner = peer(self._socket)[0]
                if is_stopped(owner):
                    raise OwnerStopped(describe_stopped(owner)) from None
                if time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        self._socket.close()


def ask_owner(private: str, request: OwnerRequest[T]) -> T | None:
    """Ask the owner of the session with this private directory. Return None if there is no owner or it does not
    answer.
    """
    try:
        connection = Connection(private)
        try:
            return connection.ask(request)
        finally:
            connection.close()
    except (NoOwner, ClientError, OSError):
        return None


def connect(private: str) -> socket.socket:
    """Connect to the owner of the session with this private directory."""
    directory = os.open(private, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(directory).st_uid != os.getuid():
            raise ClientError(f"{private} belongs to another user")
        # sun_path holds 107 bytes; through the directory's descriptor any path fits
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(PATIENCE)
        _connect(connection, f"/proc/self/fd/{directory}/control.sock")
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError) as error:
        connection.close()
        raise NoOwner from error
    finally:
        os.close(directory)
    return connection


def _connect(connection: socket.socket, address: str) -> None:
    """Connect, retrying while the backlog is full, because the kernel does not wait for Unix sockets that have a
    timeout.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(address)
        except BlockingIOError:
            if time.monotonic() > deadline:
                connection.close()
                raise TimeoutError from None
            time.sleep(0.01)


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """Return the pid, uid and gid of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)


def is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False


def describe_stopped(pid: int) -> str:
    return f"scheduler pid {pid} is stopped: kill -CONT {pid}"


def encode_request(request: OwnerRequest[T], request_id: str) -> bytes:
    try:
        return msgspec.json.encode(SentRequest(VERSION, request_id, request))
    except UnicodeEncodeError as error:
        raise ClientError(f"{error.object.encode('utf-8', 'surrogateescape')!r} is not UTF-8") from None


def decode_reply(body: bytes, request: OwnerRequest[T]) -> T:
    """Decode a reply. Raise ClientError if the reply is an error or invalid."""
    try:
        reply = msgspec.json.decode(body, type=ReceivedReply)
        if reply.ok:
            return msgspec.json.decode(reply.value, type=reply_type(request))
    except msgspec.MsgspecError as error:
        raise ClientError(f"invalid reply from the scheduler: {error}{ANOTHER_VERSION}") from None
    kinds = {"refused": RequestRefused, "not_durable": NotDurable}
    another_version = ANOTHER_VERSION if reply.kind == "bad_request" else ""
    failure = kinds.get(reply.kind, ClientError)(reply.message + another_version)
    if isinstance(failure, RequestRefused):
        failure.hint = reply.hint
    raise failure
