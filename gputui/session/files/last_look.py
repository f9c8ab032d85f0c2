"""How a session stood when its last owner left: for lists that must not open it. Its absence means that nobody knows.

An owner takes the file away when it comes, so that one that was killed leaves no old news behind.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

import msgspec

from gputui.core.job import EngineName, StateName
from gputui.core.views.standing import Word

__all__ = ["LastLook", "forget_look", "last_look", "leave_look"]


class LastLook(msgspec.Struct, frozen=True):
    word: Word
    counts: dict[StateName, int]
    engine: EngineName = EngineName.LOCAL


def leave_look(private: str, look: LastLook) -> None:
    """Whole or not at all; a disk without room is no reason not to leave."""
    own = f"{_file(private)}.{os.getpid()}"
    with suppress(OSError):
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w") as file:
            json.dump(msgspec.to_builtins(look), file)
        os.replace(own, _file(private))


def forget_look(private: str) -> None:
    with suppress(OSError):
        os.unlink(_file(private))


def last_look(private: str) -> LastLook | None:
    try:
        with open(_file(private), "rb") as file:
            return msgspec.json.decode(file.read(4096), type=LastLook)
    except (OSError, msgspec.MsgspecError):
        return None


def _file(private: str) -> str:
    return os.path.join(private, "last_look")
