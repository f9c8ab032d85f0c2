"""The kinds of failures as rows: count and a true message, and below it what the jobs of the kind share. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from gputui.core.views.amounts import counted, duration_cell, duration_words, moment
from gputui.core.views.failures import FailureGroup
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.widgets.band import BandPart
from gputui.tui.widgets.view_rows import ViewRow, blank_row

__all__ = ["band_facts", "group_rows"]

BOLD = Style(bold=True)
BETWEEN = "  ·  "
AT_ONCE = 600.0
"""Seconds within which several failures count as having come at once."""
LEAST_AT_ONCE = 3


def band_facts(groups: Sequence[FailureGroup], palette: Palette) -> list[BandPart]:
    """`17 jobs in 4 kinds, newest kind first`."""
    jobs = sum(group.count for group in groups)
    if not jobs:
        return [("   no job has failed", palette.past)]
    many = f"{len(groups)} kinds, newest kind first" if len(groups) > 1 else "1 kind"
    return [(f"   {counted(jobs, 'job', 'jobs')} in {many}", palette.past)]


def group_rows(
    groups: Sequence[FailureGroup], selected: int, now: float, palette: Palette, *, airy: bool, focused: bool
) -> tuple[list[ViewRow], tuple[int, int]]:
    """With the rows that the cursor is on. `airy`: a blank line after each."""
    counts = max((len(f"{group.count:,}") for group in groups), default=1)
    rows: list[ViewRow] = [blank_row()] if airy else []
    cursor_rows = (0, 0)
    for number, group in enumerate(groups):
        chosen = number == selected
        if chosen:
            cursor_rows = (len(rows), len(rows) + 1)
        rows += [
            ViewRow(parts, selected=chosen, marked=chosen and focused, value=number)
            for parts in (_message(group, counts, palette, chosen), _facts(group, counts, now, palette))
        ]
        rows += [blank_row()] if airy else []
    return rows, cursor_rows


def _message(group: FailureGroup, counts: int, palette: Palette, chosen: bool) -> list[BandPart]:
    said = plain(group.message)
    style = palette.failure + BOLD if chosen else palette.failure
    return [(f"  {group.count:>{counts},}", palette.failure + BOLD), (" × ", palette.past), (said, style)]


def _facts(group: FailureGroup, counts: int, now: float, palette: Palette) -> list[BandPart]:
    facts: list[BandPart] = []
    common = group.common
    if common.where:
        facts.append((common.where, palette.warning + BOLD if common.only_there else palette.past))
    if common.told:
        facts.append((f"all {plain(common.told)}", palette.text + BOLD))
    if common.group:
        facts.append((f"all of {plain(common.group)}", palette.text + BOLD))
    if at_once(group):
        facts.append((f"all within {duration_words(max(60.0, group.last - group.first))}", palette.text + BOLD))
    facts += [(text, palette.past) for text in (_when(group, now), _ran(group), _variants(group)) if text]
    parts: list[BandPart] = [(" " * (counts + 5), palette.past)]
    for number, fact in enumerate(facts):
        parts += [(BETWEEN, palette.past)] if number else []
        parts.append(fact)
    return parts


def at_once(group: FailureGroup) -> bool:
    """They came at once, and nothing else tells what they share: what was on then is the question."""
    common = group.common
    together = group.count >= LEAST_AT_ONCE and group.last - group.first <= AT_ONCE
    return together and not (common.only_there or common.told or common.group)


def _when(group: FailureGroup, now: float) -> str:
    last = moment(group.last, now)
    first = moment(group.first, now)
    return last if first == last else f"{first} – {last}"


def _ran(group: FailureGroup) -> str:
    if not group.longest:
        return "never ran"
    shortest, longest = duration_cell(group.shortest), duration_cell(group.longest)
    return f"ran {longest}" if shortest == longest else f"ran {shortest} – {longest}"


def _variants(group: FailureGroup) -> str:
    return f"+{group.variants} variant{'s' if group.variants > 1 else ''}" if group.variants else ""
