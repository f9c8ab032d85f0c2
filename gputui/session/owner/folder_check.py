"""Whether the session's folder is still at its place: an owner whose folder is gone starts nothing more, and leaves."""

from __future__ import annotations

from gputui.session.files.ground import Ground
from gputui.session.journal import Journal

from .loop import Loop

LOOK_AROUND = 2.0
"""Seconds between looks when there is nothing to start."""
OUSTED = (
    "the session's folder {root} was moved, removed or replaced, so nothing more is started from here; jobs that run "
    "go on. If it was moved, go on there: gputui --session DIR"
)


class FolderCheck:
    def __init__(self, root: str, ground: Ground, journal: Journal, loop: Loop) -> None:
        self.ousted: str | None = None
        """The sentence for the user when the folder is not at its place any more."""
        self._root = root
        self._ground = ground
        self._journal = journal
        self._loop = loop

    def stands(self) -> bool:
        """False: the folder is gone from its place; after this turn so is the owner."""
        if self.ousted is None and not self._ground.is_there():
            self.ousted = OUSTED.format(root=self._root)
            self._journal.write(self.ousted)
            self._loop.call_soon(self._loop.stop)
        return self.ousted is None

    def look_around(self) -> None:
        """Now, and again and again."""
        if self.stands():
            self._loop.call_later(LOOK_AROUND, self.look_around)
