"""Bars that programs draw themselves: `[===>....] 31/100`, `━━━━━ 45%`. What they count is how far the work is."""

from __future__ import annotations

import re

from .found import Counter, LineFindings

__all__ = ["count_drawn"]

_DRAWN = re.compile(
    r"(?P<words>[^\[|━█\d]{0,60})(?:[\[|](?=[█=#>*.-])[█▓▒░▏▎▍▌▋▊▉=#>*.\s-]{5,200}[\]|]|[━╸╺─]{5,200})"
    r"\s{0,4}(?:(?P<percent>\d{1,3})(?:\.\d{1,4})?\s?%)?"
)


def count_drawn(line: str, findings: LineFindings) -> None:
    """A line that begins with a bar counts with its last counter, or else with the percentage behind the bar."""
    drawn = _DRAWN.match(line)
    if drawn is None:
        return
    if findings.counters:
        last = findings.counters[-1]
        last.opens, last.words = True, f"{drawn['words']}{last.words}"
    elif drawn["percent"] and int(drawn["percent"]) <= 100:
        words = f"{drawn['words']}|"
        findings.counters.append(Counter(words, int(drawn["percent"]), 100, opens=True, phase=findings.phase))
