"""Makes messages of like crashes equal: what varies from run to run goes, the names that matter stay."""

from __future__ import annotations

import re

__all__ = ["LONGEST_MESSAGE", "LONGEST_SIGNATURE", "alike", "shortened"]

LONGEST_SIGNATURE = 200
LONGEST_MESSAGE = 300

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
    r"|(?<![\w.'\"-])-?\d++(?:[.,]\d++)*+(?:[eE][+-]?\d++)?(?:x\d++)*+(?:\s?(?:[KMGTP]i?[Bb]|bytes|ms|s)\b|(?![\w'\"]))"
)
_SHAPE = re.compile(r"\bN(?:, ?N)*+,?(?=[)\]}])")
_TOKEN = re.compile(r"[^\s'\"`,;:()\[\]<>]++")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")
_FILE_NUMBER = re.compile(r"(?<![A-Za-z0-9.])\d++(?![A-Za-z])|(?<=[A-Za-z])\d{3,}")
_REQUEST = re.compile(r"\(?[Rr]equest[ _-]?[Ii][Dd]:? ?[\w=;.:-]++\)?")
_RANK = re.compile(r"\b([Rr]ank|GPU|gpu|cuda:?|worker|pid) ?\d++\b")
_THREAD = re.compile(r"\bthread '[^']{1,60}'(?: \(\d++\))?")
_PLACE = re.compile(r" \((/[^()\s]{1,300}/)([\w.-]{1,100}\.\w{1,5})\)$")


def alike(message: str) -> str:
    """The message with addresses, sizes, times, pids and temporary names replaced; at most 200 characters."""
    message = _REQUEST.sub("", message)
    message = _UUID.sub("<uuid>", message)
    message = _THREAD.sub("thread", message)
    message = _TIME.sub("<time>", message)
    message = _SCRATCH.sub(_scratch, message)
    message = _PLACE.sub(r" (\2)", message)
    message = _TOKEN.sub(_file, message)
    message = _ADDRESS.sub("0x…", message)
    message = _DIGEST.sub("<hex>", message)
    message = _RANK.sub(r"\1 N", message)
    message = _NUMBER.sub(lambda match: match["kept"] or "N", message)
    message = _SHAPE.sub("N", message)
    return shortened(" ".join(message.split()))


def shortened(message: str, longest: int = LONGEST_SIGNATURE) -> str:
    if len(message) <= longest:
        return message
    return message[: longest - 1].rstrip() + "…"


def _scratch(match: re.Match[str]) -> str:
    """Folders under /tmp are named anew each time; a file's own name mostly is not."""
    folder, _, name = match[2].rpartition("/")
    made_up = name.startswith("tmp") or (not folder and not _SPOKEN_NAME.fullmatch(name))
    return match[1] + ("…/" if folder else "") + ("…" if made_up else name)


def _file(match: re.Match[str]) -> str:
    """Numbers in names of files tell the seed, the step, the shard; those of models and versions are glued to words."""
    name = match[0]
    if len(name) < 3 or not ("/" in name or _EXTENSION.search(name, max(0, len(name) - 7))):
        return name
    return _FILE_NUMBER.sub("N", name)
