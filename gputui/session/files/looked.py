"""When the user last looked at a session: a file beside the queue, for whoever opens it next. Never raises."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["last_look", "note_look"]

NAME = "looked"


def last_look(private: str) -> float | None:
    """None: nobody has, or it cannot be read."""
    with suppress(OSError, ValueError), open(os.path.join(private, NAME), encoding="ascii", errors="replace") as file:
        return float(file.read(40))
    return None


def note_look(private: str, at: float) -> None:
    path = os.path.join(private, NAME)
    with suppress(OSError):
        descriptor = os.open(
            f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{at:.0f}")
        os.replace(f"{path}.part", path)
