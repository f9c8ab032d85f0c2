"""Whether there is a terminal to draw on, and what it can show. Imports no Textual: a refusal must come at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import Enum

from .tty import NoTerminal, Tty

__all__ = ["Colours", "colours", "locale_is_utf8", "refusal"]

_WAY_OUT = "run jobs without a screen with `gputui run`, look at them with `gputui ls`"


class Colours(Enum):
    MANY = "many"
    """256 or more."""
    SIXTEEN = "sixteen"
    """The terminal's own palette: only a theme made of it looks right."""
    NONE = "none"
    """The user said NO_COLOR."""


def refusal(environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the app cannot be shown here, in a sentence with the way to go; None when it can."""
    if environ.get("TERM") == "dumb":
        return f"this terminal cannot show a screen (TERM=dumb); {_WAY_OUT}"
    if sys.__stdin__ is None:
        return f"standard input is closed; {_WAY_OUT}"
    try:
        Tty.open().close()
    except NoTerminal:
        return f"there is no terminal here; {_WAY_OUT}"
    return None


def colours(environ: Mapping[str, str] = os.environ) -> Colours:
    """What Textual and Rich will send, by their own rules: NO_COLOR counts even when it is empty."""
    if "NO_COLOR" in environ:
        return Colours.NONE
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return Colours.MANY
    return Colours.MANY if environ.get("TERM", "").endswith(("256color", "kitty")) else Colours.SIXTEEN


def locale_is_utf8(environ: Mapping[str, str] = os.environ) -> bool:
    """False only where the locale names another character set; unset it says nothing, as over SSH mostly."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if not locale:
        return True
    return "utf-8" in locale.lower() or "utf8" in locale.lower()
