"""The whole timeline in lines: ticks, lanes with their load, the job under the cursor, gaps and what happened. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.cells import Window, ticks
from gputui.core.timeline.gaps import Expected, expected
from gputui.core.timeline.rows import Bar, LanePlace, Timeline, running
from gputui.core.timeline.spans import RecordedSpan
from gputui.core.views.cells import cut, width
from gputui.core.views.eta import job_eta
from gputui.gpus.history.columns import between
from gputui.gpus.identity import find
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import DeviceSample
from gputui.tui.widgets.gpus.names import device_name

from .below import below, cursor_line
from .lanes import Cursor, LaneScene, bar_line, load_lines
from .strokes import Inked, MarkedLine, Stroke

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
    etas = ((bar.job, job_eta(snapshot[bar.job], snapshot.results.get(bar.job))) for bar in active.values())
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
    if active is not None and active_ends is None and active.job in scene.snapshot:
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
    number = cut(place.slot.removeprefix("lane "), 4)
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
