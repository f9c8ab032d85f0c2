"""`=`: what came of the session. It is summed up in a thread, for a long queue takes a while."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.spans import RecordedSpan
from gputui.core.views.in_common import learnt_parameters
from gputui.core.views.summary import Summary, summarize
from gputui.core.views.summary_text import summary_lines
from gputui.logs.plain import plain
from gputui.tui.actions.table import view_bindings
from gputui.tui.looks.palette import palette_of
from gputui.tui.screens.view import ALWAYS, FullView
from gputui.tui.widgets.footer import Offer, OfferedKeys
from gputui.tui.widgets.view_rows import ViewRows

from .rows import summary_rows

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

AGAIN = 10
"""So many times as long as it took, it is not summed up again."""


class SummaryView(FullView):
    """The cursor is on one of the best jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *view_bindings("summary", "details", "failures", "metric", "rerun_failed"),
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("ctrl+d,pagedown", "scroll(1)", show=False),
        Binding("ctrl+u,pageup", "scroll(-1)", show=False),
    ]
    DEFAULT_CSS = "SummaryView #summary { height: 1fr; width: 1fr; }"

    def __init__(self, main: MainScreen, left: float | None = None) -> None:
        """`left`: when the user last looked."""
        super().__init__(main, "=", "Summary")
        self._left = left
        self.rows = ViewRows(id="summary")
        self.told: Summary | None = None
        self._of: Snapshot | None = None
        self._spans: Sequence[RecordedSpan] = ()
        self._common = ""
        self._busy_until = 0.0
        self._at_work = False
        self._cursor = 0

    def body(self) -> ComposeResult:
        yield self.rows

    def renew(self) -> None:
        snapshot = self.snapshot
        if snapshot is not self._of and not self._at_work and time.monotonic() >= self._busy_until:
            self._at_work, self._of = True, snapshot
            self.main.bridge.spans(self._begin)
        self._show()

    def _begin(self, spans: Sequence[RecordedSpan]) -> None:
        self._spans = spans
        self.run_worker(self._sum_up, thread=True, exit_on_error=False)

    def _sum_up(self) -> None:
        """In another thread."""
        began, snapshot = time.monotonic(), self._of
        assert snapshot is not None
        summary = summarize(snapshot, self.main.now(), self._spans, self._left)
        common = learnt_parameters(snapshot).common()
        self.app.call_from_thread(self._summed_up, summary, common, time.monotonic() - began)

    def _summed_up(self, summary: Summary, common: str, seconds: float) -> None:
        self.told, self._common, self._at_work = summary, common, False
        self._busy_until = time.monotonic() + seconds * AGAIN
        self._show()
        self.paint_footer()

    def _show(self) -> None:
        if self.told is None:
            return
        palette = palette_of(self.app.theme)
        self.band.show([("   " + plain(self._common), palette.past)] if self._common else [])
        page = os.path.basename(self.main.bridge.root or "report").removesuffix("_run") + ".html"
        job = self.job
        size = (self.size.width, max(1, self.rows.size.height))
        self.rows.show(summary_rows(self.told, job, size, self.main.now(), palette, plain(page)))

    @property
    def job(self) -> JobId | None:
        best = self.told.best if self.told is not None else ()
        return best[min(self._cursor, len(best) - 1)].job if best else None

    def chosen(self) -> list[Job] | None:
        return [self.snapshot[self.job]] if self.job is not None and self.job in self.snapshot else []

    def offers(self) -> OfferedKeys:
        row: list[Offer] = [("details", f"Details of #{self.job}")] if self.job is not None else []
        if self.told is not None and self.told.failed:
            row.append(("rerun_failed", f"Rerun {self.told.failed:,} failed"))
        row += [("metric", "Metric")] if self.told is not None and self.told.table.rows else []
        fails: list[Offer] = [("failures", "Fails")] if self.told is not None and self.told.failed else []
        return OfferedKeys(row, [("copy_summary", "Copy as text")], fails, always=ALWAYS)

    # Keys

    def action_move(self, by: int) -> None:
        best = len(self.told.best) if self.told is not None else 0
        self._cursor = max(0, min(self._cursor + by, best - 1))
        self._show()
        self.paint_footer()

    def action_scroll(self, by: int) -> None:
        self.rows.scroll_by(by * max(1, self.rows.size.height // 2))

    def act_copy_summary(self) -> None:
        if self.told is not None:
            lines = summary_lines(self.told, self.main.now())
            self.app.copy_to_clipboard("\n".join(map(plain, lines)))
            self.main.say("the summary is copied")

    @on(ViewRows.RowClicked)
    def _clicked_row(self, event: ViewRows.RowClicked) -> None:
        jobs = [row.job for row in self.told.best] if self.told is not None else []
        if event.value in jobs:
            self._cursor = jobs.index(event.value)
            self._show()
            self.paint_footer()

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        self.rows.scroll_by(event.by)
