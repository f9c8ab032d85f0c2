"""The timeline as lines of text: lanes, load, and what is below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from rich.color import Color
from rich.style import Style

from gputui.core.amounts import duration_exact, duration_words, moment
from gputui.core.job import Attempt, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.gpus.hardware import find
from gputui.gpus.history import HistoryColumn, between
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import DeviceSample
from gputui.logs.plain import plain
from gputui.tui.gpus.occupants import device_name
from gputui.tui.gpus.page import OTHERS, load_graph
from gputui.tui.theme import STEPS, Palette, palette_of
from gputui.views.format import SIGNS, cut, value_text, width
from gputui.views.idle_time import (
    REASONS,
    Expected,
    Gap,
    GapReason,
    HappenedKind,
    expected,
    gaps,
    happened,
    place_words,
)
from gputui.views.timeline import SHORTEST_IDLE, Bar, Cell, LanePlace, PlaceRow, Timeline, Window, cells, running, ticks

# ---- The looks of a timeline by what they mean, and the style of each for a palette ----


class Stroke(StrEnum):
    TEXT = "text"
    BRIGHT = "bright"
    PAST = "past"
    LINE = "line"
    OK_EVEN = "ok even"
    OK_ODD = "ok odd"
    RUNNING = "running"
    CRASH = "crash"
    CURSOR = "cursor"
    OTHERS = "others"
    OTHERS_LOAD = "others' load"
    PAUSE = "pause"
    TROUBLE = "trouble"
    EXPECTED = "expected"
    ETA = "eta"
    NOW = "now"
    HEAD = "head"
    HEAD_PAST = "head past"
    SELECTED = "selected"
    SELECTED_BOLD = "selected bold"


class Inked(NamedTuple):
    """A piece of a line."""

    text: str
    stroke: Stroke = Stroke.TEXT


MarkedLine = tuple[Inked, ...]


@lru_cache
def strokes_of(theme: str) -> dict[Stroke, Style]:
    palette = palette_of(theme)
    bold = Style(bold=True)
    common = {
        Stroke.TEXT: palette.text,
        Stroke.BRIGHT: palette.text + bold,
        Stroke.PAST: palette.past,
        Stroke.LINE: palette.line,
        Stroke.OTHERS_LOAD: palette.others_load[2],
        Stroke.PAUSE: palette.warning,
        Stroke.TROUBLE: palette.failure + bold,
        Stroke.EXPECTED: palette.past,
        Stroke.ETA: palette.running + bold,
        Stroke.NOW: palette.text + bold,
        Stroke.HEAD: palette.on_band(palette.text + bold),
        Stroke.HEAD_PAST: palette.on_band(palette.past),
        Stroke.SELECTED: palette.on_cursor(palette.text),
        Stroke.SELECTED_BOLD: palette.on_cursor(palette.text) + bold,
    }
    return common | (_lines(palette) if palette.rules else _grounds(palette))


def _lines(palette: Palette) -> dict[Stroke, Style]:
    return {
        Stroke.OK_EVEN: palette.running,
        Stroke.OK_ODD: palette.running,
        Stroke.RUNNING: palette.running + Style(bold=True),
        Stroke.CRASH: palette.failure + Style(bold=True, reverse=True),
        Stroke.CURSOR: Style(bold=True, reverse=True),
        Stroke.OTHERS: palette.stranger,
    }


def _grounds(palette: Palette) -> dict[Stroke, Style]:
    page = palette.text.bgcolor
    dark = Style(color=page, bold=True)
    return {
        Stroke.OK_EVEN: palette.text + Style(bgcolor=palette.load[0].color),
        Stroke.OK_ODD: palette.text + Style(bgcolor=_between(palette.load[0].color, page)),
        Stroke.RUNNING: dark + Style(bgcolor=palette.running.color),
        Stroke.CRASH: dark + Style(bgcolor=palette.failure.color),
        Stroke.CURSOR: dark + Style(bgcolor=palette.focus.color),
        Stroke.OTHERS: palette.stranger + Style(bgcolor=_between(palette.others_load[0].color, page)),
    }


def _between(first_colour: Color | None, second_colour: Color | None) -> Color | None:
    """Halfway to the page."""
    if first_colour is None or second_colour is None or first_colour.triplet is None or second_colour.triplet is None:
        return first_colour
    mixed = [
        round(0.65 * first + 0.35 * second)
        for first, second in zip(first_colour.triplet, second_colour.triplet, strict=True)
    ]
    return Color.from_rgb(*mixed)


# ---- One lane of a timeline ----


Cursor = tuple[JobId, int]
"""A job and the number of its attempt."""


class LaneScene(Struct, frozen=True, kw_only=True):
    """All that one lane is drawn from."""

    row: PlaceRow
    active: Bar | None
    active_ends: float | None
    """When the running one probably will."""
    spans: Sequence[RecordedSpan]
    expected: Sequence[Expected]
    window: Window
    now: float
    cursor: Cursor | None
    lined: bool
    """No grounds to paint on: bars are lines."""


_FILL = {GapReason.PAUSE: "‖", GapReason.STRANGER: "/", GapReason.TROUBLE: "✗", GapReason.AWAY: " "}
_OVER = (GapReason.AWAY, GapReason.PAUSE, GapReason.TROUBLE, GapReason.STRANGER)
"""Each is painted over those before it: a pause is of the session, somebody else's bar of this device."""
_STROKES = {GapReason.PAUSE: Stroke.PAUSE, GapReason.STRANGER: Stroke.OTHERS, GapReason.TROUBLE: Stroke.TROUBLE,
            GapReason.AWAY: Stroke.LINE}  # fmt: skip


def bar_line(scene: LaneScene) -> MarkedLine:
    """As many cells as the window has columns."""
    drawn = cells(scene.row, scene.window, scene.now, scene.active)
    paper = [Inked(" ", Stroke.LINE)] * scene.window.columns
    _draw_idle(paper, scene, drawn)
    _draw_spans(paper, scene, drawn)
    _draw_future(paper, scene)
    at = 0
    while at < len(drawn):
        end = at + 1
        while end < len(drawn) and not drawn[end].first and drawn[end].bar is not None:
            end += 1
        if drawn[at].bar is not None:
            paper[at:end] = _bar(drawn[at:end], scene)
        at = end
    return joined(paper)


def joined(paper: Iterable[Inked]) -> MarkedLine:
    marks: list[Inked] = []
    for mark in paper:
        if marks and marks[-1].stroke is mark.stroke:
            marks[-1] = Inked(marks[-1].text + mark.text, mark.stroke)
        else:
            marks.append(mark)
    return tuple(marks)


def _bar(run: Sequence[Cell], scene: LaneScene) -> list[Inked]:
    """The number where it fits with a blank; where attempts are shorter than a cell, the height is the busy share."""
    bar, first = run[0].bar, run[0]
    assert bar is not None
    chosen = scene.cursor == (bar.job, bar.attempt)
    if first.many and not chosen and not bar.bad:
        return [Inked(STEPS[min(len(STEPS) - 1, int(cell.share * len(STEPS)))], Stroke.ETA) for cell in run]
    if bar.bad and not chosen:
        return [Inked(sign, Stroke.CRASH) for sign in "✗".ljust(len(run))]
    stroke = (
        Stroke.CURSOR if chosen else Stroke.RUNNING if bar.end is None else (Stroke.OK_EVEN, Stroke.OK_ODD)[first.shade]
    )
    text = _lined(bar, len(run)) if scene.lined and not chosen else _labelled(str(bar.job), len(run))
    return [Inked(sign, stroke) for sign in text]


def _labelled(label: str, room: int) -> str:
    if len(label) + 1 <= room:
        return f" {label}".ljust(room)
    return " " * room


def _lined(bar: Bar, room: int) -> str:
    label = f"├{bar.job}" if len(str(bar.job)) + 1 <= room else "├"
    return label.ljust(room, "━" if bar.end is None else "─")


def _draw_idle(paper: list[Inked], scene: LaneScene, drawn: Sequence[Cell]) -> None:
    """From the first attempt on, until now."""
    if not len(scene.row) and scene.active is None:
        return
    since = scene.row.starts[0] if len(scene.row) else scene.active.start if scene.active is not None else 0.0
    first, last = scene.window.column(since), scene.window.column(scene.now)
    for column in range(max(0, first), min(len(paper), last)):
        if drawn[column].bar is None:
            paper[column] = Inked("·", Stroke.LINE)


def _draw_spans(paper: list[Inked], scene: LaneScene, drawn: Sequence[Cell]) -> None:
    """What kept the lane idle, in the cells in which nothing ran."""
    window = scene.window
    for span in sorted(scene.spans, key=lambda span: _OVER.index(REASONS[span.kind])):
        first = max(0, window.column(span.since))
        last = min(len(paper), max(first + 1, window.column(span.lasts_until(scene.now)) + 1))
        free = [column for column in range(first, last) if drawn[column].bar is None]
        if not free:
            continue
        reason = REASONS[span.kind]
        fill = " " if reason is GapReason.STRANGER and not scene.lined else _FILL[reason]
        for column in free:
            paper[column] = Inked(fill, _STROKES[reason])
        _write(paper, free, _name(span, reason), _STROKES[reason])


def _name(span: RecordedSpan, reason: GapReason) -> str:
    if reason is GapReason.STRANGER:
        return f" {plain(span.user)}"
    return f"✗ {plain(span.text)} " if reason is GapReason.TROUBLE else ""


def _write(paper: list[Inked], columns: Sequence[int], text: str, stroke: Stroke) -> None:
    """Where the cells are beside each other and there is room for more than a letter."""
    if len(columns) < 3 or columns[-1] - columns[0] != len(columns) - 1:
        return
    text = cut(text, len(columns))
    if width(text) == len(text):
        for column, sign in zip(columns, text, strict=False):
            paper[column] = Inked(sign, stroke)


def _draw_future(paper: list[Inked], scene: LaneScene) -> None:
    """The running one to its end, then what is expected, thin."""
    window = scene.window
    after = window.column(scene.now) + 1
    if scene.active is not None and scene.active_ends is not None:
        end = window.column(scene.active_ends)
        for column in range(max(0, after), min(len(paper), end + 1)):
            paper[column] = Inked("━", Stroke.ETA)
        after = max(after, end + 1)
    for each in scene.expected:
        first, last = max(after, window.column(each.start)), min(len(paper), window.column(each.end))
        if 0 <= first < last:
            text = f"┄{each.job}" if len(str(each.job)) + 1 <= last - first else ""
            for column, sign in enumerate(text.ljust(last - first, "┄"), first):
                paper[column] = Inked(sign, Stroke.EXPECTED)


def load_lines(columns: Sequence[HistoryColumn], rows: int, scene: LaneScene) -> list[MarkedLine]:
    """In grey: here it is the jobs that matter; somebody else's in their colour, with lines where it is now."""
    lines = []
    for row in load_graph(columns, rows):
        paper = []
        for piece in row:
            stroke = Stroke.OTHERS_LOAD if piece.ink in OTHERS else Stroke.LINE
            paper += [Inked(sign, stroke) for sign in piece.text]
        _rule(paper, scene)
        lines.append(joined(paper))
    return lines


def _rule(paper: list[Inked], scene: LaneScene) -> None:
    now = scene.window.column(scene.now)
    for span in scene.spans:
        if REASONS[span.kind] is GapReason.PAUSE:
            column = scene.window.column(span.since)
            if 0 <= column < len(paper) and paper[column].stroke is not Stroke.OTHERS_LOAD:
                paper[column] = Inked("┊", Stroke.PAUSE)
    if 0 <= now < len(paper) - 1:
        paper[now] = Inked("┊", Stroke.PAST)


# ---- What stands below the lanes, in words ----


_WIDE = 100
_SECONDS_MATTER = 5.0
"""Seconds of a column, up to which moments are told with theirs."""
_GAP_STROKES = {
    GapReason.STRANGER: Stroke.OTHERS_LOAD,
    GapReason.PAUSE: Stroke.PAUSE,
    GapReason.TROUBLE: Stroke.TROUBLE,
}
_SIGNS = {
    HappenedKind.BEGAN: ("▶", Stroke.ETA), HappenedKind.CRASH: ("✗", Stroke.TROUBLE),
    HappenedKind.STRANGER: ("■", Stroke.OTHERS_LOAD), HappenedKind.TROUBLE: ("✗", Stroke.TROUBLE),
    HappenedKind.PAUSE: ("‖", Stroke.PAUSE), HappenedKind.DONE: ("✓", Stroke.ETA),
}  # fmt: skip


def cursor_line(
    snapshot: Snapshot,
    cursor: Cursor | None,
    place: LanePlace | None,
    name_of: Callable[[JobId], str],
    now: float,
    cells: int,
) -> MarkedLine:
    if cursor is None or cursor[0] not in snapshot or place is None:
        return (Inked(" nothing ran here yet".ljust(cells), Stroke.SELECTED),)
    job = snapshot[cursor[0]]
    over = next((each for each in job.attempts if each.number == cursor[1]), None)
    since = over.started if over is not None else job.active.since if job.active is not None else now
    until = over.ended if over is not None else now
    state = over.end.name if over is not None else job.state.name
    times = f"{moment(since, now)}–{moment(until, now) if over is not None else ''}"
    facts = [f"{SIGNS.get(state, '')} {state}", place_words(place), times, duration_exact(until - since)]
    if job.issued > 1:
        facts.append(f"attempt {cursor[1]}")
    facts += _results(snapshot, job.id) + _used(over)
    if over is not None and over.said:
        facts.append(plain(over.said))
    head = f" #{job.id}  {plain(name_of(job.id))}   "
    rest = cut("   ".join(facts), max(0, cells - width(head)))
    return (
        Inked(head, Stroke.SELECTED_BOLD),
        Inked(rest + " " * max(0, cells - width(head + rest)), Stroke.SELECTED),
    )


def _results(snapshot: Snapshot, job: JobId) -> list[str]:
    metric, results = snapshot.metric, snapshot.results.get(job)
    result = results.get(metric.name) if metric is not None and results is not None else None
    if result is None:
        return []
    return [f"{'★ ' if snapshot.best == job else ''}{plain(result.name)} {value_text(result.best)}"]


def _used(over: Attempt | None) -> list[str]:
    peak = over.usage.gpu_peak_memory if over is not None and over.usage is not None else None
    return [f"peak {peak / 1024**3:.1f} G"] if peak else []


def below(
    scene: TimelineScene, places: Sequence[LanePlace], active: Mapping[LanePlace, Bar], height: int
) -> list[MarkedLine]:
    """Gaps left, what happened right; gaps alone on a narrow screen. The signs last, where there is room."""
    wide = scene.width >= _WIDE
    blank = [()] if height > 6 and wide else []
    left_cells = scene.width * 13 // 24 if wide else scene.width
    legend = _legend(scene.lined) if wide and height > 14 else None
    room = height - len(blank) - (2 if legend else 0)
    left = _gap_lines(scene, places, active, room, left_cells - wide)
    right = _happened_lines(scene, room, scene.width - left_cells) if wide else []
    page_lines: list[MarkedLine] = []
    for row in range(max(len(left), len(right), room if legend else 0)):
        one = left[row] if row < len(left) else ()
        two = right[row] if row < len(right) else ()
        page_lines.append((*_padded(one, left_cells - wide), Inked(" " * wide), *two))
    return [*blank, *page_lines, *([(), legend] if legend else [])][:height]


def _padded(line: MarkedLine, cells: int) -> MarkedLine:
    used, marks = 0, []
    for mark in line:
        text = mark.text[: cells - used] if mark.text.isspace() or mark.stroke is Stroke.HEAD_PAST else mark.text
        text = cut(text, cells - used)
        used += width(text)
        marks.append(Inked(text, mark.stroke))
    return (*marks, Inked(" " * (cells - used)))


def _gap_lines(
    scene: TimelineScene, places: Sequence[LanePlace], active: Mapping[LanePlace, Bar], room: int, cells: int
) -> list[MarkedLine]:
    """The longest first."""
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
    about = f"  {len(idle_gaps)}, together {total}" if idle_gaps else f"  none of {duration_words(shortest)} or longer"
    if len(idle_gaps) > room - 2:
        about = f"  {len(idle_gaps)}, together {total}, longest first"
    times = _time_cells(scene, (gap.since for gap in idle_gaps[: room - 2]))
    head = f" gpu  {'from':>{times}}  {'to':>{times}} {'idle':>9}  why"
    lines: list[MarkedLine] = [
        (Inked(" Idle gaps", Stroke.HEAD), Inked(about.ljust(cells), Stroke.HEAD_PAST)),
        (Inked(head, Stroke.PAST),),
    ]
    return [*lines, *(_gap_line(gap, scene, times) for gap in idle_gaps[: max(0, room - 2)])]


def _time_cells(scene: TimelineScene, moments: Iterable[float]) -> int:
    """For the widest of these."""
    return max((width(_time(scene, at)) for at in moments), default=5)


def _time(scene: TimelineScene, at: float) -> str:
    """With seconds where the whole picture is of minutes."""
    return moment(at, scene.now, seconds=scene.window.step <= _SECONDS_MATTER)


def _gap_line(gap: Gap, scene: TimelineScene, times: int) -> MarkedLine:
    until = "now" if gap.open else _time(scene, gap.until)
    text = f" {cut(gap.place.slot.removeprefix('lane '), 3):>3}  {_time(scene, gap.since):>{times}}  {until:>{times}} "
    why = _GAP_STROKES.get(gap.reason, Stroke.PAST)
    return (
        Inked(text),
        Inked(f"{duration_exact(gap.seconds):>9}", Stroke.BRIGHT),
        Inked(f"  {plain(gap.words)}", why),
    )


def _happened_lines(scene: TimelineScene, room: int, cells: int) -> list[MarkedLine]:
    """The newest that have room, the oldest of them first."""
    if room < 2:
        return []
    window = scene.window
    events = happened(scene.timeline, scene.snapshot, scene.spans, window.start, window.end, scene.now)
    shown = events[-(room - 2) :] if room > 2 else []
    more = f"  {len(events) - len(shown)} earlier" if len(events) > len(shown) else ""
    times = _time_cells(scene, (each.at for each in shown))
    lines: list[MarkedLine] = [
        (Inked("What happened", Stroke.HEAD), Inked(more.ljust(cells), Stroke.HEAD_PAST)),
        (Inked(f"{'when':<{times}}  what", Stroke.PAST),),
    ]
    for each in shown:
        sign, stroke = _SIGNS[each.kind]
        lines.append((Inked(f"{_time(scene, each.at):<{times}}  "), Inked(sign, stroke),
                      Inked(f" {cut(plain(each.text), cells - times - 5)}")))  # fmt: skip
    return lines


def _legend(lined: bool) -> MarkedLine:
    ok, runs, others = ("├─", "├━", "//") if lined else ("  ", "  ", "  ")
    return (
        Inked(" "), Inked(ok, Stroke.OK_EVEN), Inked(" ok   ", Stroke.PAST), Inked(runs, Stroke.RUNNING),
        Inked(" running   ", Stroke.PAST), Inked("✗", Stroke.CRASH), Inked(" crashed   ", Stroke.PAST),
        Inked(others, Stroke.OTHERS), Inked(" somebody else   ", Stroke.PAST), Inked("‖‖", Stroke.PAUSE),
        Inked(" paused   ", Stroke.PAST), Inked("··", Stroke.LINE), Inked(" idle   ", Stroke.PAST),
        Inked("━━", Stroke.ETA), Inked(" to its end ≈   ", Stroke.PAST), Inked("┄┄", Stroke.EXPECTED),
        Inked(" expected", Stroke.PAST),
    )  # fmt: skip


# ---- The whole timeline in lines ----


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
    place: LanePlace | None
    """Of the cursor."""
    cursor: Cursor | None
    width: int
    height: int
    lined: bool = False

    @property
    def left(self) -> int:
        return left_of(self.width)

    def places(self) -> list[LanePlace]:
        return self.timeline.places(self.snapshot)


def left_of(screen: int) -> int:
    """Cells before the first column."""
    return 13 if screen >= WIDE else 5


def columns_of(screen: int) -> int:
    """How many columns of time there are on a screen of this width."""
    return max(10, screen - left_of(screen) - (14 if screen >= WIDE else 6))


def lines(scene: TimelineScene) -> list[MarkedLine]:
    """Exactly as many as the scene is high, each exactly as wide."""
    places = scene.places()
    per = _lines_each(scene.height, len(places))
    room = max(1, (scene.height - 2 - min(_LEAST_BELOW, scene.height // 4)) // per)
    shown = _in_sight(places, scene.place, room)
    page_lines = [_ticks(scene)]
    active, ends, to_come = _now(scene)
    worked = scene.timeline.worked(scene.snapshot, scene.now)
    for place in shown:
        lane = _scene(scene, place, active.get(place), ends, to_come.get(place, ()))
        page_lines += _lane(scene, place, lane, per, worked)
    page_lines.append(cursor_line(scene.snapshot, scene.cursor, scene.place, scene.name_of, scene.now, scene.width))
    page_lines += below(scene, places, active, scene.height - len(page_lines))
    return [_fitted(line, scene.width) for line in [*page_lines, *([()] * scene.height)][: scene.height]]


def _now(scene: TimelineScene) -> tuple[dict[LanePlace, Bar], dict[JobId, float], dict[LanePlace, list[Expected]]]:
    snapshot = scene.snapshot
    active = dict(running(snapshot))
    etas = ((bar.job, snapshot.job_eta(snapshot[bar.job], scene.now)) for bar in active.values())
    ends = {job: end for job, end in etas if end is not None}
    return active, ends, expected(scene.timeline, snapshot, scene.now, scene.window.end, ends)


def _lines_each(height: int, lanes: int) -> int:
    """Bar, load, load, blank; fewer where there is little room."""
    return max(1, min(_MOST_LINES, (height - 2 - _LEAST_BELOW) // max(1, lanes)))


def _in_sight(places: list[LanePlace], cursor: LanePlace | None, room: int) -> list[LanePlace]:
    if len(places) <= room or cursor not in places:
        return places[:room]
    first = min(max(0, places.index(cursor) - room // 2), len(places) - room)
    return places[first : first + room]


def _scene(
    scene: TimelineScene,
    place: LanePlace,
    active: Bar | None,
    ends: dict[JobId, float],
    to_come: Sequence[Expected],
) -> LaneScene:
    window = scene.window
    spans = [
        span for span in scene.spans
        if span.device in ("", place.slot) and span.lasts_until(scene.now) > window.start and span.since < window.end
    ]  # fmt: skip
    active_ends = ends.get(active.job) if active is not None else None
    is_unknown = active is not None and active.job in scene.snapshot.outlook.unknown
    if active is not None and active_ends is None and active.job in scene.snapshot and not is_unknown:
        length = scene.timeline.typical(scene.snapshot[active.job].spec.group)
        active_ends = max(scene.now, active.start + length) if length is not None else None
    return LaneScene(row=scene.timeline.row(place), active=active, active_ends=active_ends, spans=spans,
                     expected=to_come, window=window, now=scene.now, cursor=scene.cursor,
                     lined=scene.lined)  # fmt: skip


def _lane(
    scene: TimelineScene, place: LanePlace, lane: LaneScene, per: int, worked: tuple[float, float]
) -> list[MarkedLine]:
    device = device_at(scene.picture, place)
    lane_lines = [(*_label(scene, place, device), *bar_line(lane), *_figures(scene, lane, worked))]
    graph_rows = min(2, per - 1) if per < 3 else per - 2
    if graph_rows:
        histories = scene.picture.history
        window = scene.window
        key = device.key if device is not None else ""
        dots = between(histories, key, window.start, window.step / 2, 2 * window.columns)
        for at, line in enumerate(load_lines(dots, graph_rows, lane)):
            word = "   load" if not at and per > 2 and scene.width >= WIDE and device is not None else ""
            lane_lines.append((Inked(word.ljust(scene.left), Stroke.PAST), *line))
    return lane_lines + [()] * (per - len(lane_lines))


def device_at(picture: DevicesPicture, place: LanePlace) -> DeviceSample | None:
    if place.slot.startswith("lane "):
        key = f"CPU-{place.lane}"
        return next((each.sample for each in picture.devices if each.sample.key == key), None)
    return find(tuple(each.sample for each in picture.devices), place.slot)


def _label(scene: TimelineScene, place: LanePlace, device: DeviceSample | None) -> list[Inked]:
    number = place.slot.removeprefix("lane ")
    longest = scene.left - 2 if place.in_cluster else 4
    number = number if len(number) <= longest else f"…{number[1 - longest :]}" if place.in_cluster else cut(number, 4)
    name = device_name(device) if device is not None and scene.width >= WIDE else ""
    room = scene.left - len(number) - 3
    cursor = scene.place == place
    return [Inked(" "), Inked(number, Stroke.BRIGHT if not cursor else Stroke.ETA),
            Inked(f" {cut(name, room)}".ljust(scene.left - 1 - len(number)), Stroke.PAST)]  # fmt: skip


def _figures(scene: TimelineScene, lane: LaneScene, worked: tuple[float, float]) -> list[Inked]:
    """How much of the time in sight it was busy, and with how many attempts."""
    since, until = max(scene.window.start, worked[0]), min(scene.window.end, worked[1])
    if until <= since:
        return []
    seconds = lane.row.busy_seconds(since, until)
    count = len(lane.row.within(since, until))
    if lane.active is not None and lane.active.start < until:
        seconds += until - max(since, lane.active.start)
        count += 1
    busy = f"{min(100, round(100 * seconds / (until - since)))}%"
    if scene.width < WIDE:
        return [Inked(f"{busy:>5}")]
    return [Inked(f"{busy:>7}"), Inked(f"{count:>6,}")]


def _ticks(scene: TimelineScene) -> MarkedLine:
    """Labels at their columns; `now` wins over what it covers."""
    window = scene.window
    now = window.column(scene.now)
    paper = [Inked(" ")] * (window.columns + 6)
    for tick in ticks(window):
        covered = now - len(tick.label) - 2 < tick.column < now + 4
        if not covered and tick.column + len(tick.label) <= len(paper):
            _put(paper, tick.column, tick.label, Stroke.TEXT if tick.new_day else Stroke.PAST)
    if 0 <= now < window.columns:
        _put(paper, max(0, now - 1), "now", Stroke.NOW)
    return (Inked(" " * scene.left), *paper)


def _put(paper: list[Inked], at: int, text: str, stroke: Stroke) -> None:
    for column, sign in enumerate(text, at):
        if 0 <= column < len(paper):
            paper[column] = Inked(sign, stroke)


def _fitted(line: MarkedLine, cells: int) -> MarkedLine:
    marks: list[Inked] = []
    room = cells
    for mark in line:
        text = mark.text.rstrip() if width(mark.text) > room else mark.text
        text = cut(text, room).ljust(min(room, width(mark.text)) if text is not mark.text else 0)
        room -= width(text)
        if marks and marks[-1].stroke is mark.stroke:
            marks[-1] = Inked(marks[-1].text + text, mark.stroke)
        elif text:
            marks.append(Inked(text, mark.stroke))
    return (*marks, Inked(" " * room)) if room > 0 else tuple(marks)
