"""The timeline: lanes against time, with cursor, zoom and pan."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputui.core.amounts import duration_words, moment
from gputui.core.job import Job
from gputui.core.spans import RecordedSpan
from gputui.tui.action_table import view_bindings
from gputui.tui.actions.looking import show_log
from gputui.tui.chrome import Offer, OfferedKeys, offer
from gputui.tui.theme import palette_of
from gputui.views.timeline import (
    TICKS,
    Bar,
    LanePlace,
    Timeline,
    Window,
    found_run,
    moved_to_show,
    panned,
    running,
    whole,
    zoomed,
)

from .base import ALWAYS, FullView
from .timeline_page import MarkedLine, TimelineScene, columns_of, lines, strokes_of

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- The widget of a timeline ----


class TimelineChart(Widget, can_focus=True):
    DEFAULT_CSS = "TimelineChart { height: 1fr; width: 100%; }"

    class ChartClicked(Message):
        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x, self.y = x, y

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[MarkedLine] = ()

    def show(self, lines: Sequence[MarkedLine]) -> None:
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, lines, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        styles = strokes_of(self.app.theme)
        line = self._lines[y] if y < len(self._lines) else ()
        strip = Strip([Segment(mark.text, styles[mark.stroke]) for mark in line])
        return strip.extend_cell_length(self.size.width, palette_of(self.app.theme).text).crop(0, self.size.width)

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.ChartClicked(event.x, event.y))


# ---- The timeline (`t`) ----


AT_ONCE = 4000
"""Jobs that are read before keys are looked at again."""
DRAWN_EVERY = 0.9
SPANS_EVERY = 5.0
"""Seconds after which the owner is asked for its record again."""


class TimelineView(FullView):
    BINDINGS: ClassVar[list[BindingType]] = view_bindings("timeline", "details", "failures")

    def __init__(self, main: MainScreen) -> None:
        super().__init__(main, "t", "Timeline")
        self.chart = TimelineChart()
        self._timeline = Timeline()
        self._jobs = main.snapshot.jobs
        """As they were taken over."""
        self._unread: Iterator[Job] | None = iter(self._jobs)
        self._spans: list[RecordedSpan] = []
        self._spans_at = float("-inf")
        self._drawn: tuple[object, object, object] | None = None
        """Of what the picture on the screen is."""
        self._drawn_at = float("-inf")
        self._window: Window | None = None
        """None: all of the session, whatever comes."""
        self._place: LanePlace | None = None
        self._bar: Bar | None = None

    def body(self) -> ComposeResult:
        yield self.chart

    def on_mount(self) -> None:
        self.chart.focus()
        self._read_on()

    def _read_on(self) -> None:
        """A long queue is read in pieces, with keys answered in between."""
        if self._unread is None:
            return
        some = list(islice(self._unread, AT_ONCE))
        self._timeline.read(some)
        if len(some) == AT_ONCE:
            self.set_timer(0.001, self._read_on)
            return
        self._unread = None
        self._timeline.settle(self.snapshot)
        self._choose_last()
        self.paint()

    # What is shown

    def renew(self) -> None:
        self._ask_for_spans()
        if self._unread is None:
            self._take_over()
            if self._is_due():
                self._draw()

    def _is_due(self) -> bool:
        """Once a second, and at once when something else is shown: that samples came is no reason to draw all again."""
        shown = (self._window, self._place, self._bar, self.chart.size, self.app.theme)
        drawn = (self._jobs, self._spans, shown)
        before, self._drawn = self._drawn, drawn
        same = before is not None and before[0] is drawn[0] and before[1] is drawn[1] and before[2] == shown
        if same and time.monotonic() - self._drawn_at < DRAWN_EVERY:
            return False
        self._drawn_at = time.monotonic()
        return True

    def _ask_for_spans(self) -> None:
        if time.monotonic() - self._spans_at >= SPANS_EVERY:
            self._spans_at = time.monotonic()
            self.main.bridge.spans(self._spans_told)

    def _spans_told(self, spans: list[RecordedSpan]) -> None:
        if spans != self._spans and self.is_mounted:
            self._spans = spans
            self.paint()

    def _take_over(self) -> None:
        """What changed since."""
        snapshot, before = self.snapshot, self._jobs
        if snapshot.jobs is before:
            return
        self._jobs = snapshot.jobs
        changed = (snapshot.first_id + place for place in snapshot.jobs.changed_since(before))
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
        )  # fmt: skip
        self.chart.show(lines(scene))
        self._title(window, now)

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

    def _title(self, window: Window, now: float) -> None:
        palette = palette_of(self.app.theme)
        column = duration_words(window.step, tenths=True)
        times = f"{moment(window.start, now)} – {moment(window.end, now)}"
        wide = self.size.width >= 100
        title = f"   {times}   a column is {column}" if wide else f"   {times}"
        self.band.show([(title, palette.past)], [("busy  runs" if wide else "busy", palette.past)])

    # The cursor

    def chosen(self) -> list[Job]:
        bar = self._bar
        return [self.snapshot[bar.job]] if bar is not None and bar.job in self.snapshot else []

    def _bars(self, place: LanePlace) -> list[Bar]:
        return [bar for where, bar in running(self.snapshot) if where == place]

    def _choose_last(self) -> None:
        """What the queue's cursor is on, where that ran; else what runs, or ran last."""
        found = found_run(self._timeline, self.snapshot, self.main.table.cursor)
        if found is not None:
            self._place, self._bar = found

    def _same_bar(self) -> Bar | None:
        """A running one that has ended meanwhile."""
        bar, place = self._bar, self._place
        if bar is None or place is None or any(each.job == bar.job for each in self._bars(place)):
            return bar
        return self._bar_at(place, bar.start) or bar

    def _bar_at(self, place: LanePlace, at: float) -> Bar | None:
        """The attempt at a moment, or the one nearest to it."""
        row, active = self._timeline.row(place), self._bars(place)
        if active and (at >= active[0].start or not len(row)):
            return active[0]
        if not len(row):
            return None
        index = max(0, min(len(row) - 1, bisect_right(row.starts, at) - 1))
        if index + 1 < len(row) and row.starts[index + 1] - at < at - row.ends[index]:
            index += 1
        return row.bar(index)

    def _go(self, place: LanePlace | None, bar: Bar | None) -> None:
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

    def _change_lane(self, by: int) -> None:
        places = self._timeline.places(self.snapshot)
        index = places.index(self._place) + by if self._place in places else 0
        at = self._bar.start if self._bar is not None else self.main.now()
        while 0 <= index < len(places):
            bar = self._bar_at(places[index], at)
            if bar is not None:
                self._go(places[index], bar)
                return
            index += by

    def act_lane_above(self) -> None:
        self._change_lane(-1)

    def act_lane_below(self) -> None:
        self._change_lane(1)

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

    def act_next_crash(self) -> None:
        """In time, whichever lane it was on."""
        at = self._bar.start if self._bar is not None else float("-inf")
        later: list[tuple[float, LanePlace]] = []
        first: list[tuple[float, LanePlace]] = []
        for place, row in self._timeline.rows.items():
            if row.bad:
                first.append((row.bad[0], place))
                next_one = bisect_right(row.bad, at)
                later += [(row.bad[next_one], place)] if next_one < len(row.bad) else []
        if not first:
            self.main.say("nothing has crashed")
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
        row: list[Offer] = [("previous_bar", "→ Job"), ("lane_above", "↓ GPU"), offer("details"), offer("bar_log")]
        more = [("zoom_in", "- Zoom"), offer("show_all"), offer("next_crash")]
        return OfferedKeys(row=row, more=more, views=[offer("failures")], always=ALWAYS)
