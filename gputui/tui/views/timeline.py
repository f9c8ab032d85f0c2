"""The timeline view: slots against time, with a cursor, zoom and pan."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from gputui.core.amounts import duration_words, moment
from gputui.core.job import Job
from gputui.core.snapshot import changed_places
from gputui.core.spans import RecordedSpan
from gputui.core.state import HistoryEntry
from gputui.tui.actions.display import show_log
from gputui.tui.actions.offered import offer
from gputui.tui.actions.table import view_bindings
from gputui.tui.chrome import LinesView, Offer, OfferedKeys
from gputui.tui.theme import Look, palette_of
from gputui.views.timeline import (
    TICKS,
    Bar,
    SlotPlace,
    Timeline,
    Window,
    find_run,
    moved_to_show,
    panned,
    running,
    whole,
    zoomed,
)

from .base import ALWAYS, FullView
from .timeline_page import TimelineScene, columns_of, lines

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


DRAWN_EVERY = 0.9
SPANS_EVERY = 5.0
"""Seconds between requests for the recorded pauses and external processes."""


class TimelineView(FullView):
    """The view with slots against time, a cursor, zoom and pan. The key is `t`."""

    BINDINGS: ClassVar[list[BindingType]] = view_bindings("timeline", "details", "failures")
    DEFAULT_CSS = "TimelineView #chart { height: 1fr; }"

    def __init__(self, main: MainScreen) -> None:
        super().__init__(main, "t", "Timeline")
        self.chart = LinesView(id="chart")
        self._timeline = Timeline()
        self._jobs = main.snapshot.jobs
        """The jobs that the timeline contains."""
        self._spans: list[RecordedSpan] = []
        self._actions: list[HistoryEntry] = []
        self._spans_at = float("-inf")
        self._drawn: tuple[object, object, object] | None = None
        """The data from which the lines on the screen were drawn."""
        self._drawn_at = float("-inf")
        self._window: Window | None = None
        """The visible period, or None for the whole session as it grows."""
        self._place: SlotPlace | None = None
        self._bar: Bar | None = None

    def body(self) -> ComposeResult:
        yield self.chart

    def on_mount(self) -> None:
        self.run_worker(self.read_queue(lambda job: self._timeline.read((job,)), self._settle))

    # Contents

    def renew(self) -> None:
        self._request_spans()
        if self.queue_is_read:
            self._update()
            if self._is_due():
                self._draw()

    def _settle(self) -> None:
        """Put the cursor on the job that it was on in the queue."""
        self._timeline.settle(self.snapshot)
        found = find_run(self._timeline, self.snapshot, self.main.table.cursor)
        if found is not None:
            self._place, self._bar = found

    def _is_due(self) -> bool:
        """Return whether to draw: once a second, or immediately if anything except the GPU samples has changed."""
        shown = (self._window, self._place, self._bar, self.chart.size, self.app.theme)
        drawn = (self._jobs, (self._spans, self._actions), shown)
        before, self._drawn = self._drawn, drawn
        same = before is not None and before[0] is drawn[0] and before[1] == drawn[1] and before[2] == shown
        if same and time.monotonic() - self._drawn_at < DRAWN_EVERY:
            return False
        self._drawn_at = time.monotonic()
        return True

    def _request_spans(self) -> None:
        if time.monotonic() - self._spans_at >= SPANS_EVERY:
            self._spans_at = time.monotonic()
            self.main.bridge.spans(self._spans_loaded)
            self.main.bridge.actions(self._actions_loaded)

    def _spans_loaded(self, spans: list[RecordedSpan]) -> None:
        if spans != self._spans and self.is_mounted:
            self._spans = spans
            self.paint()

    def _actions_loaded(self, actions: list[HistoryEntry]) -> None:
        if actions != self._actions and self.is_mounted:
            self._actions = actions
            self.paint()

    def _update(self) -> None:
        """Read the jobs that have changed."""
        snapshot, before = self.snapshot, self._jobs
        if snapshot.jobs is before:
            return
        self._jobs = snapshot.jobs
        changed = (snapshot.first_id + place for place in changed_places(snapshot.jobs, before))
        self._timeline.update(snapshot, changed)

    def _draw(self) -> None:
        size = self.chart.size
        if size.width < 20 or size.height < 3:
            return
        main, now = self.main, self.main.now()
        window = self._shown_window(size.width, now)
        if self._bar is not None and self._bar.end is None:
            self._bar = self._same_bar()
        scene = TimelineScene(
            timeline=self._timeline, snapshot=self.snapshot, spans=self._spans, picture=main.bridge.picture,
            name_of=main.short_name, window=window, now=now, place=self._place,
            cursor=(self._bar.job, self._bar.attempt) if self._bar is not None else None,
            width=size.width, height=size.height, lined=palette_of(self.app.theme).rules,
            actions=self._actions,
        )  # fmt: skip
        self.chart.show(lines(scene))
        self._show_title(window, now)

    def _shown_window(self, width: int, now: float) -> Window:
        columns = columns_of(width)
        if self._window is not None and self._window.columns == columns:
            return self._window
        if self._window is not None:
            self._window = Window(self._window.start, self._window.tick, columns)
            return self._window
        began = self._timeline.began()
        started = [bar.start for _, bar in running(self.snapshot)]
        first = min([*started, *([began] if began is not None else [])], default=now - 60)
        return whole(first, now, self.snapshot.outlook.at, columns)

    def _show_title(self, window: Window, now: float) -> None:
        column = duration_words(window.step, tenths=True)
        times = f"{moment(window.start, now)} – {moment(window.end, now)}"
        wide = self.size.width >= 100
        title = f"   {times}   {column} per column" if wide else f"   {times}"
        self.band.show([(title, Look.PAST)], [("busy  runs" if wide else "busy", Look.PAST)])

    # The cursor

    def chosen(self) -> list[Job]:
        bar = self._bar
        return [self.snapshot[bar.job]] if bar is not None and bar.job in self.snapshot else []

    def _bars(self, place: SlotPlace) -> list[Bar]:
        return [bar for where, bar in running(self.snapshot) if where == place]

    def _same_bar(self) -> Bar | None:
        """Return the bar of the selected attempt. The attempt may have ended in the meantime."""
        bar, place = self._bar, self._place
        if bar is None or place is None or any(active.job == bar.job for active in self._bars(place)):
            return bar
        return self._bar_at(place, bar.start) or bar

    def _bar_at(self, place: SlotPlace, at: float) -> Bar | None:
        """Return the bar of the attempt at a time, or of the nearest attempt. Return None if there is none."""
        row, active = self._timeline.row(place), self._bars(place)
        if active and (at >= active[0].start or not len(row)):
            return active[0]
        if not len(row):
            return None
        index = max(0, min(len(row) - 1, bisect_right(row.starts, at) - 1))
        if index + 1 < len(row) and row.starts[index + 1] - at < at - row.ends[index]:
            index += 1
        return row.bar(index)

    def _go(self, place: SlotPlace | None, bar: Bar | None) -> None:
        if place is None or bar is None:
            return
        self._place, self._bar = place, bar
        if self._window is not None:
            self._window = moved_to_show(self._window, bar.start, bar.end or self.main.now())
        self.paint()

    def _step(self, by: int) -> None:
        place, bar = self._place, self._bar
        if place is None or bar is None:
            return
        row, active = self._timeline.row(place), self._bars(place)
        index = len(row) if bar.end is None else bisect_left(row.starts, bar.start)
        index += by
        if index >= len(row):
            self._go(place, active[0] if active else None)
        elif index >= 0:
            self._go(place, row.bar(index))

    def act_previous_bar(self) -> None:
        self._step(-1)

    def act_next_bar(self) -> None:
        self._step(1)

    def _change_slot(self, by: int) -> None:
        places = self._timeline.places(self.snapshot)
        index = places.index(self._place) + by if self._place in places else 0
        at = self._bar.start if self._bar is not None else self.main.now()
        while 0 <= index < len(places):
            bar = self._bar_at(places[index], at)
            if bar is not None:
                self._go(places[index], bar)
                return
            index += by

    def act_gpu_above(self) -> None:
        self._change_slot(-1)

    def act_gpu_below(self) -> None:
        self._change_slot(1)

    # Zoom and pan

    def _zoom(self, by: int) -> None:
        now = self.main.now()
        window = self._shown_window(self.chart.size.width, now)
        if not 0 <= window.tick + by < len(TICKS):
            return
        bar = self._bar
        about = (bar.start + (bar.end or now)) / 2 if bar is not None else now
        self._window = zoomed(window, by, about)
        self.paint()

    def act_zoom_in(self) -> None:
        self._zoom(-1)

    def act_zoom_out(self) -> None:
        self._zoom(1)

    def _pan(self, by: int) -> None:
        window = self._shown_window(self.chart.size.width, self.main.now())
        self._window = panned(window, by * window.columns // 4)
        self.paint()

    def act_pan_back(self) -> None:
        self._pan(-1)

    def act_pan_on(self) -> None:
        self._pan(1)

    def act_show_all(self) -> None:
        self._window = None
        self.paint()

    def act_next_error(self) -> None:
        """Go to the next failed attempt on any slot. After the last one, continue with the first."""
        at = self._bar.start if self._bar is not None else float("-inf")
        later: list[tuple[float, SlotPlace]] = []
        first: list[tuple[float, SlotPlace]] = []
        for place, row in self._timeline.rows.items():
            if row.bad:
                first.append((row.bad[0], place))
                next_one = bisect_right(row.bad, at)
                later += [(row.bad[next_one], place)] if next_one < len(row.bad) else []
        if not first:
            self.main.say("no errors")
            return
        start, place = min(later or first)
        row = self._timeline.row(place)
        self._go(place, row.bar(bisect_left(row.starts, start)))

    def act_bar_log(self) -> None:
        if self._bar is not None:
            job = self._bar.job
            self.go_back()
            show_log(self.main, job, "")

    def offers(self) -> OfferedKeys:
        row: list[Offer] = [("previous_bar", "→ Job"), ("gpu_above", "↓ GPU"), offer("details"), offer("bar_log")]
        more = [("zoom_in", "- Zoom"), offer("show_all"), offer("next_error")]
        return OfferedKeys(row=row, more=more, views=[offer("failures")], always=ALWAYS)
