"""What stands below the lanes, in words: the job under the cursor, idle gaps, what happened, and the signs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gputui.core.job import Attempt, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.timeline.gaps import Gap, GapReason, gaps
from gputui.core.timeline.happened import HappenedKind, happened, place_words
from gputui.core.timeline.rows import SHORTEST_IDLE, Bar, LanePlace
from gputui.core.views.amounts import duration_exact, duration_words, moment
from gputui.core.views.cells import cut, width
from gputui.core.views.result_values import value_text
from gputui.core.views.signs import SIGNS
from gputui.logs.plain import plain

from .lanes import Cursor
from .strokes import Inked, MarkedLine, Stroke

if TYPE_CHECKING:
    from .page import TimelineScene

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
    if began is None or room < 2:
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
