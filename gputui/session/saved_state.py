"""Small files in the private directory in which the last owner and the last TUI leave information for the next one."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import msgspec

from gputui.core.job import EngineName, StateName
from gputui.process.directories import atomic_write
from gputui.views.status import StatusWord

EXIT_STATUS, NOTICES, SEEN, ORDER = "last_look", "notices", "looked", "order"
MAX_NOTICES = 20
MAX_TEXT = 400


class ExitStatus(msgspec.Struct, frozen=True):
    """The status of a session when its last owner left."""

    word: StatusWord
    counts: dict[StateName, int]
    engine: EngineName = EngineName.LOCAL


def save_exit_status(private: str, status: ExitStatus) -> None:
    with suppress(OSError):
        atomic_write(os.path.join(private, EXIT_STATUS), msgspec.json.encode(status))


def remove_exit_status(private: str) -> None:
    with suppress(OSError):
        os.unlink(os.path.join(private, EXIT_STATUS))


def load_exit_status(private: str) -> ExitStatus | None:
    with suppress(OSError, msgspec.MsgspecError), open(os.path.join(private, EXIT_STATUS), "rb") as file:
        return msgspec.json.decode(file.read(4096), type=ExitStatus)
    return None


def leave_notices(private: str, notices: list[str]) -> None:
    """Save messages of an owner in the background for the next client."""
    if not notices:
        return
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(private, NOTICES), flags, 0o600)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write("".join(json.dumps(notice) + "\n" for notice in notices))


def take_notices(private: str) -> list[str]:
    """Return and delete the saved messages."""
    path, own = os.path.join(private, NOTICES), os.path.join(private, f"{NOTICES}.{os.getpid()}")
    notices: list[str] = []
    with suppress(OSError):
        os.rename(path, own)
        with open(own, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 16).splitlines()
        os.unlink(own)
        for line in lines[-MAX_NOTICES:]:
            with suppress(ValueError):
                notices.append(str(json.loads(line)))
    return list(dict.fromkeys(notices))


def tui_seen_at(private: str) -> float | None:
    """Return when the user last looked at the TUI, or None if unknown."""
    with suppress(ValueError):
        return float(_read(private, SEEN))
    return None


def save_tui_seen(private: str, at: float) -> None:
    _write(private, SEEN, f"{at:.0f}")


def load_order(private: str) -> tuple[str, bool] | None:
    """Return the column by which the queue was last sorted and whether the order was reversed, or None if unknown."""
    direction, _, column = _read(private, ORDER).partition(" ")
    return (column, direction == "down") if column and direction in ("up", "down") else None


def save_order(private: str, column: str, *, reverse: bool) -> None:
    if column.isprintable() and len(column) < MAX_TEXT // 4:
        _write(private, ORDER, f"{'down' if reverse else 'up'} {column}")


def _read(private: str, name: str) -> str:
    with suppress(OSError, ValueError), open(os.path.join(private, name), encoding="utf-8", errors="replace") as file:
        return file.read(MAX_TEXT)
    return ""


def _write(private: str, name: str, text: str) -> None:
    with suppress(OSError):
        atomic_write(os.path.join(private, name), text.encode())
