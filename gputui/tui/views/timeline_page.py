"""The lines of the timeline: slots with bars and load, the cursor, and tables of gaps and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from gputui.core.amounts import duration_exact, duration_words, moment
from gputui.core.job import Attempt, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.core.state import HistoryEntry
from gputui.gpus.hardware import find
from gputui.gpus.history import HistoryColumn, between
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import DeviceSample
from gputui.logs.plain import plain
from gputui.tui.gpus.occupants import device_name
from gputui.tui.gpus.page import load_graph
from gputui.tui.text import Line, Piece, Pieces, beside, fit, merged
from gputui.tui.theme import OTHERS_LOADS, STEPS, Ground, Look
from gputui.views.format import SIGNS, cut, value_text, width
from gputui.views.idle_time import Expected, Gap, HappenedKind, expected, gaps, happened
from gputui.views.timeline import SHORTEST_IDLE, Bar, Cell, PlaceRow, SlotPlace, Timeline, Window, cells, running, ticks

# One slot

Cursor = tuple[JobId, int]
"""The id of a job and the number of its attempt."""


class SlotBars(Struct, frozen=True, kw_only=True):
    """What is drawn in the line of one slot."""

    row: PlaceRow
    active: Bar | None
    active_ends: float | None
    """The expected end of the running attempt, or None."""
    spans: Sequence[RecordedSpan]
    expected: Sequence[Expected]


_PAUSES = (SpanKind.PAUSE, SpanKind.DRAIN)
_FILL = {SpanKind.PAUSE: "‖", SpanKind.DRAIN: "‖", SpanKind.EXTERNAL: "/", SpanKind.TROUBLE: "✗", SpanKind.AWAY: " "}
_PAINT_ORDER = (SpanKind.AWAY, *_PAUSES, SpanKind.TROUBLE, SpanKind.EXTERNAL)
"""The order of painting. External processes concern only this device, so they are painted over pauses."""
_LOOKS = {SpanKind.PAUSE: Look.WARNING, SpanKind.DRAIN: Look.WARNING, SpanKind.EXTERNAL: Look.OTHERS,
          SpanKind.TROUBLE: Look.FAILURE_BOLD, SpanKind.AWAY: Look.LINE}  # fmt: skip


def bar_line(scene: TimelineScene, slot: SlotBars) -> Pieces:
    """Return the bars of a slot with one cell for each column of the window."""
    drawn = cells(slot.row, scene.window, scene.now, slot.active)
    paper = [(" ", Look.LINE)] * scene.window.columns
    _draw_idle(paper, scene, slot, drawn)
    _draw_spans(paper, scene, slot, drawn)
    _draw_future(paper, scene, slot)
    at = 0
    while at < len(drawn):
        end = at + 1
        while end < len(drawn) and not drawn[end].first and drawn[end].bar is not None:
            end += 1
        if drawn[at].bar is not None:
            paper[at:end] = _bar(drawn[at:end], scene)
        at = end
    return merged(paper)


def _bar(run: Sequence[Cell], scene: TimelineScene) -> list[Piece]:
    """Draw a bar, with its number if it fits. For attempts shorter than a cell, its height is the share of time in
    which the slot was busy.
    """
    bar, first = run[0].bar, run[0]
    assert bar is not None
    chosen = scene.cursor == (bar.job, bar.attempt)
    if first.many and not chosen and not bar.bad:
        return [(STEPS[min(len(STEPS) - 1, int(cell.share * len(STEPS)))], Look.RUNNING_BOLD) for cell in run]
    if bar.bad and not chosen:
        return [(sign, Look.CRASHED) for sign in "✗".ljust(len(run))]
    if bar.killed and not chosen:
        return [(sign, Look.KILLED) for sign in "■".ljust(len(run))]
    look = Look.CHOSEN if chosen else Look.UNDER_WAY if bar.end is None else (Look.OK_EVEN, Look.OK_ODD)[first.shade]
    room = len(run)
    if scene.lined and not chosen:
        text = _lined(bar, room)
    else:
        text = (f" {bar.job}" if len(str(bar.job)) < room else "").ljust(room)
    return [(sign, look) for sign in text]


def _lined(bar: Bar, room: int) -> str:
    label = f"├{bar.job}" if len(str(bar.job)) + 1 <= room else "├"
    return label.ljust(room, "━" if bar.end is None else "─")


def _draw_idle(paper: list[Piece], scene: TimelineScene, slot: SlotBars, drawn: Sequence[Cell]) -> None:
    """Draw dots where the slot was idle, from the first attempt until now."""
    if len(slot.row):
        since = slot.row.starts[0]
    elif slot.active is not None:
        since = slot.active.start
    else:
        return
    first, last = scene.window.column(since), scene.window.column(scene.now)
    for column in range(max(0, first), min(len(paper), last)):
        if drawn[column].bar is None:
            paper[column] = ("·", Look.LINE)


def _draw_spans(paper: list[Piece], scene: TimelineScene, slot: SlotBars, drawn: Sequence[Cell]) -> None:
    """Draw what kept the slot idle. Only cells in which nothing ran are used."""
    window = scene.window
    for span in sorted(slot.spans, key=lambda span: _PAINT_ORDER.index(span.kind)):
        first = max(0, window.column(span.since))
        last = min(len(paper), max(first + 1, window.column(span.lasts_until(scene.now)) + 1))
        free = [column for column in range(first, last) if drawn[column].bar is None]
        if not free:
            continue
        fill = " " if span.kind is SpanKind.EXTERNAL and not scene.lined else _FILL[span.kind]
        for column in free:
            paper[column] = (fill, _LOOKS[span.kind])
        _write(paper, free, _name(span), _LOOKS[span.kind])


def _name(span: RecordedSpan) -> str:
    if span.kind is SpanKind.EXTERNAL:
        return f" {plain(span.user)}"
    return f"✗ {plain(span.text)} " if span.kind is SpanKind.TROUBLE else ""


def _write(paper: list[Piece], columns: Sequence[int], text: str, look: Look) -> None:
    """Write the text if there are at least three columns and they are contiguous."""
    if len(columns) < 3 or columns[-1] - columns[0] != len(columns) - 1:
        return
    text = cut(text, len(columns))
    if width(text) == len(text):
        for column, sign in zip(columns, text, strict=False):
            paper[column] = (sign, look)


def _draw_future(paper: list[Piece], scene: TimelineScene, slot: SlotBars) -> None:
    """Draw the rest of the running attempt, then the expected attempts as thin lines."""
    window = scene.window
    after = window.column(scene.now) + 1
    if slot.active is not None and slot.active_ends is not None:
        end = window.column(slot.active_ends)
        for column in range(max(0, after), min(len(paper), end + 1)):
            paper[column] = ("━", Look.RUNNING_BOLD)
        after = max(after, end + 1)
    for attempt in slot.expected:
        first, last = max(after, window.column(attempt.start)), min(len(paper), window.column(attempt.end))
        if 0 <= first < last:
            text = f"┄{attempt.job}" if len(str(attempt.job)) + 1 <= last - first else ""
            for column, sign in enumerate(text.ljust(last - first, "┄"), first):
                paper[column] = (sign, Look.PAST)


def load_lines(columns: Sequence[HistoryColumn], rows: int, scene: TimelineScene, slot: SlotBars) -> list[Pieces]:
    """Draw the load in gray, and the load of external processes in colour. Vertical lines mark pauses and the current
    time.
    """
    lines: list[Pieces] = []
    for row in load_graph(columns, rows):
        paper: list[Piece] = []
        for text, own in row:
            look = Look.OTHERS_2 if own in OTHERS_LOADS else Look.LINE
            paper += [(sign, look) for sign in text]
        _draw_verticals(paper, scene, slot)
        lines.append(merged(paper))
    return lines


def _draw_verticals(paper: list[Piece], scene: TimelineScene, slot: SlotBars) -> None:
    now = scene.window.column(scene.now)
    for span in slot.spans:
        if span.kind in _PAUSES:
            column = scene.window.column(span.since)
            if 0 <= column < len(paper) and paper[column][1] is not Look.OTHERS_2:
                paper[column] = ("┊", Look.WARNING)
    if 0 <= now < len(paper) - 1:
        paper[now] = ("┊", Look.PAST)


# The cursor and the tables below the slots

_SECONDS_MATTER = 5.0
"""Number of seconds per column below which times include seconds."""
_GAP_LOOKS = {SpanKind.EXTERNAL: Look.OTHERS_2, SpanKind.PAUSE: Look.WARNING,
              SpanKind.DRAIN: Look.WARNING, SpanKind.TROUBLE: Look.FAILURE_BOLD}  # fmt: skip
_SIGNS = {
    HappenedKind.BEGAN: ("▶", Look.RUNNING_BOLD), HappenedKind.CRASH: ("✗", Look.FAILURE_BOLD),
    HappenedKind.EXTERNAL: ("■", Look.OTHERS_2), HappenedKind.TROUBLE: ("✗", Look.FAILURE_BOLD),
    HappenedKind.ACTION: ("■", Look.WARNING), HappenedKind.PAUSE: ("‖", Look.WARNING),
    HappenedKind.DONE: ("✓", Look.RUNNING_BOLD),
}  # fmt: skip


def cursor_line(
    snapshot: Snapshot,
    cursor: Cursor | None,
    place: SlotPlace | None,
    name_of: Callable[[JobId], str],
    now: float,
    cells: int,
) -> Line:
    if cursor is None or cursor[0] not in snapshot or place is None:
        return Line([(" nothing has run here yet", Look.TEXT)], Ground.CURSOR)
    job = snapshot[cursor[0]]
    over = next((attempt for attempt in job.attempts if attempt.number == cursor[1]), None)
    since = over.started if over is not None else job.active.since if job.active is not None else now
    until = over.ended if over is not None else now
    state = over.end.name if over is not None else job.state.name
    times = f"{moment(since, now)}–{moment(until, now) if over is not None else ''}"
    facts = [f"{SIGNS.get(state, '')} {state}", place.name, times, duration_exact(until - since)]
    if job.issued > 1:
        facts.append(f"attempt {cursor[1]}")
    facts += _results(snapshot, job.id) + _used(over)
    if over is not None and over.reason:
        facts.append(plain(over.reason))
    head = f" #{job.id}  {plain(name_of(job.id))}   "
    return Line(fit([(head, Look.BOLD), ("   ".join(facts), Look.TEXT)], cells), Ground.CURSOR)


def _results(snapshot: Snapshot, job: JobId) -> list[str]:
    metric, results = snapshot.metric, snapshot.results.get(job)
    result = results.get(metric.name) if metric is not None and results is not None else None
    if result is None:
        return []
    return [f"{'★ ' if snapshot.best == job else ''}{plain(result.name)} {value_text(result.best)}"]


def _used(over: Attempt | None) -> list[str]:
    peak = over.usage.gpu_peak_memory if over is not None and over.usage is not None else None
    return [f"peak {peak / 1024**3:.1f} G"] if peak else []


def lines_below(
    scene: TimelineScene, places: Sequence[SlotPlace], active: Mapping[SlotPlace, Bar], height: int
) -> list[Pieces]:
    """Return the idle gaps on the left and the events on the right, with a legend if there is room. If the screen is
    narrow, return only the gaps.
    """
    wide = scene.width >= WIDE
    blank = [()] if height > 6 and wide else []
    left_cells = scene.width * 13 // 24 if wide else scene.width
    legend = _legend(scene.lined) if wide and height > 14 else None
    room = height - len(blank) - (2 if legend else 0)
    left = _gap_lines(scene, places, active, room, left_cells - wide)
    right = _happened_lines(scene, room, scene.width - left_cells) if wide else []
    left += [()] * (max(len(right), room if legend else 0) - len(left))
    if wide:
        left[:] = beside([[[*fit(line, left_cells - 1), (" ", Look.TEXT)] for line in left], right], left_cells)
    return [*blank, *left, *([(), legend] if legend else [])][:height]


def _gap_lines(
    scene: TimelineScene, places: Sequence[SlotPlace], active: Mapping[SlotPlace, Bar], room: int, cells: int
) -> list[Pieces]:
    """Return the idle gaps, longest first."""
    window, began = scene.window, scene.timeline.began()
    if began is None or room < 2 or all(place.in_cluster for place in places):
        return []
    shortest = max(SHORTEST_IDLE, window.step / 4)
    idle_gaps = [gap for place in places for gap in gaps(
        scene.timeline, place, scene.spans, max(window.start, began), window.end, now=scene.now, shortest=shortest,
        active=active.get(place),
    )]  # fmt: skip
    idle_gaps.sort(key=lambda gap: -gap.seconds)
    total = duration_words(sum(gap.seconds for gap in idle_gaps))
    about = f"  {len(idle_gaps)}, {total} in total" if idle_gaps else f"  none over {duration_words(shortest)}"
    if len(idle_gaps) > room - 2:
        about = f"  {len(idle_gaps)}, {total} in total, longest first"
    times = _time_cells(scene, (gap.since for gap in idle_gaps[: room - 2]))
    head = f" gpu  {'from':>{times}}  {'to':>{times}} {'idle':>9}  why"
    lines: list[Pieces] = [((" Idle gaps", Look.HEAD), (about.ljust(cells), Look.HEAD_PAST)), ((head, Look.PAST),)]
    return [*lines, *(_gap_line(gap, scene, times) for gap in idle_gaps[: max(0, room - 2)])]


def _time_cells(scene: TimelineScene, moments: Iterable[float]) -> int:
    return max((width(_time(scene, at)) for at in moments), default=5)


def _time(scene: TimelineScene, at: float) -> str:
    return moment(at, scene.now, seconds=scene.window.step <= _SECONDS_MATTER)


def _gap_line(gap: Gap, scene: TimelineScene, times: int) -> Pieces:
    until = "now" if gap.open else _time(scene, gap.until)
    text = f" {cut(gap.place.number, 3):>3}  {_time(scene, gap.since):>{times}}  {until:>{times}} "
    why = _GAP_LOOKS.get(gap.reason, Look.PAST) if gap.reason is not None else Look.PAST
    return ((text, Look.TEXT), (f"{duration_exact(gap.seconds):>9}", Look.BOLD), (f"  {plain(gap.words)}", why))


def _happened_lines(scene: TimelineScene, room: int, cells: int) -> list[Pieces]:
    """Return the newest events that fit, in chronological order."""
    if room < 2:
        return []
    window = scene.window
    events = happened(scene.timeline, scene.snapshot, scene.spans, window.start, window.end, scene.now, scene.actions)
    shown = events[-(room - 2) :] if room > 2 else []
    more = f"  {len(events) - len(shown)} earlier" if len(events) > len(shown) else ""
    times = _time_cells(scene, (event.at for event in shown))
    lines: list[Pieces] = [
        (("Events", Look.HEAD), (more.ljust(cells), Look.HEAD_PAST)),
        ((f"{'when':<{times}}  event", Look.PAST),),
    ]
    for event in shown:
        sign, look = _SIGNS[event.kind]
        lines.append([(f"{_time(scene, event.at):<{times}}  ", Look.TEXT), (sign, look),
                      (f" {cut(plain(event.text), cells - times - 5)}", Look.TEXT)])  # fmt: skip
    return lines


def _legend(lined: bool) -> Pieces:
    ok, runs, others = ("├─", "├━", "//") if lined else ("  ", "  ", "  ")
    return (
        (" ", Look.TEXT), (ok, Look.OK_EVEN), (" ok  ", Look.PAST), (runs, Look.UNDER_WAY),
        (" running  ", Look.PAST), ("✗", Look.CRASHED), (" failed  ", Look.PAST),
        ("■", Look.KILLED), (" killed  ", Look.PAST),
        (others, Look.OTHERS), (" external  ", Look.PAST), ("‖‖", Look.WARNING),
        (" paused  ", Look.PAST), ("··", Look.LINE), (" idle  ", Look.PAST),
        ("━━", Look.RUNNING_BOLD), (" until ETA  ", Look.PAST), ("┄┄", Look.PAST),
        (" expected", Look.PAST),
    )  # fmt: skip


# The whole timeline

WIDE = 100
_LEAST_BELOW = 6
_MOST_LINES = 4


class TimelineScene(Struct, frozen=True, kw_only=True):
    timeline: Timeline
    snapshot: Snapshot
    spans: Sequence[RecordedSpan]
    picture: DevicesPicture
    name_of: Callable[[JobId], str]
    window: Window
    now: float
    place: SlotPlace | None
    """The slot that the cursor is on."""
    cursor: Cursor | None
    width: int
    height: int
    lined: bool = False
    actions: Sequence[HistoryEntry] = ()
    """What users did to running jobs."""

    @property
    def left(self) -> int:
        return left_of(self.width)


def left_of(screen: int) -> int:
    """Return the width of the labels to the left of the first column."""
    return 13 if screen >= WIDE else 5


def columns_of(screen: int) -> int:
    """Return the number of time columns on a screen of this width."""
    return max(10, screen - left_of(screen) - (14 if screen >= WIDE else 6))


def lines(scene: TimelineScene) -> list[Line]:
    """Return the lines of the scene. They fill its height and width exactly."""
    snapshot = scene.snapshot
    places = scene.timeline.places(snapshot)
    per = _lines_each(scene.height, len(places))
    room = max(1, (scene.height - 2 - min(_LEAST_BELOW, scene.height // 4)) // per)
    active = dict(running(snapshot))
    etas = ((bar.job, snapshot.job_eta(snapshot[bar.job], scene.now)) for bar in active.values())
    ends = {job: end for job, end in etas if end is not None}
    to_come = expected(scene.timeline, snapshot, scene.now, scene.window.end, ends)
    worked = scene.timeline.worked(snapshot, scene.now)
    page_lines: list[Pieces] = [_ticks(scene)]
    for place in _in_sight(places, scene.place, room):
        slot = _slot(scene, place, active.get(place), ends, to_come.get(place, ()))
        page_lines += _slot_lines(scene, place, slot, per, worked)
    cursor = cursor_line(snapshot, scene.cursor, scene.place, scene.name_of, scene.now, scene.width)
    below = lines_below(scene, places, active, scene.height - len(page_lines) - 1)
    page = [*map(Line, page_lines), cursor, *map(Line, below), *([Line()] * scene.height)]
    return [Line(fit(line.pieces, scene.width), line.ground) for line in page[: scene.height]]


def _lines_each(height: int, slots: int) -> int:
    """Return the number of lines for each slot: a bar, two lines of load and a blank, or fewer on a low screen."""
    return max(1, min(_MOST_LINES, (height - 2 - _LEAST_BELOW) // max(1, slots)))


def _in_sight(places: list[SlotPlace], cursor: SlotPlace | None, room: int) -> list[SlotPlace]:
    if len(places) <= room or cursor not in places:
        return places[:room]
    first = min(max(0, places.index(cursor) - room // 2), len(places) - room)
    return places[first : first + room]


def _slot(
    scene: TimelineScene, place: SlotPlace, active: Bar | None, ends: dict[JobId, float], to_come: Sequence[Expected]
) -> SlotBars:
    window = scene.window
    spans = [
        span for span in scene.spans
        if span.device in ("", place.device_key)
        and span.lasts_until(scene.now) > window.start and span.since < window.end
    ]  # fmt: skip
    active_ends = ends.get(active.job) if active is not None else None
    is_unknown = active is not None and active.job in scene.snapshot.outlook.unknown
    if active is not None and active_ends is None and active.job in scene.snapshot and not is_unknown:
        length = scene.timeline.typical(scene.snapshot[active.job].spec.group)
        active_ends = max(scene.now, active.start + length) if length is not None else None
    row = scene.timeline.row(place)
    return SlotBars(row=row, active=active, active_ends=active_ends, spans=spans, expected=to_come)


def _slot_lines(
    scene: TimelineScene, place: SlotPlace, slot: SlotBars, per: int, worked: tuple[float, float]
) -> list[Pieces]:
    device = device_at(scene.picture, place)
    slot_lines: list[Pieces] = [(*_label(scene, place, device), *bar_line(scene, slot), *_figures(scene, slot, worked))]
    graph_rows = min(2, per - 1) if per < 3 else per - 2
    if graph_rows:
        histories = scene.picture.history
        window = scene.window
        key = device.key if device is not None else ""
        dots = between(histories, key, window.start, window.step / 2, 2 * window.columns)
        for at, line in enumerate(load_lines(dots, graph_rows, scene, slot)):
            word = "   load" if not at and per > 2 and scene.width >= WIDE and device is not None else ""
            slot_lines.append(((word.ljust(scene.left), Look.PAST), *line))
    return slot_lines + [()] * (per - len(slot_lines))


def device_at(picture: DevicesPicture, place: SlotPlace) -> DeviceSample | None:
    if not place.has_device:
        key = f"CPU-{place.slot}"
        return next((each.sample for each in picture.devices if each.sample.key == key), None)
    return find(tuple(each.sample for each in picture.devices), place.device_key)


def _label(scene: TimelineScene, place: SlotPlace, device: DeviceSample | None) -> list[Piece]:
    number = place.number
    longest = scene.left - 2 if place.in_cluster else 4
    number = number if len(number) <= longest else f"…{number[1 - longest :]}" if place.in_cluster else cut(number, 4)
    name = device_name(device) if device is not None and scene.width >= WIDE else ""
    room = scene.left - len(number) - 3
    cursor = scene.place == place
    return [(" ", Look.TEXT), (number, Look.BOLD if not cursor else Look.RUNNING_BOLD),
            (f" {cut(name, room)}".ljust(scene.left - 1 - len(number)), Look.PAST)]  # fmt: skip


def _figures(scene: TimelineScene, slot: SlotBars, worked: tuple[float, float]) -> list[Piece]:
    """Return how busy the slot was in the window and how many attempts it ran."""
    since, until = max(scene.window.start, worked[0]), min(scene.window.end, worked[1])
    if until <= since:
        return []
    seconds = slot.row.busy_seconds(since, until)
    count = len(slot.row.within(since, until))
    if slot.active is not None and slot.active.start < until:
        seconds += until - max(since, slot.active.start)
        count += 1
    busy = f"{min(100, round(100 * seconds / (until - since)))}%"
    if scene.width < WIDE:
        return [(f"{busy:>5}", Look.TEXT)]
    return [(f"{busy:>7}", Look.TEXT), (f"{count:>6,}", Look.TEXT)]


def _ticks(scene: TimelineScene) -> Pieces:
    """Return the time scale with labels at their columns. Labels that overlap `now` are omitted."""
    window = scene.window
    now = window.column(scene.now)
    paper = [(" ", Look.TEXT)] * (window.columns + 6)
    for tick in ticks(window):
        covered = now - len(tick.label) - 2 < tick.column < now + 4
        if not covered and tick.column + len(tick.label) <= len(paper):
            _put(paper, tick.column, tick.label, Look.TEXT if tick.new_day else Look.PAST)
    if 0 <= now < window.columns:
        _put(paper, max(0, now - 1), "now", Look.BOLD)
    return ((" " * scene.left, Look.TEXT), *paper)


def _put(paper: list[Piece], at: int, text: str, look: Look) -> None:
    for column, sign in enumerate(text, at):
        if 0 <= column < len(paper):
            paper[column] = (sign, look)
