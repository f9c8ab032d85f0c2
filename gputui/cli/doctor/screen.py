"""What the terminal can show and do: colours, UTF-8, its size, and the clipboard (OSC 52)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from gputui.gpus.doctor import Finding
from gputui.tui.terminal.checks import Colours, colours, locale_is_utf8, refusal

_COLOURS = {Colours.MANY: "many colours", Colours.SIXTEEN: "16 colours", Colours.NONE: "no colours, as NO_COLOR says"}
LEAST_WIDE, LEAST_HIGH = 80, 24


def terminal_findings(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Where there is none nothing is told: nobody looks."""
    if environment.get("TERM") == "dumb":
        return [Finding(False, "this terminal cannot show a screen (TERM=dumb)", "gputui run and gputui ls need none")]
    if refusal(environment) is not None:
        return []
    findings = [_shown(environment), *_size()]
    return [*findings, _clipboard(environment)]


def _shown(environment: Mapping[str, str]) -> Finding:
    shown_colours = colours(environment)
    text = f"the terminal ({environment.get('TERM') or 'TERM is not set'}) shows {_COLOURS[shown_colours]}"
    if not locale_is_utf8(environment):
        advice = "export LC_ALL=C.UTF-8 (or your language's UTF-8) for the signs that ASCII has not"
        return Finding(False, f"{text}, and the locale is not UTF-8", advice)
    if shown_colours is Colours.SIXTEEN:
        return Finding(True, text, "export COLORTERM=truecolor, if it can show more; in tmux: TERM=tmux-256color")
    return Finding(True, f"{text} and UTF-8")


def _size() -> list[Finding]:
    if not sys.__stdout__ or not sys.__stdout__.isatty():
        return []
    wide, high = shutil.get_terminal_size()
    if wide >= LEAST_WIDE and high >= LEAST_HIGH:
        return []
    return [Finding(False, f"the terminal is {wide} × {high} cells", f"make it {LEAST_WIDE} × {LEAST_HIGH} or larger")]


def _clipboard(environment: Mapping[str, str]) -> Finding:
    """Whether `y` reaches the clipboard cannot be asked; who is known not to pass it on can."""
    if environment.get("TMUX"):
        setting = _tmux_setting()
        if setting in ("on", None):
            return Finding(True, "copying (y) goes through tmux to the terminal's clipboard")
        text = f"tmux keeps what y copies from the clipboard (set-clipboard {setting})"
        return Finding(False, text, "tmux set -s set-clipboard on")
    if environment.get("STY"):
        return Finding(False, "screen keeps what y copies from the clipboard", "use tmux, or select with the mouse")
    if environment.get("VTE_VERSION"):
        text = "this terminal (VTE: GNOME's and its like) lets no program copy (OSC 52)"
        return Finding(False, text, "select with the mouse and shift, or use kitty, WezTerm, foot, Alacritty, iTerm2")
    return Finding(True, "copying (y) uses OSC 52, which most terminals understand")


def _tmux_setting() -> str | None:
    try:
        done = subprocess.run(
            ["tmux", "show", "-sv", "set-clipboard"], capture_output=True, text=True, timeout=2, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
