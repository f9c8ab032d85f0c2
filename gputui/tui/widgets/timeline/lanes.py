"""One lane of a timeline: its bar, and the load of its device below. Pure; costs its columns, not its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gputui.core.job import JobId
from gputui.core.timeline.cells import Cell, Window, cells
from gputui.core.timeline.gaps import REASONS, Expected, GapReason
from gputui.core.timeline.rows import Bar, PlaceRow
from gputui.core.timeline.spans import RecordedSpan
from gputui.core.views.cells import cut, width
from gputui.gpus.history.columns import HistoryColumn
from gputui.logs.plain import plain
from gputui.tui.looks.glyphs import STEPS
from gputui.tui.widgets.gpus.graphs import load_graph
from gputui.tui.widgets.gpus.page import OTHERS

from .strokes import Inked, MarkedLine, Stroke

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
    for span in scene.spans:
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
            if 0 <= column < len(paper):
                paper[column] = Inked("┊", Stroke.PAUSE)
    if 0 <= now < len(paper) - 1:
        paper[now] = Inked("┊", Stroke.PAST)
