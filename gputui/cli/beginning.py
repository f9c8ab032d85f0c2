"""Beginning a session from a verb. Loads the session's code, so only when needed."""

from __future__ import annotations

from gputui.session.config import load
from gputui.session.ownership import creation as beginning


def begin(root: str) -> list[str]:
    """Makes the session and gives it lanes; what the user must be told."""
    return beginning.begin(root, load())
