"""Gives every pane its place, anew when the terminal, the focus, the banner or the number of devices changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.tui.model.arrangement import FRAME, Arrangement, Pane, arrange
from gputui.tui.widgets.gpus.drawings import rows_wanted

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen


class Arranger:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self.lines = 2
        """The line at the top and the line at the bottom; whoever adds one counts it here."""
        self.focus = Pane.QUEUE
        self.zoomed: Pane | None = None
        self._made: Arrangement | None = None

    def arrange(self) -> None:
        main = self._main
        height = main.size.height - self.lines - main.banner.lines
        made = arrange(main.size.width, height, self._gpu_rows(), self.focus, self.zoomed,
                       gpus_only=not main.bridge.has_session)  # fmt: skip
        if made != self._made:
            self._made = made
            self._apply(made)

    def _gpu_rows(self) -> int:
        size = self._main.size
        return rows_wanted(self._main.bridge.picture, size.width - FRAME, size.height, unfolded=self.focus is Pane.GPUS)

    def _apply(self, made: Arrangement) -> None:
        main = self._main
        work, queue = main.work, main.queue_frame
        for widget, height in ((main.gpus, made.gpus), (queue, made.queue), (main.log_pane, made.log)):
            widget.display = height > 0
            widget.styles.height = height
        work.display = bool(made.queue or made.log)
        work.styles.layout = "horizontal" if made.side_by_side else "vertical"
        queue.styles.width = made.queue_width if made.side_by_side else "100%"
        main.log_pane.styles.width = "1fr" if made.side_by_side else "100%"
