"""A connection to a session's owner over its socket."""

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

A = TypeVar("A")
T = TypeVar("T")

PEER = struct.Struct("3i")
PATIENCE = 30.0
"""Seconds for an answer; durable work on a slow disk takes a while."""
ANOTHER_VERSION = "; it may be of another version: stop it and start it again"
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
