"""Rows of the queue that are folded into one line, so that results are in sight. Pure arithmetic on rows and places."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_FOLD", "Fold", "folded"]

LEAST_SHOWN, MOST_SHOWN = 3, 8
"""Waiting jobs that are shown in any case, by the height of the pane; more of them where rows are left over."""
OF_ROOM = 4
WORTH = 2
"""Fewer rows than this are not folded: the line that tells of them is one itself."""


@dataclass(frozen=True)
class Fold:
    """Places are those of the order, rows those of the screen; the fold's own line is a row without a place."""

    at: int = -1
    """The row of its line; -1: nothing is folded."""
    hidden: int = 0

    def rows(self, places: int) -> int:
        return places - self.hidden + 1 if self.hidden else places

    def place(self, row: int) -> int | None:
        """None: the fold's own line."""
        if not self.hidden or row < self.at:
            return row
        return None if row == self.at else row - 1 + self.hidden

    def row(self, place: int) -> int | None:
        """None: it is folded."""
        if not self.hidden or place < self.at:
            return place
        return None if place < self.at + self.hidden else place + 1 - self.hidden


NO_FOLD = Fold()


def folded(active: int, waiting: int, ended: int, room: int, cursor: int | None = None) -> Fold:
    """`cursor`: the place of the row under the cursor, which stays in sight whatever is folded around it."""
    spare = room - active - ended - 1
    shown = max(LEAST_SHOWN, min(MOST_SHOWN, room // OF_ROOM), spare)
    if not ended or active + waiting + ended <= room or waiting - shown < WORTH:
        return NO_FOLD
    if cursor is not None and active + shown <= cursor < active + waiting:
        return NO_FOLD
    return Fold(active + shown, waiting - shown)
