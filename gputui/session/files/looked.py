"""What the screen keeps of a session beside its queue, for whoever opens it next: small files; nothing ever raises."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["keep_order", "kept_order", "last_look", "note_look"]

LOOKED, ORDER = "looked", "order"
LONGEST = 400


def last_look(private: str) -> float | None:
    """When the user last looked; None: nobody has, or it cannot be read."""
    with suppress(ValueError):
        return float(_read(private, LOOKED))
    return None


def note_look(private: str, at: float) -> None:
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
