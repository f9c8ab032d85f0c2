"""Gives every pane its place, anew when the terminal, the banner, the number of devices or the user's wish changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.tui.model.arrangement import Arrangement, Dragged, Pane, arrange
from gputui.tui.remembered import read_habits, write_habits
from gputui.tui.widgets.gpus.drawings import rows_wanted

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

COLUMN_STEP, ROW_STEP = 4, 1
"""By how much a key moves the border between queue and log."""


class Arranger:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self.lines = 2
        """The line at the top and the line at the bottom; whoever adds one counts it here."""
        self.focus = Pane.QUEUE
        self.zoomed: Pane | None = None
        self.habits = read_habits()
        self._made: Arrangement | None = None
        self._top = self._banner = 0
        """Lines above the queue, besides the one at the top; and those of the banner."""

    @property
    def side_by_side(self) -> bool:
        return self._made is not None and self._made.side_by_side

    def begin(self) -> None:
        """As it was left the last time."""
        if self.habits.wrap is not None:
            self._main.log_pane.wrap(self.habits.wrap)
        self.arrange()

    def arrange(self) -> None:
        main = self._main
        height = main.size.height - self.lines - main.banner.lines
        arrangement = arrange(
            main.size.width,
            height,
            self._gpu_rows(),
            self.focus,
            self.zoomed,
            gpus_only=not main.bridge.has_session,
            queue_needs=main.table.columns_needed(),
            dragged=Dragged(self.habits.queue_rows, self.habits.queue_columns),
        )
        top = main.banner.lines + arrangement.gpus
        if arrangement != self._made:
            if self._made is not None and arrangement.queue and self._made.queue and main.banner.lines != self._banner:
                main.table.moved_down(top - self._top)
            self._made = arrangement
            self._apply(arrangement)
        self._top, self._banner = top, main.banner.lines

    def focus_on(self, pane: Pane) -> None:
        """The keys go there now."""
        main = self._main
        self.focus = pane
        self.arrange()
        for band, own in ((main.gpu_band, Pane.GPUS), (main.queue_band, Pane.QUEUE), (main.log_band, Pane.LOG)):
            band.focus_on(own is pane)

    def drag(self, *, columns: int = 0, rows: int = 0) -> None:
        """Moves the border between queue and log, as far as both have room."""
        before, habits = self._made, self.habits
        self.habits = replace(
            habits, queue_columns=habits.queue_columns + columns, queue_rows=habits.queue_rows + rows
        )  # fmt: skip
        self.arrange()
        if self._made == before:
            self.habits = habits
        else:
            write_habits(self.habits)

    def step(self, direction: int) -> None:
        """By a key: the queue gets more, or the log."""
        if self.side_by_side:
            self.drag(columns=COLUMN_STEP * direction)
        else:
            self.drag(rows=ROW_STEP * direction)

    def keep_wrap(self, wrap: bool) -> None:
        self.habits = replace(self.habits, wrap=wrap)
        write_habits(self.habits)

    def _gpu_rows(self) -> int:
        size = self._main.size
        return rows_wanted(self._main.bridge.picture, size.width, size.height, unfolded=self.focus is Pane.GPUS)

    def _apply(self, arrangement: Arrangement) -> None:
        main = self._main
        frames = (
            (main.gpu_frame, arrangement.gpus),
            (main.queue_frame, arrangement.queue),
            (main.log_frame, arrangement.log),
        )
        for widget, height in frames:
            widget.display = height > 0
            widget.styles.height = height
        main.work.display = bool(arrangement.queue or arrangement.log)
        main.divider.display = arrangement.side_by_side
        main.work.styles.layout = "horizontal" if arrangement.side_by_side else "vertical"
        main.queue_frame.styles.width = arrangement.queue_width if arrangement.side_by_side else "100%"
        main.log_frame.styles.width = "1fr" if arrangement.side_by_side else "100%"
