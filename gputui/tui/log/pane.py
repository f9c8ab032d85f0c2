"""The log pane: the job, attempt and stream on display, the search, and the text for a job without a log."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from re import Pattern
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from gputui.core.amounts import counted, duration_words
from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import node_of
from gputui.logs.ansi import PLAIN, Run
from gputui.logs.document import (
    Document,
    Finding,
    LineLayout,
    Needle,
    Top,
    all_known,
    all_matches,
    find_above,
    find_below,
    find_nearest,
)
from gputui.logs.line_index import FileChange
from gputui.logs.plain import plain
from gputui.tui.chrome import Band
from gputui.tui.text import blank
from gputui.tui.theme import Look, palette_of
from gputui.views.format import submission_facts

from .view import (
    CUT,
    SLICE,
    HighlightedText,
    Result,
    breaks,
    column_of,
    end_of_row,
    highlighted,
    painted,
    run_in_slices,
    strip_of,
)

READ_EVERY = 0.25
SAME_TIME = 5.0
"""Two streams count as written together if their last writes are at most this many seconds apart."""


class Stream(Enum):
    """The streams, in the order in which a key cycles through them."""

    OUT = "OUT"
    ERR = "ERR"
    BOTH = "OUT and ERR"

    @property
    def next(self) -> Stream:
        order = list(Stream)
        return order[(order.index(self) + 1) % len(order)]


@dataclass(frozen=True)
class AttemptLog:
    """The output files of one attempt."""

    number: int
    out: Path
    err: Path | None
    """The file with the standard error, or None if both streams go to the same file."""
    live: bool
    failed: bool = False
    """Whether the attempt has failed, so that the end of ERR is shown first."""

    def files(self, stream: Stream) -> list[tuple[str, Path]]:
        if self.err is None or stream is Stream.OUT:
            return [(Stream.OUT.value, self.out)]
        err = (Stream.ERR.value, self.err)
        return [err] if stream is Stream.ERR else [(Stream.OUT.value, self.out), err]


@dataclass(frozen=True)
class JobLog:
    """The logs of the job under the cursor."""

    job: int
    title: str
    attempts: tuple[AttemptLog, ...]
    """The attempts, newest last. Empty if the job has not run yet."""
    waiting: bool = False
    """Whether another attempt is waiting to start."""


def stream_to_show(attempt: AttemptLog) -> Stream:
    """Return the stream to show if the user has not chosen one. Progress bars and final errors go to ERR."""
    if attempt.err is None:
        return Stream.OUT
    out_size, out_time = size_and_time(attempt.out)
    err_size, err_time = size_and_time(attempt.err)
    if not err_size or not out_size:
        return Stream.ERR if err_size else Stream.OUT
    if attempt.live:
        return Stream.ERR if err_time > out_time + SAME_TIME else Stream.OUT
    return Stream.ERR if attempt.failed else Stream.OUT


def size_and_time(path: Path) -> tuple[int, float]:
    """Return the size and modification time of a file, or zeros if the file does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0, 0.0
    return status.st_size, status.st_mtime


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


class LogReading:
    """The choice of the job, attempt and stream that are shown.

    The chosen attempt is kept while its job is shown. The chosen stream is kept for every job that wrote to that
    stream.
    """

    def __init__(self) -> None:
        self.log: JobLog | None = None
        self.attempt: AttemptLog | None = None
        self.stream = Stream.OUT
        self.document: Document | None = None
        self._attempt_number: int | None = None
        """The number of the chosen attempt, or None to show the newest one."""
        self._wanted: Stream | None = None
        self._insist = False
        """Whether the user chose the stream for this job. If so, it is shown even if it is empty."""

    def show(self, log: JobLog | None, *, may_switch: bool) -> bool:
        """Show the log of a job and return whether different files are shown now. If `may_switch` is set, the stream
        may change when the attempt has ended.
        """
        before = self.log
        self.log = log
        if log is None or before is None or log.job != before.job:
            self._attempt_number = None
            self._insist = False
            return self._open()
        was, now = self.attempt, self._choose_attempt()
        if was is None or now is None or (was.out, was.err) != (now.out, now.err):
            return self._open()
        self.attempt = now
        ended = was.live and not now.live
        return ended and may_switch and self._switch_stream()

    def look(self, *, at_end: bool) -> FileChange:
        if self.document is None:
            return FileChange.NOTHING
        if self.document.empty and self.attempt is not None and self._switch_stream():
            return FileChange.ANEW
        return self.document.look(at_end=at_end)

    def stamps(self) -> list[tuple[int, ...]]:
        """Return values that change when one of the attempt's files is written, created or replaced."""
        files = self.attempt.files(Stream.BOTH) if self.attempt is not None else []
        return [_stamp(path) for _, path in files]

    def cycle_stream(self) -> bool:
        """Switch to the next stream. Return False if there is only one file."""
        if self.attempt is None or self.attempt.err is None:
            return False
        self._wanted, self._insist = self.stream.next, True
        return self._open()

    def turn_to(self, stream: Stream) -> bool:
        """Show a stream of the newest attempt. Return False if it is already shown or there is only one file."""
        if self.attempt is None or self.attempt.err is None or (self.stream is stream and not self._attempt_number):
            return False
        self._attempt_number, self._wanted, self._insist = None, stream, True
        return self._open()

    def step_attempt(self, by: int) -> bool:
        """Show an earlier or later attempt. Return False if there is none."""
        attempts = self.log.attempts if self.log is not None else ()
        if self.attempt is None or self.attempt not in attempts:
            return False
        place = attempts.index(self.attempt) + by
        if not 0 <= place < len(attempts):
            return False
        self._attempt_number = attempts[place].number if place < len(attempts) - 1 else None
        return self._open()

    def close(self) -> None:
        if self.document is not None:
            self.document.close()
            self.document = None

    @property
    def live(self) -> bool:
        return self.attempt is not None and self.attempt.live

    @property
    def head(self) -> str:
        return f"#{self.log.job} {plain(self.log.title)}".rstrip() if self.log is not None else ""

    @property
    def facts(self) -> list[str]:
        """The names of the stream and the attempt, for the band."""
        if self.log is None or self.attempt is None:
            return []
        stream = self.stream.value if self.attempt.err is not None else "OUT+ERR"
        if len(self.log.attempts) == 1 and not self.log.waiting:
            return [stream]
        number = f"attempt {self.log.attempts.index(self.attempt) + 1}/{len(self.log.attempts)}"
        return [stream, number, *["next attempt not started"] * self.log.waiting]

    def metric_elsewhere(self, metric: str, log: int) -> str:
        """Return a text such as `loss from ERR` if the stream of the metric is not shown, or an empty text."""
        if not metric or self.attempt is None or self.attempt.err is None or self.stream is Stream.BOTH:
            return ""
        source = Stream.ERR if log else Stream.OUT
        return f"{plain(metric)} from {source.value}" if source is not self.stream else ""

    def describe_empty(self) -> str:
        """Return the text that explains why the log is empty."""
        if self.attempt is None:
            return ""
        if self.attempt.err is None or self.stream is Stream.BOTH:
            return "no output yet" if self.live else "no output"
        text = f"no output on {self.stream.value} yet" if self.live else f"no output on {self.stream.value}"
        other, path = ("OUT", self.attempt.out) if self.stream is Stream.ERR else ("ERR", self.attempt.err)
        return f"{text}; see {other}" if size_and_time(path)[0] else text

    def _switch_stream(self) -> bool:
        """Switch to the stream that would be shown if the job were opened now. Return whether it has changed."""
        return self.attempt is not None and self._choose_stream(self.attempt) is not self.stream and self._open()

    def _open(self) -> bool:
        self.close()
        self.attempt = self._choose_attempt()
        if self.attempt is not None:
            self.stream = self._choose_stream(self.attempt)
            self.document = Document(self.attempt.files(self.stream))
            self.document.look(at_end=True)
        return True

    def _choose_attempt(self) -> AttemptLog | None:
        if self.log is None or not self.log.attempts:
            return None
        chosen = [attempt for attempt in self.log.attempts if attempt.number == self._attempt_number]
        return chosen[0] if chosen else self.log.attempts[-1]

    def _choose_stream(self, attempt: AttemptLog) -> Stream:
        if attempt.err is None or self._wanted is None:
            return stream_to_show(attempt)
        if self._insist or any(size_and_time(path)[0] for _, path in attempt.files(self._wanted)):
            return self._wanted
        return stream_to_show(attempt)


MOST_COUNTED = 999
"""Maximum number of search matches that are counted."""


MOST_COPIED = 5000
"""Maximum number of lines that are copied, because a selected gigabyte must not be joined into one text."""
SIDEWAYS = 8
WHEEL_ROWS = 3


class LogPane(ScrollView, can_focus=True):
    """The log of the job under the cursor. It follows the end of the log until the user scrolls up.

    A line has a key that stays the same while the document grows at both ends.
    """

    ALLOW_SELECT = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
        Binding("ctrl+u", "half_page(-1)", show=False),
        Binding("ctrl+d", "half_page(1)", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--heading", "log--note", "log--match"}
    DEFAULT_CSS = """
    LogPane {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-background: $background; scrollbar-background-hover: $background; scrollbar-corner-color: $background;
        & > .log--heading { color: $text-muted; }
        & > .log--note { color: $text-muted; }
        & > .log--match { background: $warning; color: $background; text-style: none; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._reading = LogReading()
        self._note = ""
        self._busy = ""
        """A description of what a background worker is doing, or empty."""
        self._hit: int | None = None
        self._matches: list[int] | None = None
        """The lines that match the search, or None if the matches have not been counted yet."""
        self._timer: Timer | None = None
        """The timer that calls `tick`. It is paused when the log of an ended job has been read."""
        self._read_up_to: list[tuple[int, ...]] | None = None
        """The stamps of the files at the time when everything in them had been read, or None."""
        self.band = Band(3, "Log")
        """The band above the pane."""
        self.metric_source = ("", 0)
        """The main metric shown in the queue, and the number of the log file from which it is read."""
        self.following = True
        self._top_key = 0
        self._top_part = 0
        self._left = 0
        self.wrapped = False
        self._wraps_by_itself = True
        """Whether to start wrapping if the last line does not fit, because that line may be an error."""
        self._needle: Needle | None = None
        self.bold_number: Pattern[str] | None = None
        """A pattern whose first group is a number to show in bold because it is read as a result, or None."""
        self._instead = ""
        self._visible: list[tuple[int, int]] = []
        """For each row of the screen, the key of its line, and the number of the part of the line in this row."""
        self._visible_in = Size(0, 0)

    @property
    def _document(self) -> Document | None:
        return self._reading.document

    # What is shown

    def on_mount(self) -> None:
        self._timer = self.set_interval(READ_EVERY, self.tick)

    def show(self, log: JobLog | None) -> None:
        """Show the end of a job's log. If the job is already shown, keep the scroll position."""
        if self._reading.show(log, may_switch=self.following):
            self._open_document()
        if self._timer is not None:
            self._timer.resume()
        self.paint_band()

    def note(self, text: str) -> None:
        """Set the text shown while the job has not run, which says why it is waiting."""
        self._note = text
        self.paint_band()

    def tick(self) -> None:
        """Read new output from the files, and index part of the text that has not been read yet."""
        document, stamps = self._document, self._reading.stamps()
        if document is None or stamps == self._read_up_to:
            if self._timer is not None and not self._reading.live:
                self._timer.pause()
            return
        unsettled = document.unsettled()
        change = self._reading.look(at_end=self.following)
        if change is FileChange.ANEW:
            self._open_document()
        elif not document.complete and not self._busy:
            document.extend(SLICE)
            self.repaint_changed(unsettled)
        elif change is FileChange.GREW:
            self.repaint_changed(unsettled)
        elif change is FileChange.NOTHING and document.complete and all(stamps):  # a removed file may still grow
            self._read_up_to = stamps
        self.paint_band()

    def cycle_stream(self) -> None:
        if self._reading.cycle_stream():
            self._open_document()
        elif self._reading.attempt is not None:
            self._say("OUT and ERR are in one file")

    def turn_to(self, stream: Stream) -> None:
        if self._reading.turn_to(stream):
            self._open_document()

    def step_attempt(self, by: int) -> None:
        if self._reading.step_attempt(by):
            self._open_document()
        else:
            self._say("no later attempt" if by > 0 else "no earlier attempt")

    def search(self, text: str) -> None:
        """Go to the first match from the top of the screen on, or else to one above it. An empty text ends the
        search.
        """
        self._stop_working()
        self._hit = self._matches = None
        self._needle = Needle(text) if text else None
        self.refresh()
        if text and self._document is not None and self._visible:
            self._find(find_nearest(self._document, Needle(text), self._visible[0][0]), "no match")
        self.paint_band()

    def search_next(self) -> None:
        if (place := self._search_place()) is not None:
            document, needle, key = place
            self._find(find_below(document, needle, key + 1 if key == self._hit else key), "no further match")

    def search_previous(self) -> None:
        if (place := self._search_place()) is not None:
            self._find(find_above(*place), "no earlier match")

    def _search_place(self) -> tuple[Document, Needle, int] | None:
        """Return the document, text and starting line of a search, or notify the user and return None."""
        key = self._search_from()
        if self._needle is None:
            self._say("no search yet: press 3 for the log, then / to search")
        elif self._document is None or key is None:
            self._say("nothing to search")
        else:
            return self._document, self._needle, key
        return None

    def action_scroll_home(self) -> None:
        if self._document is None or self._document.complete:
            self.move_home()
        else:
            self._work(all_known(self._document), lambda _: self.move_home(), "reading")

    def _say(self, message: str) -> None:
        self.notify(plain(message), markup=False)

    def on_unmount(self) -> None:
        self._reading.close()

    def _open_document(self) -> None:
        """Show another document at its end."""
        self._stop_working()
        self._hit = self._matches = self._read_up_to = None
        self.following = True
        self._left = 0
        self.wrapped = self.wrapped and not self._wraps_by_itself
        if self.is_mounted and self.text_selection is not None:
            self.screen.clear_selection()
        self.repaint()

    def paint_band(self) -> None:
        instead = self._reading.describe_empty() if self._document is not None else self._note
        if instead != self._instead:
            self._instead = instead
            self.refresh()
        state = self._busy or (("following" if self.following else "paused") if self._reading.live else "")
        facts = [self._reading.metric_elsewhere(*self.metric_source), *self._reading.facts, self._match(), state]
        self.band.show([blank(3), (self._reading.head, Look.TEXT)], [(" · ".join(filter(None, facts)), Look.PAST)])

    def _search_from(self) -> int | None:
        """Return the line of the last match if it is visible, or else the first visible line."""
        keys = [key for key, _ in self._visible]
        return self._hit if self._hit in keys else keys[0] if keys else None

    def _find(self, finding: Finding, otherwise: str) -> None:
        sought = self._needle.text if self._needle is not None else ""

        def found(key: int | None) -> None:
            if key is None:
                self._say(f"{otherwise} for '{plain(sought)}'")
            else:
                self._hit = key
                self.go_to(key)
                self._count_matches()

        self._work(finding, found, f"searching for '{plain(sought)}'")

    def _count_matches(self) -> None:
        """Count the matches in the background. The match found last is already shown."""
        document, needle = self._document, self._needle
        if document is None or needle is None or self._matches is not None:
            return

        async def until_counted() -> None:
            self._matches = await run_in_slices(all_matches(document, needle, MOST_COUNTED))
            self.paint_band()

        _: Worker[None] = self.run_worker(until_counted, group="count", exclusive=True)

    def _match(self) -> str:
        """Return the number of the current match and of all matches, such as `match 3/12`."""
        if self._hit is None or self._matches is None or self._hit not in self._matches:
            return ""
        more = "+" if len(self._matches) == MOST_COUNTED else ""
        return f"match {self._matches.index(self._hit) + 1}/{len(self._matches)}{more}"

    def _work(self, work: Generator[None, None, Result], then: Callable[[Result], None], what: str) -> None:
        async def until_done() -> None:
            result = await run_in_slices(work)
            self._busy = ""
            then(result)
            self.paint_band()

        self._busy = what
        _: Worker[None] = self.run_worker(until_done, group="log", exclusive=True)
        self.paint_band()

    def _stop_working(self) -> None:
        self._busy = ""
        if self.is_mounted:
            self.workers.cancel_group(self, "log")
            self.workers.cancel_group(self, "count")

    # Drawing

    @property
    def width(self) -> int:
        """The visible width. Unlike `size`, it excludes the scroll bar."""
        return max(1, self.size.width - self.scrollbar_size_vertical)

    def repaint(self) -> None:
        self._place()
        self.refresh()
        self.paint_band()

    def repaint_changed(self, unsettled: set[int]) -> None:
        """Repaint the rows that have changed and the rows of the `unsettled` lines, whose text may have changed."""
        old = self._visible
        self._place()
        rows = range(max(len(old), len(self._visible)))
        changed = [y for y in rows if (now := self._visible[y : y + 1]) != old[y : y + 1] or now[0][0] in unsettled]
        if changed:
            self.refresh(Region(0, changed[0], self.width, changed[-1] + 1 - changed[0]))

    def follow(self, following: bool) -> None:
        self.following = following
        self.repaint()

    def wrap(self, wrapped: bool) -> None:
        self.wrapped, self._wraps_by_itself = wrapped, False
        self._left = self._top_part = 0
        self.repaint()

    def go_to(self, key: int) -> None:
        """Scroll to a line, unless it is already visible."""
        if self._document is None:
            return
        self.following = False
        if key not in [shown for shown, _ in self._visible]:
            self._set_top(self._layout().moved(Top(self._document.row(key)), -(self.size.height // 3)))
        self.repaint()

    def move(self, rows: int) -> None:
        """Scroll down by a number of rows, or up if it is negative. Following starts when the end is reached."""
        if self._document is None or not self._document.rows:
            return
        layout = self._layout()
        top = layout.moved(self._top(layout), rows)
        self._set_top(top)
        self.following = top == layout.last_top()
        self.repaint()

    def move_home(self) -> None:
        """Scroll to the first known line."""
        self._left = 0
        self._set_top(Top(0))
        self.following = self._layout().last_top() == Top(0)
        self.repaint()

    def move_sideways(self, cells: int) -> None:
        if self.wrapped:
            return
        widest = max((cell_len(self._text(key)) for key, _ in self._visible), default=0)
        first_column = max(0, min(self._left + cells, widest - self.width))
        if first_column != self._left:
            self._left = first_column
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """React to scrolling by the scroll bar or by a selection dragged past the edge."""
        self.vertical_scrollbar.position = new_value
        if self._visible_in != self.size:
            return  # the size has changed, and `_place` is about to be called
        if round(old_value) != round(new_value) and self._document is not None:
            layout = self._layout()
            self._set_top(Top(round(new_value)))
            self.following = round(new_value) >= layout.last_top().row
            self.repaint()

    def on_resize(self) -> None:
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if self._visible_in != self.size:
            self._place()
        base, width = self.rich_style, self.width
        if self._document is None or y >= len(self._visible):
            return self._instead_line(y, base, width)
        key, part = self._visible[y]
        runs = self._runs(key)
        text = "".join(run.text for run in runs)
        if self._document.heading(key) is not None:
            style = self.get_component_rich_style("log--heading")
            return strip_of(runs, 0, width, [], width, style).apply_offsets(0, key)
        start, stop = self._row(text, part, width)
        cut = not self.wrapped and stop < len(text)
        strip = strip_of(runs, start, stop, self._marks(text, key), width, base)
        if cut and strip.cell_length:
            strip = Strip([*strip.crop(0, width - 1), *strip_of((Run(CUT, PLAIN),), 0, 1, [], 1, base)]).simplify()
        return strip.apply_offsets(start, key)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if self._document is None:
            return None
        first = 0 if selection.start is None else self._document.row(selection.start.y)
        last = self._document.rows - 1 if selection.end is None else self._document.row(selection.end.y)
        lines = []
        for row in range(first, min(last, first + MOST_COPIED - 1) + 1):
            text = self._text(key := self._document.key(row))
            span = selection.get_span(key)
            lines.append("" if span is None else text[span[0] :] if span[1] == -1 else text[span[0] : span[1]])
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _runs(self, key: int) -> tuple[Run, ...]:
        """Return the whole text of a line as it is painted."""
        if self._document is None:
            return ()
        heading = self._document.heading(key)
        return (
            painted(self._document.line(key))
            if heading is None
            else (Run(f"── {heading} ".ljust(self.width, "─"), PLAIN),)
        )

    def _text(self, key: int) -> str:
        return "".join(run.text for run in self._runs(key))

    def _row(self, text: str, part: int, width: int) -> tuple[int, int]:
        """Return the range of characters shown in a row of the screen: the first index and the index after the last."""
        if self.wrapped:
            starts = breaks(text, width)
            return starts[min(part, len(starts) - 1)], [*starts[1:], len(text)][min(part, len(starts) - 1)]
        start = column_of(text, self._left)
        return start, end_of_row(text, start, width) if start < len(text) else start

    def _marks(self, text: str, key: int) -> list[HighlightedText]:
        marks = highlighted(text, palette_of(self.app.theme), self.bold_number)
        if self._needle is not None:
            style = self.get_component_rich_style("log--match")
            marks += [HighlightedText(start, stop, style) for start, stop in self._needle.spans(text)]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(key)) is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            marks.append(HighlightedText(span[0], len(text) if span[1] == -1 else span[1], style))
        return marks

    def _instead_line(self, y: int, base: Style, width: int) -> Strip:
        room, text_instead = max(1, width - 2), "" if self._visible else self._instead
        lines = [line for written in text_instead.split("\n") for line in textwrap.wrap(plain(written), room) or [""]]
        text = f" {lines[y]}" if y < len(lines) else ""
        style = self.get_component_rich_style("log--note")
        return strip_of((Run(text, PLAIN),), 0, width, [], width, style if text else base)

    def _layout(self) -> LineLayout:
        rows = self._document.rows if self._document is not None else 0
        return LineLayout(rows, self.size.height, self._parts)

    def _parts(self, row: int) -> int:
        if not self.wrapped or self._document is None:
            return 1
        return len(breaks(self._text(self._document.key(row)), self.width))

    def _top(self, layout: LineLayout) -> Top:
        last = layout.last_top()
        if self.following or self._document is None:
            return last
        return min(Top(self._document.row(self._top_key), self._top_part), last)

    def _set_top(self, top: Top) -> None:
        if self._document is not None:
            self._top_key, self._top_part = self._document.key(top.row), top.part

    def _place(self) -> None:
        """Compute the visible rows and move the scroll bar without a new layout of the whole screen."""
        if self._wraps_by_itself and not self.wrapped and self.following and self._document is not None:
            rows = self._document.rows
            self.wrapped = bool(rows) and cell_len(self._text(self._document.key(rows - 1))) > self.width > 1
        layout, height = self._layout(), self.size.height
        top, last = self._top(layout), layout.last_top()
        self._set_top(top)
        document = self._document
        self._visible = [] if document is None else [(document.key(row), part) for row, part in layout.visible(top)]
        self._visible_in = self.size
        if self.virtual_size.height != last.row + height:
            self.set_reactive(Widget.virtual_size, Size(0, last.row + height))
            self.vertical_scrollbar.window_virtual_size = last.row + height
        if round(self.scroll_y) != top.row:
            self.set_scroll(None, top.row)
            self.set_reactive(Widget.scroll_target_y, top.row)
            self.vertical_scrollbar.position = top.row

    # Keys and the wheel; arrows, pages, home and end are bound by the scroll view

    def action_scroll_up(self) -> None:
        self.move(-1)

    def action_scroll_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move(1 - max(2, self.size.height))

    def action_page_down(self) -> None:
        self.move(max(2, self.size.height) - 1)

    def action_half_page(self, direction: int) -> None:
        self.move(direction * max(1, self.size.height // 2))

    def action_scroll_left(self) -> None:
        self.move_sideways(-SIDEWAYS)

    def action_scroll_right(self) -> None:
        self.move_sideways(SIDEWAYS)

    def action_scroll_end(self) -> None:
        self.follow(True)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, direction: int) -> None:
        event.prevent_default().stop()
        if event.shift or event.ctrl:
            self.move_sideways(direction * SIDEWAYS)
        else:
            self.move(direction * WHEEL_ROWS)

    def on_scroll_to(self, message: ScrollTo) -> None:
        message.prevent_default().stop()
        if message.y is not None:
            self.scroll_y = message.y

    def on_scroll_up(self, event: ScrollUp) -> None:
        event.prevent_default().stop()
        self.action_page_up()

    def on_scroll_down(self, event: ScrollDown) -> None:
        event.prevent_default().stop()
        self.action_page_down()


# The text for a job in the queue of a cluster

ADVICE = (
    "h holds it and B requeues it: both take it back from Slurm. [ ] and + - act only on what is not submitted yet."
)


def submission_note(job: Job, snapshot: Snapshot, picture: DevicesPicture, now: float) -> str:
    submitted = snapshot.submitted.get(job.id)
    reason = submitted.why if submitted is not None and submitted.why else "Slurm gives no reason yet"
    lines = [
        submission_facts(job, submitted, snapshot.settings, now),
        f"{reason[0].upper()}{reason[1:]}.",
        *_usage(picture),
        *(("The expected start is Slurm's estimate; jobs often start earlier.",) if "expects" in reason else ()),
        "",
        ADVICE,
        *_age(picture, now),
    ]
    return "\n".join(plain(line) for line in lines)


def _usage(picture: DevicesPicture) -> list[str]:
    """Return a text about who uses the GPUs of the cluster."""
    cluster = picture.cluster
    if cluster is None or not cluster.nodes:
        return []
    closed = [node for node in cluster.nodes if node.standing.closed]
    names = {node.name for node in closed}
    open_gpus = [gpu for gpu in picture.devices if node_of(gpu.sample.key) not in names]
    ours = sum(bool(gpu.jobs) for gpu in open_gpus)
    not_ours = [gpu.sample.processes[0] for gpu in open_gpus if gpu.sample.processes and not gpu.jobs]
    others = Counter(process.user or "others" for process in not_ours)
    untold = sum(node.unplaced for node in cluster.nodes if node.name not in names)
    parts = [f"{ours} yours", *(f"{count} used by {user}" for user, count in others.most_common(3))]
    free = len(open_gpus) - ours - others.total() - untold
    shares = ", ".join([*parts, f"{max(0, free)} free"])
    shut = f"; {', '.join(f'{node.name} is {node.standing}' for node in closed[:3])}" if closed else ""
    return [f"{counted(len(open_gpus), 'GPU', 'GPUs')} in service: {shares}{shut}."]


def _age(picture: DevicesPicture, now: float) -> list[str]:
    cluster = picture.cluster
    if cluster is None or cluster.asked is None:
        return []
    silent = f"; {cluster.silent}" if cluster.silent else ""
    return [f"Nodes last queried {duration_words(now - cluster.asked)} ago{silent}"]
