"""The pieces that Slurm's answers are made of: lists of hosts and numbers, facts as NAME=VALUE, times, exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator

NOTHING = ("", "(null)", "N/A", "NONE", "None", "Unknown", "n/a")
"""How Slurm says that there is none."""


def host_list(text: str) -> list[str]:
    """`n[1-3,07-08],login`: each node by its name; widths are kept. What is no list is taken as it is."""
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        names += _expanded(part)
    return [name for name in names if name not in NOTHING]


def _expanded(part: str) -> list[str]:
    brackets = re.search(r"\[([^\]]*)\]", part)
    if brackets is None:
        return [part]
    tails = _expanded(part[brackets.end() :])
    return [part[: brackets.start()] + each + tail for each in _ranged(brackets[1]) for tail in tails]


def _ranged(text: str) -> Iterator[str]:
    for each in text.split(","):
        first, sign, last = each.partition("-")
        if sign and first.isdigit() and last.isdigit():
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        else:
            yield each


def numbers(text: str) -> list[int]:
    """`0-1,3`."""
    return [int(each) for each in _ranged(text) if each.isdigit()]


def facts_of(line: str) -> dict[str, str]:
    """The first of each name: what follows in a free text is no fact."""
    facts: dict[str, str] = {}
    names = list(re.finditer(r"(?:^|\s)([A-Za-z][\w/:.]*)=", line))
    for name, following in zip(names, [*names[1:], None], strict=True):
        facts.setdefault(name[1], line[name.end() : following.start() if following else None].strip())
    return facts


def exit_of(text: str) -> tuple[int, int]:
    codes = re.fullmatch(r"(\d+):(\d+)", text)
    return (int(codes[1]), int(codes[2])) if codes else (0, 0)


def known(text: str) -> str | None:
    return None if text in NOTHING else text


def time_of(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{6,}", text) else None
