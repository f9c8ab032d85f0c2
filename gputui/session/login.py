"""What of a user's environment belongs to the work, and what to the login or to an outer job."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LOGIN = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_ID", "STY", "WINDOW")
_LOGIN_PREFIXES = ("SSH_", "TMUX")
_JOB_VARIABLES = frozenset(
    "GPUTUI_" + word
    for word in ("SESSION", "JOB_ID", "JOB_NAME", "ATTEMPT", "JOB_DIR", "CHECKPOINT_DIR", "RUN")
)  # fmt: skip


def captured(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What of an environment belongs to the work and not to the login or to an outer job."""
    return {
        _storable(name): _storable(value)
        for name, value in environment.items()
        if name not in _LOGIN and name not in _JOB_VARIABLES and not name.startswith(_LOGIN_PREFIXES)
    }


def _storable(text: str) -> str:
    """Bytes that are no UTF-8 cannot be kept in the store; they are replaced, not refused."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
