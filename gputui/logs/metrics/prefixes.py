"""What loggers put before a line: times, levels, sources, ranks. It is taken off before the line is read."""

from __future__ import annotations

import re

__all__ = ["peeled"]

_PREFIX = re.compile(
    r"""\s*(?:
    \[?\d{4}[-/]\d\d[-/]\d\d[T ,]*\d\d:\d\d(?::\d\d)?(?:[.,:]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?:[ ](?:INFO|DEBUG|WARNING))?\]?
  | \[?\d\d[/-]\d\d(?:[/-]\d\d(?:\d\d)?)?[ ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:[ ][\w.]+)?\]?
  | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?
  | [IWEF]\d{4}[ ][\d:.]+[ ]+\d+[ ][\w./-]+:\d+\]
  | \[(?:INFO|DEBUG|WARNING|WARN|ERROR)(?:\|[^\]]*)?\](?:[ ][\w.]+:\d+)?
  | (?:INFO|DEBUG|WARNING|WARN)\b(?::\w+(?=:))?
  | \[[^\[\]\d]{0,20}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\[\]]{0,60}:\d+\]
  | wandb(?=:)
  | \(\w+[ ]pid=[^)]*\)(?:\x20)?
  | \[rank:?[ ]?\d+\] | \[Rank[ ]\d+\] | \[node\w*\]
  | \[[\w./-]+\.(?:py|cpp|cc|cu):\d+(?::\w+)?\]
  | [\w./<>-]+:[\w<>.]+:\d+(?=[ ]-)
  | \(\w+:\d+\)
  | (?:mmengine|mmdet|mmseg|root|ppdet\.engine|[a-z_]+(?:\.[a-z_]+)+)(?=[ ]?(?:-|:|INFO|\||\[))
  | [a-z]+(?=[ ]INFO:)
    )\s*(?:[:|-](?=\s|\|)|>>|:)?""",
    re.VERBOSE,
)
_LOGGER_PHASE = re.compile(r"\s*\|?\s*(?P<phase>train|valid|test)(?:_inner)?\s*\|")


def peeled(line: str) -> tuple[str, str | None]:
    """The line without its prefixes, and the phase if the logger is named after one."""
    at = 0
    while (prefix := _PREFIX.match(line, at)) is not None and prefix.end() > at:
        at = prefix.end()
    phase = _LOGGER_PHASE.match(line, at) if at else None
    return (line[phase.end() :], phase["phase"]) if phase is not None else (line[at:] if at else line, None)
