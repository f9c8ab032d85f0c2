"""What the command line prints: one gate for all of it."""

from __future__ import annotations

import os
import sys
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
