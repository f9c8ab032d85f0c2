"""What a program said last when nothing it said has the form of an error."""

from __future__ import annotations

import re

from .cleaning import CleanLine
from .noise import is_aftermath, is_noise

__all__ = ["farewell", "last_words"]

_REGRET = re.compile(
    r"\b(?:nan|inf|infinite|diverged?|abort\w*|stop(?:ped|ping)?|exit(?:ed|ing)?|fail(?:ed|ure|s)?|cannot|can't"
    r"|could not|couldn't|unable|invalid|missing|not found|no such|giving up|gave up|refus\w+|denied|unknown"
    r"|unsupported|nothing"
    r"|must (?:be|not)|too (?:many|few|small|large)|out of|expected|quitting|terminat\w+|not enough|does not"
    r"|doesn't|crash\w*)\b",
    re.IGNORECASE,
)
_FAREWELL = re.compile(r"\b(?:giving up|stopping|exiting|quitting|aborting|terminating|bailing out)\b", re.IGNORECASE)
_OF_THE_TRACE = re.compile(
    r"\b(?:fail\w*|error\w*|exception\w*|cannot|can't|could not|couldn't|unable|crash\w*|caught|above|see)\b",
    re.IGNORECASE,
)
_VALUES = re.compile(r"[{\[].*[}\]]\s*$")
"""Some print the numbers they stop for below the reason."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS_OF_A_REASON = 3
_RULE = re.compile(r"[-=*]{40,}$")
_TALLEST_BOX = 40


def last_words(lines: list[CleanLine], meant_for_errors: bool, claimed: frozenset[int]) -> str | None:
    """The last line, if it is a sentence; in OUT, which is for news, it must sound like an end."""
    if said := _between_rules(lines):
        return said
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if not line.text.strip() or is_aftermath(line.text) or _VALUES.match(line.text):
            continue
        if index in claimed or is_noise(line) or line.text[0] == " " or len(_WORD.findall(line.text[:200])) < 2:
            return None
        return line.text if meant_for_errors or _REGRET.search(line.text) else None
    return None


def _between_rules(lines: list[CleanLine]) -> str | None:
    """The first paragraph of a notice that stands between two rules, as MPI draws them, at the very end."""
    texts = [line.text for line in lines[-_TALLEST_BOX:]]
    while texts and not texts[-1].strip():
        texts.pop()
    rules = [index for index, text in enumerate(texts) if _RULE.match(text)]
    if len(rules) < 2 or rules[-1] != len(texts) - 1 or is_aftermath(texts[rules[-2] + 1]):
        return None
    inside = texts[rules[-2] + 1 : rules[-1]]
    paragraph = inside[: inside.index("")] if "" in inside else inside
    return " ".join(text.strip() for text in paragraph) or None


def farewell(lines: list[CleanLine]) -> str | None:
    """The last line, if it ends the program for a reason of its own: a trace above it was survived."""
    text = next((line.text for line in reversed(lines) if line.text.strip() and not is_aftermath(line.text)), "")
    if text.startswith(" ") or not _FAREWELL.search(text) or _OF_THE_TRACE.search(text):
        return None
    return text if len(_WORD.findall(text[:200])) > _FEWEST_WORDS_OF_A_REASON else None
