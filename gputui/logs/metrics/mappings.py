"""Dictionaries that programs print: JSON or Python's, nested or flat, numbers quoted or not, after any prefix."""

from __future__ import annotations

import re

from .found import Counter, LineFindings, NamedNumber
from .names import NameKind, kind_of
from .tokens import number_of

__all__ = ["mapping_in", "read_mapping"]

_START = re.compile(r"\{\s*['\"]")
_PART = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.){1,80}"|'[^'\\]{1,80}')\s*:\s*
    (?: (?P<open>\{) | (?:[\w.]+\()?\[?['"]?
      (?P<number>-?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf|NaN|Infinity))['"]?(?=\s*[\]),}]) )?
    | (?P<close>\})""",
    re.VERBOSE,
)
_SETTINGS_BEFORE = re.compile(
    r"(?:weights|param\w*|config\w*|args|arguments|options|settings|hparams|kwargs)\W*$", re.IGNORECASE
)
_TOTAL = re.compile(r"(?:(?:total|max|num|n)_)?(?:train_)?(?P<unit>step|iter|iteration|epoch)s$")
_COUNT = re.compile(
    r"['\"][\w/]{0,40}?(?P<unit>step|iter|epoch)[\w/]{0,40}['\"]:\s?['\"](?P<done>\d{1,9})/(?P<total>\d{1,9})['\"]"
)
"""`'global_step/max_steps': '120/870'`"""
_PLAIN_LEVELS = frozenset({"metrics", "metric", "results", "result", "scores", "logs", "data", "values", "summary"})


def mapping_in(line: str) -> tuple[int, int] | None:
    """Where the dictionary stands, if one does and ends."""
    start = _START.search(line)
    end = line.rfind("}")
    return (start.start(), end + 1) if start is not None and end > start.start() else None


def read_mapping(line: str, start: int, end: int, findings: LineFindings) -> None:
    """Adds the named numbers of the dictionary there."""
    if _SETTINGS_BEFORE.search(line[:start]) is not None:
        return
    path: list[str] = []
    numbers: dict[str, float] = {}
    for part in _PART.finditer(line, start + 1, end):
        if part["close"]:
            if not path:
                break
            path.pop()
            continue
        key = part["key"][1:-1]
        if part["open"]:
            path.append(key)
        elif part["number"]:
            numbers[key] = number_of(part["number"]) or 0.0
            _add("/".join([*(level for level in path if level not in _PLAIN_LEVELS), key]), part["number"], findings)
    findings.counters += _counters(numbers)
    if (count := _COUNT.search(line, start, end)) is not None and int(count["done"]) <= int(count["total"]) > 1:
        findings.counters.append(Counter(f"{count['unit']} |", float(count["done"]), float(count["total"])))


def _counters(numbers: dict[str, float]) -> list[Counter]:
    """`{"step": 300, "total_steps": 1000}`"""
    totals = [(total["unit"], number) for name, number in numbers.items() if (total := _TOTAL.match(name)) is not None]
    counted = [
        (unit, numbers[name], total)
        for unit, total in totals
        for name in (unit, f"global_{unit}", f"current_{unit}s")
        if name in numbers and name != f"{unit}s"
    ]
    return [Counter(f"{unit} |", done, total) for unit, done, total in counted if 0 <= done <= total > 1]


def _add(name: str, text: str, findings: LineFindings) -> None:
    value = number_of(text)
    if value is None:
        return
    if kind_of(name) is NameKind.COORDINATE:
        findings.coordinate(name, value)
    else:
        findings.named.append(NamedNumber(name, value, True, text.lstrip("-").isdigit(), None))
