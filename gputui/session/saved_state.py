"""What the last owner and the last screen left for the next one."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import msgspec

from gputui.core.job import EngineName, StateName
from gputui.views.status import Word

# ---- How a session stood when its last owner left ----


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


# ---- What an owner without a user has to tell the next one who can read it ----


NOTICES = "notices"
MOST_NOTICES = 20


def leave_notices(private: str, notices: list[str]) -> None:
    """For `take_notices`; a disk without room keeps them in scheduler.log only, if at all."""
    if not notices:
        return
    path = os.path.join(private, NOTICES)
    with suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write("".join(json.dumps(notice) + "\n" for notice in notices))


def take_notices(private: str) -> list[str]:
    """What was left to be told, once: whoever takes it tells the user."""
    path, own = os.path.join(private, NOTICES), os.path.join(private, f"{NOTICES}.{os.getpid()}")
    notices: list[str] = []
    with suppress(OSError):
        os.rename(path, own)
        with open(own, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 16).splitlines()
        os.unlink(own)
        for line in lines[-MOST_NOTICES:]:
            with suppress(ValueError):
                notices.append(str(json.loads(line)))
    return list(dict.fromkeys(notices))


# ---- What the screen keeps of a session beside its queue, for whoever opens it next ----


LOOKED, ORDER = "looked", "order"
LONGEST = 400


def screen_seen_at(private: str) -> float | None:
    """When the user last looked; None: nobody has, or it cannot be read."""
    with suppress(ValueError):
        return float(_read(private, LOOKED))
    return None


def note_screen_seen(private: str, at: float) -> None:
    _write(private, LOOKED, f"{at:.0f}")


def kept_order(private: str) -> tuple[str, bool] | None:
    """By which column the queue was sorted, and whether the other way round; None: as it is."""
    direction, _, column = _read(private, ORDER).partition(" ")
    return (column, direction == "down") if column and direction in ("up", "down") else None


def keep_order(private: str, column: str, *, reverse: bool) -> None:
    if column.isprintable() and len(column) < LONGEST // 4:
        _write(private, ORDER, f"{'down' if reverse else 'up'} {column}")


def _read(private: str, name: str) -> str:
    with suppress(OSError, ValueError), open(os.path.join(private, name), encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST)
    return ""


def _write(private: str, name: str, text: str) -> None:
    path = os.path.join(private, name)
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(f"{path}.part", flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.part", path)
