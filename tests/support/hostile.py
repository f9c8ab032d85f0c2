"""Text that would act on a terminal, and how to tell whether any of it got through."""

from __future__ import annotations

import codecs
import re

__all__ = ["MARK", "PAYLOAD", "nothing_to_obey", "pasted"]

MARK = "innocent"
"""What is left of the payload when it is harmless: proof that it was shown at all."""
PAYLOAD = (
    "\x1b]52;c;aGk=\x07\x1b[2J\x1b[?1049l\x1b]0;owned\x1b\\\x1b(0\x9b31m\x9d52;c;aGk=\x9c\x90q\x9c"
    f"\u202e\x07\x08\x85\u2028[bold]{MARK}\x7f"
)
_OURS = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[[0-9]+;[0-9]+H|\x1b\[[0-9]*C"
    r"|\x1b\[\?(?:1000|1002|1006|1049|2004|2026|25|7)[hl]|\x1b\[\?2026\$p|\x1b\[>25u|\x1b\[<u"
    r"|\x1b\[2[23];2t|\x1b\]2;(?:[0-9,]+/[0-9,]+(?: · [0-9,]+✗)? )?gputui\x07"
    r"|\r+\n"
)
_UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?\Z")
"""What was read so far may end in the middle of a sequence, or of a letter."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def nothing_to_obey(raw: bytes) -> None:
    """But what the app itself says to a terminal."""
    text = codecs.getincrementaldecoder("utf-8")().decode(_UNFINISHED.sub(b"", raw))
    left = _OURS.sub("", text)
    found = _CONTROL.search(left)
    assert found is None, repr(left[max(0, found.start() - 40) : found.start() + 40])
    assert raw.count(b"\x1b[?1049l") <= 1, "the screen is left once"


def pasted(text: str) -> str:
    """As a terminal hands over what was pasted: all of them take escape out."""
    return "\x1b[200~" + text.replace("\x1b", "") + "\x1b[201~"
