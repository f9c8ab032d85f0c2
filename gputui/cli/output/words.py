"""What the command line prints: one gate for all of it, and the few forms that numbers take."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

from gputui.logs.plain import plain

USAGE = 2


class Exit(Exception):
    """Ends the program with a status and, perhaps, a sentence."""

    def __init__(self, status: int, sentence: str = "") -> None:
        super().__init__(sentence)
        self.status = status


def say(sentence: str) -> None:
    """For people, beside whatever the program's output is."""
    try:
        print(f"gputui: {plain(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def refuse(sentence: str) -> NoReturn:
    raise Exit(USAGE, sentence)


def out(line: str) -> None:
    """A line of output; a reader that has gone is no error of ours."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def elapsed(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d} h"


def clock(at: float) -> str:
    """The time of day, with the date when it is not today."""
    then = time.localtime(at)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", then)
