"""The message above a stack of any language: its frames tell that there was an error, the line above them which."""

from __future__ import annotations

import re

from .cleaning import CleanLine
from .noise import is_aftermath, is_noise

__all__ = ["above_stack"]

_FRAME = re.compile(
    r"\s{0,40}(?:[Ss]tack ?(?:trace|traceback|backtrace)\b.{0,20}:?$|CallStack \(|Backtrace:$|Raised at )"
    r"|\s{1,40}(?:from \S{1,200}:\d{1,7}\b|at \S{1,200}[(:]|#\d{1,3} +\S|\[C\]: |[\w./<>-]{1,200}:\d{1,7}: )"
)
_FARTHEST = 200


def above_stack(lines: list[CleanLine]) -> str | None:
    """The line above the first frame of the last stack."""
    frames = [i for i in range(max(0, len(lines) - _FARTHEST), len(lines)) if _FRAME.match(lines[i].text)]
    at = frames[-1] if frames else 0
    while at > 0 and (not lines[at].text.strip() or lines[at].text[:1].isspace() or _FRAME.match(lines[at].text)):
        at -= 1
    said = lines[at] if frames else None
    if said is None or _FRAME.match(said.text) or is_noise(said) or is_aftermath(said.text):
        return None
    return said.text
