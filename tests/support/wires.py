"""Talking to an owner's control socket byte by byte, as no client of ours would."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gputui.session.messages import HEADER, VERSION


@contextmanager
def wire(private: Path, patience: float = 30.0) -> Iterator[socket.socket]:
    """A bare connection."""
    folder = os.open(private, os.O_RDONLY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(patience)
        made.connect(f"/proc/self/fd/{folder}/control.sock")
        yield made
    finally:
        made.close()
        os.close(folder)


def request(ask: Any, uuid: str = "0", version: int = VERSION) -> bytes:
    return framed(json.dumps({"v": version, "uuid": uuid, "ask": ask}).encode())


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


def reply(made: socket.socket) -> dict[str, Any]:
    (length,) = HEADER.unpack(exactly(made, HEADER.size))
    answer: dict[str, Any] = json.loads(exactly(made, length))
    return answer


def exactly(made: socket.socket, size: int) -> bytes:
    """EOFError: it was put out."""
    received = b""
    while len(received) < size:
        chunk = made.recv(size - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return received


def answered(private: Path, sent: bytes) -> dict[str, Any]:
    """The reply to these very bytes."""
    with wire(private) as made:
        made.sendall(sent)
        return reply(made)
