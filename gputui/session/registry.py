"""This user's sessions on all machines that share the home: one line each, in a file that any of them may write."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable

PRIVATE = ".gputui"
TRIES = 50
Place = tuple[str, str]
"""A host and the session's folder there."""


def remember(root: str) -> None:
    """Called when a session is begun. Never fails: a list that cannot be kept is no reason not to work."""
    place = (os.uname().nodename, os.path.abspath(root))
    try:
        with _opened() as fd:
            if place not in _places(fd):
                _replace(fd, [*_places(fd), place])
    except OSError:
        pass


def remembered() -> list[Place]:
    """Those of other machines as they were written; those of this one without the ones that are gone."""
    try:
        with _opened() as fd:
            places = _places(fd)
            remaining = [place for place in places if not _vanished(place)]
            if remaining != places:
                _replace(fd, remaining)
            return remaining
    except OSError:
        return []


def known_here() -> list[str]:
    """Those of this machine, by a look that changes nothing."""
    try:
        fd = os.open(path(), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return [root for host, root in _places(fd) if host == os.uname().nodename and not _vanished((host, root))]
    finally:
        os.close(fd)


def _vanished(place: Place) -> bool:
    host, root = place
    return host == os.uname().nodename and not os.path.isdir(os.path.join(root, PRIVATE))


def path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "gputui", "sessions")


class _opened:
    """The list's descriptor, locked against other writers."""

    def __enter__(self) -> int:
        os.makedirs(os.path.dirname(path()), mode=0o700, exist_ok=True)
        self._fd = os.open(path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self._fd)
        except OSError:
            os.close(self._fd)
            raise
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _lock(fd: int) -> None:
    """Somebody who holds it for long is in trouble, and we shall not join them."""
    for _ in range(TRIES):
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
    raise TimeoutError


def _places(fd: int) -> list[Place]:
    text = os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")
    places: dict[Place, None] = {}
    for line in text.splitlines():
        try:
            host, root = json.loads(line)
        except (ValueError, TypeError):
            continue  # half a line: the disk was full
        places[str(host), str(root)] = None
    return list(places)


def _replace(fd: int, places: Iterable[Place]) -> None:
    data = "".join(json.dumps(place) + "\n" for place in places).encode()
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
