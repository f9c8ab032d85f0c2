"""A call to the user through their terminal: the bell, and a notification where the terminal can show one.

The text may hold names of jobs: nothing of it can end the sequence or begin another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gputui.logs.plain import plain

__all__ = ["notification"]

LONGEST = 200
BELL = "\a"
_NINE = ("iTerm.app", "WezTerm", "ghostty", "vscode", "WarpTerminal", "rio")
_SEVEN = ("rxvt", "foot")


def notification(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """What is written to the terminal; where it is not known which form it takes, both."""
    message = plain(text)[:LONGEST]
    nine, seven = f"\x1b]9;{message}\x07", f"\x1b]777;notify;gputui;{message.replace(';', ',')}\x07"
    term = environment.get("TERM", "")
    if environment.get("TERM_PROGRAM") in _NINE or term.startswith(("xterm-kitty", "xterm-ghostty")):
        return BELL + nine
    if environment.get("VTE_VERSION") or term.startswith(_SEVEN):
        return BELL + seven
    return BELL + nine + seven
