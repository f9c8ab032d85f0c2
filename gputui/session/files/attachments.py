"""Files that jobs need and that must be there as long as their session is: values of tasks, arguments of calls."""

from __future__ import annotations

import os

from gputui.python.user_code.places import keepsake
from gputui.session.errors import SessionError


def keep(root: str, name: str, data: bytes) -> str:
    """Durable when it returns, and whole or not there at all; returns its path. Names are as good as contents."""
    path = keepsake(os.path.abspath(root), name)
    if os.path.exists(path):
        return path
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        _sync(os.path.dirname(path))
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
