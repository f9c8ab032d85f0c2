"""When the summary shows itself: at the end of the last job, and when the user comes back after a while.

It never takes away what is being read or typed: then it is only offered, in one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import duration_words
from gputui.core.views.standing import Word, standing
from gputui.session.files.looked import last_look, note_look
from gputui.tui.model.arrangement import Pane

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

AWAY = 3600.0
"""Seconds after which somebody has been away."""
STILL = 10.0
"""Seconds without a key after which nobody is in the middle of something."""
NOTE_EVERY = 30.0


class SummaryOccasion:
    """Looks once a second."""

    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._root: str | None = None
        self._left: float | None = None
        """When the user last looked, before this time."""
        self._was_silent = 0.0
        self._ran = False
        """Something ran since the summary was last shown by itself."""
        self._noted = 0.0

    @property
    def left(self) -> float | None:
        return self._left

    def look(self) -> None:
        main = self._main
        if main.bridge.owner is None or main.bridge.root is None:
            return
        now, silent = main.now(), float(main.bridge.presence().get("silent_for", 0.0))
        private = main.bridge.owner.paths.private
        if main.bridge.root != self._root:
            self._root = main.bridge.root
            self._come_back(last_look(private), now, main.bridge.snapshot, at_start=True)
        elif self._was_silent > AWAY > silent:
            self._come_back(now - self._was_silent, now, main.bridge.snapshot, at_start=False)
        self._was_silent = silent
        self._end(main.bridge.snapshot, silent)
        if silent < NOTE_EVERY and not main.read_only and now - self._noted > NOTE_EVERY:
            self._noted = now
            note_look(private, now)

    def _come_back(self, looked: float | None, now: float, snapshot: Snapshot, *, at_start: bool) -> None:
        if looked is None or now - looked < AWAY or not _ended_since(snapshot, looked):
            return
        self._left = looked
        if at_start and self._nothing_else_is_open():
            self.open()
        else:
            self._main.say(
                f"while you were away, {duration_words(now - looked)}, jobs ended: = shows what came of them"
            )

    def _end(self, snapshot: Snapshot, silent: float) -> None:
        if snapshot.active:
            self._ran = True
        elif self._ran and standing(snapshot).word is Word.DONE and len(snapshot.jobs) > 1:
            self._ran = False
            if self._nothing_else_is_open() and self._main.pane is Pane.QUEUE and silent > STILL:
                self.open()
            else:
                self._main.say("all jobs have ended: = shows what came of them")

    def _nothing_else_is_open(self) -> bool:
        main = self._main
        return main.app.screen is main and not main.views and not main.filter_bar.display

    def open(self) -> None:
        from .view import SummaryView

        self._main.open_view(SummaryView(self._main, self._left))


def _ended_since(snapshot: Snapshot, at: float) -> bool:
    return any(job.attempts and job.attempts[-1].ended > at for job in snapshot.jobs)
