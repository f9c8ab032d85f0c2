"""Makes messages of like crashes equal: what varies from run to run goes, the names that matter stay."""

from __future__ import annotations

import re

__all__ = ["LONGEST_SIGNATURE", "alike", "shortened"]

LONGEST_SIGNATURE = 200

_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]++")
_DIGEST = re.compile(r"\b(?=[a-f]*+[0-9])[0-9a-f]{12,64}\b")
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,3}:\d\d:\d\d(?:[.,]\d{1,9})?\b"
)
_SCRATCH = re.compile(r"(?<![\w.])(/(?:var/tmp|tmp|dev/shm)/)([^\s'\"`,;:()\[\]]++)")
_SPOKEN_NAME = re.compile(r"[a-zA-Z_]+(?:\.[a-z]{1,5})?")
_NUMBER = re.compile(
    # Codes say what happened, unlike sizes and counts.
    r"(?P<kept>\b(?:Errno|HTTP(?: Error)?|status code|signal|exit code|code)[ =:]{1,2}-?\d++)"
    r"|(?<![\w.'\"-])-?\d++(?:\.\d++)*+(?:[eE][+-]?\d++)?(?:x\d++)*+(?:\s?(?:[KMGT]i?B|bytes|ms|s)\b|(?![\w'\"]))"
)
_UNIT = re.compile(r"\s?(?:[KMGT]i?B|bytes|ms|s)$")


def alike(message: str) -> str:
    """The message with addresses, sizes, times, pids and temporary names replaced; at most 200 characters."""
    message = _UUID.sub("<uuid>", message)
    message = _TIME.sub("<time>", message)
    message = _SCRATCH.sub(_scratch, message)
    message = _ADDRESS.sub("0x…", message)
    message = _DIGEST.sub("<hex>", message)
    message = _NUMBER.sub(_number, message)
    return shortened(" ".join(message.split()))


def shortened(message: str) -> str:
    if len(message) <= LONGEST_SIGNATURE:
        return message
    return message[: LONGEST_SIGNATURE - 1].rstrip() + "…"


def _scratch(match: re.Match[str]) -> str:
    """Folders under /tmp are named anew each time; a file's own name mostly is not."""
    folder, _, name = match[2].rpartition("/")
    made_up = name.startswith("tmp") or (not folder and not _SPOKEN_NAME.fullmatch(name))
    return match[1] + ("…/" if folder else "") + ("…" if made_up else name)


def _number(match: re.Match[str]) -> str:
    if match["kept"]:
        return match[0]
    unit = _UNIT.search(match[0])
    return "N" + (unit[0] if unit else "")
