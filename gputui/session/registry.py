"""The list of this user's sessions on all machines that share the home directory."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PRIVATE = ".gputui"
TRIES = 50
Place = tuple[str, str]
"""A host and the path of a session directory on it."""


def remember(root: str) -> None:
    """Add a session to the list. Never raises, because the list is only a convenience."""
    place = (os.uname().nodename, os.path.abspath(root))
    with suppress(OSError), _locked() as fd:
        places = _read(fd)
        if place not in places:
            _write(fd, [*places, place])


def remembered() -> list[Place]:
    """Return the sessions on the list. Sessions of this machine that no longer exist are removed from it."""
    try:
        with open(path(), "rb") as file:
            places = _read(file.fileno())
    except OSError:
        return []
    remaining = [place for place in places if not _vanished(place)]
    if remaining != places:
        with suppress(OSError), _locked() as fd:
            _write(fd, [place for place in _read(fd) if not _vanished(place)])
    return remaining


def known_here() -> list[str]:
    """Return the paths of the sessions on this machine."""
    return [root for host, root in remembered() if host == os.uname().nodename]


def _vanished(place: Place) -> bool:
    host, root = place
    return host == os.uname().nodename and not os.path.isdir(os.path.join(root, PRIVATE))


def path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "gputui", "sessions")


@contextmanager
def _locked() -> Iterator[int]:
    os.makedirs(os.path.dirname(path()), mode=0o700, exist_ok=True)
    fd = os.open(path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
        else:
            raise TimeoutError  # a process that holds the lock for so long must be hanging
        yield fd
    finally:
        os.close(fd)


def _read(fd: int) -> list[Place]:
    text = os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")
    places: dict[Place, None] = {}
    for line in text.splitlines():
        try:
            host, root = json.loads(line)
        except (ValueError, TypeError):
            continue  # half a line: the disk was full
        places[str(host), str(root)] = None
    return list(places)


def _write(fd: int, places: list[Place]) -> None:
    data = "".join(json.dumps(place) + "\n" for place in places).encode()
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
