"""`d`: in what the ends of two attempts' logs differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.core.job import JobId
from gputui.core.views.amounts import counted
from gputui.logs.crashes.cleaning import cleaned
from gputui.logs.plain import plain
from gputui.logs.tail import FAR_TAIL_BYTES, read_tail
from gputui.session.files.folders import Files
from gputui.tui.looks.palette import Palette, palette_of
from gputui.tui.screens.view import ALWAYS, FullView
from gputui.tui.widgets.footer import OfferedKeys
from gputui.tui.widgets.view_rows import ViewRow, ViewRows

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

__all__ = ["TailDiffView", "diff_rows"]

MOST_LINES = 300
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|nan|inf")
CONTEXT = 3
_VARYING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b|0x[0-9a-f]+|\bpid[= ]\d+"
)


class TailDiffView(FullView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("ctrl+d,pagedown", "half(1)", show=False),
        Binding("ctrl+u,pageup", "half(-1)", show=False),
        Binding("d", "act('back')", show=False),
    ]
    DEFAULT_CSS = "TailDiffView #diff { height: 1fr; }"

    def __init__(self, main: MainScreen, job: JobId, earlier: int, later: int) -> None:
        super().__init__(main, "d", "Compare")
        self._job, self._earlier, self._later = job, earlier, later
        self.diff = ViewRows(id="diff")

    def body(self) -> ComposeResult:
        yield self.diff

    def renew(self) -> None:
        palette = palette_of(self.app.theme)
        job = self.snapshot[self._job]
        title = f"   #{job.id} {plain(self.main.names.of(job))}: the ends of attempts {self._earlier} and {self._later}"
        self.band.show([(title, palette.past)])
        before, after = (self.main.bridge.files(job, number) for number in (self._earlier, self._later))
        rows: list[ViewRow] = []
        for name, old, new in _streams(before, after):
            rows += diff_rows(name, old, new, (self._earlier, self._later), palette)
        self.diff.show(rows)

    def offers(self) -> OfferedKeys:
        return OfferedKeys(always=ALWAYS)

    def action_scroll(self, by: int) -> None:
        self.diff.scroll_by(by)

    def action_half(self, pages: int) -> None:
        self.diff.scroll_by(pages * max(1, self.diff.size.height // 2))

    @on(ViewRows.Wheel)
    def _wheel(self, event: ViewRows.Wheel) -> None:
        event.rows.scroll_by(event.by)


def _streams(before: Files | None, after: Files | None) -> Iterator[tuple[str, list[str], list[str]]]:
    if before is None or after is None:
        return
    if before.err is None or after.err is None:
        yield "OUT and ERR", _tail(before.out), _tail(after.out)
        return
    yield "ERR", _tail(before.err), _tail(after.err)
    yield "OUT", _tail(before.out), _tail(after.out)


def _tail(path: str) -> list[str]:
    lines = [plain(line.text) for line in cleaned(read_tail(path, FAR_TAIL_BYTES))]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines[-MOST_LINES:]


def diff_rows(
    name: str, old: Sequence[str], new: Sequence[str], attempts: tuple[int, int], palette: Palette
) -> list[ViewRow]:
    """Times and addresses do not count; what is the same, or another only in its numbers, is folded."""
    legend = f"- attempt {attempts[0]}   + attempt {attempts[1]}"
    rows = [ViewRow([(f" {name}", palette.text)], [(legend, palette.past)], band=True)]
    keys_old, keys_new = ([_NUMBER.sub("0", line) for line in lines] for lines in (old, new))
    matcher = difflib.SequenceMatcher(None, keys_old, keys_new, autojunk=False)
    if not old and not new:
        rows.append(ViewRow([("   both are empty", palette.past)]))
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            rows += _alike(old[i1:i2], new[j1:j2], palette)
        else:
            rows += [ViewRow([(f" - {line}", palette.failure)]) for line in old[i1:i2]]
            rows += [ViewRow([(f" + {line}", palette.running)]) for line in new[j1:j2]]
    return [*rows, ViewRow()]


def _alike(old: Sequence[str], new: Sequence[str], palette: Palette) -> list[ViewRow]:
    """Few lines that differ in their numbers are shown both; of many, only how many they are."""
    rows: list[ViewRow] = []
    pairs = list(zip(old, new, strict=True))
    for same, group in groupby(pairs, key=lambda pair: _VARYING.sub("…", pair[0]) == _VARYING.sub("…", pair[1])):
        run = list(group)
        if same and len(run) > 2 * CONTEXT:
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run[:CONTEXT]]
            rows.append(
                ViewRow([(f"   ⋮ {counted(len(run) - 2 * CONTEXT, 'line is', 'lines are')} the same", palette.line)])
            )
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run[-CONTEXT:]]
        elif same:
            rows += [ViewRow([(f"   {line}", palette.past)]) for _, line in run]
        elif len(run) <= CONTEXT:
            for before, after in run:
                rows += [ViewRow([(f" - {before}", palette.failure)]), ViewRow([(f" + {after}", palette.running)])]
        else:
            rows.append(ViewRow([(f"   ⋮ {len(run)} lines differ only in their numbers; the last:", palette.past)]))
            rows += [ViewRow([(f" - {run[-1][0]}", palette.failure)]), ViewRow([(f" + {run[-1][1]}", palette.running)])]
    return rows
